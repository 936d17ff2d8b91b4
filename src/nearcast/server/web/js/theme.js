// Light or dark, set before anything is painted: what the visitor chose, else what the system has.
(() => {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const choose = () => {
    const chosen = localStorage.getItem("nearcast-theme");
    document.documentElement.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
  };
  choose();
  system.addEventListener("change", choose);
})();

// What the page is waiting for, whether it is connected, and the key where one is needed.

const ASK_MS = 500;
const $ = (id) => document.getElementById(id);

export function status(state, text) {
  const place = $("status");
  if (place.dataset.state === state && place.lastElementChild.textContent === text) return;
  place.dataset.state = state;
  place.lastElementChild.textContent = text;
}

// Comes back when the server can work; says meanwhile what is in the way.
export async function waitUntilReady(ask) {
  for (let started = Date.now(); ; ) {
    try {
      await ask();
      $("veil").hidden = true;
      return;
    } catch (error) {
      if (error.status !== 503 && error.status !== 0) throw error;
      const seconds = Math.round((Date.now() - started) / 1000);
      $("veil-title").textContent = error.status ? "The server is warming up" : "Waiting for the server";
      $("veil-text").textContent = seconds > 3 ? `${error.message} (${seconds} s)` : error.message;
      $("veil").hidden = false;
      status("connecting", error.status ? "warming up" : "waiting for the server");
    }
    await new Promise((resolve) => setTimeout(resolve, ASK_MS));
  }
}

export function askForKey() {
  const dialog = $("key-dialog");
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve($("key").value), { once: true }));
}

// On a phone the panel can be folded away.
export function fold() {
  $("fold").addEventListener("click", () => {
    const open = $("fold").getAttribute("aria-expanded") !== "true";
    $("fold").setAttribute("aria-expanded", open);
    document.body.classList.toggle("folded", !open);
  });
}

// On a wide screen the matches have a place of their own, beside the map.
export function spread() {
  const wide = matchMedia("(min-width: 1100px)");
  const place = () => {
    $("side").hidden = !wide.matches;
    (wide.matches ? $("side") : $("cards")).append($("matches-card"));
  };
  wide.addEventListener("change", place);
  place();
}

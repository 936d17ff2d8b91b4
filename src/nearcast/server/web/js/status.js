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

// Panels lie over the map: beside it on a wide screen, below it on a phone, where they fold away.
// `onRoom(padding)` hears how much of the map they cover.
export function layout(onRoom) {
  const wide = matchMedia("(min-width: 1100px)");
  const phone = matchMedia("(max-width: 760px)");
  const place = () => {
    $("side").hidden = !wide.matches;
    (wide.matches ? $("side") : $("cards")).append($("matches-card"));
    const right = wide.matches ? $("side").offsetWidth + 14 : 0;
    onRoom(phone.matches
      ? { top: 0, left: 0, right: 0, bottom: $("panel").offsetHeight }
      : { top: 0, left: $("panel").offsetWidth + 14, right, bottom: 0 });
  };
  $("fold").addEventListener("click", () => {
    const open = $("fold").getAttribute("aria-expanded") !== "true";
    $("fold").setAttribute("aria-expanded", open);
    document.body.classList.toggle("folded", !open);
    place();
  });
  wide.addEventListener("change", place);
  phone.addEventListener("change", place);
  place();
}

// The demo's second engine: how far the pipeline on Spark is, and whether it says the same.

import { api } from "./api.js";

const ASK_MS = 1000;
const $ = (id) => document.getElementById(id);
const count = (value) => value.toLocaleString();
const many = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

// What to say of it in a few words.
export function inWords({ state, seconds, behind_events: events, behind_s: behind, trouble }) {
  if (state === "installing") return `Spark is being installed, ${Math.round(seconds)} s`;
  if (state === "starting") return "Spark starts on the same events";
  if (state === "behind") return `Spark is catching up, ${many(events, "event")} (${Math.round(behind)} s) behind`;
  if (state === "level") return `Spark has caught up (${behind.toFixed(1)} s behind)`;
  return `Spark is not compared: ${trouble}`;
}

// Asks for it again and again, as long as somebody looks at the page.
export function showBeside() {
  const tell = async () => {
    if (document.hidden) return;
    const found = await api.beside().catch(() => null);
    if (found) fill(found);
  };
  setInterval(tell, ASK_MS);
  tell();
}

function fill(found) {
  const place = $("beside");
  place.hidden = false;
  place.dataset.state = found.differ ? "differ" : found.state;
  $("beside-state").textContent = inWords(found);
  $("beside-counts").hidden = !(found.same || found.differ);
  $("beside-same").textContent = many(found.same, "update");
  $("beside-differ").textContent = count(found.differ);
  $("beside-difference").textContent = found.difference ?? "";
}

// The pipeline on Spark behind the server: how far it is, its plan, and what its workers do and hold.

import { api } from "./api.js";

const ASK_MS = 2000;
const roomy = matchMedia("(min-width: 761px) and (min-height: 700px)");
const $ = (id) => document.getElementById(id);
const count = (value) => value.toLocaleString();
const many = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
const seconds = (value) => (value >= 9.95 ? `${Math.round(value)} s` : value >= 0.0995 ? `${value.toFixed(1)} s` : `${Math.round(1000 * value)} ms`);
const size = (bytes) => (bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : `${Math.ceil(bytes / 1000)} kB`);

// How far it is, in a few words.
export function inWords({ state, behind_events: events, behind_s: behind }) {
  if (state === "starting") return events ? `Spark is starting, ${many(events, "event")} are waiting` : "Spark is starting";
  if (state === "behind") return `Spark is ${many(events, "event")} behind (${seconds(behind)})`;
  return behind < 0.05 ? "Spark is level" : `Spark is level (${seconds(behind)} behind)`;
}

function planInWords({ plan, batch }) {
  const workers = plan ? `${many(plan.workers, "worker")}, plan ${plan.number} (${plan.partitioner})` : "no plan yet";
  return `${workers}, batch ${batch.number} in ${seconds(batch.seconds)}`;
}

// Asks for it again and again where there is one, as long as somebody looks at the page.
// `beside`: another part of the page says how far it is, and there may be one later.
export async function showSpark({ beside }) {
  const look = async () => {
    const { pipeline } = await api.pipeline().catch(() => ({ pipeline: undefined }));
    if (pipeline) fill(pipeline, beside);
    return pipeline;
  };
  if ((await look()) !== null || beside) setInterval(() => document.hidden || look(), ASK_MS);
}

function fill(found, beside) {
  $("spark").hidden = beside && !found.batch;
  $("spark").dataset.state = found.state;
  $("spark-line").hidden = beside;
  if ($("spark-state").textContent !== inWords(found)) $("spark-state").textContent = inWords(found);
  if (found.batch && $("spark-more").hidden) $("spark-more").open = !beside && roomy.matches;
  $("spark-more").hidden = !found.batch;
  if (!found.batch) return;
  $("spark-plan").textContent = planInWords(found);
  const busiest = Math.max(...found.workers.map((each) => each.load_s), 1e-9);
  $("spark-workers").replaceChildren(...found.workers.map((each) => row(each, busiest)));
  $("spark-balance").textContent = `In the last batch: ${many(found.batch.events, "event")}, ${many(found.batch.updates, "update")}. The busiest worker did ${found.batch.balance} times the average.`;
}

function row(each, busiest) {
  const cells = [seconds(each.load_s), seconds(each.lag_s), count(each.rows), size(each.bytes)];
  const made = document.createElement("tr");
  const head = Object.assign(document.createElement("th"), { scope: "row", textContent: each.worker });
  made.append(head, ...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
  made.children[1].style.setProperty("--load", `${(100 * each.load_s) / busiest}%`);
  return made;
}

// Puts the page together: the map, what is on it, and what happens.

import { AttributionControl, Map as MapView, NavigationControl, Popup, ScaleControl, setWorkerUrl } from "../vendor/maplibre-gl.mjs";
import { api, keepKey } from "./api.js";
import { fill, repaint, style } from "./basemap.js";
import { showBeside } from "./beside.js";
import { Pencil } from "./draw.js";
import { Effects } from "./effects.js";
import { Feed } from "./feed.js";
import { Form } from "./form.js";
import { Mine } from "./mine.js";
import { onPalette } from "./palette.js";
import { Rates } from "./rates.js";
import { describe, named, spot, viewBox } from "./shapes.js";
import { askForKey, layout, status, waitUntilReady } from "./status.js";
import { Stream } from "./stream.js";
import { place, Subscriptions } from "./subscriptions.js";

const CAPTION_EVERY_MS = 2200;
const OVERVIEW_EVERY_MS = 15_000;
const MESSAGES_KEPT = 3000;
const CREDITS = "Coast and borders: Natural Earth. Sydney's shore: GSHHG. Names: GeoNames, CC BY 4.0.";
const $ = (id) => document.getElementById(id);

setWorkerUrl(new URL("../vendor/maplibre-gl-worker.mjs", import.meta.url).href);

const map = new MapView({
  container: "map",
  style: style(),
  center: [10, 25],
  zoom: 1.4,
  hash: true,
  maxPitch: 0,
  dragRotate: false,
  pitchWithRotate: false,
  touchPitch: false,
  fadeDuration: 120,
  attributionControl: false,
});
map.touchZoomRotate.disableRotation();
map.keyboard.disableRotation();
map.addControl(new NavigationControl({ showCompass: false }), "top-right");
map.addControl(new AttributionControl({ compact: true, customAttribution: CREDITS }), "bottom-right");
map.addControl(new ScaleControl({}), "bottom-right");
map.getCanvas().setAttribute("aria-label", "Map: arrow keys move it, plus and minus zoom");

const effects = new Effects(map, $("effects"));
const rates = new Rates();
const messages = new Map();
const mine = new Mine(map, { onUpdate: ownUpdate, onPick: show, onRemoved: (id) => subscriptions.drop(id) });
const subscriptions = new Subscriptions(map, effects, {
  isMine: (id) => mine.has(id),
  onCount: (count) => ($("in-view").textContent = count.toLocaleString()),
});
const feed = new Feed({ onPick: show });
const pencil = new Pencil(map, $("hint"), {
  done: (region) => form.drawn(region),
  ended: () => form.drawingEnded(),
});
const form = new Form(pencil, {
  onSubscribed: (subscription) => {
    subscriptions.put(subscription);
    mine.add(subscription);
    listen(true);
  },
});

const asked = new URLSearchParams(location.search);
let live = null;
let liveBox = null;
let captioned = 0;
let sampled = 0;

function show(thing) {
  const at = spot(thing) ?? (thing.region && place(thing)) ?? (thing.subscription && where(thing.subscription));
  if (at) map.flyTo({ center: at, zoom: Math.max(map.getZoom(), 11) });
}

function where(id) {
  const found = subscriptions.where(id);
  return found && (Array.isArray(found) ? found : place({ region: found }));
}

const covers = (outer, view) =>
  outer && outer[0] <= view[0] && outer[1] <= view[1] && outer[2] >= view[2] && outer[3] >= view[3] &&
  (outer[2] - outer[0]) * (outer[3] - outer[1]) < 16 * (view[2] - view[0]) * (view[3] - view[1]);

// Looks at the part of the world that the map shows, with some room to pan.
function listen(again = false) {
  const view = viewBox(map.getBounds());
  if (live && !again && covers(liveBox, view)) return;
  liveBox = viewBox(map.getBounds(), 0.25);
  live?.close();
  live = new Stream(api.live(liveBox, mine.ids), happened, connection);
}

function connection(state, wait) {
  if (state === "open") {
    status("live", "live");
    subscriptions.look(0);
  } else if (state === "lost") {
    status("lost", wait > 1500 ? `connection lost, trying again in ${Math.ceil(wait / 1000)} s` : "connection lost, trying again");
    $("in-view").textContent = "–";
  } else refused();
}

async function refused() {
  status("lost", "a key is needed");
  keepKey(await askForKey());
  start();
}

function happened(name, data) {
  if (name === "message") published(data);
  else if (name === "update") updated(data);
  else if (name === "subscription") mine.changed(subscriptions.put(data));
  else if (name === "unsubscribed") {
    subscriptions.drop(data.id);
    mine.gone(data.id);
  } else if (name === "sampled") {
    sampled += data.left_out;
    $("sampled").hidden = false;
    $("sampled").textContent = `${sampled.toLocaleString()} more happened than can be shown.`;
  }
}

function published(message) {
  rates.message();
  remember(message.id, message);
  const at = spot(message);
  if (at) effects.message(at, { lasting: message.ttl > 0 });
}

function remember(id, message) {
  messages.set(id, message);
  if (messages.size > MESSAGES_KEPT) messages.delete(messages.keys().next().value);
}

// A message that was published before this page was there, and that somebody comes near to now.
async function lasting(id) {
  const { messages: found } = await api.messages([id]).catch(() => ({ messages: [] }));
  for (const each of found) remember(each.id, each);
  return found[0];
}

// A match, seen on the map. Its subscription may have to be asked for first.
async function updated(update) {
  rates.match();
  if (update.text !== undefined || update.properties) remember(update.message, { ...messages.get(update.message), ...update });
  const known = messages.get(update.message) ?? (await lasting(update.message)) ?? update;
  const own = mine.has(update.subscription);
  const subscription = await subscriptions.find(update.subscription);
  if (!subscription) return;
  const at = spot(known);
  if (own || update.op !== "remove") {
    const fresh = feed.add({ ...update, text: known.text, properties: known.properties, point: at, mine: own, who: named(subscription) });
    if (own && fresh) mine.heard(update.subscription);
  }
  if (update.op === "remove") return;
  effects.match(at, () => subscriptions.where(update.subscription), { mine: own });
  const now = performance.now();
  if (at && known.text && (own || (now - captioned > CAPTION_EVERY_MS && map.getBounds().contains(at)))) {
    captioned = now;
    effects.caption(at, known.text, `${own ? "yours: " : ""}${named(subscription)}`, own);
  }
}

// The same from the durable stream of one's own, which also tells what came while away.
async function ownUpdate(update) {
  // the map's stream has the text, and usually is first
  await new Promise((resolve) => setTimeout(resolve, 150));
  const subscription = await subscriptions.find(update.subscription);
  const known = update.body ?? messages.get(update.message) ?? (await lasting(update.message)) ?? {};
  const who = subscription ? named(subscription) : update.subscription;
  const fresh = feed.add({ ...update, text: known.text, properties: known.properties, point: spot(known), mine: true, who });
  if (fresh) mine.heard(update.subscription);
}

async function pointAt(event) {
  if (pencil.active) return;
  const [found] = map.queryRenderedFeatures(event.point, { layers: ["mine-fill", "mine-point", "subs-point", "subs-fill"] });
  if (!found) return;
  const subscription = await subscriptions.find(found.properties.id);
  if (!subscription) return;
  const how = subscription.top ? `the ${subscription.top.k} best` : describe(subscription.region);
  new Popup({ closeButton: false, maxWidth: "260px" }).setLngLat(event.lngLat).setText(`${named(subscription)} — ${how}`).addTo(map);
}

// Without a place in the address, go to where the subscriptions are.
async function goToCrowd() {
  if (location.hash) return;
  const { cells } = await api.overview([-180, -90, 180, 90]);
  if (!cells.length) return;
  const [lon, lat] = cells.reduce((a, b) => (b[2] > a[2] ? b : a));
  const near = cells.filter(([x, y]) => Math.abs(x - lon) < 30 && Math.abs(y - lat) < 20);
  const xs = near.map(([x]) => x);
  const ys = near.map(([, y]) => y);
  const one = near.length === 1;
  if (one) map.jumpTo({ center: [lon, lat], zoom: 4 });
  else map.fitBounds([[Math.min(...xs), Math.min(...ys)], [Math.max(...xs), Math.max(...ys)]], { padding: 60, animate: false, maxZoom: 11 });
}

async function start() {
  try {
    await waitUntilReady(api.ready);
    status("connecting", "connecting");
    await mine.restore(asked.get("yours")?.split(",") ?? []);
    await goToCrowd();
    listen(true);
  } catch (error) {
    if (error.status === 401 || error.status === 403) await refused();
    else {
      status("lost", error.message);
      setTimeout(start, 2000);
    }
  }
}

// for the console, and for tests that want to know what the map shows
globalThis.nearcast = { map, effects, subscriptions, mine };

onPalette(() => repaint(map));
layout((padding) => map.setPadding(padding));
rates.show((perSecond) => {
  $("message-rate").textContent = perSecond.messages;
  $("match-rate").textContent = perSecond.matches;
});
map.on("moveend", () => {
  if (!live) return;
  subscriptions.look();
  listen();
});
map.on("click", pointAt);
setInterval(() => live && !document.hidden && subscriptions.look(0), OVERVIEW_EVERY_MS);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    live?.close();
    live = null;
    mine.sleep();
  } else if (!$("veil").hidden) return;
  else {
    mine.wake();
    listen(true);
  }
});
if (asked.has("beside")) showBeside();
map.once("load", () => {
  document.querySelector(".maplibregl-ctrl-attrib").classList.remove("maplibregl-compact-show");
  document.querySelector(".maplibregl-ctrl-attrib").removeAttribute("open");
  fill(map).catch((error) => console.error(error));
  start();
});

// Puts the page together: the map, what is on it, and what happens.

import { AttributionControl, GeolocateControl, Map as MapView, NavigationControl, Popup, ScaleControl, setWorkerUrl } from "../vendor/maplibre-gl.mjs";
import { api, keepKey } from "./api.js";
import { fetchJson, fill, overlaid, repaint, style } from "./basemap.js";
import { showBeside } from "./beside.js";
import { Crowd } from "./crowd.js";
import { Pencil } from "./draw.js";
import { Effects } from "./effects.js";
import { Feed } from "./feed.js";
import { Form } from "./form.js";
import { Mine } from "./mine.js";
import { choosePalette, isDark, onPalette } from "./palette.js";
import { PlaceSearch } from "./places.js";
import { PublishForm } from "./publish.js";
import { Rates } from "./rates.js";
import { describe, named, outline, spot, viewBox } from "./shapes.js";
import { showSpark } from "./spark.js";
import { askForKey, layout, status, waitUntilReady } from "./status.js";
import { Stream } from "./stream.js";
import { place, Subscriptions } from "./subscriptions.js";

const CAPTION_EVERY_MS = 2200;
const OVERVIEW_EVERY_MS = 15_000;
const MESSAGES_KEPT = 3000;
const ONE_BY_ONE = 12; // matches of a message that are drawn; of more, their number is shown
const CLOSEST = 11;
const FEW = 200; // so many are framed as they are, not as their middle points
const CREDITS = "Coast and borders: Natural Earth. Sydney's shore: GSHHG. Names: GeoNames, CC BY 4.0.";
const $ = (id) => document.getElementById(id);

setWorkerUrl(new URL("../vendor/maplibre-gl-worker.mjs", import.meta.url).href);

let placed = location.hash !== ""; // asked for by the address; the map soon writes its own there
const otherStyle = document.querySelector("meta[name=map-style]")?.content;
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
navigator.permissions?.query({ name: "geolocation" }).then(({ state }) => {
  if (state !== "denied" && isSecureContext) map.addControl(new GeolocateControl({ fitBoundsOptions: { maxZoom: 13 } }), "top-right");
});
map.addControl(new AttributionControl({ compact: true, customAttribution: otherStyle ? [] : CREDITS }), "bottom-right");
map.addControl(new ScaleControl({}), "bottom-right");
map.getCanvas().setAttribute("aria-label", "Map: arrow keys move it, plus and minus zoom");

map.getCanvasContainer().append($("effects")); // below popups

const effects = new Effects(map, $("effects"));
const rates = new Rates();
const messages = new Map();
const reached = new Map(); // how many matches of a message were heard of
const mine = new Mine(map, { onUpdate: ownUpdate, onPick: show, onRemoved: (id) => subscriptions.drop(id) });
const crowd = new Crowd(map, { scale: $("scale"), single: $("one-subscription") });
const subscriptions = new Subscriptions(map, effects, crowd, {
  isMine: (id) => mine.has(id),
  onCount: (count) => ($("in-view").textContent = count.toLocaleString()),
});
const feed = new Feed({ onPick: show });
const pencil = new Pencil(map, $("hint"));
new PublishForm(pencil);
new PlaceSearch({ onPlace: (center, zoom) => map.flyTo({ center, zoom }) });
new Form(pencil, {
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
let sparkShown = null;

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
  } else if (name === "retracted") effects.retracted(data.id);
  else if (name === "sampled") {
    sampled += data.left_out;
    $("sampled").hidden = false;
    $("sampled").textContent = `${sampled.toLocaleString()} more happened than can be shown.`;
  }
}

function published(message) {
  rates.message();
  remember(message.id, { ...message, published: message.at });
  reached.delete(message.id);
  const at = spot(message);
  if (!message.matches) feed.none(message, at);
  if (!at) return;
  const object = message.point && message.ttl > 0 && effects.object(message.id, at, message.ttl);
  if (!object) effects.message(at, { lasting: message.ttl > 0 });
  if (message.matches > ONE_BY_ONE) effects.cluster(at, message.matches);
}

function remember(id, message) {
  messages.set(id, message);
  for (const kept of [messages, reached]) if (kept.size > MESSAGES_KEPT) kept.delete(kept.keys().next().value);
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
  const heard = messages.get(update.message);
  if (update.text !== undefined || update.properties) remember(update.message, { ...messages.get(update.message), ...update });
  const own = mine.has(update.subscription);
  const number = (reached.get(update.message) ?? 0) + !own;
  reached.set(update.message, number);
  // of the many that a message reaches at once, the map shows the number and the list some names
  if (!own && number > ONE_BY_ONE && heard?.published === update.at) return;
  const known = messages.get(update.message) ?? (await lasting(update.message)) ?? update;
  const subscription = await subscriptions.find(update.subscription);
  if (!subscription) return;
  const at = spot(known);
  if (own || update.op !== "remove") {
    const fresh = feed.add({ ...update, text: known.text, properties: known.properties, point: at, mine: own, who: named(subscription) });
    if (own && fresh) mine.heard(update.subscription);
  }
  if (update.op === "remove" || (!own && number > ONE_BY_ONE)) return;
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

const POINTED_AT = ["mine-fill", "mine-point", "subs-point", "subs-fill", "crowd"];

async function pointAt(event) {
  if (pencil.active) return;
  const [found] = map.queryRenderedFeatures(event.point, { layers: POINTED_AT });
  if (!found) return;
  if (found.layer.id === "crowd") {
    explain(event.lngLat, crowd.describe(found));
    return;
  }
  const subscription = await subscriptions.find(found.properties.id);
  if (!subscription) return;
  const how = subscription.top ? `the ${subscription.top.k} best` : describe(subscription.region);
  explain(event.lngLat, { title: named(subscription), lines: [how, `id ${subscription.id}`] });
}

function explain(at, { title, lines }) {
  const said = document.createElement("div");
  said.append(Object.assign(document.createElement("strong"), { textContent: title }));
  for (const line of lines) said.append(Object.assign(document.createElement("span"), { textContent: line }));
  const room = Object.fromEntries(Object.entries(map.getPadding()).map(([side, covered]) => [side, covered + 10]));
  new Popup({ maxWidth: "260px", padding: room }).setLngLat(at).setDOMContent(said).addTo(map);
}

// Shows a box with some room around it.
const frame = ([west, south, east, north]) =>
  map.fitBounds([[west, south], [east, north]], { padding: 60, animate: false, maxZoom: CLOSEST });

// Without a place in the address, go to one's own subscriptions, else to where most of them are.
async function goToData() {
  if (placed) return;
  placed = true;
  const own = mine.places;
  if (own.length) {
    frame(around(own.flatMap(corners)));
    return;
  }
  let box = [-180, -90, 180, 90];
  let few = false;
  for (let looks = 0; looks < 3; looks++) {
    const { count, cells, size } = await api.overview(box);
    if (!cells.length) return;
    few = count <= FEW;
    const [lon, lat] = cells.reduce((a, b) => (b[2] > a[2] ? b : a));
    const reach = 8 * size;
    const near = cells.filter(([x, y]) => Math.abs(x - lon) < reach && Math.abs(y - lat) < reach);
    const [west, south, east, north] = around(near);
    box = [Math.max(-180, west - size), Math.max(-90, south - size), Math.min(180, east + size), Math.min(90, north + size)];
    if (east - west > 4 * size || north - south > 4 * size) break; // they are spread: no need to look closer
  }
  const { subscriptions: found } = few ? await api.page(box) : { subscriptions: [] };
  const places = found.map((each) => each.region ?? each.point).filter(Boolean);
  frame(places.length ? around(places.flatMap(corners)) : box);
}

// The corners of a region, or the point that it is.
const corners = (place) => (Array.isArray(place) ? [place] : outline(place).coordinates.flat(place.type === "MultiPolygon" ? 2 : 1));

function around(points) {
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
}

// The map under everything: the style that the server names, or else the one that is shipped.
async function layGround() {
  if (otherStyle) {
    try {
      const other = await fetchJson(otherStyle);
      map.setStyle(overlaid(other), { diff: false });
      await map.once("style.load");
      return;
    } catch (error) {
      $("shared").textContent = `The map style cannot be loaded: ${error.message}`;
      $("shared").className = "shown";
    }
  }
  fill(map).catch((error) => console.error(error));
}

// A link to what is seen here, with the same subscriptions as one's own.
async function share() {
  const link = new URL(location.href);
  const { lng, lat } = map.getCenter(); // the map writes them to the address some time later
  link.hash = [map.getZoom().toFixed(2), lat.toFixed(4), lng.toFixed(4)].join("/");
  if (mine.ids.length) link.searchParams.set("yours", mine.ids.join(","));
  history.replaceState(null, "", link);
  const copied = await navigator.clipboard?.writeText(link.href).then(() => true, () => false);
  $("shared").textContent = copied ? "The link is copied." : "The link is in the address bar.";
  $("shared").className = "shown";
  setTimeout(() => ($("shared").className = "hidden"), 4000);
}

async function start() {
  try {
    await waitUntilReady(api.ready);
    status("connecting", "connecting");
    await mine.restore(asked.get("yours")?.split(",") ?? []);
    await goToData();
    listen(true);
    sparkShown ??= showSpark({ beside: asked.has("beside") });
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
$("theme").addEventListener("click", () => choosePalette(isDark() ? "light" : "dark"));
$("share").addEventListener("click", share);
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
map.once("load", async () => {
  document.querySelector(".maplibregl-ctrl-attrib").classList.remove("maplibregl-compact-show");
  document.querySelector(".maplibregl-ctrl-attrib").removeAttribute("open");
  await layGround();
  start();
});

// The subscriptions in view: their outlines as long as there are not too many, else how many lie
// where (see `crowd.js`). What changes is handed to the map a few times a second, all together.

import { api } from "./api.js";
import { centre, outline, viewBox } from "./shapes.js";

const MOST_OUTLINES = 3000;
const MOST_REMEMBERED = 12_000;
const FLUSH_MS = 300;
const LOOKUP_MS = 60;
const REST_MS = 15_000;
const MOVER_M = 100_000; // a larger circle is not round on the map, and is drawn with the others

export class Subscriptions {
  #map;
  #effects;
  #crowd;
  #onCount;
  #isMine;
  #known = new Map();
  #shown = new Set();
  #changes = { add: new Map(), remove: new Set() };
  #wanted = new Map();
  #outlines = true;
  #abort = null;
  #timers = { flush: 0, lookup: 0, load: 0 };

  constructor(map, effects, crowd, { isMine, onCount }) {
    this.#map = map;
    this.#crowd = crowd;
    this.#effects = effects;
    this.#isMine = isMine;
    this.#onCount = onCount;
    setInterval(() => this.#settle(), 5000);
  }

  // Load what is in view, soon; an earlier load is given up.
  look(delay = 200) {
    clearTimeout(this.#timers.load);
    return new Promise((loaded) => {
      this.#timers.load = setTimeout(() => loaded(this.#load().catch(ignoreAbort)), delay);
    });
  }

  get(id) {
    return this.#known.get(id);
  }

  // Where a subscription is now: its region, or a point for one that ranks.
  where(id) {
    const known = this.#known.get(id);
    return this.#effects.where(id) ?? known?.region ?? known?.point;
  }

  // A subscription, asked for if it was not heard of yet; several are asked for together.
  find(id) {
    const known = this.#known.get(id);
    if (known?.query !== undefined || known?.whole) return Promise.resolve(known);
    const waiting = this.#wanted.get(id);
    if (waiting) return waiting.promise;
    const entry = {};
    entry.promise = new Promise((resolve) => (entry.resolve = resolve));
    this.#wanted.set(id, entry);
    this.#timers.lookup ||= setTimeout(() => this.#lookup(), LOOKUP_MS);
    return entry.promise;
  }

  // News of a subscription: it is new, changed, or somewhere else.
  put(news) {
    const before = this.#known.get(news.id);
    const now = { ...before, ...news };
    this.#remember(now);
    const from = before?.region?.type === "Circle" && before.region.center;
    const to = now.region?.type === "Circle" && now.region.center;
    const moved = from && to && (from[0] !== to[0] || from[1] !== to[1]);
    if (to && now.region.radius < MOVER_M && (moved || this.#effects.movers.has(now.id))) {
      if (!this.#effects.movers.has(now.id)) this.#effects.move(now.id, from, now.region.radius, this.#isMine(now.id));
      this.#effects.move(now.id, to, now.region.radius, this.#isMine(now.id));
      this.#change(now.id, null);
    } else {
      this.#change(now.id, now);
    }
    return now;
  }

  drop(id) {
    this.#known.delete(id);
    this.#effects.forget(id);
    this.#change(id, null);
  }

  #remember(subscription) {
    this.#known.delete(subscription.id);
    this.#known.set(subscription.id, subscription);
    if (this.#known.size > MOST_REMEMBERED) this.#known.delete(this.#known.keys().next().value);
  }

  #change(id, subscription) {
    const { add, remove } = this.#changes;
    if (subscription && place(subscription) && this.#outlines && !this.#isMine(id)) {
      add.set(id, subscription);
      remove.delete(id);
    } else {
      add.delete(id);
      if (this.#shown.has(id)) remove.add(id);
    }
    if (add.size || remove.size) this.#timers.flush ||= setTimeout(() => this.#flush(), FLUSH_MS);
  }

  #flush() {
    this.#timers.flush = 0;
    const { add, remove } = this.#changes;
    const faint = strength(this.#shown.size);
    const diff = { remove: [...remove], add: [...add.values()].map((each) => feature(each, faint)) };
    for (const id of remove) this.#shown.delete(id);
    for (const id of add.keys()) this.#shown.add(id);
    this.#changes = { add: new Map(), remove: new Set() };
    this.#map.getSource("subs")?.updateData(diff);
  }

  // Movers that came to rest are drawn with the others again.
  #settle() {
    for (const id of this.#effects.rested(REST_MS)) {
      const known = this.#known.get(id);
      if (known) this.#change(id, known);
    }
  }

  async #lookup() {
    this.#timers.lookup = 0;
    const entries = [...this.#wanted].slice(0, 100);
    for (const [id] of entries) this.#wanted.delete(id);
    if (this.#wanted.size) this.#timers.lookup = setTimeout(() => this.#lookup(), LOOKUP_MS);
    const answer = await api.some(entries.map(([id]) => id)).catch(() => ({ subscriptions: [] }));
    for (const each of answer.subscriptions) this.#remember({ ...each, whole: true });
    for (const [id, { resolve }] of entries) resolve(this.#known.get(id));
  }

  async #load() {
    this.#abort?.abort();
    const { signal } = (this.#abort = new AbortController());
    const bounds = this.#map.getBounds();
    const { count, cells, size } = await api.overview(viewBox(bounds), signal);
    this.#onCount(count);
    if (count > MOST_OUTLINES) {
      this.#outlines = false;
      this.#replace([]);
      this.#crowd.show(cells, size);
      return;
    }
    const found = [];
    let after = null;
    do {
      const page = await api.page(viewBox(bounds, 0.15), after, signal);
      found.push(...page.subscriptions);
      after = page.next;
    } while (after && found.length < 2 * MOST_OUTLINES);
    this.#outlines = true;
    for (const each of found) this.#remember(each);
    this.#replace(found.filter((each) => place(each) && !this.#isMine(each.id) && !this.#effects.movers.has(each.id)));
    this.#crowd.show([], size);
  }

  #replace(subscriptions) {
    this.#changes = { add: new Map(), remove: new Set() };
    const faint = strength(subscriptions.length);
    this.#shown = new Set(subscriptions.map((each) => each.id));
    this.#map.getContainer().dataset.outlines = subscriptions.length;
    this.#map.getSource("subs")?.setData({ type: "FeatureCollection", features: subscriptions.map((each) => feature(each, faint)) });
  }
}

// Many outlines over each other are drawn fainter, so that the map stays readable.
function strength(count) {
  const faint = Math.min(1, 60 / Math.max(1, count));
  return { fill: 0.006 + 0.07 * faint, line: 0.1 + 0.5 * faint };
}

function feature(subscription, paint) {
  const geometry = subscription.region
    ? outline(subscription.region)
    : { type: "Point", coordinates: subscription.point };
  return { type: "Feature", properties: { id: subscription.id, ...paint }, geometry };
}

function ignoreAbort(error) {
  if (error.name !== "AbortError" && error.status === undefined) throw error;
}

export const place = (subscription) => (subscription.region ? centre(subscription.region) : subscription.point);

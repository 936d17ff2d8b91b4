// One's own subscriptions: remembered in this browser, shown on the map and in a list, and heard
// of wherever the map looks. Updates that came while the page was away are caught up with.

import { api } from "./api.js";
import { describe, named, outline } from "./shapes.js";
import { Stream } from "./stream.js";

const KEPT = "nearcast-mine";
const LAST = "nearcast-last";
const RANK_MS = 250;
const $ = (id) => document.getElementById(id);

export class Mine {
  #map;
  #onUpdate;
  #onPick;
  #onRemoved;
  #all = new Map();
  #rows = new Map();
  #stream = null;
  #timers = new Map();
  #counts = new Map();

  constructor(map, { onUpdate, onPick, onRemoved }) {
    this.#map = map;
    this.#onUpdate = onUpdate;
    this.#onPick = onPick;
    this.#onRemoved = onRemoved;
  }

  has(id) {
    return this.#all.has(id);
  }

  get ids() {
    return [...this.#all.keys()];
  }

  // Those of an earlier visit, and those named in the address, that the server has.
  async restore(named) {
    const ids = [...new Set([...named, ...JSON.parse(localStorage.getItem(KEPT) ?? "[]")])].slice(0, 100);
    if (ids.length) {
      const { subscriptions } = await api.some(ids);
      for (const each of subscriptions) if (!this.has(each.id)) this.#show(each);
    }
    this.#changed(localStorage.getItem(LAST) || null);
  }

  // The regions and points of all of them, to show them together.
  get places() {
    return [...this.#all.values()].map((each) => each.region ?? each.point).filter(Boolean);
  }

  add(subscription) {
    this.#show(subscription);
    this.#changed();
  }

  // Streams are only kept open by a page that somebody looks at.
  sleep() {
    this.#remember();
    this.#stream?.close();
    this.#stream = null;
  }

  wake() {
    if (!this.#stream) this.#changed(localStorage.getItem(LAST) || null);
  }

  changed(subscription) {
    if (!this.has(subscription.id)) return;
    this.#all.set(subscription.id, { ...this.#all.get(subscription.id), ...subscription });
    this.#draw();
  }

  gone(id) {
    if (!this.#all.delete(id)) return;
    this.#rows.get(id).remove();
    this.#rows.delete(id);
    this.#changed();
  }

  // Something reached one of them: count it, and look at its ranking anew if it has one.
  heard(id) {
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
    const count = this.#rows.get(id)?.querySelector(".heard");
    if (count) count.textContent = `${this.#counts.get(id)} heard`;
    this.#flash(id);
    if (this.#all.get(id)?.top) this.#rank(id);
  }

  #remember() {
    localStorage.setItem(KEPT, JSON.stringify(this.ids));
    if (this.#stream?.last) localStorage.setItem(LAST, this.#stream.last);
  }

  #changed(after = this.#stream?.last ?? null) {
    this.#remember();
    this.#stream?.close();
    this.#stream = null;
    if (this.ids.length) {
      this.#stream = new Stream(api.updates(this.ids), (name, data) => this.#event(name, data), () => {}, { after });
    }
    $("mine-count").textContent = this.ids.length;
    $("mine-empty").hidden = this.ids.length > 0;
    this.#draw();
  }

  #event(name, data) {
    if (data.op === name) this.#onUpdate(data);
    localStorage.setItem(LAST, this.#stream?.last ?? "");
  }

  #draw() {
    const features = [...this.#all.values()].filter((each) => each.region || each.point).map((each) => ({
      type: "Feature",
      properties: { id: each.id },
      geometry: each.region ? outline(each.region) : { type: "Point", coordinates: each.point },
    }));
    this.#map.getSource("mine")?.setData({ type: "FeatureCollection", features });
  }

  #show(subscription) {
    this.#all.set(subscription.id, subscription);
    const row = document.createElement("li");
    const pick = document.createElement("button");
    pick.type = "button";
    pick.className = "pick";
    pick.title = "Show on the map";
    const query = document.createElement("strong");
    query.textContent = named(subscription);
    const where = document.createElement("span");
    where.className = "where";
    where.textContent = subscription.top ? `the ${subscription.top.k} best` : describe(subscription.region);
    const heard = document.createElement("span");
    heard.className = "heard";
    pick.append(query, where, heard);
    pick.addEventListener("click", () => this.#onPick(this.#all.get(subscription.id)));
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "remove";
    remove.setAttribute("aria-label", `Remove ${named(subscription)}`);
    remove.textContent = "×";
    remove.addEventListener("click", () => this.#remove(subscription.id, remove));
    row.append(pick, remove);
    if (subscription.top) {
      const ranking = document.createElement("ol");
      ranking.className = "ranking";
      ranking.setAttribute("aria-label", `Best for ${subscription.query}`);
      row.append(ranking);
    }
    this.#rows.set(subscription.id, row);
    $("mine").prepend(row);
    if (subscription.top) this.#rank(subscription.id);
  }

  async #remove(id, button) {
    button.disabled = true;
    try {
      await api.remove(id);
    } catch (error) {
      if (error.status !== 404) {
        button.disabled = false;
        button.title = error.message;
        return;
      }
    }
    this.gone(id);
    this.#onRemoved(id);
    $("query").focus();
  }

  #flash(id) {
    const row = this.#rows.get(id);
    row?.classList.remove("lit");
    requestAnimationFrame(() => row?.classList.add("lit"));
  }

  #rank(id) {
    if (this.#timers.has(id)) return;
    this.#timers.set(id, setTimeout(async () => {
      this.#timers.delete(id);
      const list = this.#rows.get(id)?.querySelector(".ranking");
      const { results } = await api.results(id).catch(() => ({ results: null }));
      if (list && results) fillRanking(list, results, this.#onPick);
    }, RANK_MS));
  }
}

function fillRanking(list, results, onPick) {
  const old = new Map([...list.children].map((row) => [row.dataset.message, row]));
  const best = results[0]?.score || 1;
  list.replaceChildren(...results.map((result) => {
    const row = old.get(result.message) ?? rankedRow(result, onPick);
    row.classList.toggle("fresh", old.size > 0 && !old.has(result.message));
    row.style.setProperty("--share", `${Math.round((100 * result.score) / best)}%`);
    return row;
  }));
}

function rankedRow(result, onPick) {
  const row = document.createElement("li");
  row.dataset.message = result.message;
  const pick = document.createElement("button");
  pick.type = "button";
  pick.textContent = result.text ?? result.message;
  const score = document.createElement("span");
  score.textContent = result.score.toFixed(3);
  pick.append(score);
  pick.addEventListener("click", () => onPick(result));
  row.append(pick);
  return row;
}

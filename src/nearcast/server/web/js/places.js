// A search over the names that are shipped with the map: countries, cities and suburbs.

import { fetchJson } from "./basemap.js";

const MOST = 6;
const ZOOM = { country: 4.5, city: 11, suburb: 13 };
const $ = (id) => document.getElementById(id);
const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

export class PlaceSearch {
  #onPlace;
  #names = null;
  #found = [];
  #at = -1;

  // `onPlace(point, zoom)` is where somebody wants to go.
  constructor({ onPlace }) {
    this.#onPlace = onPlace;
    const input = $("place");
    input.addEventListener("focus", () => this.#load());
    input.addEventListener("input", () => this.#look());
    input.addEventListener("keydown", (event) => this.#key(event));
    input.addEventListener("blur", () => this.#close());
    // before the field loses the focus, and the list with it
    $("places").addEventListener("pointerdown", (event) => {
      const row = event.target.closest("li[data-number]");
      if (!row) return;
      event.preventDefault();
      this.#go(Number(row.dataset.number));
    });
  }

  async #load() {
    this.#names ??= fetchJson("basemap/labels.json").then(({ countries, cities, suburbs }) =>
      [["country", countries], ["city", cities], ["suburb", suburbs]].flatMap(([kind, rows]) =>
        rows.map(([name, lon, lat, size]) => ({ kind, name, key: plain(name), point: [lon, lat], size: size ?? 0 }))));
    return this.#names;
  }

  async #look() {
    const asked = plain($("place").value.trim());
    const all = asked ? await this.#load().catch(() => []) : [];
    if (plain($("place").value.trim()) !== asked) return;
    const rank = ({ key }) => (key === asked ? 0 : key.startsWith(asked) ? 1 : 2);
    this.#found = all.filter(({ key }) => key.includes(asked))
      .sort((a, b) => rank(a) - rank(b) || b.size - a.size)
      .slice(0, MOST);
    this.#at = this.#found.length ? 0 : -1;
    this.#show(asked !== "");
  }

  #show(open) {
    const rows = this.#found.map(({ name, kind }, number) => {
      const row = document.createElement("li");
      row.id = `place-${number}`;
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", number === this.#at);
      row.dataset.number = number;
      const what = document.createElement("span");
      what.textContent = kind;
      row.append(name, what);
      return row;
    });
    if (open && !rows.length) {
      const none = document.createElement("li");
      none.setAttribute("role", "option");
      none.setAttribute("aria-disabled", "true");
      none.textContent = "No place of this name here";
      rows.push(none);
    }
    $("places").replaceChildren(...rows);
    $("places").hidden = !open;
    $("place").setAttribute("aria-expanded", open);
    if (open && this.#at >= 0) $("place").setAttribute("aria-activedescendant", `place-${this.#at}`);
    else $("place").removeAttribute("aria-activedescendant");
  }

  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.#found.length) {
      event.preventDefault();
      this.#at = (this.#at + step + this.#found.length) % this.#found.length;
      this.#show(true);
    } else if (event.key === "Enter" && this.#at >= 0) {
      event.preventDefault();
      this.#go(this.#at);
    } else if (event.key === "Escape") this.#close();
  }

  #go(number) {
    const { name, kind, point } = this.#found[number];
    $("place").value = name;
    this.#close();
    this.#onPlace(point, ZOOM[kind]);
  }

  #close() {
    this.#found = [];
    this.#at = -1;
    this.#show(false);
  }
}

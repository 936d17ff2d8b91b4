// The list of matches: newest first, filled a few times a second, never more than fits a screen.

import { listed } from "./shapes.js";

const EMPTY = "Matches appear here as messages reach subscriptions.";
const MOST = 60;
const FILL_MS = 300;
const SPEAK_MS = 5000;
const $ = (id) => document.getElementById(id);
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const NAMED = 3;
const FOR = { add: "for", change: "again for", remove: "no longer for" };
const NOBODY = "matched nobody";

export class Feed {
  #onPick;
  #waiting = [];
  #timer = 0;
  #paused = false;
  #onlyMine = false;
  #unmatched = false;
  #unspoken = 0;
  #lastSpoken = 0;
  #seen = new Set();

  constructor({ onPick }) {
    this.#onPick = onPick;
    $("pause").addEventListener("click", () => {
      this.#paused = press("pause");
      $("pause").textContent = this.#paused ? "Go on" : "Pause";
      this.#fill();
    });
    const choose = (mine) => () => {
      this.#onlyMine = mine;
      $("show-mine").setAttribute("aria-pressed", mine);
      $("show-all").setAttribute("aria-pressed", !mine);
      $("matches").classList.toggle("only-mine", mine);
      this.#empty();
    };
    $("show-mine").addEventListener("click", choose(true));
    $("show-all").addEventListener("click", choose(false));
    $("show-none").addEventListener("click", () => (this.#unmatched = press("show-none")));
    $("filter").addEventListener("input", () => {
      for (const row of $("matches").children) this.#sift(row);
      this.#empty();
    });
  }

  // `match`: op, subscription, message, text, properties, who, point, mine, score, at. One that was heard of
  // on both streams is listed once; a mover that comes back to a message hears of it again.
  add(match) {
    const key = `${match.op} ${match.subscription} ${match.message} ${match.score ?? ""} ${match.at ?? ""}`;
    if (this.#seen.has(key)) return false;
    this.#seen.add(key);
    if (this.#seen.size > 5000) this.#seen.delete(this.#seen.values().next().value);
    this.#waiting.push({ ...match, at: match.at ?? Date.now() / 1000 });
    if (this.#waiting.length > MOST) {
      // make room, but not among one's own
      const other = this.#waiting.findIndex((each) => !each.mine);
      this.#waiting.splice(Math.max(0, other), 1);
    }
    if (match.mine) this.#unspoken += 1;
    this.#timer ||= setTimeout(() => this.#fill(), FILL_MS);
    return true;
  }

  // A message that matched no subscription, listed for those who ask for it.
  none(message, point) {
    if (!this.#unmatched) return;
    this.add({ ...message, op: "none", message: message.id, subscription: "", mine: false, point });
  }

  // Rows without what the filter asks for are hidden, not lost.
  #sift(row) {
    const asked = $("filter").value.trim().toLowerCase();
    row.classList.toggle("away", asked !== "" && !row.textContent.toLowerCase().includes(asked));
  }

  #fill() {
    this.#timer = 0;
    if (this.#paused) return;
    const list = $("matches");
    const rows = [];
    for (const match of this.#waiting) {
      const same = match.mine || match.op === "remove" ? null : rows.find((row) => alike(row, match)) ?? this.#listed(match);
      if (same) alsoFor(same, match.who);
      else rows.unshift(this.#row(match));
      this.#sift(same ?? rows[0]);
    }
    const newest = this.#waiting.findLast((each) => each.mine);
    this.#waiting = [];
    list.prepend(...rows);
    for (const kind of ["", ".mine"]) {
      const all = list.querySelectorAll(kind ? ":scope > li.mine" : ":scope > li:not(.mine)");
      for (let i = MOST; i < all.length; i++) all[i].remove();
    }
    this.#empty();
    this.#speak(newest);
  }

  // A message that reaches many is listed once, with some of those it reached.
  #listed(match) {
    return $("matches").querySelector(`:scope > li.${match.op}:not(.mine)[data-message="${CSS.escape(match.message)}"]`);
  }

  #empty() {
    const shown = $("matches").querySelector(this.#onlyMine ? "li.mine:not(.away)" : "li:not(.away)");
    $("matches-empty").hidden = shown !== null;
    $("matches-empty").textContent = $("filter").value.trim() && $("matches").children.length ? "Nothing here has this in it." : EMPTY;
  }

  // Screen readers hear of one's own matches, summed up when there are many.
  #speak(newest) {
    const now = Date.now();
    if (!this.#unspoken || !newest || now - this.#lastSpoken < SPEAK_MS) return;
    this.#lastSpoken = now;
    $("spoken").textContent = this.#unspoken === 1 ? `Match for ${newest.who}: ${newest.text}` : `${this.#unspoken} new matches, the last: ${newest.text}`;
    this.#unspoken = 0;
  }

  #row(match) {
    const row = document.createElement("li");
    row.className = `${match.op}${match.mine ? " mine" : ""}`;
    row.dataset.message = match.message;
    const pick = document.createElement("button");
    pick.type = "button";
    const time = document.createElement("time");
    const date = new Date(match.at * 1000);
    time.dateTime = date.toISOString();
    time.textContent = clock.format(date);
    const text = document.createElement("span");
    text.className = "text";
    text.textContent = match.text ?? `message ${match.message}`;
    const who = document.createElement("span");
    who.className = "who";
    who.textContent = match.op === "none" ? NOBODY : `${FOR[match.op]} ${match.who}`;
    if (match.score !== undefined) who.textContent += ` · ${match.score.toFixed(3)}`;
    pick.append(time, text, who);
    const more = listed(match.properties);
    if (more) {
      const properties = document.createElement("span");
      properties.className = "properties";
      properties.textContent = more;
      pick.append(properties);
    }
    pick.title = "Show on the map";
    pick.addEventListener("click", () => this.#onPick(match));
    row.append(pick);
    return row;
  }
}

const alike = (row, match) => row.dataset.message === match.message && row.classList.contains(match.op);

function alsoFor(row, who) {
  const place = row.querySelector(".who");
  const names = place.textContent.split(" · ");
  if (names.some((name) => name === who || name.endsWith(`for ${who}`))) return;
  if (names.length < NAMED) place.textContent += ` · ${who}`;
  else if (!place.textContent.endsWith(" · …")) place.textContent += " · …";
}

function press(id) {
  const on = $(id).getAttribute("aria-pressed") !== "true";
  $(id).setAttribute("aria-pressed", on);
  return on;
}

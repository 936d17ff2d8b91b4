// The form: a query that is checked as it is typed, a region drawn or typed, and the button.

import { api } from "./api.js";
import { hint, measured, parse, toText } from "./shapes.js";

const CHECK_MS = 140;
const HELP = "Words; AND, OR, NOT in capitals; \"phrases\"; prefix*; price:<500; * for everything.";
const HELP_TOP = "Words only: the messages that are nearest and most alike.";
const WHERE = "Draw it on the map, or type its numbers.";
const $ = (id) => document.getElementById(id);

export class Form {
  #pencil;
  #onSubscribed;
  #region = null;
  #timer = 0;
  #abort = null;
  #valid = false;

  constructor(pencil, { onSubscribed }) {
    this.#pencil = pencil;
    this.#onSubscribed = onSubscribed;
    $("query").addEventListener("input", () => this.#typed());
    $("where").addEventListener("input", () => this.#placed(true));
    $("draw").addEventListener("click", () => this.#draw());
    $("another").addEventListener("click", () => this.#draw(this.#region));
    $("alpha").addEventListener("input", () => ($("alpha-says").textContent = $("alpha").value));
    for (const radio of document.getElementsByName("shape")) radio.addEventListener("change", () => this.#shaped());
    $("subscribe").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    this.#shaped();
  }

  get shape() {
    return document.querySelector("input[name=shape]:checked").value;
  }

  #drawn(region) {
    this.#region = region;
    $("where").value = toText(region);
    this.#placed(false);
    if (!$("query").value) $("query").focus();
  }

  #drawingEnded() {
    $("draw").setAttribute("aria-pressed", "false");
    $("draw").textContent = "Draw";
    this.#offerAnother();
  }

  // Polygons may be several: each that is there can be followed by another.
  #offerAnother() {
    $("another").hidden = this.shape !== "polygon" || !this.#region || this.#pencil.active;
  }

  #draw(beside = null) {
    if (this.#pencil.active) {
      this.#pencil.finish();
      return;
    }
    $("draw").setAttribute("aria-pressed", "true");
    $("draw").textContent = "Stop";
    this.#pencil.start(this.shape, {
      done: (region) => this.#drawn(region),
      ended: () => this.#drawingEnded(),
      progress: (corners) => ($("draw").textContent = corners >= 3 ? "Finish" : "Stop"),
    }, beside);
    this.#offerAnother();
  }

  #shaped() {
    const [label, example] = hint(this.shape);
    this.#pencil.stop();
    $("where-label").textContent = label;
    $("where").placeholder = example;
    $("where").value = "";
    $("ranking").hidden = this.shape !== "top";
    $("query").placeholder = this.shape === "top" ? "jazz blues" : "pizza NOT pineapple";
    this.#region = null;
    this.#pencil.show(null);
    this.#offerAnother();
    say("where-says", WHERE);
    this.#typed();
  }

  #placed(typed) {
    if (typed) {
      try {
        this.#region = parse(this.shape, $("where").value);
      } catch (error) {
        this.#region = null;
        this.#pencil.show(null);
        this.#offerAnother();
        say("where-says", error.message, $("where").value.trim() ? "bad" : "");
        $("where").setAttribute("aria-invalid", "true");
        return;
      }
      this.#pencil.show(this.#region);
    }
    $("where").removeAttribute("aria-invalid");
    this.#offerAnother();
    const size = measured(this.#region);
    say("where-says", size ? `Shown on the map: ${size}.` : "Shown on the map.", "good");
  }

  #top() {
    return this.shape === "top" ? { k: Number($("k").value), alpha: Number($("alpha").value) } : undefined;
  }

  #typed() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#valid = false;
    if (!$("query").value.trim()) {
      $("query").removeAttribute("aria-invalid");
      say("query-says", this.shape === "top" ? HELP_TOP : HELP);
      return;
    }
    this.#timer = setTimeout(() => this.#check(), CHECK_MS);
  }

  async #check() {
    const query = $("query").value;
    this.#abort = new AbortController();
    try {
      const answer = await api.check(query, this.#top() && { k: 1, alpha: 0.5 }, this.#abort.signal);
      if ($("query").value !== query) return;
      this.#valid = answer.valid;
      if (answer.valid) {
        $("query").removeAttribute("aria-invalid");
        const means = answer.operands.map((each) => each.means);
        say("query-says", [`Understood: ${answer.reads}`, ...means, ...answer.hints].join("; "), "good");
      } else {
        $("query").setAttribute("aria-invalid", "true");
        wrong(query, answer.position, answer.error);
      }
    } catch (error) {
      if (error.name !== "AbortError") say("query-says", error.message, "bad");
    }
  }

  // What is sent is what stood there when the button was pressed, and it is sent once.
  async #send() {
    if ($("send").disabled) return;
    const query = $("query").value.trim();
    clearTimeout(this.#timer);
    if (!query) {
      say("query-says", "Write at least one word first.", "bad");
      $("query").focus();
      return;
    }
    if (!this.#region) this.#placed(true);
    const region = this.#region;
    if (!region) {
      $("where-says").dataset.kind = "bad";
      $("where").focus();
      return;
    }
    const top = this.#top();
    const body = top ? { query, point: region, top } : { query, region };
    $("send").disabled = true;
    try {
      await this.#check();
      if (!this.#valid) {
        $("query").focus();
        return;
      }
      const made = await api.subscribe(body);
      this.#pencil.show(null);
      this.#region = null;
      $("where").value = "";
      $("query").value = "";
      this.#offerAnother();
      this.#typed();
      say("where-says", "Subscribed. It is listed below.", "good");
      this.#onSubscribed({ id: made.id, ...body });
    } catch (error) {
      say("where-says", error.message, "bad");
    } finally {
      $("send").disabled = false;
    }
  }
}

export function say(id, text, kind = "") {
  const place = $(id);
  place.textContent = text;
  place.dataset.kind = kind;
}

// Shows the query again with the place where it goes wrong marked. Positions count characters.
function wrong(query, position, error) {
  const characters = Array.from(query);
  const at = Math.min(position ?? 0, characters.length);
  const rest = characters.slice(at).join("");
  const piece = rest.match(/^(\s+|[()]|[^\s()]+)/)?.[0] ?? " ";
  const shown = document.createElement("code");
  const mark = document.createElement("mark");
  mark.textContent = rest ? piece : "\u00a0";
  shown.append(characters.slice(0, at).join(""), mark, rest.slice(piece.length));
  shown.setAttribute("aria-hidden", "true");
  const place = $("query-says");
  place.dataset.kind = "bad";
  place.replaceChildren(shown, `Character ${at + 1}: ${reason(error)}`);
}

// The server names the query and the place too, which are on the screen already.
function reason(error) {
  const parts = error.match(/^query: (.*?) at position \d+ of (?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(?:\.\.\.)?; (.*)$/s);
  return parts ? `${parts[1]}; ${parts[2]}` : error;
}

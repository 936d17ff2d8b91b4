// Server-Sent Events over fetch, which unlike EventSource can send a key. Comes back by itself,
// and goes on after the last event that had an id.

import { headers } from "./api.js";

const SILENCE_MS = 60_000; // the server says something every 15 s
const SLOWEST_MS = 8_000;

export class Stream {
  #path;
  #on;
  #state;
  #last = null;
  #failures = 0;
  #abort = null;
  #timer = 0;
  #open = true;

  // `on(name, data, id)` gets every event; `state(name, waitMs)` hears "open", "lost", "refused".
  constructor(path, on, state, { after = null } = {}) {
    this.#path = path;
    this.#on = on;
    this.#state = state;
    this.#last = after;
    this.#connect();
  }

  get last() {
    return this.#last;
  }

  close() {
    this.#open = false;
    clearTimeout(this.#timer);
    this.#abort?.abort();
  }

  async #connect() {
    const abort = (this.#abort = new AbortController());
    let watch = 0;
    const alive = () => {
      clearTimeout(watch);
      watch = setTimeout(() => abort.abort(), SILENCE_MS);
    };
    try {
      alive();
      const resume = this.#last === null ? {} : { "Last-Event-ID": String(this.#last) };
      const answer = await fetch(this.#path, {
        headers: headers({ Accept: "text/event-stream", ...resume }),
        signal: abort.signal,
        cache: "no-store",
      });
      if (answer.status === 401 || answer.status === 403) {
        this.#open = false;
        this.#state("refused", 0);
        return;
      }
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      this.#failures = 0;
      this.#state("open", 0);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const parser = new Parser((name, data, id) => {
        if (id !== null) this.#last = id;
        this.#on(name, data, id);
      });
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        alive();
        parser.feed(value);
      }
    } catch (error) {
      if (!(error instanceof TypeError) && error.name !== "AbortError" && !/^status/.test(error.message)) console.error(error);
    } finally {
      clearTimeout(watch);
    }
    if (!this.#open) return;
    this.#failures += 1;
    const wait = Math.min(SLOWEST_MS, 400 * 2 ** this.#failures) * (0.5 + Math.random() / 2);
    this.#state("lost", wait);
    this.#timer = setTimeout(() => this.#connect(), wait);
  }
}

class Parser {
  #emit;
  #rest = "";
  #name = "";
  #data = [];
  #id = null;

  constructor(emit) {
    this.#emit = emit;
  }

  feed(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
  }

  #line(line) {
    if (line === "") {
      if (this.#data.length) this.#emit(this.#name || "message", JSON.parse(this.#data.join("\n")), this.#id);
      this.#name = "";
      this.#data = [];
      this.#id = null;
    } else if (line.startsWith("data:")) this.#data.push(line.slice(5).trimStart());
    else if (line.startsWith("event:")) this.#name = line.slice(6).trim();
    else if (line.startsWith("id:")) this.#id = line.slice(3).trim();
  }
}

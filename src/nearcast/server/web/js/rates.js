// How much happens a second, over the last few seconds.

const OVER_S = 5;

export class Rates {
  #slots = Array.from({ length: OVER_S }, () => ({ messages: 0, matches: 0 }));

  message() {
    this.#slots[0].messages += 1;
  }

  match() {
    this.#slots[0].matches += 1;
  }

  show(tell) {
    setInterval(() => {
      const sum = (name) => this.#slots.reduce((total, slot) => total + slot[name], 0) / OVER_S;
      const rounded = (value) => (value >= 10 || value === 0 ? Math.round(value).toLocaleString() : value.toFixed(1));
      tell({ messages: rounded(sum("messages")), matches: rounded(sum("matches")) });
      this.#slots.unshift({ messages: 0, matches: 0 });
      this.#slots.pop();
    }, 1000);
  }
}

// The form that publishes a message, at a point that is typed or picked on the map.

import { api } from "./api.js";
import { say } from "./form.js";
import { parse, toText } from "./shapes.js";

const HELP = "Pick the point on the map, or type its numbers.";
const $ = (id) => document.getElementById(id);

export class PublishForm {
  #pencil;

  constructor(pencil) {
    this.#pencil = pencil;
    say("publish-says", HELP);
    $("pick").addEventListener("click", () => this.#pick());
    $("at").addEventListener("input", () => this.#placed());
    $("publish").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    const tabs = [$("mode-subscribe"), $("mode-publish")];
    tabs.forEach((tab, number) => {
      tab.addEventListener("click", () => this.#choose(tabs, number));
      tab.addEventListener("keydown", (event) => {
        if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
        this.#choose(tabs, 1 - number);
        tabs[1 - number].focus();
      });
    });
  }

  #choose(tabs, chosen) {
    this.#pencil.stop();
    this.#pencil.show(null);
    tabs.forEach((tab, number) => {
      tab.setAttribute("aria-selected", number === chosen);
      tab.tabIndex = number === chosen ? 0 : -1;
      $(tab.getAttribute("aria-controls")).hidden = number !== chosen;
    });
    this.#placed();
  }

  #pick() {
    if (this.#pencil.active) {
      this.#pencil.stop();
      return;
    }
    $("pick").setAttribute("aria-pressed", "true");
    $("pick").textContent = "Stop";
    this.#pencil.start("top", {
      done: (point) => {
        $("at").value = toText(point);
        say("publish-says", "Shown on the map.", "good");
        if (!$("text").value) $("text").focus();
      },
      ended: () => {
        $("pick").setAttribute("aria-pressed", "false");
        $("pick").textContent = "Pick";
      },
    });
  }

  // The point, as far as there is one; it is shown on the map.
  #placed() {
    if ($("publish-panel").hidden || !$("at").value.trim()) return null;
    try {
      const point = parse("top", $("at").value);
      this.#pencil.show(point);
      say("publish-says", HELP);
      return point;
    } catch (error) {
      this.#pencil.show(null);
      say("publish-says", error.message, "bad");
      return null;
    }
  }

  #message() {
    const point = this.#placed();
    if (!point) throw Object.assign(new Error($("at").value.trim() ? $("publish-says").textContent : HELP), { field: "at" });
    const message = { text: $("text").value, point };
    if ($("ttl").value) message.ttl = Number($("ttl").value);
    if ($("message-id").value.trim()) message.id = $("message-id").value.trim();
    const properties = $("properties").value.trim();
    if (!properties) return message;
    try {
      return { ...message, properties: JSON.parse(properties) };
    } catch {
      throw Object.assign(new Error('Properties are a JSON object, such as {"price": 9}.'), { field: "properties" });
    }
  }

  async #send() {
    if ($("publish-send").disabled) return;
    $("publish-send").disabled = true;
    try {
      const { updates } = await api.publish(this.#message());
      const reached = updates === 0 ? "It matched nobody." : updates === 1 ? "1 update." : `${updates.toLocaleString()} updates.`;
      say("publish-says", `Published. ${reached}`, "good");
      $("text").value = "";
    } catch (error) {
      say("publish-says", error.message, "bad");
      if (error.field) $(error.field).focus();
    } finally {
      $("publish-send").disabled = false;
    }
  }
}

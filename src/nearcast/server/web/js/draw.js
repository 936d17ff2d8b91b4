// Drawing a region on the map with mouse, finger or pen.

import { distance, joined, measured, outline, wrap } from "./shapes.js";

const HINTS = {
  circle: "Drag from the centre outwards.",
  box: "Drag from one corner to the other.",
  polygon: "Click or tap corner after corner; the first one again, or Enter, ends it.",
  top: "Click or tap the point.",
};
const NEAR_PX = { mouse: 10, touch: 24, pen: 14 };
const NOBODY = { done: () => {}, ended: () => {}, progress: () => {} };

export class Pencil {
  #map;
  #hint;
  #listener = NOBODY;
  #shape = null;
  #corners = [];
  #beside = null;

  constructor(map, hint) {
    this.#map = map;
    this.#hint = hint;
    const canvas = map.getCanvasContainer();
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#moved(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
    canvas.addEventListener("pointercancel", () => this.#lost());
    canvas.addEventListener("dblclick", (event) => this.#shape && event.preventDefault());
    addEventListener("keydown", (event) => this.#key(event));
  }

  get active() {
    return this.#shape !== null;
  }

  // `done(region)` gets what was drawn; `ended()` hears that drawing is over, finished or not;
  // `progress(corners)` how many corners a polygon has. What was drawn before stays `beside` it.
  start(shape, listener, beside = null) {
    this.stop();
    this.#beside = beside;
    this.#listener = { ...NOBODY, ...listener };
    this.#shape = shape;
    this.#corners = [];
    this.#grip(false);
    this.#hint.textContent = `${HINTS[shape]} Escape stops.`;
    this.#hint.hidden = false;
  }

  stop() {
    if (!this.#shape) return;
    this.#shape = null;
    this.#corners = [];
    this.#grip(true);
    this.#hint.hidden = true;
    this.#listener.ended();
  }

  // Ends a polygon with the corners that it has.
  finish() {
    if (this.#shape === "polygon" && this.#corners.length >= 3) this.#finish(closed(this.#corners));
    else this.#giveUp();
  }

  #giveUp() {
    this.show(this.#beside);
    this.stop();
  }

  show(region) {
    const source = this.#map.getSource("draft");
    if (!source) return;
    const geometry = !region ? null
      : Array.isArray(region) ? { type: "Point", coordinates: region }
      : outline(region);
    source.setData({ type: "FeatureCollection", features: geometry ? [{ type: "Feature", properties: {}, geometry }] : [] });
  }

  #grip(free) {
    const verb = free ? "enable" : "disable";
    for (const handler of ["dragPan", "doubleClickZoom", "boxZoom", "touchZoomRotate"]) this.#map[handler][verb]();
    this.#map.getCanvas().style.cursor = free ? "" : "crosshair";
    // or the browser would take a finger that draws for one that scrolls
    this.#map.getCanvasContainer().style.touchAction = free ? "" : "none";
  }

  #at(event) {
    const frame = this.#map.getCanvasContainer().getBoundingClientRect();
    const { lng, lat } = this.#map.unproject([event.clientX - frame.left, event.clientY - frame.top]);
    return [wrap(lng), Math.max(-90, Math.min(90, lat))];
  }

  #down(event) {
    if (!this.#shape || event.button || !event.isPrimary) return;
    if (this.#shape === "circle" || this.#shape === "box") {
      this.#corners = [this.#at(event)];
      event.target.setPointerCapture?.(event.pointerId);
    }
  }

  #moved(event) {
    if (!this.#shape || !this.#corners.length) return;
    this.#draft(this.#made(this.#at(event)));
  }

  // What is drawn so far, with its size.
  #draft(region) {
    this.show(region ? joined(this.#beside, region) : this.#beside);
    if (region) this.#hint.textContent = measured(region);
  }

  #lost() {
    if (this.#shape === "circle" || this.#shape === "box") this.#corners = [];
  }

  #up(event) {
    if (!this.#shape || event.button || !event.isPrimary) return;
    const at = this.#at(event);
    if (this.#shape === "top") this.#finish(at);
    else if (this.#shape === "polygon") this.#corner(at, NEAR_PX[event.pointerType] ?? NEAR_PX.mouse);
    else if (this.#corners.length) {
      const region = this.#made(at);
      this.#corners = [];
      if (region) this.#finish(region);
    }
  }

  #corner(at, near) {
    const last = this.#corners.at(-1);
    const pixels = (a, b) => {
      const [p, q] = [this.#map.project(a), this.#map.project(b)];
      return Math.hypot(p.x - q.x, p.y - q.y);
    };
    const ends = last && (pixels(last, at) < 4 || pixels(this.#corners[0], at) < near);
    if (ends && this.#corners.length >= 3) {
      this.#finish(closed(this.#corners));
      return;
    }
    if (ends) return;
    this.#corners.push(at);
    this.#listener.progress(this.#corners.length);
    this.#draft(this.#made(at));
  }

  #made(at) {
    const [first] = this.#corners;
    if (this.#shape === "circle") {
      const radius = distance(first, at);
      return radius > 0 ? { type: "Circle", center: first, radius } : null;
    }
    if (this.#shape === "box") {
      const [south, north] = [Math.min(first[1], at[1]), Math.max(first[1], at[1])];
      // dragged over the antimeridian, the shorter way is meant
      const [a, b] = [Math.min(first[0], at[0]), Math.max(first[0], at[0])];
      return { type: "Box", bbox: b - a > 180 ? [b, south, a, north] : [a, south, b, north] };
    }
    return closed([...this.#corners, at]);
  }

  #key(event) {
    if (!this.#shape) return;
    if (event.key === "Escape") {
      this.#giveUp();
    } else if (event.key === "Enter" && this.#shape === "polygon" && this.#corners.length >= 3) {
      event.preventDefault();
      this.#finish(closed(this.#corners));
    }
  }

  #finish(last) {
    const { done } = this.#listener;
    const region = joined(this.#beside, last);
    this.show(region);
    this.stop();
    done(region);
  }
}

const closed = (corners) => ({ type: "Polygon", coordinates: [[...corners, corners[0]]] });

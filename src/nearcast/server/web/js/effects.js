// What moves: messages that appear and fade, matches that light up, subscribers on their way.
// Drawn on a canvas over the map, so that nothing of it makes the map itself work anew.

import { Objects } from "./objects.js";
import { palette, still } from "./palette.js";
import { boxRing, centre } from "./shapes.js";

const MESSAGE_MS = 7000;
const MATCH_MS = 2600;
const CAPTION_MS = 4200;
const CLUSTER_MS = 3600;
const CLUSTER_PX = 32;
const CAPTION_PX = 250;
const CAPTION_FONTS = ["600 12.5px Inter, 'Segoe UI', system-ui, sans-serif", "500 11.5px Inter, 'Segoe UI', system-ui, sans-serif"];
const MOST = { messages: 500, matches: 70, captions: 4, clusters: 40 };
const METRES_PER_DEGREE = 111_195;

export class Effects {
  #map;
  #canvas;
  #pen;
  #frame = 0;
  #messages = [];
  #matches = [];
  #captions = [];
  #clusters = [];
  #objects = new Objects();
  #movers = new Map();
  #size = { width: 0, height: 0 };
  #resting = 0;
  #lit = 0;

  constructor(map, canvas) {
    this.#map = map;
    this.#canvas = canvas;
    this.#pen = canvas.getContext("2d");
    map.on("resize", () => this.#resize());
    map.on("move", () => this.#wake());
    this.#resize();
  }

  get movers() {
    return this.#movers;
  }

  message(point, { lasting = false } = {}) {
    this.#messages.push({ point, lasting, born: performance.now() });
    if (this.#messages.length > MOST.messages) this.#messages.shift();
    this.#wake();
  }

  // `where()` gives the subscription as it is at that moment: it may be moving.
  match(point, where, { mine = false } = {}) {
    this.#matches.push({ point, where, mine, born: performance.now() });
    if (this.#matches.length > MOST.matches) this.#matches.shift();
    this.#canvas.dataset.lit = this.#lit += 1;
    this.#wake();
  }

  caption(point, text, who, mine) {
    // one that another would cover is gone at once
    const { x, y } = this.#project(point);
    this.#captions = this.#captions.filter((other) => {
      const at = this.#project(other.point);
      return Math.abs(at.x - x) > 280 || Math.abs(at.y - y) > 52;
    });
    const lines = [text, who].map((line, at) => shortened(this.#pen, line, CAPTION_FONTS[at]));
    this.#captions.push({ point, lines, mine, born: performance.now() });
    if (this.#captions.length > MOST.captions) this.#captions.shift();
    this.#wake();
  }

  // Where a message reached more than can be drawn one by one: how many. One that would be covered
  // gives way to the newer.
  cluster(point, count) {
    const { x, y } = this.#project(point);
    this.#clusters = this.#clusters.filter((other) => {
      const at = this.#project(other.point);
      return Math.hypot(at.x - x, at.y - y) > CLUSTER_PX;
    });
    this.#clusters.push({ point, count, born: performance.now() });
    if (this.#clusters.length > MOST.clusters) this.#clusters.shift();
    this.#canvas.dataset.clusters = count;
    this.#wake();
  }

  // A message that lasts, at a point; true if it is an object that was heard of before.
  object(id, point, ttl) {
    const again = this.#objects.report(id, point, ttl);
    this.#canvas.dataset.objects = this.#objects.moving;
    this.#wake();
    return again;
  }

  retracted(id) {
    this.#objects.forget(id);
    this.#canvas.dataset.objects = this.#objects.moving;
    this.#wake();
  }

  get captions() {
    return this.#captions.length;
  }

  // A subscriber is at a new place: go there in about the time until the next one is heard of.
  move(id, to, radius, mine) {
    const now = performance.now();
    const known = this.#movers.get(id);
    const from = known ? this.#place(known, now) : to;
    const takes = still.matches ? 0 : Math.min(5000, Math.max(250, known ? (now - known.heard) * 1.05 : 0));
    this.#movers.set(id, { from, to, radius, mine, start: now, takes: known ? takes : 0, heard: now });
    this.#canvas.dataset.movers = this.#movers.size;
    this.#wake();
  }

  forget(id) {
    this.#movers.delete(id);
    this.#wake();
  }

  // Movers that have not moved for a while, which are from now on drawn with the others.
  rested(afterMs) {
    const limit = performance.now() - afterMs;
    const ids = [];
    for (const [id, mover] of this.#movers) if (mover.heard < limit) ids.push(id);
    for (const id of ids) this.#movers.delete(id);
    return ids;
  }

  where(id) {
    const mover = this.#movers.get(id);
    return mover && { type: "Circle", center: this.#place(mover, performance.now()), radius: mover.radius };
  }

  #place({ from, to, start, takes }, now) {
    const t = takes ? Math.min(1, (now - start) / takes) : 1;
    return [from[0] + (to[0] - from[0]) * t, from[1] + (to[1] - from[1]) * t];
  }

  #resize() {
    const { clientWidth, clientHeight } = this.#map.getContainer();
    this.#size = { width: clientWidth, height: clientHeight };
    const scale = Math.min(2, devicePixelRatio || 1);
    Object.assign(this.#canvas, { width: clientWidth * scale, height: clientHeight * scale });
    this.#pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.#wake();
  }

  #wake() {
    this.#resting = 0;
    if (!this.#frame) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#frame = 0;
    const now = performance.now();
    const pen = this.#pen;
    const p = palette();
    const { width, height } = this.#size;
    pen.clearRect(0, 0, width, height);
    this.#messages = this.#messages.filter((m) => now - m.born < MESSAGE_MS);
    this.#matches = this.#matches.filter((m) => now - m.born < MATCH_MS);
    this.#captions = this.#captions.filter((c) => now - c.born < CAPTION_MS);
    this.#clusters = this.#clusters.filter((c) => now - c.born < CLUSTER_MS);
    const moving = this.#drawMovers(now, p, width, height);
    for (const match of this.#matches) this.#drawMatch(match, (now - match.born) / MATCH_MS, p);
    pen.globalCompositeOperation = p.glow;
    for (const message of this.#messages) this.#drawMessage(message, now - message.born, p);
    pen.globalCompositeOperation = "source-over";
    const tracked = this.#objects.draw(pen, (point) => this.#project(point), now, p, still.matches);
    for (const cluster of this.#clusters) this.#drawCluster(cluster, (now - cluster.born) / CLUSTER_MS, p);
    for (const caption of this.#captions) this.#drawCaption(caption, now - caption.born, p, width, height);
    pen.globalAlpha = 1;
    const busy = this.#messages.length || this.#matches.length || this.#captions.length || this.#clusters.length || moving || tracked;
    // one more picture after the last change, for a map that has just come to rest
    if (busy || this.#resting++ < 2) this.#frame = requestAnimationFrame(() => this.#draw());
  }

  #project([lon, lat]) {
    const middle = this.#map.getCenter().lng;
    return this.#map.project([lon + 360 * Math.round((middle - lon) / 360), lat]);
  }

  #pixels(point, metres) {
    const above = this.#map.project([point[0], Math.min(85, point[1] + metres / METRES_PER_DEGREE)]);
    return Math.abs(this.#map.project(point).y - above.y);
  }

  #trace(region) {
    const pen = this.#pen;
    pen.beginPath();
    if (Array.isArray(region)) {
      const at = this.#project(region);
      pen.arc(at.x, at.y, 9, 0, 7);
    } else if (region.type === "Circle") {
      const at = this.#project(region.center);
      pen.arc(at.x, at.y, this.#pixels(region.center, region.radius), 0, 7);
    } else {
      for (const ring of region.type === "Box" ? [boxRing(region.bbox)] : region.coordinates) {
        ring.forEach((point, i) => {
          const { x, y } = this.#project(point);
          if (i) pen.lineTo(x, y);
          else pen.moveTo(x, y);
        });
      }
    }
  }

  #drawMovers(now, p, width, height) {
    const pen = this.#pen;
    let moving = false;
    pen.lineWidth = 1;
    for (const mover of this.#movers.values()) {
      const place = this.#place(mover, now);
      moving ||= now - mover.start < mover.takes;
      const at = this.#project(place);
      const radius = this.#pixels(place, mover.radius);
      if (at.x < -radius || at.y < -radius || at.x > width + radius || at.y > height + radius) continue;
      pen.strokeStyle = pen.fillStyle = mover.mine ? p.mine : p.subscription;
      pen.beginPath();
      pen.arc(at.x, at.y, radius, 0, 7);
      pen.globalAlpha = 0.06;
      pen.fill();
      pen.globalAlpha = 0.4;
      pen.stroke();
      pen.beginPath();
      pen.arc(at.x, at.y, 2, 0, 7);
      pen.globalAlpha = 0.9;
      pen.fill();
    }
    return moving;
  }

  #drawMessage({ point, lasting }, age, p) {
    const pen = this.#pen;
    const { x, y } = this.#project(point);
    const fade = Math.min(1, age / 120) * (1 - age / MESSAGE_MS) ** 0.7;
    pen.fillStyle = pen.strokeStyle = p.message;
    if (age < 1100 && !still.matches) {
      const t = age / 1100;
      pen.beginPath();
      pen.arc(x, y, 3 + 15 * (1 - (1 - t) ** 3), 0, 7);
      pen.globalAlpha = (1 - t) * 0.8;
      pen.lineWidth = 1.4;
      pen.stroke();
    }
    pen.globalAlpha = fade * 0.18;
    pen.beginPath();
    pen.arc(x, y, 8, 0, 7);
    pen.fill();
    pen.globalAlpha = fade;
    pen.beginPath();
    if (lasting) pen.roundRect(x - 3, y - 3, 6, 6, 1);
    else pen.arc(x, y, 2.8, 0, 7);
    pen.fill();
  }

  #drawMatch({ point, where, mine }, t, p) {
    const region = where();
    if (!region) return;
    const pen = this.#pen;
    const fade = (1 - t) ** 1.3;
    const colour = mine ? p.mine : p.match;
    pen.strokeStyle = pen.fillStyle = colour;
    this.#trace(region);
    pen.globalAlpha = fade * (mine ? 0.2 : 0.05);
    pen.fill();
    pen.globalAlpha = fade * (mine ? 1 : 0.8);
    pen.lineWidth = (mine ? 2.2 : 1.1) + (still.matches ? 0 : (mine ? 4 : 2.2) * Math.exp(-t * 9));
    pen.stroke();
    if (!point) return;
    const from = this.#project(point);
    const to = this.#project(Array.isArray(region) ? region : centre(region));
    const reach = still.matches ? 1 : 1 - (1 - Math.min(1, t / 0.18)) ** 3;
    pen.globalAlpha = fade * 0.85;
    pen.lineWidth = mine ? 2 : 1.2;
    pen.beginPath();
    pen.moveTo(from.x, from.y);
    pen.lineTo(from.x + (to.x - from.x) * reach, from.y + (to.y - from.y) * reach);
    pen.stroke();
    pen.beginPath();
    pen.arc(from.x, from.y, mine ? 5 : 3.6, 0, 7);
    pen.fill();
  }

  #drawCluster({ point, count }, t, p) {
    const pen = this.#pen;
    const { x, y } = this.#project(point);
    const words = count >= 10_000 ? `${Math.round(count / 1000)}k` : String(count);
    pen.font = "700 12px Inter, 'Segoe UI', system-ui, sans-serif";
    const radius = Math.max(14, pen.measureText(words).width / 2 + 8) + (still.matches ? 0 : 8 * Math.exp(-t * 14));
    pen.globalAlpha = Math.min(1, (1 - t) * 3);
    pen.beginPath();
    pen.arc(x, y, radius, 0, 7);
    pen.fillStyle = p.caption;
    pen.fill();
    pen.strokeStyle = p.match;
    pen.lineWidth = 2;
    pen.stroke();
    pen.fillStyle = p.captionText;
    pen.textAlign = "center";
    pen.fillText(words, x, y + 4);
    pen.textAlign = "start";
    pen.globalAlpha = 1;
  }

  #drawCaption({ point, lines: [words, below], mine }, age, p, width, height) {
    const pen = this.#pen;
    const at = this.#project(point);
    const room = this.#map.getPadding();
    if (at.x < room.left || at.y < 0 || at.x > width - room.right || at.y > height - room.bottom) return;
    const w = Math.max(words.width, below.width) + 22;
    const right = width - room.right - 8;
    const left = Math.max(room.left + 8, at.x + 14 + w > right ? Math.min(at.x - 14, right) - w : at.x + 14);
    const top = Math.min(height - room.bottom - 56, Math.max(8, at.y - 22));
    pen.globalAlpha = Math.min(1, age / 200, (CAPTION_MS - age) / 500);
    pen.fillStyle = p.caption;
    pen.beginPath();
    pen.roundRect(left, top, w, 44, 9);
    pen.fill();
    pen.strokeStyle = mine ? p.mine : p.match;
    pen.lineWidth = 1;
    pen.stroke();
    pen.fillStyle = p.captionText;
    pen.font = CAPTION_FONTS[0];
    pen.fillText(words.text, left + 11, top + 18);
    pen.font = CAPTION_FONTS[1];
    pen.fillStyle = mine ? p.mine : p.match;
    pen.fillText(below.text, left + 11, top + 34);
  }
}

// A line as it fits into a caption, and how wide it is then.
function shortened(pen, line, font) {
  pen.font = font;
  let text = line;
  for (let end = line.length; end && pen.measureText(text).width > CAPTION_PX; end -= 1) text = `${line.slice(0, end)}…`;
  return { text, width: pen.measureText(text).width };
}

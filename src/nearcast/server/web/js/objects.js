// Objects that report their place again and again under one id, and the way they came.

const TRAIL_MS = 30_000;
const MOST = 500;
const MOST_PLACES = 80;
const NAMED = 40; // more names than these would cover the map

export class Objects {
  #all = new Map();

  // A message that lasts. True if its id was heard of before: then it is an object that moves.
  report(id, point, ttl) {
    const now = performance.now();
    const known = this.#all.get(id);
    const places = known?.places ?? [];
    places.push({ point, at: now });
    if (places.length > MOST_PLACES) places.shift();
    this.#all.delete(id);
    this.#all.set(id, { places, until: now + 1000 * ttl });
    if (this.#all.size > MOST) this.#all.delete(this.#all.keys().next().value);
    return known !== undefined;
  }

  forget(id) {
    this.#all.delete(id);
  }

  get moving() {
    let count = 0;
    for (const { places } of this.#all.values()) if (places.length > 1) count += 1;
    return count;
  }

  // Draws them; true as long as something of it changes by itself.
  draw(pen, project, now, { object, captionText }, still) {
    let alive = false;
    const named = this.moving <= NAMED;
    pen.lineCap = "round";
    for (const [id, { places, until }] of this.#all) {
      if (now > until) {
        this.#all.delete(id);
        continue;
      }
      while (places.length > 2 && now - places[0].at > TRAIL_MS) places.shift();
      if (places.length < 2) continue;
      const head = headOf(places, now, still);
      alive ||= now - places.at(-1).at < TRAIL_MS;
      pen.strokeStyle = pen.fillStyle = object;
      const way = [...places.slice(0, -1).map(({ point, at }) => ({ ...project(point), at })), { ...project(head), at: now }];
      for (let i = 1; i < way.length; i++) {
        const [a, b] = [way[i - 1], way[i]];
        pen.globalAlpha = 0.75 * Math.max(0, 1 - (now - a.at) / TRAIL_MS);
        pen.lineWidth = 2.4;
        pen.beginPath();
        pen.moveTo(a.x, a.y);
        pen.lineTo(b.x, b.y);
        pen.stroke();
      }
      const { x, y } = way.at(-1);
      pen.globalAlpha = 1;
      pen.beginPath();
      pen.arc(x, y, 5, 0, 7);
      pen.fill();
      pen.lineWidth = 1.6;
      pen.strokeStyle = captionText;
      pen.stroke();
      if (!named) continue;
      pen.font = "600 11.5px Inter, 'Segoe UI', system-ui, sans-serif";
      pen.fillText(id.length > 24 ? `${id.slice(0, 23)}…` : id, x + 9, y + 4);
    }
    pen.globalAlpha = 1;
    return alive;
  }
}

// Where an object is shown: on its way to the last place, for about as long as the step took.
function headOf(places, now, still) {
  const [from, to] = places.slice(-2);
  const takes = still ? 0 : Math.min(4000, to.at - from.at);
  const t = takes ? Math.min(1, (now - to.at) / takes) : 1;
  return [from.point[0] + (to.point[0] - from.point[0]) * t, from.point[1] + (to.point[1] - from.point[1]) * t];
}

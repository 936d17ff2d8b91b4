// More subscriptions than can be outlined: their number in each cell of a grid, in five shades, and
// the legend that says which shade means how many.

import { round } from "./shapes.js";

const STEPS = [0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((power) => [10 ** power, 3 * 10 ** power]);
const KM_PER_DEGREE = 111.195;
export const SHADES = [0.14, 0.27, 0.42, 0.58, 0.76]; // `--shade` in the style sheet follows them
const NOTHING = { type: "FeatureCollection", features: [] };

// The least number of each shade, the last of which the fullest cell just reaches.
export function steps(most) {
  const reached = STEPS.filter((step) => step <= Math.max(1, most));
  const shown = reached.slice(-SHADES.length);
  return [1, ...shown.slice(1)];
}

export class Crowd {
  #map;
  #legend;
  #size = 0;

  constructor(map, legend) {
    this.#map = map;
    this.#legend = legend;
  }

  // `cells` are [longitude, latitude, count] of what lies in a cell of `size` degrees; none hide it.
  show(cells, size) {
    this.#size = size;
    this.#map.getContainer().dataset.cells = cells.length;
    const lowest = steps(cells.reduce((most, [, , count]) => Math.max(most, count), 0));
    const features = cells.map(([lon, lat, count]) => square(lon, lat, count, size, lowest));
    this.#map.getSource("cells")?.setData(cells.length ? { type: "FeatureCollection", features } : NOTHING);
    this.#explain(cells.length ? lowest : []);
  }

  // How large a cell is, in words.
  get #cell() {
    const km = this.#size * KM_PER_DEGREE;
    const across = km >= 10 ? `${Math.round(km).toLocaleString()} km` : km >= 1 ? `${round(km, 1)} km` : `${Math.round(km * 1000)} m`;
    return `${Number(this.#size.toPrecision(2))}° (${across} from north to south)`;
  }

  // What is said of a cell that was clicked.
  describe({ properties: { count } }) {
    return { title: `${count.toLocaleString()} subscription${count === 1 ? "" : "s"}`, lines: [`centred in this cell of ${this.#cell}`, "Zoom in to see their outlines."] };
  }

  #explain(lowest) {
    const { scale, single } = this.#legend;
    scale.hidden = lowest.length === 0;
    single.hidden = lowest.length > 0;
    if (!lowest.length) return;
    const shades = lowest.map((least, at) => {
      const shade = document.createElement("span");
      const swatch = document.createElement("i");
      swatch.className = "shade";
      swatch.style.setProperty("--shade", `${100 * shadeOf(at, lowest)}%`);
      shade.append(swatch, `${brief(least)}+`);
      return shade;
    });
    const title = document.createElement("b");
    title.textContent = `Subscriptions in a cell of ${Number(this.#size.toPrecision(2))}°`;
    const row = document.createElement("span");
    row.className = "shades";
    row.append(...shades);
    scale.replaceChildren(title, row);
  }
}

// The darkest shade is always used, so that few steps are told apart as well as many.
const shadeOf = (at, lowest) => SHADES[SHADES.length - lowest.length + at];
const brief = (count) => (count >= 1e6 ? `${count / 1e6}M` : count >= 1000 ? `${count / 1000}k` : String(count));

function square(lon, lat, count, size, lowest) {
  const west = Math.floor((lon + 180) / size) * size - 180;
  const south = Math.floor((lat + 90) / size) * size - 90;
  const [east, north] = [west + size, Math.min(90, south + size)];
  return {
    type: "Feature",
    properties: { count, shade: shadeOf(lowest.findLastIndex((least) => least <= count), lowest) },
    geometry: { type: "Polygon", coordinates: [[[west, south], [east, south], [east, north], [west, north], [west, south]]] },
  };
}

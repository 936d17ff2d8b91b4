// The map under everything: land, borders and names, all of it shipped with the page.

import { palette } from "./palette.js";

const EMPTY = { type: "FeatureCollection", features: [] };
const CITY = [150.35, -34.45, 151.95, -33.25]; // what sydney.json has
const FONT = ["Inter", "Segoe UI", "Helvetica Neue", "system-ui", "sans-serif"];

export async function fetchJson(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: status ${answer.status}`);
  return answer.json();
}

// Rings and lines are steps in whole units, each relative to the one before.
function unfold(steps, scale) {
  const points = [];
  let x = 0;
  let y = 0;
  for (let i = 0; i < steps.length; i += 2) {
    x += steps[i];
    y += steps[i + 1];
    points.push([x / scale, y / scale]);
  }
  return points;
}

function features({ scale, polygons, lines }) {
  const land = polygons.map((rings) => rings.map((ring) => unfold(ring, scale)));
  const borders = lines.map((line) => unfold(line, scale));
  const feature = (type, coordinates) => ({ type: "Feature", properties: {}, geometry: { type, coordinates } });
  return {
    type: "FeatureCollection",
    features: [...land.map((rings) => feature("Polygon", rings)), feature("MultiLineString", borders)],
  };
}

function names({ countries, cities, suburbs }) {
  const at = (kind) => ([name, lon, lat, size]) => ({
    type: "Feature",
    properties: { kind, name, size },
    geometry: { type: "Point", coordinates: [lon, lat] },
  });
  return {
    type: "FeatureCollection",
    features: [...countries.map(at("country")), ...cities.map(at("city")), ...suburbs.map(at("suburb"))],
  };
}

// Layers by the noun they show; `paint` is a function of the palette, so that it can change.
const isLand = ["==", ["geometry-type"], "Polygon"];
const isLine = ["==", ["geometry-type"], "LineString"];
const kind = (name) => ["==", ["get", "kind"], name];
const named = (id, filter, size, minzoom, colour = "label") => ({
  id,
  type: "symbol",
  source: "labels",
  minzoom,
  filter,
  layout: {
    "text-field": ["get", "name"],
    "text-font": FONT,
    "text-size": size,
    "text-max-width": 8,
    "symbol-sort-key": ["-", ["get", "size"]],
    "text-padding": 6,
  },
  paint: (p) => ({ "text-color": p[colour], "text-halo-color": p.halo, "text-halo-width": 1.4 }),
});

export const LAYERS = [
  { id: "water", type: "background", paint: (p) => ({ "background-color": p.water }) },
  { id: "land-far", type: "fill", source: "world", maxzoom: 5, filter: isLand, paint: (p) => ({ "fill-color": p.land }) },
  { id: "land-near", type: "fill", source: "near", minzoom: 5, filter: isLand, paint: (p) => ({ "fill-color": p.land }) },
  { id: "land-city", type: "fill", source: "sydney", minzoom: 5, filter: isLand, paint: (p) => ({ "fill-color": p.land }) },
  { id: "borders-far", type: "line", source: "world", maxzoom: 5, filter: isLine, paint: (p) => ({ "line-color": p.border, "line-width": 0.7 }) },
  { id: "borders-near", type: "line", source: "near", minzoom: 5, filter: isLine, paint: (p) => ({ "line-color": p.border, "line-width": 1 }) },
  {
    id: "crowd", type: "fill", source: "cells",
    paint: (p) => ({ "fill-color": p.subscription, "fill-opacity": ["get", "shade"], "fill-antialias": false }),
  },
  {
    id: "subs-fill", type: "fill", source: "subs", filter: isLand,
    paint: (p) => ({ "fill-color": p.subscription, "fill-opacity": ["get", "fill"] }),
  },
  {
    id: "subs-line", type: "line", source: "subs", filter: isLand,
    paint: (p) => ({ "line-color": p.subscription, "line-opacity": ["get", "line"], "line-width": 1 }),
  },
  {
    id: "subs-point", type: "circle", source: "subs", filter: ["==", ["geometry-type"], "Point"],
    paint: (p) => ({ "circle-color": p.subscription, "circle-opacity": 0.25, "circle-radius": 4, "circle-stroke-color": p.subscription, "circle-stroke-width": 1.4, "circle-stroke-opacity": 0.8 }),
  },
  named("countries", kind("country"), ["interpolate", ["linear"], ["zoom"], 1, 10, 5, 15], 1.2),
  named("cities", kind("city"), ["interpolate", ["linear"], ["zoom"], 3, 10, 10, 15], 3),
  named("suburbs", kind("suburb"), ["interpolate", ["linear"], ["zoom"], 9, 10, 14, 13], 9),
  {
    id: "mine-fill", type: "fill", source: "mine", filter: isLand,
    paint: (p) => ({ "fill-color": p.mine, "fill-opacity": 0.14 }),
  },
  {
    id: "mine-line", type: "line", source: "mine", filter: isLand,
    paint: (p) => ({ "line-color": p.mine, "line-width": 2.2 }),
  },
  {
    id: "mine-point", type: "circle", source: "mine", filter: ["==", ["geometry-type"], "Point"],
    paint: (p) => ({ "circle-color": p.mine, "circle-radius": 5, "circle-stroke-color": p.captionText, "circle-stroke-width": 2 }),
  },
  {
    id: "draft-fill", type: "fill", source: "draft", filter: isLand,
    paint: (p) => ({ "fill-color": p.draft, "fill-opacity": 0.18 }),
  },
  {
    id: "draft-line", type: "line", source: "draft",
    paint: (p) => ({ "line-color": p.draft, "line-width": 2, "line-dasharray": [2, 1.5] }),
  },
  {
    id: "draft-point", type: "circle", source: "draft", filter: ["==", ["geometry-type"], "Point"],
    paint: (p) => ({ "circle-color": p.draft, "circle-radius": 5, "circle-stroke-color": p.captionText, "circle-stroke-width": 2 }),
  },
];

const OWN = ["cells", "subs", "mine", "draft"]; // sources of what is shown on any map

// A style of others, with what this page shows laid over it.
export function overlaid(other) {
  const { sources, layers } = style();
  const own = Object.fromEntries(OWN.map((name) => [name, sources[name]]));
  return {
    ...other,
    sources: { ...other.sources, ...own },
    layers: [...other.layers, ...layers.filter((layer) => OWN.includes(layer.source))],
  };
}

export function style() {
  const source = (data, more = {}) => ({ type: "geojson", data, tolerance: 0.4, ...more });
  return {
    version: 8,
    sources: {
      world: source(EMPTY),
      near: source(EMPTY, { maxzoom: 12 }),
      sydney: source(EMPTY, { maxzoom: 14 }),
      labels: source(EMPTY, { maxzoom: 10 }),
      cells: source(EMPTY, { tolerance: 0 }),
      subs: source(EMPTY, { promoteId: "id" }),
      mine: source(EMPTY),
      draft: source(EMPTY),
    },
    layers: LAYERS.map(({ paint, ...layer }) => ({ ...layer, paint: paint(palette()) })),
  };
}

export function repaint(map) {
  for (const { id, paint } of LAYERS) {
    if (!map.getLayer(id)) continue; // on a style of others
    for (const [property, value] of Object.entries(paint(palette()))) map.setPaintProperty(id, property, value);
  }
}

// Fills the map from coarse to fine; the fine coast only once somebody comes near to it.
export async function fill(map) {
  const put = async (name, make) => map.getSource(name).setData(make(await fetchJson(`basemap/${name}.json`)));
  await Promise.all([put("world", features), put("sydney", features), put("labels", names)]);
  const near = async () => {
    if (map.getZoom() < 4.5 || inCity(map.getBounds())) return;
    map.off("moveend", near);
    await put("near", features).catch(() => map.on("moveend", near));
  };
  map.on("moveend", near);
  await near();
}

const inCity = (view) => view.getWest() > CITY[0] && view.getSouth() > CITY[1] && view.getEast() < CITY[2] && view.getNorth() < CITY[3];

// Regions: between what the API takes, what the map draws, and what people type.

const EARTH_M = 6371008.8;
const RAD = Math.PI / 180;

export const round = (value, digits) => Number(value.toFixed(digits));

export function distance([lon1, lat1], [lon2, lat2]) {
  const a = Math.sin(((lat2 - lat1) * RAD) / 2) ** 2 +
    Math.cos(lat1 * RAD) * Math.cos(lat2 * RAD) * Math.sin(((lon2 - lon1) * RAD) / 2) ** 2;
  return 2 * EARTH_M * Math.asin(Math.min(1, Math.sqrt(a)));
}

// The border of a circle as a closed ring. One that holds a pole is opened along the map's edge.
export function circleRing([lon, lat], radius, steps = radius > 200_000 ? 96 : 40) {
  const d = Math.min(radius / EARTH_M, Math.PI * 0.9999);
  const north = lat * RAD + d > Math.PI / 2;
  const south = lat * RAD - d < -Math.PI / 2;
  const ring = [];
  for (let i = 0; i <= steps; i++) {
    const bearing = (i / steps) * 2 * Math.PI;
    const y = Math.asin(Math.sin(lat * RAD) * Math.cos(d) + Math.cos(lat * RAD) * Math.sin(d) * Math.cos(bearing));
    const x = Math.atan2(Math.sin(bearing) * Math.sin(d) * Math.cos(lat * RAD), Math.cos(d) - Math.sin(lat * RAD) * Math.sin(y));
    ring.push([lon + x / RAD, y / RAD]);
  }
  if (north === south) return ring;
  const edge = north ? 90 : -90;
  const border = ring.slice(0, -1).sort((a, b) => a[0] - b[0]);
  return [[lon - 180, edge], [lon - 180, border[0][1]], ...border, [lon + 180, border.at(-1)[1]], [lon + 180, edge], [lon - 180, edge]];
}

export function boxRing([west, south, east, north]) {
  const right = west > east ? east + 360 : east;
  return [[west, south], [right, south], [right, north], [west, north], [west, south]];
}

export function rings(region) {
  if (region.type === "Circle") return [circleRing(region.center, region.radius)];
  if (region.type === "Box") return [boxRing(region.bbox)];
  return region.coordinates;
}

export function outline(region) {
  if (region.type === "MultiPolygon") return { type: "MultiPolygon", coordinates: region.coordinates };
  return { type: "Polygon", coordinates: rings(region) };
}

const polygons = (region) => (region.type === "MultiPolygon" ? region.coordinates : [rings(region)]);

// A polygon, or several, with one more.
export const joined = (some, one) => (some ? { type: "MultiPolygon", coordinates: [...polygons(some), ...polygons(one)] } : one);

export function centre(region) {
  if (region.type === "Circle") return region.center;
  const positions = region.type === "MultiPolygon" ? region.coordinates.flat(2) : rings(region)[0];
  let [west, south, east, north] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y] of positions) {
    west = Math.min(west, x);
    east = Math.max(east, x);
    south = Math.min(south, y);
    north = Math.max(north, y);
  }
  return [(west + east) / 2, (south + north) / 2];
}

// Where a message is shown: at its point, or in the middle of its box.
export const spot = (message) => message.point ?? (message.region ? centre(message.region) : null);

// What a subscription is called: its query, or what one without a query asks for.
export const named = (subscription) => subscription.query ?? "everything";

// What a message has besides its text, as far as it is short.
export function listed(properties) {
  const plain = Object.entries(properties ?? {}).filter(([, value]) => value !== null && typeof value !== "object");
  return plain.slice(0, 4).map(([name, value]) => `${name}: ${value}`).join(" · ");
}

export function describe(region) {
  if (!region) return "anywhere";
  if (region.type === "Circle") {
    const km = region.radius / 1000;
    return `within ${km >= 1 ? `${round(km, 1)} km` : `${Math.round(region.radius)} m`}`;
  }
  return { Box: "in a box", Polygon: "in a polygon", MultiPolygon: "in several polygons" }[region.type];
}

const metres = (value) => (value >= 10_000 ? `${Math.round(value / 1000).toLocaleString()} km` : value >= 1000 ? `${round(value / 1000, 2)} km` : `${Math.round(value)} m`);
const squareMetres = (value) => (value >= 1e7 ? `${Math.round(value / 1e6).toLocaleString()} km²` : value >= 1e5 ? `${round(value / 1e6, 2)} km²` : `${Math.round(value).toLocaleString()} m²`);

// What lies in a ring on the sphere, its sides being straight lines of longitude and latitude.
function ringArea(ring) {
  let sum = 0;
  for (let i = 1; i < ring.length; i++) {
    const [[x1, y1], [x2, y2]] = [ring[i - 1], ring[i]];
    sum += (x2 - x1) * RAD * (Math.sin(y1 * RAD) + Math.sin(y2 * RAD));
  }
  return Math.abs(sum / 2) * EARTH_M ** 2;
}

// How large a region is, in words: a radius or sides, and an area.
export function measured(region) {
  if (Array.isArray(region)) return "";
  if (region.type === "Circle") {
    const area = 2 * Math.PI * EARTH_M ** 2 * (1 - Math.cos(Math.min(Math.PI, region.radius / EARTH_M)));
    return `radius ${metres(region.radius)}, ${squareMetres(area)}`;
  }
  const each = polygons(region);
  const area = squareMetres(each.reduce((sum, [outer]) => sum + ringArea(outer), 0));
  if (region.type === "MultiPolygon") return `${each.length} polygons, ${area}`;
  if (region.type !== "Box") return area;
  const [west, south, east, north] = region.bbox;
  const middle = (south + north) / 2;
  const width = ((west > east ? east + 360 : east) - west) * RAD * EARTH_M * Math.cos(middle * RAD);
  return `${metres(width)} by ${metres((north - south) * RAD * EARTH_M)}, ${area}`;
}

const HINTS = {
  circle: ["Centre and radius: longitude, latitude, metres", "longitude, latitude, metres", "151.21, -33.87, 2000"],
  box: ["Edges: west, south, east, north", "west, south, east, north", "151.19, -33.89, 151.23, -33.85"],
  polygon: ["Corners: longitude latitude, longitude latitude, …; after a semicolon another polygon", "lon lat, lon lat, lon lat", "151.2 -33.9, 151.25 -33.9, 151.22 -33.85"],
  top: ["Near which point: longitude, latitude", "longitude, latitude", "151.21, -33.87"],
};
export const hint = (shape) => HINTS[shape];

// What somebody typed, as a region (or a point for `top`); throws an Error that says what to do.
export function parse(shape, text) {
  const pieces = shape === "polygon" ? text.split(";").filter((piece) => piece.trim()) : [];
  if (pieces.length > 1) return pieces.map((piece) => parse(shape, piece)).reduce((some, one) => joined(some, one));
  const numbers = text.split(/[\s,;]+/).filter(Boolean).map(Number);
  const expected = `write ${HINTS[shape][1]}, such as ${HINTS[shape][2]}`;
  if (!numbers.length) throw new Error(`Draw it on the map, or ${expected}.`);
  if (numbers.some((n) => !Number.isFinite(n))) throw new Error(`Only numbers here: ${expected}.`);
  const count = { circle: 3, box: 4, top: 2 }[shape];
  if (count && numbers.length !== count) throw new Error(`${numbers.length} of ${count} numbers: ${expected}.`);
  const pairs = [];
  for (let i = 0; i + 1 < numbers.length; i += 2) pairs.push([numbers[i], numbers[i + 1]]);
  const places = shape === "circle" ? pairs.slice(0, 1) : pairs;
  for (const [lon, lat] of places) {
    if (Math.abs(lon) > 180) throw new Error(`Longitude ${lon} is outside -180 to 180.`);
    if (Math.abs(lat) > 90) throw new Error(`Latitude ${lat} is outside -90 to 90.`);
  }
  if (shape === "top") return pairs[0];
  if (shape === "circle") {
    if (!(numbers[2] > 0)) throw new Error("The radius is in metres, above 0.");
    return { type: "Circle", center: pairs[0], radius: numbers[2] };
  }
  if (shape === "box") {
    if (numbers[1] > numbers[3]) throw new Error("South is above north: write west, south, east, north.");
    return { type: "Box", bbox: numbers };
  }
  if (numbers.length % 2) throw new Error(`A number is missing: ${expected}.`);
  if (pairs.length < 3) throw new Error(`A polygon has at least three corners: ${expected}.`);
  return { type: "Polygon", coordinates: [[...pairs, pairs[0]]] };
}

export function toText(region) {
  const at = (p) => `${round(p[0], 5)} ${round(p[1], 5)}`;
  if (Array.isArray(region)) return `${round(region[0], 5)}, ${round(region[1], 5)}`;
  if (region.type === "Circle") return `${round(region.center[0], 5)}, ${round(region.center[1], 5)}, ${Math.round(region.radius)}`;
  if (region.type === "Box") return region.bbox.map((n) => round(n, 5)).join(", ");
  return polygons(region).map(([outer]) => outer.slice(0, -1).map(at).join(", ")).join("; ");
}

// A longitude in [-180, 180).
export const wrap = (lon) => ((((lon + 180) % 360) + 360) % 360) - 180;

// Bounds of a view as the API takes them, with some room around.
export function viewBox(bounds, room = 0) {
  const width = (bounds.getEast() - bounds.getWest()) * (1 + 2 * room);
  const dy = (bounds.getNorth() - bounds.getSouth()) * room;
  const south = Math.max(-90, bounds.getSouth() - dy);
  const north = Math.min(90, bounds.getNorth() + dy);
  const middle = (bounds.getEast() + bounds.getWest()) / 2;
  if (width >= 360) return [-180, south, 180, north].map((n) => round(n, 5));
  return [wrap(middle - width / 2), south, wrap(middle + width / 2), north].map((n) => round(n, 5));
}

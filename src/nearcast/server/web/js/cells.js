// The page of a stream on Spark: which worker has which cell, what workers had to do, what moved.

const EVERY_MS = 1000;
const GLOW_MS = 6000;
const dark = matchMedia("(prefers-color-scheme: dark)");
const byId = (id) => document.getElementById(id);
const cells = byId("cells"), loads = byId("loads"), status = byId("status");

let land = [];
let shown = null;
const changed = new Map(); // cell -> when it changed hands

async function loadLand() {
  const { scale, polygons } = await (await fetch("basemap/world.json")).json();
  land = polygons.map((rings) => rings.map((ring) => {
    const points = [];
    let x = 0, y = 0;
    for (let at = 0; at < ring.length; at += 2) {
      x += ring[at];
      y += ring[at + 1];
      points.push([x / scale, y / scale]);
    }
    return points;
  }));
}

function project([west, south, east, north], canvas) {
  const across = canvas.width / (east - west), up = canvas.height / (north - south);
  return (lon, lat) => [(lon - west) * across, canvas.height - (lat - south) * up];
}

function drawCells(told) {
  const [west, south, east, north, columns, rows] = told.grid;
  cells.height = Math.round(Math.min(cells.width, cells.width * (north - south) / (east - west)));
  const pen = cells.getContext("2d");
  pen.fillStyle = dark.matches ? "#0a1220" : "#cfdfea";
  pen.fillRect(0, 0, cells.width, cells.height);
  const at = project(told.grid, cells);
  pen.fillStyle = dark.matches ? "#1a2840" : "#f8f6f1";
  for (const rings of land) {
    pen.beginPath();
    for (const ring of rings) {
      ring.forEach(([lon, lat], number) => pen[number ? "lineTo" : "moveTo"](...at(lon, lat)));
      pen.closePath();
    }
    pen.fill("evenodd");
  }
  const wide = cells.width / columns, high = cells.height / rows;
  told.cells.forEach((workers, cell) => {
    const x = cell % columns * wide, y = cells.height - (Math.floor(cell / columns) + 1) * high;
    workers.forEach((worker, place) => { // those who share a cell have a stripe each
      pen.globalAlpha = 0.55;
      pen.fillStyle = told.colours[worker];
      const part = wide / workers.length;
      pen.fillRect(x + place * part, y, part + 0.5, high + 0.5);
    });
  });
  const now = performance.now();
  for (const [cell, since] of changed) {
    const age = (now - since) / GLOW_MS;
    if (age >= 1) {
      changed.delete(cell);
      continue;
    }
    pen.globalAlpha = 1 - age;
    pen.strokeStyle = "#ff3d2e";
    pen.lineWidth = 3;
    const x = cell % columns * wide, y = cells.height - (Math.floor(cell / columns) + 1) * high;
    pen.strokeRect(x + 1, y + 1, wide - 2, high - 2);
  }
  pen.globalAlpha = 1;
  cells.dataset.changed = String(changed.size);
}

function drawLoads(told) {
  const pen = loads.getContext("2d");
  pen.clearRect(0, 0, loads.width, loads.height);
  const lane = loads.height / told.workers, step = (loads.width - 60) / Math.max(told.batches.length, 1);
  const most = Math.max(...told.batches.flatMap((batch) => batch.loads), 1e-9);
  pen.font = "18px system-ui";
  for (let worker = 0; worker < told.workers; worker++) {
    const floor = (worker + 1) * lane - 3;
    pen.fillStyle = dark.matches ? "#9aa8bf" : "#586275";
    pen.fillText(String(worker), 4, floor);
    pen.fillStyle = told.colours[worker];
    told.batches.forEach((batch, at) => {
      const height = (lane - 6) * (batch.loads[worker] ?? 0) / most;
      pen.fillRect(40 + at * step, floor - height, Math.max(step - 1, 1), height);
    });
  }
}

function write(told) {
  byId("facts").textContent = `plan ${told.plan}, ${told.workers} workers, batch ${told.batch}; `
    + `busiest worker ${told.balance.toFixed(2)} of the average`
    + (told.left ? `; ${told.left} cells are still to change hands` : "");
  byId("legend").textContent = told.kind === "grid"
    ? "A cell in stripes is split by text. Cells that have just changed hands have a red border."
    : "This plan has no cells: start the stream with a partitioner by place or text.";
  byId("quiet").hidden = told.moves.length > 0;
  byId("moves").replaceChildren(...told.moves.map((move) => {
    const item = document.createElement("li");
    item.textContent = `batch ${move.batch}: ${move.cells} cells, ${move.subscriptions} subscriptions, `
      + `${(move.bytes / 1e3).toFixed(1)} kB in ${move.seconds.toFixed(2)} s, plan ${move.plan}`;
    return item;
  }));
}

async function look() {
  try {
    const told = await (await fetch("stream.json")).json();
    if (shown && shown.cells.length === told.cells.length) {
      told.cells.forEach((workers, cell) => {
        if (String(workers) !== String(shown.cells[cell])) changed.set(cell, performance.now());
      });
    }
    shown = told;
    drawCells(told);
    drawLoads(told);
    write(told);
    status.dataset.state = "live";
    status.textContent = told.state;
  } catch (error) {
    status.dataset.state = "lost";
    status.textContent = "no answer; trying again";
  }
  setTimeout(look, EVERY_MS);
}

await loadLand();
look();

// Publishes messages that match from inside the page, and counts what the page does meanwhile.

async function watchFrames({ messages, everyMs, place }) {
  const { map } = nearcast;
  const words = ["rain", "jazz", "pizza", "coffee", "storm", "sale", "books", "yoga"];
  const work = { mapRenders: 0, sourceChanges: 0, lookups: 0, strokes: 0, mostStrokesInAFrame: 0 };
  const frames = [];
  const longTasks = [];
  let updates = 0;
  let inFrame = 0;

  const last = nearcast.subscriptions.look(0);
  nearcast.subscriptions.look = () => {}; // the overview that is asked for every 15 s is not counted
  await last;
  await new Promise((idle) => {
    map.once("idle", idle); // the first picture of labels has its shaders compiled
    map.triggerRepaint();
  });
  map.on("render", () => (work.mapRenders += 1));
  for (const id of ["subs", "cells"]) {
    const source = map.getSource(id);
    for (const name of ["setData", "updateData"]) {
      const change = source[name].bind(source);
      source[name] = (...given) => {
        work.sourceChanges += 1;
        return change(...given);
      };
    }
  }
  const pen = document.getElementById("effects").getContext("2d");
  for (const name of ["stroke", "fill", "fillText"]) {
    const draw = pen[name].bind(pen);
    pen[name] = (...given) => {
      work.strokes += 1;
      inFrame += 1;
      return draw(...given);
    };
  }
  performance.clearResourceTimings();
  const observer = new PerformanceObserver((list) => longTasks.push(...list.getEntries().map((each) => each.duration)));
  observer.observe({ entryTypes: ["longtask"] });

  let going = true;
  const tick = (now) => {
    frames.push(now);
    work.mostStrokesInAFrame = Math.max(work.mostStrokesInAFrame, inFrame);
    inFrame = 0;
    if (going) requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);

  let published = 0;
  const publish = async () => {
    const point = [place[0] + (Math.random() - 0.5) * 0.1, place[1] + (Math.random() - 0.5) * 0.08];
    const body = JSON.stringify({ text: `${words[published++ % words.length]} today`, point });
    const answer = await fetch("v1/messages", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    updates += (await answer.json()).updates;
  };
  const began = performance.now();
  const sent = [];
  await new Promise((done) => {
    const timer = setInterval(() => {
      sent.push(publish());
      if (published >= messages) {
        clearInterval(timer);
        done();
      }
    }, everyMs);
  });
  await Promise.all(sent);
  const seconds = (performance.now() - began) / 1000;
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  going = false;
  observer.disconnect();

  const asked = performance.getEntriesByType("resource").map((each) => new URL(each.name));
  const lookups = asked.filter(({ pathname }) => pathname === "/v1/map/subscriptions");
  work.lookups = lookups.length;
  work.lookedUp = lookups.reduce((sum, { searchParams }) => sum + searchParams.getAll("id").length, 0);
  work.rows = document.querySelectorAll("#matches li").length;
  const gaps = frames.slice(1).map((at, i) => at - frames[i]).sort((a, b) => a - b);
  const at = (share) => Number(gaps[Math.min(gaps.length - 1, Math.floor(share * gaps.length))].toFixed(1));
  return {
    messages, published, updates, seconds,
    framesPerSecond: Number(((frames.length - 1) / ((frames.at(-1) - frames[0]) / 1000)).toFixed(1)),
    frameMs: { median: at(0.5), p95: at(0.95), p99: at(0.99), longest: at(1) },
    framesOver20ms: gaps.filter((gap) => gap > 20).length,
    longTasks: { count: longTasks.length, ms: Math.round(longTasks.reduce((sum, each) => sum + each, 0)) },
    work,
  };
}

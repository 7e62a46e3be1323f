"use strict";
// The timeline: bars on a canvas, moved and zoomed by pointer and keys. Everything else on the page
// is there without a script.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const canvas = document.getElementById("canvas");
  const picked = document.getElementById("picked");
  const range = document.getElementById("range");
  const context = canvas.getContext("2d");
  if (!context) return;

  // Lanes, each with its bars in order: start, end, function, state, task, count.
  const lanes = [];
  const workers = [];
  let place = 0;
  for (const [name, rows] of data.workers) {
    const first = lanes.length;
    for (let at = 0; at < rows.length; at += 1) lanes.push([]);
    rows.forEach((row, lane) => {
      let end = 0;
      let task = 0;
      for (let at = 0; at < row.length; at += 5) {
        const start = end + row[at];
        end = start + row[at + 1];
        task += row[at + 3];
        const bar = {
          start: start * data.unit,
          end: end * data.unit,
          function: Math.floor(row[at + 2] / 3),
          state: row[at + 2] % 3,
          task,
          count: data.several[place] || 1,
          worker: workers.length,
          lane: first + lane,
          more: data.more[row[at + 4]],
        };
        lanes[bar.lane].push(bar);
        for (const by of bar.more) lanes[bar.lane + by].push(bar);
        place += 1;
      }
    });
    for (const bars of lanes.slice(first)) bars.sort((one, two) => one.start - two.start);
    workers.push({ name, first, count: lanes.length - first });
  }

  const VAIN = 1;
  const RUNNING = 2;
  const LABELS = 8; // pixels between the names of workers and the bars
  const AXIS = 36; // pixels of the axis of time
  const MOST = 520; // pixels of all lanes on the screen
  const NARROWEST = Math.max(data.unit * 20, data.span * 1e-7);
  const view = { from: 0, to: data.span, top: 0 };
  let width = 0;
  let left = 0;
  let row = 0; // pixels of a lane
  let shown = 0; // lanes on the screen
  let colours = {};
  let chosen = null;
  let asked = false;
  let only = false; // runs that ended without a value

  const counts = (bar) => !only || bar.state === VAIN;

  const spans = [[1, "s"], [60, "min"], [3600, "h"], [86400, "d"]];
  const steps = { s: [1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20],
    min: [1, 2, 5, 10, 20], h: [0.5, 1, 2, 3, 6, 12], d: [1, 2, 5, 10, 20, 50, 100, 200, 500] };
  const words = { s: "seconds", min: "minutes", h: "hours", d: "days" };

  function text(seconds) {
    if (seconds < 1) return `${+seconds.toPrecision(2)} s`;
    if (seconds < 60) return `${+seconds.toFixed(1)} s`;
    const whole = Math.round(seconds);
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
    const minutes = Math.round(seconds / 60);
    if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
    const hours = Math.round(seconds / 3600);
    return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  }

  function ticks(most) {
    const length = view.to - view.from;
    for (const [size, unit] of spans) {
      for (const step of steps[unit]) {
        if (length / (step * size) <= most) return [step, size, unit];
      }
    }
    return [1000, 86400, "d"];
  }

  // Stripes: what has failed is told from the rest by more than its colour.
  function hatch(colour, gaps) {
    const ratio = window.devicePixelRatio || 1;
    const tile = document.createElement("canvas");
    tile.width = tile.height = Math.round(6 * ratio);
    const pen = tile.getContext("2d");
    pen.scale(tile.width / 6, tile.width / 6);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 6, 6);
    pen.strokeStyle = gaps;
    pen.lineWidth = 1.4;
    for (const at of [-6, 0, 6]) {
      pen.beginPath();
      pen.moveTo(at - 1, 7);
      pen.lineTo(at + 7, -1);
      pen.stroke();
    }
    const pattern = context.createPattern(tile, "repeat");
    pattern.setTransform(new DOMMatrix().scale(6 / tile.width));
    return pattern;
  }

  function paint() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    colours = { text: get("text"), dim: get("dim"), faint: get("faint"), line: get("line"),
      page: get("page"), vain: get("vain"), functions: [] };
    colours.hatch = hatch(colours.vain, colours.page);
    for (let at = 0; at < data.functions.length; at += 1) {
      const colour = data.colours[at];
      colours.functions.push(get(`f${colour === undefined ? data.others : colour}`));
    }
  }

  function measure() {
    width = canvas.clientWidth;
    context.font = "12px system-ui, sans-serif";
    const widest = Math.max(0, ...workers.slice(0, 2000).map((one) => context.measureText(one.name).width));
    left = Math.min(Math.ceil(Math.max(widest, context.measureText("worker").width)), width * 0.3) + LABELS;
    row = Math.max(3, Math.min(16, MOST / Math.max(1, lanes.length)));
    shown = Math.min(lanes.length, Math.floor(MOST / row));
    const height = Math.ceil(shown * row) + AXIS;
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw();
  }

  const x = (seconds) => left + ((seconds - view.from) / (view.to - view.from)) * (width - left);
  const seconds = (at) => view.from + ((at - left) / (width - left)) * (view.to - view.from);

  // The first bar of a lane that ends after a time.
  function search(bars, time) {
    let low = 0;
    let high = bars.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (bars[middle].end < time) low = middle + 1; else high = middle;
    }
    return low;
  }

  // True if the bar stands in the lane below as well.
  const goesOn = (bar, lane) => bar.more.includes(lane + 1 - bar.lane);

  // Far from the start, minutes and seconds are on a clock: 20:45 is easier to read than 1245.
  function clock(seconds, unit) {
    const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
    if (unit === "s") parts.push(+(seconds % 60).toFixed(3));
    return parts.map((part, at) => (at ? String(part).padStart(2, "0") : part)).join(":");
  }

  function drawAxis(bottom) {
    const [step, size, unit] = ticks(Math.max(2, Math.floor((width - left) / 90)));
    const far = (unit === "s" && view.to > 120) || (unit === "min" && view.to > 7200);
    context.textBaseline = "top";
    context.textAlign = "center";
    for (let at = Math.ceil(view.from / (step * size)); at * step * size <= view.to * (1 + 1e-9); at += 1) {
      const place = x(at * step * size);
      context.fillStyle = colours.faint;
      context.fillRect(Math.round(place), 0, 1, bottom);
      context.fillStyle = colours.dim;
      const label = far ? clock(at * step * size, unit) : String(+(at * step).toPrecision(10));
      // Beside the word "worker", and within the page.
      const half = context.measureText(label).width / 2;
      const least = Math.max(left + 8, left - LABELS + 6 + half);
      context.fillText(label, Math.min(Math.max(place, least), width - Math.max(14, half)), bottom + 6);
    }
    context.textAlign = "right";
    const word = far ? (unit === "s" ? "h:min:s" : "h:min") : words[unit];
    context.fillText(`${word} since the start`, width, bottom + 21);
    context.fillText("worker", left - LABELS, bottom + 6);
  }

  // The beginning and the end of a name that is too long, with the width that it has then.
  function shortened(name, room) {
    if (context.measureText(name).width <= room) return name;
    const parts = [...name];
    let half = Math.floor(parts.length / 2);
    let short = "…";
    do {
      half -= 1;
      short = `${parts.slice(0, half).join("").trimEnd()}…${parts.slice(parts.length - half).join("").trimStart()}`;
    } while (half > 1 && context.measureText(short).width > room);
    return short;
  }

  function drawNames() {
    context.textAlign = "right";
    context.textBaseline = "middle";
    let free = -20;
    for (const one of workers) {
      const top = (one.first - view.top) * row;
      const bottom = (one.first + one.count - view.top) * row;
      if (bottom < 0 || top > shown * row) continue;
      context.fillStyle = colours.line;
      if (top > 0 && one.count * row > 5) context.fillRect(left, Math.round(top), width - left, 1);
      const middle = (Math.max(0, top) + Math.min(shown * row, bottom)) / 2;
      if (middle - 7 < free) continue;
      context.fillStyle = colours.dim;
      context.fillText(shortened(one.name, left - LABELS), left - LABELS, middle, left - LABELS);
      free = middle + 7;
    }
  }

  function draw() {
    asked = false;
    const bottom = shown * row;
    context.clearRect(0, 0, width, bottom + AXIS);
    context.font = "12px system-ui, sans-serif";
    drawAxis(bottom);
    context.save();
    context.beginPath();
    context.rect(left, 0, width - left, bottom);
    context.clip();
    const thick = row > 5 ? row - 1 : row * 0.9;
    const last = Math.min(lanes.length, Math.ceil(view.top + shown));
    for (let lane = Math.floor(view.top); lane < last; lane += 1) {
      const bars = lanes[lane];
      const top = (lane - view.top) * row;
      let reached = -1;
      for (let at = search(bars, view.from); at < bars.length && bars[at].start <= view.to; at += 1) {
        const bar = bars[at];
        const start = Math.max(x(bar.start), left - 2);
        const end = Math.max(Math.min(x(bar.end), width + 2), start + 1);
        // What lies within a pixel that is painted already is not seen; what was in vain is.
        if (end <= reached && bar.state !== VAIN) continue;
        context.fillStyle = bar.state === VAIN ? colours.hatch : colours.functions[bar.function];
        context.globalAlpha = counts(bar) ? (bar.state === RUNNING ? 0.5 : 1) : 0.1;
        const gap = end - start > 4 ? 1 : 0;
        context.fillRect(start, top, end - start - gap, goesOn(bar, lane) ? row : thick);
        reached = Math.max(reached, Math.floor(end));
      }
    }
    context.globalAlpha = 1;
    if (chosen) {
      const start = x(chosen.bar.start);
      const end = Math.max(x(chosen.bar.end), start + 3);
      context.lineWidth = 2;
      context.strokeStyle = colours.text;
      // Neighbouring lanes in one frame.
      let top = chosen.bar.lane;
      for (const lane of [top, ...chosen.bar.more.map((by) => chosen.bar.lane + by)]) {
        if (goesOn(chosen.bar, lane)) continue;
        const high = (lane - top) * row + thick;
        context.strokeRect(start - 1, (top - view.top) * row - 1, end - start + 2, high + 2);
        top = lane + 1;
        while (top < lanes.length && !chosen.bar.more.includes(top - chosen.bar.lane)) top += 1;
      }
    }
    context.restore();
    drawNames();
    const seen = workers.filter((one) => one.first < view.top + shown && one.first + one.count > view.top);
    const places = seen.length === 1 ? `Worker ${workers.indexOf(seen[0]) + 1}` : `Workers ${workers.indexOf(seen[0]) + 1} to ${workers.indexOf(seen[seen.length - 1]) + 1}`;
    const part = seen.length && shown < lanes.length ? `${places} of ${workers.length}: the arrows up and down show the others.` : "";
    if (range.textContent !== part) range.textContent = part;
  }

  function request() {
    if (!asked) {
      asked = true;
      requestAnimationFrame(draw);
    }
  }

  function show(from, to) {
    const length = Math.min(Math.max(to - from, NARROWEST), data.span);
    const middle = (from + to) / 2;
    view.from = Math.min(Math.max(middle - length / 2, 0), data.span - length);
    view.to = view.from + length;
    request();
  }

  function zoom(factor, around) {
    const fixed = around === undefined ? (view.from + view.to) / 2 : around;
    show(fixed - (fixed - view.from) * factor, fixed + (view.to - fixed) * factor);
  }

  function scroll(by) {
    view.top = Math.min(Math.max(view.top + by, 0), Math.max(0, lanes.length - shown));
    request();
  }

  const shift = (share) => {
    const by = (view.to - view.from) * share;
    const within = Math.min(Math.max(by, -view.from), data.span - view.to);
    show(view.from + within, view.to + within);
  };

  const doing = {
    in: () => zoom(0.5),
    out: () => zoom(2),
    left: () => shift(-0.25),
    right: () => shift(0.25),
    up: () => scroll(-Math.max(1, Math.floor(shown / 4))),
    down: () => scroll(Math.max(1, Math.floor(shown / 4))),
    all: () => { view.top = 0; show(0, data.span); },
  };

  function describe(bar) {
    const name = data.functions[bar.function] || "(unknown function)";
    const outcome = [" brought a value", " ended without a value", " is running"][bar.state];
    const where = workers[bar.worker].name;
    const start = bar.start < 60 ? text(bar.start) : clock(Math.floor(bar.start), "s");
    const when = `from ${start} on, for ${text(bar.end - bar.start)}`;
    if (bar.count > 1) {
      const vain = bar.state === 1 ? "; some of them brought no value" : "";
      return `${bar.count} runs, mostly of ${name}, on ${where}, ${when}${vain}`;
    }
    return `Task ${bar.task}, ${name}, on ${where}, ${when}:${outcome}`;
  }

  function choose(bar, follow) {
    chosen = bar ? { bar } : null;
    if (bar) {
      picked.textContent = describe(bar);
      if (follow) {
        if (bar.lane < view.top || bar.lane >= view.top + shown) scroll(bar.lane - view.top - Math.floor(shown / 2));
        if (bar.end < view.from || bar.start > view.to) {
          const length = Math.min(view.to - view.from, Math.max((bar.end - bar.start) * 8, NARROWEST));
          const middle = (bar.start + bar.end) / 2;
          show(middle - length / 2, middle + length / 2);
        }
      }
    }
    request();
  }

  function step(by) {
    if (!chosen) {
      for (let lane = Math.ceil(view.top); lane < lanes.length; lane += 1) {
        const bar = lanes[lane].slice(search(lanes[lane], view.from)).find(counts);
        if (bar) return choose(bar, true);
      }
      return;
    }
    let lane = chosen.bar.lane;
    let at = lanes[lane].indexOf(chosen.bar);
    do {
      at += by;
      while (at < 0 || at >= lanes[lane].length) {
        lane += by;
        if (lane < 0 || lane >= lanes.length) return;
        at = by > 0 ? 0 : lanes[lane].length - 1;
      }
      // One that stands in several lanes counts in the first of them.
    } while (lanes[lane][at].lane !== lane || !counts(lanes[lane][at]));
    choose(lanes[lane][at], true);
  }

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const lane = Math.floor((event.clientY - box.top) / row + view.top);
    const at = event.clientX - box.left;
    if (at < left || lane >= lanes.length || event.clientY - box.top >= shown * row) return null;
    const slack = (seconds(1) - seconds(0)) * 2;
    const bars = lanes[lane];
    const bar = bars[search(bars, seconds(at) - slack)];
    return bar && bar.start <= seconds(at) + slack ? bar : null;
  }

  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, top: view.top };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) {
      const bar = under(event);
      if (bar && (!chosen || chosen.bar !== bar)) choose(bar, false);
      return;
    }
    const by = ((held.x - event.clientX) / (width - left)) * (held.to - held.from);
    const within = Math.min(Math.max(by, -held.from), data.span - held.to);
    show(held.from + within, held.to + within);
    if (event.pointerType !== "touch") scroll(held.top + (held.y - event.clientY) / row - view.top);
  });
  const release = (event) => {
    if (held && Math.abs(event.clientX - held.x) < 4) choose(under(event), false);
    held = null;
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", () => { held = null; });
  canvas.addEventListener("dblclick", (event) => {
    zoom(event.shiftKey ? 2.5 : 0.4, seconds(event.clientX - canvas.getBoundingClientRect().left));
  });
  canvas.addEventListener("wheel", (event) => {
    // Without Ctrl the page scrolls, as everywhere else.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(event.deltaY * 0.003), seconds(event.clientX - canvas.getBoundingClientRect().left));
  }, { passive: false });
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right",
    ArrowUp: "up", ArrowDown: "down", 0: "all", Home: "all" };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "n" || event.key === "p") step(event.key === "n" ? 1 : -1);
    else if (keys[event.key]) doing[keys[event.key]]();
    else return;
    event.preventDefault();
  });
  for (const button of document.querySelectorAll("[data-do]")) {
    button.addEventListener("click", () => doing[button.dataset.do]());
    if (button.dataset.do === "up" || button.dataset.do === "down") button.hidden = true;
  }
  const failures = document.getElementById("only");
  failures.addEventListener("change", () => {
    only = failures.checked;
    if (chosen && !counts(chosen.bar)) chosen = null;
    request();
  });
  const find = document.getElementById("find");
  find.addEventListener("change", () => {
    const task = Number(find.value);
    if (!find.value.trim()) return;
    const bar = lanes.flat().reverse().find((one) => one.task === task && one.count === 1 && counts(one));
    if (bar) {
      const length = Math.max((bar.end - bar.start) * 8, NARROWEST);
      show((bar.start + bar.end - length) / 2, (bar.start + bar.end + length) / 2);
      choose(bar, true);
    } else {
      picked.textContent = `No bar of a single run is that of task ${find.value}.`;
    }
  });

  document.querySelector(".interactive").hidden = false;
  document.querySelector(".static").hidden = true;

  // A page that is loaded again shows the same part of the timeline. All of it stays all of it,
  // however long the mission has become.
  window.addEventListener("keepplace", () => {
    const part = view.from > 0 || view.to < data.span ? [view.from, view.to] : null;
    history.replaceState({ ...history.state, part, top: view.top, only }, "");
  });
  const before = history.state || {};
  if (before.part) [view.from, view.to] = before.part.map((at) => Math.min(at, data.span));
  if (view.from >= view.to) Object.assign(view, { from: 0, to: data.span });
  only = failures.checked = Boolean(before.only);
  paint();
  new ResizeObserver(() => { if (canvas.clientWidth !== width) measure(); }).observe(canvas);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { paint(); draw(); });
  measure();
  scroll(before.top || 0);
  if (shown < lanes.length) {
    for (const button of document.querySelectorAll("[data-do=up], [data-do=down]")) button.hidden = false;
  }
  canvas.dataset.bars = String(place);
})();

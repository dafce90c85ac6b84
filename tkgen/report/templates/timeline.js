"use strict";
/* The pipeline to scale. `own` is the timeline's data, `jump` leads to a line of the spec.
   A lane per SIMD: its matrix unit, coloured by the wave it works for, with the gaps in which it starves; its vector
   work; and for each of its waves what it does or waits for, LDS and global memory in flight below. */
function timeline(kernel, own, jump) {
  const figure = kernel.querySelector("[data-picture=time-scale]");
  if (!figure || !own) return;
  const status = kernel.querySelector(".time-status");
  const GUTTER = 112, RIGHT = 14, AXIS = 26;
  const HEIGHT = { unit: 15, vector: 5, wave: 15, flight: 5, gap: 2, lane: 12, label: 15 };
  const [TRACK, KIND, WAVE, START, END, TEXT, LINE, COUNT, BY] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const SVG = "http://www.w3.org/2000/svg";
  const bars = own.bars;
  const cycles = (n) => Math.round(n).toLocaleString("en");
  const waveName = (w) => `${own.names[w % own.waves]}${own.blocks > 1 ? ` of block ${Math.floor(w / own.waves)}` : ""}`;
  const safe = (text) => text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

  /* ---- rows: where each track of each wave lies ---- */
  const rows = [];
  const rowOf = new Map(); /* "MFMA/3" -> row, of wave 3's bars */
  const waves = own.waves * own.blocks;
  const lanes = [];
  let y = AXIS;
  const add = (height, tracks, members, label, look) => {
    const row = { y, height, label, look, bars: [] };
    rows.push(row);
    for (const w of members) for (const t of tracks) rowOf.set(`${t}/${w}`, row);
    y += height + HEIGHT.gap;
    return row;
  };
  for (let simd = 0; simd < own.simds; simd += 1) {
    const members = [];
    for (let w = simd; w < waves; w += own.simds) members.push(w);
    if (!members.length) continue;
    const top = y;
    if (own.units[simd]) {
      add(HEIGHT.unit, ["MFMA", "idle"], members, own.units[simd], "unit");
      add(HEIGHT.vector, ["vector"], members, "", "vector");
    }
    for (const w of members) {
      const row = add(HEIGHT.wave, ["self", "barrier", "wait"], [w], waveName(w), "wave");
      row.wave = w;
      add(HEIGHT.flight, ["LDS"], [w], "", "flight");
      add(HEIGHT.flight, ["memory"], [w], "", "flight");
    }
    lanes.push({ simd, top, bottom: y });
    y += HEIGHT.lane;
  }
  const total = y;
  bars.forEach((bar) => {
    rowOf.get(`${bar[TRACK]}/${bar[WAVE]}`).bars.push(bar);
    if (bar[TRACK] === "MFMA") rowOf.get(`self/${bar[WAVE]}`).bars.push(bar);
  });
  rows.forEach((row) => row.bars.sort((a, b) => a[START] - b[START]));

  /* ---- the view, in cycles ---- */
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "pic time-scale");
  figure.querySelector(".scale").append(svg);
  const tip = figure.querySelector(".tip");
  let view = { from: own.loop[0], to: own.loop[1] };
  let width = 1000;
  let at = null; /* the bar that is pointed at or walked to: {row, bar} */

  const x = (t) => GUTTER + ((t - view.from) / (view.to - view.from)) * (width - GUTTER - RIGHT);
  const cycleAt = (px) => view.from + ((px - GUTTER) / (width - GUTTER - RIGHT)) * (view.to - view.from);

  function draw() {
    width = Math.max(figure.clientWidth, 320);
    svg.setAttribute("viewBox", `0 0 ${width} ${total}`);
    svg.setAttribute("width", width);
    svg.setAttribute("height", total);
    figure.dataset.from = view.from;
    figure.dataset.to = view.to;
    const out = [];
    for (const lane of lanes) {
      out.push(`<rect class="bed" x="${GUTTER}" y="${lane.top - 3}" width="${width - GUTTER - RIGHT}" height="${lane.bottom - lane.top + 2}" rx="4"/>`);
    }
    out.push(axis());
    for (const row of rows) {
      if (row.label) out.push(`<text class="${row.look === "unit" ? "strong" : "small"} end" x="${GUTTER - 8}" y="${row.y + row.height - 4}">${row.label}</text>`);
      out.push(drawn(row));
    }
    out.push(meetings());
    out.push(pointer());
    svg.innerHTML = out.join("");
  }

  function axis() {
    const out = [];
    const span = view.to - view.from;
    const raw = span / Math.max((width - GUTTER) / 90, 2);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = Math.max([1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw), 1);
    const origin = own.loop[0];
    for (let t = Math.ceil((view.from - origin) / step) * step; t + origin <= view.to; t += step) {
      const px = x(t + origin);
      out.push(`<line class="grid" x1="${px}" x2="${px}" y1="${AXIS - 6}" y2="${total - 8}"/><text class="mid tiny muted" x="${px}" y="${AXIS - 10}">${cycles(t)}</text>`);
    }
    out.push(`<text class="end tiny muted" x="${GUTTER - 8}" y="${AXIS - 10}">cycles</text>`);
    own.passes.forEach((t, i) => {
      if (t < view.from - 1 || t > view.to) return;
      const px = x(t);
      out.push(`<line class="pass" x1="${px}" x2="${px}" y1="${AXIS - 8}" y2="${total - 8}"><title>iteration ${i + 1} of the loop</title></line>`);
    });
    return out.join("");
  }

  function look(row, bar) {
    if (row.look === "unit") return bar[TRACK] === "idle" ? "starved" : `w${bar[WAVE] % 8}`;
    return `t-${bar[KIND]}`;
  }

  function drawn(row) {
    const out = [];
    let last = -1;
    for (const bar of row.bars) {
      if (bar[END] < view.from || bar[START] > view.to) continue;
      const left = Math.max(x(bar[START]), GUTTER);
      const right = Math.min(x(bar[END]), width - RIGHT);
      const wide = Math.max(right - left, 0.6);
      if (left + wide - last < 0.4) continue; /* less than the last pixel drawn */
      last = left + wide;
      out.push(`<rect class="bar ${look(row, bar)}" data-bar="${bars.indexOf(bar)}" data-row="${rows.indexOf(row)}" x="${left.toFixed(1)}" y="${row.y}" width="${wide.toFixed(1)}" height="${row.height}"/>`);
      const text = row.height < 12 ? "" : written(row, bar).find((t) => wide > 5.2 * t.length + 6);
      if (text) {
        out.push(`<text class="tiny mid in-bar ${look(row, bar)}-text" x="${((left + right) / 2).toFixed(1)}" y="${row.y + row.height - 4.5}">${safe(text)}</text>`);
      }
    }
    return out.join("");
  }

  /* What may stand in a bar, the longest first. */
  function written(row, bar) {
    const text = own.texts[bar[TEXT]];
    const wave = own.names[bar[WAVE] % own.waves];
    if (row.look === "unit") return bar[TRACK] === "idle" ? [text] : [wave, String(bar[WAVE] % own.waves)];
    if (bar[KIND] === "barrier") {
      const by = bar[BY] % own.waves;
      return bar[BY] >= 0 && bar[BY] !== bar[WAVE] ? [`waits for ${own.names[by]}`, `for ${own.names[by]}`, `for ${by}`] : [];
    }
    if (bar[KIND] === "wait") return [`waits for ${text}`, `for ${text.split(":")[0]}`];
    return [text, text.split(" ")[0]];
  }

  /* Barriers: where the last wave comes, and the waves go on. */
  const released = new Map();
  bars.forEach((bar) => {
    if (bar[KIND] !== "barrier") return;
    const key = `${bar[END]}/${bar[BY]}`;
    if (!released.has(key)) released.set(key, { end: bar[END], by: bar[BY], waiting: [] });
    released.get(key).waiting.push(bar);
  });
  function meetings() {
    const out = [];
    for (const { end, by } of released.values()) {
      if (end < view.from || end > view.to || by < 0) continue;
      const row = rowOf.get(`self/${by}`);
      const px = x(end);
      out.push(`<line class="released" x1="${px}" x2="${px}" y1="${AXIS - 2}" y2="${total - 10}"/>`);
      out.push(`<path class="last" d="M${px - 4} ${row.y + row.height / 2 - 4}l8 4l-8 4z"><title>${waveName(by)} comes last to this barrier</title></path>`);
    }
    return out.join("");
  }

  /* The bar at hand, and where it waits: a line from the wave that comes last. */
  function pointer() {
    if (!at || at.bar[END] < view.from || at.bar[START] > view.to) return "";
    const { row, bar } = at;
    const left = Math.max(x(bar[START]), GUTTER);
    const wide = Math.max(Math.min(x(bar[END]), width - RIGHT) - left, 1);
    let out = `<rect class="at-hand" x="${left - 1}" y="${row.y - 1}" width="${wide + 2}" height="${row.height + 2}" rx="2"/>`;
    if (bar[KIND] === "barrier" && bar[BY] >= 0 && bar[BY] !== bar[WAVE]) {
      const from = rowOf.get(`self/${bar[BY]}`);
      const px = x(bar[END]);
      out += `<path class="because" d="M${px} ${from.y + from.height / 2}V${row.y + row.height / 2}"/><circle class="because-dot" cx="${px}" cy="${from.y + from.height / 2}" r="4"/>`;
    }
    return out;
  }

  /* ---- words ---- */
  function said({ bar }) {
    const length = bar[END] - bar[START];
    const where = `${waveName(bar[WAVE])}${own.blocks > 1 ? "" : ` (${own.roles[bar[WAVE] % own.waves]})`}, ${own.places[bar[WAVE] % own.simds]}`;
    const when = `${cycles(length)} cycles from ${cycles(bar[START] - own.loop[0])}`;
    const text = own.texts[bar[TEXT]];
    if (bar[TRACK] === "idle") return `${own.places[bar[WAVE] % own.simds]}: the matrix unit stands still, ${when}: ${text}`;
    if (bar[KIND] === "barrier") {
      const by = bar[BY];
      return `${where}: at the barrier, ${when}${by < 0 ? "" : by === bar[WAVE] ? "; it comes last" : `; ${waveName(by)} comes last${doing(by, bar)}`}`;
    }
    if (bar[KIND] === "wait") return `${where}: waits for ${text}, ${when}`;
    const many = bar[COUNT] > 1 ? `${bar[COUNT]} instructions, ` : "";
    return `${where}: ${text || "addresses and the like, of no line"}, ${many}${when}`;
  }
  function doing(by, bar) {
    let longest = null;
    let most = 0;
    for (const t of ["self", "LDS", "memory"]) {
      for (const other of rowOf.get(`${t}/${by}`).bars) {
        const overlap = Math.min(other[END], bar[END]) - Math.max(other[START], bar[START]);
        if (overlap > most && other[KIND] !== "barrier") { most = overlap; longest = other; }
      }
    }
    return longest ? `, after ${longest[KIND] === "wait" ? "waiting for " : ""}${own.texts[longest[TEXT]]}` : "";
  }
  function hold(next, walked) {
    at = next;
    status.textContent = at ? said(at) : "";
    tip.hidden = !at || walked;
    if (at) tip.textContent = said(at);
    if (at && walked) {
      const middle = (at.bar[START] + at.bar[END]) / 2;
      if (at.bar[END] < view.from || at.bar[START] > view.to) show(middle - (view.to - view.from) / 2, middle + (view.to - view.from) / 2);
    }
    draw();
  }

  /* ---- moving ---- */
  function show(from, to) {
    const span = Math.min(Math.max(to - from, 40), own.end * 1.02);
    const middle = (from + to) / 2;
    from = Math.min(Math.max(middle - span / 2, -0.01 * own.end), own.end * 1.01 - span);
    view = { from, to: from + span };
    draw();
  }
  const zoomBy = (factor, t) => show(t - (t - view.from) * factor, t + (view.to - t) * factor);
  const middle = () => (at && at.bar[START] >= view.from && at.bar[END] <= view.to ? (at.bar[START] + at.bar[END]) / 2 : (view.from + view.to) / 2);
  const pan = (part) => show(view.from + part * (view.to - view.from), view.to + part * (view.to - view.from));
  const acts = {
    loop: () => show(...own.loop),
    all: () => show(0, own.end),
    in: () => zoomBy(1 / 1.5, middle()),
    out: () => zoomBy(1.5, middle()),
    left: () => pan(-0.25),
    right: () => pan(0.25),
  };
  kernel.querySelectorAll("[data-time]").forEach((b) => b.addEventListener("click", () => acts[b.dataset.time]()));
  figure.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && Math.abs(event.deltaY) >= Math.abs(event.deltaX) && document.activeElement !== figure) return; /* the page scrolls */
    event.preventDefault();
    const px = event.clientX - svg.getBoundingClientRect().left;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(Math.sign(event.deltaX) * 0.05);
    else zoomBy(event.deltaY > 0 ? 1.15 : 1 / 1.15, cycleAt(px));
  }, { passive: false });
  let last = null;
  let dragged = 0;
  svg.addEventListener("pointerdown", (event) => { last = event.clientX; dragged = 0; });
  addEventListener("pointermove", (event) => {
    if (last === null) return;
    const span = view.to - view.from;
    const by = ((event.clientX - last) / (width - GUTTER - RIGHT)) * span;
    dragged += Math.abs(event.clientX - last);
    last = event.clientX;
    if (dragged > 3) show(view.from - by, view.to - by);
  });
  addEventListener("pointerup", () => { last = null; });

  /* ---- pointing ---- */
  const barUnder = (event) => {
    const hit = event.target.closest("[data-bar]");
    return hit ? { row: rows[+hit.dataset.row], bar: bars[+hit.dataset.bar] } : null;
  };
  svg.addEventListener("mousemove", (event) => {
    const found = barUnder(event);
    if (found?.bar !== at?.bar || found?.row !== at?.row) hold(found, false);
    if (!found) return;
    const box = figure.getBoundingClientRect();
    tip.style.left = `${Math.min(event.clientX - box.left + 14, box.width - 320)}px`;
    tip.style.top = `${event.clientY - box.top + 16}px`;
  });
  svg.addEventListener("mouseleave", () => { if (last === null) hold(null, false); });
  svg.addEventListener("click", (event) => {
    const found = barUnder(event);
    if (found && found.bar[LINE] && dragged <= 3) jump(found.bar[LINE]);
  });

  /* ---- keys: arrows walk along a row and between rows; + and - zoom, < and > move, 0 the loop, Home all ---- */
  const near = (row, t) => row.bars.reduce((a, b) => (!a || Math.abs(b[START] - t) < Math.abs(a[START] - t) ? b : a), null);
  figure.addEventListener("keydown", (event) => {
    const sideways = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const across = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const act = { "+": acts.in, "=": acts.in, "-": acts.out, 0: acts.loop, Home: acts.all, "<": acts.left, ",": acts.left, ">": acts.right, ".": acts.right }[event.key];
    if (sideways) {
      const row = at?.row ?? rows[0];
      const i = at ? row.bars.indexOf(at.bar) + sideways : row.bars.findIndex((b) => b[END] > view.from);
      const bar = row.bars[Math.min(Math.max(i, 0), row.bars.length - 1)];
      if (bar) hold({ row, bar }, true);
    } else if (across) {
      let i = at ? rows.indexOf(at.row) + across : 0;
      while (rows[i] && !rows[i].bars.length) i += across;
      if (rows[i]) hold({ row: rows[i], bar: near(rows[i], at ? at.bar[START] : view.from) }, true);
    } else if (event.key === "Enter" && at?.bar[LINE]) jump(at.bar[LINE]);
    else if (event.key === "Escape") hold(null, false);
    else if (act) act();
    else return;
    event.preventDefault();
  });
  new ResizeObserver(() => { if (figure.clientWidth && Math.max(figure.clientWidth, 320) !== width) draw(); }).observe(figure);
  draw();
}

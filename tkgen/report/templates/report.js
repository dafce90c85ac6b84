"use strict";
(() => {
  const all = (root, selector) => Array.from(root.querySelectorAll(selector));
  const data = JSON.parse(document.getElementById("data").textContent);

  /* ---- light and dark: the viewer's choice wins over the system's ---- */
  const root = document.documentElement;
  const remembered = () => { try { return localStorage.getItem("tkgen-theme"); } catch { return null; } };
  if (remembered()) root.dataset.theme = remembered();
  document.querySelector(".theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("tkgen-theme", root.dataset.theme); } catch { /* a file without storage */ }
  });

  /* ---- one kernel at a time ---- */
  const tabs = all(document, ".kernels [role=tab]");
  const show = (index, focus) => {
    tabs.forEach((tab, i) => {
      tab.setAttribute("aria-selected", String(i === index));
      tab.tabIndex = i === index ? 0 : -1;
      document.getElementById("k" + i).hidden = i !== index;
    });
    if (focus) tabs[index].focus();
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => show(i));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) { event.preventDefault(); show((i + step + tabs.length) % tabs.length, true); }
    });
  });
  const fromHash = () => {
    const found = /^#k(\d+)/.exec(location.hash);
    if (found && tabs[+found[1]]) { show(+found[1]); document.querySelector(location.hash)?.scrollIntoView(); }
  };
  addEventListener("hashchange", fromHash);
  fromHash();

  all(document, ".kernel").forEach((kernel) => {
    contents(kernel);
    const hold = texts(kernel);
    waves(kernel);
    operations(kernel, hold);
    zoom(kernel.querySelector(".zoom"));
    order(kernel, data[+kernel.dataset.kernel].order);
    views(kernel);
    timeline(kernel, data[+kernel.dataset.kernel].time, hold);
  });

  /* ---- table of contents: which section is in view ---- */
  function contents(kernel) {
    const links = all(kernel, ".toc a");
    const seen = new Map();
    const watch = new IntersectionObserver((entries) => {
      entries.forEach((e) => seen.set(e.target.id, e.isIntersecting));
      const first = links.find((a) => seen.get(a.hash.slice(1)));
      if (first) links.forEach((a) => a.setAttribute("aria-current", String(a === first)));
    }, { rootMargin: "-70px 0px -55% 0px" });
    all(kernel, "section").forEach((s) => watch.observe(s));
  }

  /* ---- spec, C++ and machine code, linked line by line ---- */
  function texts(kernel) {
    const box = kernel.querySelector(".panes");
    const status = kernel.querySelector(".status");
    const rows = { spec: [], cpp: [], isa: [] };
    const panes = Object.fromEntries(all(box, ".pane").map((p) => [p.dataset.pane, p]));
    /* rows by pane and by the spec or C++ lines they belong to: "cpp/spec/14" */
    const index = new Map();
    const words = (text) => (text ? text.split(" ") : []);
    Object.entries(panes).forEach(([name, pane]) => {
      rows[name] = all(pane, ".row");
      for (const row of rows[name]) {
        for (const key of ["spec", "cpp"]) {
          for (const value of words(row.dataset[key])) {
            const at = `${name}/${key}/${value}`;
            if (index.has(at)) index.get(at).push(row); else index.set(at, [row]);
          }
        }
      }
    });
    let held = null;
    let lit = [];

    const linked = (row) => {
      const pane = row.closest(".pane").dataset.pane;
      const by = (name, key) => Array.from(new Set(words(row.dataset[key]).flatMap((v) => index.get(`${name}/${key}/${v}`) || [])));
      if (pane === "spec") return { spec: [row], cpp: by("cpp", "spec"), isa: by("isa", "spec") };
      if (pane === "cpp") return { spec: by("spec", "spec"), cpp: [row], isa: by("isa", "cpp") };
      return { spec: by("spec", "spec"), cpp: by("cpp", "cpp"), isa: [row] };
    };
    const inView = (row, pane) => row.offsetTop >= pane.scrollTop && row.offsetTop < pane.scrollTop + pane.clientHeight - 20;
    const light = (row) => {
      lit.forEach((r) => { r.classList.remove("hit"); r.setAttribute("aria-selected", "false"); });
      lit = [];
      if (!row) { status.textContent = ""; return; }
      const here = row.closest(".pane").dataset.pane;
      const found = linked(row);
      for (const [name, hits] of Object.entries(found)) {
        hits.forEach((r) => { r.classList.add("hit"); r.setAttribute("aria-selected", "true"); });
        lit.push(...hits);
        const seen = hits.filter((r) => r.offsetParent);
        if (name !== here && seen.length && !seen.some((r) => inView(r, panes[name]))) {
          panes[name].scrollTop = seen[0].offsetTop - panes[name].clientHeight / 3;
        }
      }
      status.textContent = summary(found);
    };
    const summary = (found) => {
      const kinds = new Map();
      found.isa.forEach((r) => kinds.set(r.dataset.kind, (kinds.get(r.dataset.kind) || 0) + 1));
      const mix = Array.from(kinds).sort((a, b) => b[1] - a[1]).map(([kind, n]) => `${n} ${kind}`).join(", ");
      const many = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
      const lines = found.spec.map((r) => r.querySelector("i").textContent);
      const spec = lines.length ? `spec line${lines.length > 1 ? "s" : ""} ${lines.join(", ")}` : "no line of the spec";
      return `${spec}, ${many(found.cpp.length, "C++ line")}` + (panes.isa ? `, ${many(found.isa.length, "instruction")}${mix ? ": " + mix : ""}` : "");
    };
    const keep = (row) => {
      held = row;
      box.classList.toggle("held", !!row);
      light(row);
    };
    box.addEventListener("mouseover", (event) => {
      const row = event.target.closest(".row");
      if (!held && row) light(row);
    });
    box.addEventListener("mouseleave", () => { if (!held) light(null); });
    box.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) keep(held === row ? null : row);
    });
    Object.entries(panes).forEach(([name, pane]) => {
      let at = -1;
      pane.addEventListener("keydown", (event) => {
        const visible = rows[name].filter((r) => r.offsetParent);
        const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];
        if (step) {
          event.preventDefault();
          rows[name][at]?.classList.remove("at");
          const from = Math.max(visible.indexOf(rows[name][at]), at < 0 ? -1 : 0);
          const row = visible[Math.min(Math.max(from + step, 0), visible.length - 1)];
          at = rows[name].indexOf(row);
          row.classList.add("at");
          pane.setAttribute("aria-activedescendant", row.id);
          if (!inView(row, pane)) pane.scrollTop = row.offsetTop - pane.clientHeight / 2;
          if (!held) light(row);
        } else if (event.key === "Enter" && at >= 0) {
          keep(held === rows[name][at] ? null : rows[name][at]);
        } else if (event.key === "Escape") {
          keep(null);
        }
      });
    });
    kernel.querySelector(".loop-only")?.addEventListener("change", (event) => box.classList.toggle("only-loop", event.target.checked));
    const jump = (line) => {
      const row = rows.spec[line - 1];
      if (!row) return;
      keep(row);
      panes.spec.scrollTop = row.offsetTop - panes.spec.clientHeight / 3;
      box.closest("section").scrollIntoView();
    };
    all(kernel, ".goto").forEach((b) => b.addEventListener("click", () => jump(+b.dataset.line)));
    return jump;
  }

  /* ---- the pipeline's two views ---- */
  function views(kernel) {
    const own = all(kernel, ".views [role=tab]");
    const open = (index, focus) => {
      own.forEach((tab, i) => {
        tab.setAttribute("aria-selected", String(i === index));
        tab.tabIndex = i === index ? 0 : -1;
        document.getElementById(tab.getAttribute("aria-controls")).hidden = i !== index;
      });
      if (focus) own[index].focus();
    };
    own.forEach((tab, i) => {
      tab.addEventListener("click", () => open(i));
      tab.addEventListener("keydown", (event) => {
        if (event.key === "ArrowRight" || event.key === "ArrowLeft") { event.preventDefault(); open((i + 1) % own.length, true); }
      });
    });
  }

  /* ---- ownership: one wave's tiles ---- */
  function waves(kernel) {
    const picture = kernel.querySelector("[data-picture=ownership]");
    const buttons = all(kernel, ".waves button");
    let held = null;
    const light = (wave) => {
      picture.classList.toggle("one-wave", wave !== null);
      all(picture, ".own").forEach((g) => g.classList.toggle("lit", g.dataset.wave === wave));
    };
    buttons.forEach((button) => {
      button.addEventListener("mouseenter", () => light(button.dataset.wave));
      button.addEventListener("mouseleave", () => light(held));
      button.addEventListener("click", () => {
        held = held === button.dataset.wave ? null : button.dataset.wave;
        buttons.forEach((b) => b.setAttribute("aria-pressed", String(b.dataset.wave === held)));
        light(held);
      });
    });
    picture.addEventListener("mouseover", (event) => light(event.target.closest(".own")?.dataset.wave ?? held));
    picture.addEventListener("mouseleave", () => light(held));
  }

  /* ---- pipeline and dataflow: an operation and its dependencies ---- */
  function operations(kernel, jump) {
    const lanes = kernel.querySelector("[data-picture=pipeline]");
    const places = [lanes, kernel.querySelector("[data-picture=dataflow]")];
    const table = all(kernel, ".links tbody tr");
    const light = (wanted) => {
      const links = table.filter(wanted || (() => false));
      const nodes = new Set(links.flatMap((r) => [r.dataset.source, r.dataset.target]));
      table.forEach((r) => r.classList.toggle("hit", links.includes(r)));
      places.forEach((place) => {
        place.classList.toggle("focus", !!wanted);
        all(place, ".link").forEach((g) => {
          const { source, target, link } = g.dataset;
          g.classList.toggle("lit", links.some((r) => (link ? r.dataset.link === link : r.dataset.source === source && r.dataset.target === target)));
        });
        all(place, ".op, .node").forEach((g) => g.classList.toggle("lit", nodes.has(g.dataset.node)));
      });
    };
    const touches = (node) => (r) => r.dataset.source === node || r.dataset.target === node;
    places.forEach((place) => {
      place.addEventListener("mouseover", (event) => {
        const node = event.target.closest("[data-node]");
        const link = event.target.closest(".link");
        if (node) light(touches(node.dataset.node));
        else if (link) light((r) => r.dataset.source === link.dataset.source && r.dataset.target === link.dataset.target);
        else light(null);
      });
      place.addEventListener("mouseleave", () => light(null));
      place.addEventListener("click", (event) => {
        const op = event.target.closest("[data-line]");
        if (op && !place.classList.contains("drag")) jump(+op.dataset.line);
      });
    });
    /* the same by keyboard: the arrows walk through the operations of the lanes */
    const status = kernel.querySelector(".op-status");
    const ops = all(lanes, ".op[data-node]");
    let at = -1;
    const walk = (to) => {
      ops[at]?.classList.remove("at");
      at = to;
      const op = ops[at];
      op?.classList.add("at");
      light(op ? touches(op.dataset.node) : null);
      status.textContent = op?.querySelector("title").textContent ?? "";
      if (!op) return;
      const box = op.getBoundingClientRect();
      const frame = lanes.getBoundingClientRect();
      if (box.left < frame.left || box.right > frame.right) lanes.scrollLeft += box.left - frame.left - frame.width / 3;
    };
    lanes.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) walk(Math.min(Math.max(at + step, 0), ops.length - 1));
      else if (event.key === "Enter" && ops[at]?.dataset.line) jump(+ops[at].dataset.line);
      else if (event.key === "Escape") walk(-1);
      else return;
      event.preventDefault();
    });
    table.forEach((row) => {
      row.addEventListener("mouseenter", () => light((r) => r === row));
      row.addEventListener("mouseleave", () => light(null));
    });
    kernel.querySelector(".inner-links").addEventListener("change", (event) => lanes.classList.toggle("all", event.target.checked));
    kernel.querySelector(".to-loop").addEventListener("click", () => {
      const first = lanes.querySelector("[data-segment=steady]");
      if (first) lanes.scrollLeft += first.getBoundingClientRect().left - lanes.getBoundingClientRect().left - 60;
    });
    kernel.querySelector(".fit").addEventListener("change", (event) => lanes.classList.toggle("fitted", event.target.checked));
  }

  /* ---- zoom: wheel and drag, keys and buttons ---- */
  function zoom(box) {
    const svg = box.querySelector("svg");
    const whole = svg.viewBox.baseVal;
    const full = { x: whole.x, y: whole.y, w: whole.width, h: whole.height };
    let view = { ...full };
    svg.removeAttribute("width");
    svg.removeAttribute("height");
    box.style.aspectRatio = `${full.w} / ${full.h}`;
    const draw = () => svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
    const scale = (factor, at) => {
      const w = Math.min(Math.max(view.w * factor, full.w / 12), full.w * 2);
      const k = w / view.w;
      view = { x: at.x - (at.x - view.x) * k, y: at.y - (at.y - view.y) * k, w, h: view.h * k };
      draw();
    };
    const centre = () => ({ x: view.x + view.w / 2, y: view.y + view.h / 2 });
    const point = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const move = (dx, dy) => { view.x += dx; view.y += dy; draw(); };
    const reset = () => { view = { ...full }; draw(); };
    box.addEventListener("wheel", (event) => { event.preventDefault(); scale(event.deltaY > 0 ? 1.15 : 1 / 1.15, point(event)); }, { passive: false });
    let last = null;
    let travelled = 0;
    box.addEventListener("pointerdown", (event) => { last = event; travelled = 0; });
    addEventListener("pointermove", (event) => {
      if (!last) return;
      const k = svg.getScreenCTM().a;
      const dx = (event.clientX - last.clientX) / k;
      const dy = (event.clientY - last.clientY) / k;
      travelled += Math.abs(dx) + Math.abs(dy);
      if (travelled > 4) box.classList.add("drag");
      move(-dx, -dy);
      last = event;
    });
    addEventListener("pointerup", () => { last = null; setTimeout(() => box.classList.remove("drag"), 0); });
    box.addEventListener("keydown", (event) => {
      const step = view.w / 12;
      const act = {
        "+": () => scale(1 / 1.25, centre()), "=": () => scale(1 / 1.25, centre()), "-": () => scale(1.25, centre()), 0: reset,
        ArrowLeft: () => move(-step, 0), ArrowRight: () => move(step, 0), ArrowUp: () => move(0, -step), ArrowDown: () => move(0, step),
      }[event.key];
      if (act) { event.preventDefault(); act(); }
    });
    const actions = { in: () => scale(1 / 1.25, centre()), out: () => scale(1.25, centre()), reset };
    all(box.parentElement, "[data-zoom]").forEach((b) => b.addEventListener("click", actions[b.dataset.zoom]));
  }

  /* ---- block order: which tiles run at the same time ---- */
  function order(kernel, own) {
    const slider = kernel.querySelector(".time");
    if (!slider) return;
    const paths = all(kernel, "[data-picture=order] .window");
    const draw = () => {
      const from = +slider.value;
      const tiles = own.sequence.slice(from, from + own.concurrent);
      const inside = new Set(tiles);
      paths.forEach((path) => {
        const { left, top, unit } = path.dataset;
        const d = tiles.map((tile) => {
          const col = tile % own.cols;
          const x = +left + col * unit;
          const y = +top + Math.floor(tile / own.cols) * unit;
          const edges = [];
          if (!inside.has(tile - own.cols)) edges.push(`M${x} ${y}h${unit}`);
          if (!inside.has(tile + own.cols)) edges.push(`M${x} ${y + +unit}h${unit}`);
          if (col === 0 || !inside.has(tile - 1)) edges.push(`M${x} ${y}v${unit}`);
          if (col === own.cols - 1 || !inside.has(tile + 1)) edges.push(`M${x + +unit} ${y}v${unit}`);
          return edges.join("");
        });
        path.setAttribute("d", d.join(""));
      });
      slider.parentElement.querySelector("output").textContent = `${from + 1} to ${from + tiles.length} of ${own.sequence.length}`;
    };
    slider.addEventListener("input", draw);
    draw();
  }
})();

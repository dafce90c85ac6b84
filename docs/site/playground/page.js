// The page of the playground: an editor, and what the worker answers while one types.
document.getElementById("playground").innerHTML = `
  <div class="playground-bar">
    <label>Example <select id="playground-example"></select></label>
    <label>Target
      <select id="playground-target"><option value="">as the spec says</option></select>
    </label>
    <button type="button" id="playground-link">Link to this spec</button>
    <span id="playground-status" role="status"></span>
  </div>
  <textarea id="playground-editor" aria-label="Spec" spellcheck="false" autocapitalize="off"></textarea>
  <div>
    <div id="playground-tabs" role="tablist" aria-label="Views"></div>
    <div id="playground-output" aria-live="polite"></div>
  </div>`;

const here = (name) => document.getElementById(`playground-${name}`);
const [editor, example, target, status, output] = ["editor", "example", "target", "status", "output"].map(here);
const PAUSE = 250; // milliseconds without a keystroke before the spec is checked
const VIEWS = {
  diagnostics: "Diagnostics",
  equations: "Equations",
  dataflow: "Dataflow",
  schedule: "Schedule",
  source: "C++",
};

let view = "diagnostics";
let found = null;
let number = 0;
let name = "playground.tk";
let notice = ""; // of the link, until the next keystroke
let timer;

const say = (text) => (status.textContent = text);

function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// ---------------------------------------------------------------- links that carry a spec

async function through(stream, bytes) {
  const whole = new Response(new Blob([bytes]).stream().pipeThrough(stream));
  return new Uint8Array(await whole.arrayBuffer());
}

async function packed(text) {
  const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(text));
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

async function unpacked(text) {
  const letters = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  return new TextDecoder().decode(await through(new DecompressionStream("deflate-raw"), bytes));
}

async function link() {
  const values = new URLSearchParams({spec: await packed(editor.value)});
  if (target.value) values.set("target", target.value);
  history.replaceState(null, "", `#${values}`);
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link is copied; it carries the spec.");
  } catch {
    say("The address of this page now carries the spec.");
  }
}

// ---------------------------------------------------------------- views

function show() {
  output.replaceChildren(...(found ? parts[view](found) : []));
  for (const tab of document.querySelectorAll("#playground [role=tab]")) {
    tab.setAttribute("aria-selected", String(tab.dataset.view === view));
  }
}

const none = (what) => [element("p", what, {class: "playground-none"})];
const listing = (text, missing) => (text ? [element("pre", text)] : none(missing));

const parts = {
  diagnostics({diagnostics, proven}) {
    const verdict = proven ? "Proven: barriers, waits and results are right under every order of the waves." : "";
    return [
      ...(proven ? [element("p", verdict, {class: "playground-proven"})] : []),
      ...diagnostics.map((each) => {
        const box = element("div", "", {class: `playground-${each.severity}`});
        const text = element("pre", each.rendered);
        if (each.primary) text.addEventListener("click", () => select(each.primary));
        box.append(text);
        if (each.fixed !== null) {
          const fix = element("button", `Fix: ${each.fix.text}`, {type: "button"});
          fix.addEventListener("click", () => put(each.fixed));
          box.append(fix);
        }
        return box;
      }),
    ];
  },
  equations: ({kernels}) => listing(kernels.map((kernel) => kernel.equations).join("\n"), "The spec has errors."),
  dataflow: ({kernels}) =>
    kernels.length
      ? kernels.map((kernel) => {
          const file = new Blob([kernel.picture], {type: "image/svg+xml"});
          return element("img", "", {src: URL.createObjectURL(file), alt: `Dataflow of ${kernel.name}`});
        })
      : none("The spec has errors."),
  schedule: ({schedule}) => listing(schedule, "A spec with errors has no schedule."),
  source({highlighted}) {
    if (!highlighted) return none("No code is generated until the spec is proven.");
    const box = element("div", "", {class: "highlight"});
    const code = element("code", "");
    code.innerHTML = highlighted; // escaped by Pygments
    const block = element("pre", "");
    block.append(code);
    box.append(block);
    return [box];
  },
};

// Offsets of diagnostics count characters, those of a text area UTF-16 units.
const units = (count) => Array.from(editor.value).slice(0, count).join("").length;

function select({offset, end_offset}) {
  editor.focus();
  editor.setSelectionRange(units(offset), units(end_offset));
}

// ---------------------------------------------------------------- checking

function put(text) {
  editor.value = text;
  check();
}

function check() {
  number += 1;
  say("Checking ...");
  worker.postMessage({number, text: editor.value, name, target: target.value});
}

function answered({data}) {
  if (data.broken) return say(`The playground cannot start: ${data.broken}`);
  if (data.number !== number) return; // an older text
  if (data.failure) return say(`tkgen failed, which is a bug of it: ${data.failure}`);
  found = data.found;
  const [errors, warnings] = ["error", "warning"].map(
    (kind) => found.diagnostics.filter((each) => each.severity === kind).length,
  );
  const counted = `${errors} error${errors === 1 ? "" : "s"}, ${warnings} warning${warnings === 1 ? "" : "s"}`;
  say(`${notice}${found.target || "no target"}: ${counted}`);
  show();
}

let worker;

async function begin() {
  const tabs = here("tabs");
  for (const [key, title] of Object.entries(VIEWS)) {
    const tab = element("button", title, {type: "button", role: "tab", "data-view": key});
    tab.addEventListener("click", () => ((view = key), show()));
    tabs.append(tab);
  }
  if (location.protocol === "file:") {
    return say("Browsers run no workers in pages opened as files: serve the site, `python -m http.server -d site`.");
  }
  const list = await fetch(new URL("./examples.json", import.meta.url));
  if (!list.ok) {
    return say("This copy of the site was built without the playground: `make docs` with npm installed adds it.");
  }
  const {examples, opened, targets} = await list.json();
  for (const each of targets) target.append(element("option", each, {value: each}));
  for (const [folder, specs] of Object.entries(examples)) {
    const group = element("optgroup", "", {label: folder});
    for (const path of Object.keys(specs)) {
      group.append(element("option", path.split("/").pop().replace(".tk", ""), {value: path}));
    }
    example.append(group);
  }
  const all = Object.assign({}, ...Object.values(examples));
  const open = (path) => ((name = path), (editor.value = all[path]));
  const carried = new URLSearchParams(location.hash.slice(1));
  if (carried.has("spec")) {
    try {
      editor.value = await unpacked(carried.get("spec"));
    } catch {
      notice = "The link is incomplete, so this is an example. ";
      open(opened);
      example.value = name;
    }
  } else {
    open(all[carried.get("example")] ? carried.get("example") : opened);
    example.value = name;
  }
  target.value = targets.includes(carried.get("target")) ? carried.get("target") : "";
  example.addEventListener("change", () => (open(example.value), check()));
  target.addEventListener("change", check);
  here("link").addEventListener("click", link);
  addEventListener("hashchange", () => location.reload()); // another link, in the same tab
  editor.addEventListener("input", () => {
    notice = "";
    clearTimeout(timer);
    timer = setTimeout(check, PAUSE);
  });
  worker = new Worker(new URL("./worker.js", import.meta.url), {type: "module"});
  worker.addEventListener("message", answered);
  worker.addEventListener("error", (event) => say(`The playground cannot start: ${event.message}`));
  check();
  say("Loading Python and tkgen (16 MB, once) ...");
}

begin();

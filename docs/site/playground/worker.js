// Runs tkgen in a worker: Python compiled to WebAssembly, with the packages that the base install needs.
// It receives {number, text, name, target} and answers with {number, found} or {number, failure};
// {broken} says that it could not start.
import {loadPyodide} from "./pyodide/pyodide.mjs";

const PACKAGES = "/lib/packages";

async function start() {
  const [python, packages] = await Promise.all([
    loadPyodide({indexURL: new URL("./pyodide/", import.meta.url).href}),
    fetch(new URL("./packages.zip", import.meta.url)).then((answer) => answer.arrayBuffer()),
  ]);
  python.unpackArchive(packages, "zip", {extractDir: PACKAGES});
  return python.runPython(`
import json, os, sys
sys.path.insert(0, "${PACKAGES}")
os.chdir("${PACKAGES}")  # examples include files beside them
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer
from tkgen.overview import overview

def answer(text, name, target):
    found = overview(text, name, target or None)
    found["highlighted"] = highlight(found["source"], CppLexer(), HtmlFormatter(nowrap=True))
    return json.dumps(found)
answer`);
}

// The last line of a Python traceback names the exception.
const reason = (error) => String(error.message ?? error).trim().split("\n").pop();

const ready = start().catch((error) => {
  postMessage({broken: reason(error)});
});

onmessage = async ({data: {number, text, name, target}}) => {
  const answer = await ready;
  if (!answer) return;
  try {
    postMessage({number, found: JSON.parse(answer(text, name, target))});
  } catch (error) {
    postMessage({number, failure: reason(error)});
  }
};

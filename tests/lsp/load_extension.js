// Loads the bundled extension with a stand-in for the editor's API and prints what it exports.

const Module = require("module");

const stub = new Proxy(class {}, {
  get: (target, key) => (key === "prototype" ? target.prototype : stub),
  apply: () => stub,
});
const load = Module._load;
Module._load = (name, ...rest) => (name === "vscode" ? stub : load(name, ...rest));
console.log(Object.keys(require(process.argv[2])).join("\n"));

// Activates the extension with a language client that cannot start, once for each way it says so; prints what users see.

const Module = require("module");

let reason;
const vscode = {
  commands: { registerCommand: () => ({}) },
  window: { showErrorMessage: (text) => console.log(text) },
  workspace: {
    getConfiguration: () => ({ get: () => ["tkgen", "lsp"] }),
    createFileSystemWatcher: () => ({}),
    onDidChangeConfiguration: () => ({}),
  },
};
class LanguageClient {
  start() {
    return Promise.reject(reason);
  }
}
const load = Module._load;
Module._load = (name, ...rest) =>
  name === "vscode" ? vscode : name === "vscode-languageclient/node" ? { LanguageClient } : load(name, ...rest);
const { activate } = require(process.argv[2]);
(async () => {
  for (reason of [new Error("it ended"), "Launching server using command tkgen failed."]) {
    await activate({ subscriptions: [] });
  }
})();

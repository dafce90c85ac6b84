// Starts `tkgen lsp` and connects the editor to it. Everything the extension knows, it asks the server.

const { commands, window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function settings() {
  const given = workspace.getConfiguration("tkgen");
  return { target: given.get("target"), includeRoots: given.get("includeRoots") };
}

async function start() {
  const [command, ...args] = workspace.getConfiguration("tkgen").get("command");
  client = new LanguageClient(
    "tkgen",
    "tkgen",
    { command, args },
    {
      documentSelector: [{ language: "tk" }],
      initializationOptions: settings(),
      synchronize: { fileEvents: workspace.createFileSystemWatcher("**/*.tk") },
    },
  );
  try {
    await client.start();
  } catch (error) {
    // The client rejects with an Error, or with a sentence where the command could not be spawned.
    const reason = String(error?.message ?? error).replace(/\.$/, "");
    window.showErrorMessage(
      `The language server did not start: ${reason}. ` +
        "Install it with `pip install '.[lsp]'` in a checkout of tkgen, or set `tkgen.command` to where it is.",
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running?.isRunning()) {
    await running.stop();
  }
}

async function activate(context) {
  context.subscriptions.push(
    commands.registerCommand("tkgen.restart", async () => {
      await stop();
      await start();
    }),
    workspace.onDidChangeConfiguration(async (change) => {
      if (change.affectsConfiguration("tkgen.command")) {
        await stop();
        await start();
      } else if (change.affectsConfiguration("tkgen") && client?.isRunning()) {
        await client.sendNotification("workspace/didChangeConfiguration", { settings: { tkgen: settings() } });
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };

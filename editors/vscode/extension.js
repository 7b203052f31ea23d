// Starts `clinker lsp` for the YAML files of a window, and ends it with the window.
const { workspace, window } = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

let client;

async function activate() {
  const settings = workspace.getConfiguration("clinker");
  const server = {
    command: settings.get("command"),
    args: ["lsp", ...settings.get("arguments")],
    transport: TransportKind.stdio,
  };
  client = new LanguageClient("clinker", "Clinker", server, {
    documentSelector: [{ scheme: "file", language: "yaml" }],
  });
  try {
    await client.start();
  } catch (problem) {
    client = undefined;
    window.showWarningMessage(
      `'${server.command} lsp' does not start: ${problem.message}. Install it with pip install 'clinker-spark[lsp]', ` +
        "or set clinker.command to its path.",
    );
  }
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };

// extension.js - starts `tilec lsp` for the files of the tile language.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function activate() {
  const settings = workspace.getConfiguration("tilec");
  const folders = settings.get("include", []).flatMap((folder) => ["-I", folder]);
  client = new LanguageClient(
    "tilec",
    "tilec",
    { command: settings.get("path", "tilec"), args: ["lsp", ...folders] },
    { documentSelector: [{ language: "tile" }] },
  );
  return client.start();
}

function deactivate() {
  return client ? client.stop() : undefined;
}

module.exports = { activate, deactivate };

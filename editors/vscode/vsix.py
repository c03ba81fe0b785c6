#!/usr/bin/env python3
"""vsix.py - makes the extension of this folder: a file that Visual Studio Code installs.

    vsix.py tilec.vsix      then  code --install-extension tilec.vsix

The client's library must be in node_modules; where it is not, npm brings it.  The same files make the same bytes.
"""
import json
import os
import subprocess
import sys
import zipfile
from xml.sax.saxutils import escape, quoteattr

HERE = os.path.dirname(os.path.abspath(__file__))
OWN = ["package.json", "extension.js", "language-configuration.json", "syntaxes/tile.tmLanguage.json"]
TYPES = {"json": "application/json", "js": "application/javascript", "vsixmanifest": "text/xml", "txt": "text/plain", "md": "text/markdown"}


def manifest(package):
    return f"""<?xml version="1.0" encoding="utf-8"?>
<PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011">
  <Metadata>
    <Identity Language="en-US" Id={quoteattr(package["name"])} Version={quoteattr(package["version"])} Publisher={quoteattr(package["publisher"])}/>
    <DisplayName>{escape(package["displayName"])}</DisplayName>
    <Description xml:space="preserve">{escape(package["description"])}</Description>
    <Categories>{escape(",".join(package["categories"]))}</Categories>
    <License>extension/LICENSE.txt</License>
    <Properties>
      <Property Id="Microsoft.VisualStudio.Code.Engine" Value={quoteattr(package["engines"]["vscode"])}/>
    </Properties>
  </Metadata>
  <Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
  <Dependencies/>
  <Assets><Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json" Addressable="true"/></Assets>
</PackageManifest>
"""


def content_types(names):
    endings = sorted({name.rsplit(".", 1)[-1].lower() for name in names if "." in os.path.basename(name)})
    rows = "".join(f'<Default Extension={quoteattr("." + e)} ContentType="{TYPES.get(e, "application/octet-stream")}"/>' for e in endings)
    return f'<?xml version="1.0" encoding="utf-8"?>\n<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">{rows}</Types>\n'


def modules(package):
    """Files of the libraries, by their names in the extension."""
    folder = os.path.join(HERE, "node_modules")
    if not all(os.path.isdir(os.path.join(folder, name)) for name in package["dependencies"]):
        try:
            subprocess.run(["npm", "install", "--omit=dev", "--no-audit", "--no-fund", "--no-package-lock"], cwd=HERE, check=True)
        except FileNotFoundError:
            sys.exit("vsix.py: node_modules has no vscode-languageclient, and there is no npm to bring it")
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(root, name)
            if not path.endswith((".map", ".ts")) and "/.bin/" not in path:
                yield os.path.relpath(path, HERE).replace(os.sep, "/"), path


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    with open(os.path.join(HERE, "package.json"), encoding="utf-8") as file:
        package = json.load(file)
    files = [(name, os.path.join(HERE, name)) for name in OWN] + list(modules(package))
    licence = os.path.join(HERE, "..", "..", "LICENSE")
    if os.path.isfile(licence):
        files.append(("LICENSE.txt", licence))
    with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as out:
        def add(name, data):
            out.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, zipfile.ZIP_DEFLATED)
        text = manifest(package)
        if not any(name == "LICENSE.txt" for name, _ in files):
            text = text.replace("    <License>extension/LICENSE.txt</License>\n", "")
        add("extension.vsixmanifest", text)
        add("[Content_Types].xml", content_types([name for name, _ in files] + ["extension.vsixmanifest"]))
        for name, path in files:
            with open(path, "rb") as file:
                add(f"extension/{name}", file.read())


if __name__ == "__main__":
    main()

"""false_tilerun.py - what the tests of `tilec search` with a tilerun that only says it ran something have in common."""
import json
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ATTENTION = os.path.join(ROOT, "examples", "attention.tile")


class FalseTilerun:
    """`text`: the script, with {0} for its folder, where it keeps a file `log` of what it was asked."""

    def __init__(self, tilec, folder, text):
        self.tilec, self.folder, self.bad = tilec, folder, 0
        self.database, self.tilerun = os.path.join(folder, "times.tuning"), os.path.join(folder, "tilerun")
        self.write("tilerun", text.format(folder))
        os.chmod(self.tilerun, 0o755)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def lines(self):
        """Of the database."""
        with open(self.database, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def expect(self, what, condition, *shown):
        if not condition:
            print(f"{what}:", *shown)
            self.bad += 1

    def log(self):
        """What it was asked to run, since the last time."""
        path = os.path.join(self.folder, "log")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            said = file.read().splitlines()
        os.remove(path)
        return said

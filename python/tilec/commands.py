"""commands.py - the programs of the package: `tilec` and `tilerun` become the ones that were built with it."""
import os
import sys

BIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def _become(name):
    os.execv(os.path.join(BIN, name), [name, *sys.argv[1:]])


def tilec():
    _become("tilec")


def tilerun():
    _become("tilerun")

"""The environment as the package reads it: every variable has a row in src/config/knobs.def.

That table gives each its meaning, its documentation and its place in config.json; a test compares
the names read here with its rows. An empty variable counts as not set, as everywhere in Sabot.
"""

from __future__ import annotations

import os
import pathlib


def read(name: str) -> str:
    """The value of a variable, "" where it is not set."""
    return os.environ.get(name, "")


def cache_folder() -> pathlib.Path:
    """Where extensions that were compiled for a torch are kept."""
    named = read("SABOT_CACHE")
    if named:
        return pathlib.Path(named).absolute()
    base = read("XDG_CACHE_HOME")
    # The specification of base folders has relative paths ignored.
    if base.startswith("/"):
        return pathlib.Path(base) / "sabot"
    return pathlib.Path("~/.cache/sabot").expanduser()


def compiler() -> str:
    """The C++ compiler that was asked for, "" to search for one."""
    return read("CXX")

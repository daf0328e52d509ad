"""The console script `sabot`: becomes the program that the package carries."""

from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    """Replaces this process by the command line of Sabot, with the same words."""
    program = pathlib.Path(__file__).resolve().parent / "bin" / "sabot"
    if not program.exists():
        # A staged tree has its own bin; only a wheel installs this script.
        sys.exit(f"sabot: {program} is missing; install the wheel again")
    os.execv(program, ["sabot", *sys.argv[1:]])

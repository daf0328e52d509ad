#!/usr/bin/env python3
"""Compares docs/reference/ with what its sources generate today, and rewrites it on request.

Usage: tests/reference/fresh.py --writer PROGRAM

With SABOT_UPDATE=1 in the environment a stale page is rewritten instead of reported. A page that
nothing generates is an error too.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
REFERENCE = ROOT / "docs" / "reference"


def api_page():
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "api.md"
        subprocess.run([sys.executable, "-B", str(ROOT / "api" / "generate.py"), "--spec",
                        str(ROOT / "api" / "nccl_api.toml"), "--reference", str(page)], check=True)
        return page.read_text()


def pages(writer):
    def table(name):
        return subprocess.run([writer, name], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
    return {"api.md": api_page(), "knobs.md": table("knobs"), "scenario.md": table("scenario")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--writer", required=True)
    generated = pages(parser.parse_args().writer)
    failed = False
    for name, text in generated.items():
        path = REFERENCE / name
        if path.is_file() and path.read_text() == text:
            continue
        if os.environ.get("SABOT_UPDATE") == "1":
            REFERENCE.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"rewrote docs/reference/{name}")
            continue
        print(f"docs/reference/{name}:1: error: stale; run `make reference` and commit the page")
        failed = True
    for path in sorted(REFERENCE.glob("*")):
        if path.name not in generated:
            print(f"docs/reference/{path.name}:1: error: nothing generates this page")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

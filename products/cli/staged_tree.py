"""A relocatable tree of Sabot for the tests of the command line, and a way to run it.

The parts are taken from where the build put them, named on the command line of the test program,
and staged below a temporary folder as `make` would: bin, lib, share. Each test works in an empty
folder.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

TIMEOUT_S = 120


class Parts:
    """The files under test, by name."""

    def __init__(self, words):
        parser = argparse.ArgumentParser()
        for name in ("cli", "preload", "standin", "demo-program", "linked", "linked-static",
                     "handle", "stub-folder"):
            parser.add_argument("--" + name)
        options, self.rest = parser.parse_known_args(words)
        self.__dict__.update(vars(options))


PARTS = None
TREE = None


def stage():
    """Builds the tree once for the whole test program."""
    global TREE
    TREE = pathlib.Path(tempfile.mkdtemp(prefix="sabot-tree-"))
    places = {"cli": "bin/sabot", "preload": "lib/libsabot.so",
              "standin": "lib/standin/libnccl.so.2",
              "demo_program": "share/sabot/demo/allreduce"}
    for part, place in places.items():
        target = TREE / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(getattr(PARTS, part), target)


def main():
    """Parses the parts, stages them, and runs the tests of the calling module."""
    global PARTS
    PARTS = Parts(sys.argv[1:])
    stage()
    try:
        unittest.main(module="__main__", argv=[sys.argv[0]] + PARTS.rest)
    finally:
        shutil.rmtree(TREE)


class Done:
    """What a command did."""

    def __init__(self, process):
        self.status = process.returncode
        self.out = process.stdout.decode(errors="replace")
        self.err = process.stderr.decode(errors="replace")
        self.raw_out = process.stdout


class TreeTest(unittest.TestCase):
    """A test with an empty working folder and a clean environment."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sabot-cli-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        keep = ("PATH", "HOME", "LANG", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS")
        self.environment = {k: v for k, v in os.environ.items() if k in keep}

    @property
    def sabot(self):
        return str(TREE / "bin/sabot")

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = content.encode()
        path.write_bytes(content)
        return path

    def command(self, words, stdin=b"", **environment):
        process = subprocess.run([str(word) for word in words], input=stdin, capture_output=True,
                                 cwd=self.folder, env={**self.environment, **environment},
                                 timeout=TIMEOUT_S, check=False)
        return Done(process)

    def run_sabot(self, *words, stdin=b"", **environment):
        return self.command([self.sabot, *words], stdin=stdin, **environment)

    def journal(self, run="runs/latest"):
        """The lines of all journals of a run."""
        lines = []
        for path in sorted((self.folder / run / "journal").glob("*.jsonl")):
            lines += path.read_text().splitlines()
        return lines

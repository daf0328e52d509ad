"""The staged tree under test, and a way to run Python in it as a user would: by PYTHONPATH alone.

Each test has an empty working folder, a cache of its own, and an environment without Sabot's
variables. The Python that runs the tests is the one whose torch is used.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TIMEOUT_S = 240
STAGE = None
BUILD = None


def main():
    """Takes the options of the test program, runs the tests of the calling module."""
    global STAGE, BUILD
    parser = argparse.ArgumentParser()
    parser.add_argument("--stage", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    options, rest = parser.parse_known_args()
    STAGE, BUILD = options.stage.resolve(), options.build.resolve()
    unittest.main(module="__main__", argv=[sys.argv[0], *rest])


class Done:
    """What a command did."""

    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err


class StagedTest(unittest.TestCase):
    """A test with an empty folder and a clean environment."""

    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sabot-python-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        self.cache = self.folder / "cache"
        keep = ("PATH", "HOME", "LANG", "TMPDIR", "CCACHE_DIR")
        self.environment = {key: value for key, value in os.environ.items() if key in keep}
        self.environment.update(
            PYTHONPATH=str(STAGE / "python"), PYTHONDONTWRITEBYTECODE="1",
            SABOT_CACHE=str(self.cache), OMP_NUM_THREADS="1")

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    def start(self, words, **environment):
        return subprocess.Popen(
            [str(word) for word in words], cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            env={**self.environment, **environment})

    def finish(self, process):
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return Done(process.returncode, out, err)

    def command(self, words, **environment):
        return self.finish(self.start(words, **environment))

    def python(self, code, *words, **environment):
        """Runs code in a Python of its own; what it prints is what a test looks at."""
        return self.command([sys.executable, "-c", textwrap.dedent(code), *words], **environment)

    def printed(self, code, **environment):
        """What code printed, which must have ended well."""
        done = self.python(code, **environment)
        self.assertEqual(done.status, 0, done.out + done.err)
        return done.out

#!/usr/bin/env python3
"""Runs the transcripts in the documents and compares what they print with what is written there.

Usage: tests/docs/transcripts.py --stage FOLDER [DOCUMENT…]

A transcript is a fenced block of kind `console` under the line `<!-- checked -->`: lines that
begin with `$ ` are commands, `> ` continues one, the others are what they print (standard output
and error as they come).
`…` stands for any text within a line; alone on a line for any number of lines. Commands run in an
empty folder in which build/sabot, examples and share lead to the staged tree and the repository,
so that a reader in a clone sees the same. Each command must end within TIMEOUT_S.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCUMENTS = ["README.md", "docs/start.md", "docs/control.md"]
TIMEOUT_S = 120
MARK = "<!-- checked -->"


class Step:
    """One command with the lines that it must print."""

    def __init__(self, line, command):
        self.line = line
        self.command = command
        self.expected = []


def transcripts(text):
    """The checked blocks of a document, each a list of steps."""
    found, current, armed = [], None, False
    for number, line in enumerate(text.splitlines(), 1):
        if current is not None:
            if line.startswith("```"):
                current = None
            elif line.startswith("$ "):
                current.append(Step(number, line[2:]))
            elif line.startswith("> ") and current and not current[-1].expected:
                current[-1].command += "\n" + line[2:]
            elif current:
                current[-1].expected.append(line)
            else:
                raise ValueError(f"line {number}: a checked block begins with a command ('$ ')")
        elif line == MARK:
            armed = True
        elif armed and line.startswith("```console"):
            current, armed = [], False
            found.append(current)
        elif line.strip():
            armed = False
    return found


def pattern_of(line):
    return ".*".join(re.escape(part) for part in line.split("…"))


def matches(expected, printed):
    """Whether printed lines are the expected ones; '…' as described above."""
    parts = []
    for line in expected:
        parts.append(r"(?:.*\n)*?" if line.strip() == "…" else pattern_of(line) + r"\n")
    return re.fullmatch("".join(parts), "".join(line + "\n" for line in printed)) is not None


def run(command, folder):
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith(("SABOT_", "LD_PRELOAD"))}
    done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=TIMEOUT_S, text=True)
    return done.stdout.splitlines()


def check(document, text, stage):
    """Yields one error text for each command that printed something else."""
    for steps in transcripts(text):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            (folder / "build").mkdir()
            (folder / "build" / "sabot").symlink_to(stage)
            for name in ("examples", "share"):
                (folder / name).symlink_to(ROOT / name)
            for step in steps:
                printed = run(step.command, folder)
                if not matches(step.expected, printed):
                    yield "\n".join([f"{document}:{step.line}: error: this prints something else: "
                                     + step.command, *("    " + line for line in printed)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--stage", required=True, type=pathlib.Path)
    parser.add_argument("documents", nargs="*", default=DOCUMENTS)
    options = parser.parse_args()
    commands, failed = 0, False
    for document in options.documents:
        text = (ROOT / document).read_text()
        commands += sum(len(steps) for steps in transcripts(text))
        for error in check(document, text, options.stage.resolve()):
            print(error)
            failed = True
    print(f"{commands} commands in {len(options.documents)} documents")
    return 1 if failed or commands == 0 else 0


if __name__ == "__main__":
    sys.exit(main())

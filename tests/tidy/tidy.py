#!/usr/bin/env python3
"""The style as a test: reports every place where the tree breaks a rule that a program can check.

Usage: tests/tidy/tidy.py [--root FOLDER] [PATH…]

Walks `git ls-files` once (new files that git would not ignore included) and prints
`path:line: error: what is wrong; what to do [rule]`. With PATHs only those are reported. Exceptions
stand in exceptions.toml, one file and one rule each, with a reason; they are printed at the end so
that they stay embarrassing, and one that excuses nothing is an error. Exit status 1 on any error.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import atomics  # noqa: E402
import documents  # noqa: E402
import functions  # noqa: E402
import layers  # noqa: E402
import texts  # noqa: E402
from sources import Source  # noqa: E402

FOLDER_FILES_MAX = 25
KNOWN_SUFFIXES = {
    ".c", ".cmake", ".corpus", ".cpp", ".css", ".cu", ".cuh", ".def", ".h", ".hpp", ".html", ".in",
    ".js", ".json", ".map", ".md", ".py", ".S", ".sh", ".svg", ".toml", ".txt",
    ".typed",
}
KNOWN_NAMES = {
    ".clang-format", ".clang-tidy", ".editorconfig", ".gitattributes", ".gitignore", "LICENSE",
    "Makefile",
}
# Inputs of tests are whatever the test needs, byte for byte.
VERBATIM = ("tests/fuzz/corpus/", "tests/fuzz/corpora/", "tests/golden/")

FILE_RULES = [
    atomics.memory_order,
    documents.markdown_title,
    functions.function_size,
    layers.layering,
    layers.link_list,
    texts.banned_words,
    texts.file_size,
    texts.include_guard,
    texts.line_length,
    texts.opening_comment,
    texts.permissions,
    texts.whitespace,
]
TREE_RULES = [
    atomics.partners_exist,
    documents.commands,
    documents.knobs_documented,
    documents.law_in_architecture,
    documents.links,
    documents.names_exist,
    layers.unused_headers,
]

Finding = collections.namedtuple("Finding", "path line rule message")
Exempt = collections.namedtuple("Exempt", "path rule reason line")


def tracked(root):
    command = ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z", "--cached",
               "--others", "--exclude-standard"]
    listing = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode()
    return sorted({path for path in listing.split("\0") if path and (root / path).is_file()})


def read_tree(root):
    """Returns the sources, and findings about files that are no text or of no known kind."""
    sources, findings = [], []
    for path in tracked(root):
        full = root / path
        suffix, name = full.suffix, full.name
        if path.startswith(VERBATIM):
            continue
        data = full.read_bytes()
        executable = os.access(full, os.X_OK)
        if suffix not in KNOWN_SUFFIXES and name not in KNOWN_NAMES and not data.startswith(b"#!"):
            findings.append(Finding(path, 1, "file_kind", f"'{suffix or name}' is no known kind of"
                                    " file; add it to tests/tidy/tidy.py if it belongs here"))
        if len(data) > texts.BLOB_BYTES_MAX:
            findings.append(Finding(path, 1, "file_kind", f"{len(data)} bytes, more than"
                                    f" {texts.BLOB_BYTES_MAX}; generate it"))
        try:
            sources.append(Source(path, data.decode(), executable))
        except UnicodeDecodeError:
            findings.append(Finding(path, 1, "file_kind", "is not UTF-8 text"))
    return sources, findings


def folder_size(sources):
    """A module is a folder that can be taken in at a glance."""
    count = collections.Counter(os.path.dirname(source.path) for source in sources
                                if source.starts("src/") and not source.is_test)
    for folder, files in sorted(count.items()):
        if files > FOLDER_FILES_MAX:
            yield f"{folder}/CMakeLists.txt", 1, f"{files} files in {folder}, more than" \
                                                 f" {FOLDER_FILES_MAX}; name a part as a sub-folder"


def inspect(sources):
    findings = []
    for source in sources:
        for rule in FILE_RULES:
            findings += [Finding(source.path, line, rule.__name__, message)
                         for line, message in rule(source)]
    for rule in TREE_RULES + [folder_size]:
        findings += [Finding(path, line, rule.__name__, message)
                     for path, line, message in rule(sources)]
    return findings


def read_exceptions(text):
    """Reads [[exception]] tables of path, rule and reason; raises ValueError naming the line."""
    entries, current = [], None
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        pair = re.fullmatch(r'(path|rule|reason)\s*=\s*"([^"]*)"', stripped)
        if stripped == "[[exception]]":
            current = {"line": number}
            entries.append(current)
        elif pair and current is not None:
            current[pair.group(1)] = pair.group(2)
        else:
            raise ValueError(f"line {number}: expected [[exception]] or path, rule, reason =")
    for entry in entries:
        missing = [key for key in ("path", "rule", "reason") if not entry.get(key)]
        if missing:
            raise ValueError(f"line {entry['line']}: no {missing[0]}")
        if "*" in entry["path"]:
            raise ValueError(f"line {entry['line']}: no wildcards; name the file")
    return [Exempt(e["path"], e["rule"], e["reason"], e["line"]) for e in entries]


def apply_exceptions(findings, exceptions, name="tests/tidy/exceptions.toml"):
    """Removes what is excused; an exception that excuses nothing becomes a finding."""
    excused = {(entry.path, entry.rule) for entry in exceptions}
    left = [f for f in findings if (f.path, f.rule) not in excused]
    used = {(f.path, f.rule) for f in findings}
    left += [Finding(name, entry.line, "exceptions", f"{entry.path} no longer breaks {entry.rule};"
                     " delete the exception")
             for entry in exceptions if (entry.path, entry.rule) not in used]
    return left


def main(arguments):
    root = HERE.parent.parent
    if arguments[:1] == ["--root"]:
        root, arguments = pathlib.Path(arguments[1]), arguments[2:]
    sources, findings = read_tree(root)
    exceptions = read_exceptions((HERE / "exceptions.toml").read_text())
    findings = apply_exceptions(findings + inspect(sources), exceptions)
    if arguments:
        findings = [f for f in findings if f.path.startswith(tuple(arguments))]
    for finding in sorted(findings):
        print(f"{finding.path}:{finding.line}: error: {finding.message} [{finding.rule}]")
    for entry in exceptions:
        print(f"exception: {entry.path} [{entry.rule}]: {entry.reason}")
    print(f"{len(sources)} files, {len(findings)} errors, {len(exceptions)} exceptions")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

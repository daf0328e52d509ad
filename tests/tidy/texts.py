"""Rules about one file's text: its opening comment, its size, and what it must not say.

A ban names its replacement. BANS is the table: which word, in which files, what to write instead,
and in which few files the word is at home. Words in comments and literals do not count, unless a
row looks at whole lines.
"""
import re

LINE_MAX = 100
FILE_LINES = {"header": 300, "source": 500, "test": 800}
OPENING_LINES_MAX = 16
OPENING_LETTERS_MIN = 20
# A header longer than this has a contract worth three lines.
SMALL_HEADER_LINES = 60
BLOB_BYTES_MAX = 256 * 1024

GUEST = ("src/", "products/preload/", "products/standin/", "products/audit/")
# The verbs of the command line talk to a person; everything else is a guest in another process.
VERBS = ("src/launch/", "src/drill/", "src/doctor/", "src/replay/", "src/tune/", "src/report/")
CXX_ONLY = (".hpp", ".cpp", ".cu", ".cuh")


class Ban:
    """`pattern` in files below `where` (but not `home`): write `instead`."""

    def __init__(self, pattern, instead, where=(), home=(), **options):
        self.pattern = re.compile(pattern)
        self.instead = instead
        self.where = tuple(where)
        self.home = tuple(home)
        self.whole_lines = options.get("whole_lines", False)
        self.tests = options.get("tests", True)
        self.only_tests = options.get("only_tests", False)
        self.suffixes = options.get("suffixes", CXX_ONLY + (".h", ".c"))

    def covers(self, source):
        return ((not self.suffixes or source.suffix in self.suffixes)
                and (not self.where or source.starts(*self.where))
                and not (self.home and source.starts(*self.home))
                and (self.tests or not source.is_test)
                and (source.is_test or not self.only_tests))


BANS = [
    Ban(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b", "finish it, or say in docs/limits.md what is absent",
        whole_lines=True, suffixes=()),
    Ban(r"\busing\s+namespace\s+std\b", "the names you need"),
    Ban(r"\bstd::w?regex\b", "base/text.hpp, or a parser of your own", tests=False),
    Ban(r"\b(?:secure_)?getenv\s*\(|\benviron\b", "a knob of src/config",
        where=("src/", "products/"), home=("src/config/",), tests=False),
    Ban(r"(?<![\w.])(?:std::)?(?:f|d|v|vf)?printf\s*\(|(?<![\w.:>])(?:std::)?f?put[sc]\s*\("
        r"|\bstd::(?:cout|cerr|clog)\b", "log::line of base/log.hpp: a guest does not print",
        where=GUEST, home=VERBS, tests=False),
    Ban(r"^\s*#\s*include\s+<iostream>", "base/log.hpp",
        where=GUEST, home=VERBS, tests=False, whole_lines=True, suffixes=CXX_ONLY),
    Ban(r"\bgoto\b", "a destructor, or an early return"),
    Ban(r"\bstr(?:n?cpy|n?cat|tok)\s*\(|(?<![\w:])(?:std::)?v?sprintf\s*\(|(?<!f)\bgets\s*\(",
        "std::string, or std::memcpy with a checked size", tests=False),
    Ban(r"\bato[ilf]l?\s*\(", "the parsers of base/text.hpp and base/units.hpp",
        where=("src/", "products/")),
    Ban(r"\bcatch\s*\(\s*\.\.\.\s*\)", "the boundary guard, the one place that swallows",
        where=("src/", "products/"), home=("src/stack/",),
        tests=False),
    Ban(r"\bsleep_(?:for|until)\s*\(|(?<![\w.])(?:u|nano)?sleep\s*\(",
        "a fake clock, or bounded polling for the event itself", only_tests=True),
    Ban(r"(?:\bstd|(?<![\w>]))::(?:exit|abort|quick_exit)\s*\(|(?<![\w.>:~])exit\s*\(",
        "a Status: a guest does not end the process", where=GUEST,
        home=VERBS + ("src/base/log.cpp",), tests=False),
    Ban(r"(?<![\w.])assert\s*\(", "SABOT_ASSERT or SABOT_DCHECK of base/check.hpp",
        where=("src/", "products/")),
    Ban(r"\bNULL\b", "nullptr", suffixes=CXX_ONLY),
    Ban(r"\bstd::endl\b", "'\\n'"),
    Ban(r"(?<!asm )(?<!asm__ )\bvolatile\b", "std::atomic", where=("src/", "products/"),
        tests=False, suffixes=CXX_ONLY),
    Ban(r"\.detach\s*\(\s*\)", "a thread that somebody joins"),
    Ban(r"\bcu(?:da)?[A-Z]\w*\s*\(", "src/driver, the seam to CUDA",
        where=("src/", "products/"), home=("src/driver/", "src/engine/cuda/"), tests=False),
    Ban(r"\b(?:class|struct)\s+\w*(?:Manager|Helper|Utils?|Handler|Impl)\b",
        "a name that says what it is or does"),
    Ban(r"(?<![\w.])/(?:work|home|root|Users)/[\w.]+", "a path relative to the repository",
        whole_lines=True, suffixes=()),
    Ban(r"\bDESI[G]N(?:\.md| §)|\bSTY[L]E\.md|\bCAS[E]S\.md|\bfa[c]ts/\w",
        "ARCHITECTURE.md or docs/: only what is in the tree can be read", whole_lines=True,
        suffixes=()),
    Ban(r"py[p]i\.org|python[h]osted\.org|npm[j]s\.org|deb\.[d]ebian\.org|archive\.[u]buntu\.com",
        "the package's name, through its ordinary client", whole_lines=True, suffixes=()),
]


def banned_words(source):
    """What is banned, and what to write instead."""
    for ban in BANS:
        if not ban.covers(source):
            continue
        for number, line in enumerate(source.lines if ban.whole_lines else source.code_lines, 1):
            match = ban.pattern.search(line)
            if match:
                yield number, f"'{match.group(0).strip()}' is banned; use {ban.instead}"


def opening_comment(source):
    """A file says in its first lines what it is for."""
    known = source.is_cxx or source.suffix in (".py", ".cmake", ".sh", ".toml")
    if not (known or source.name in ("CMakeLists.txt", "Makefile") or source.text.startswith("#!")):
        return
    if source.name == "CMakeLists.txt" and len(source.lines) <= 20:
        return  # a module's two lines say it all
    if source.suffix == ".toml" and source.starts("tests/", "share/", "examples/"):
        return  # a scenario carries its name as data; a corpus is not ours to comment
    opening = [line for line in source.opening_comment() if line]
    if sum(len(line) for line in opening) < OPENING_LETTERS_MIN:
        yield 1, "the file does not open with a comment that says what it is for"
    elif len(opening) > OPENING_LINES_MAX:
        yield 1, f"the opening comment has {len(opening)} lines, more than {OPENING_LINES_MAX};" \
                 " move the detail to where it applies"
    elif (source.is_header and source.starts("src/", "include/") and len(opening) < 3
          and len(source.lines) > SMALL_HEADER_LINES):
        yield 1, "a header is a contract: open it with at least three lines (what it is for, the" \
                 " idea that makes it work, what it leaves to whom)"


def file_size(source):
    """A file stays small enough to be read at once."""
    if not (source.is_cxx or source.suffix in (".py", ".cmake", ".sh")):
        return
    kind = "test" if source.is_test else "header" if source.is_header else "source"
    if len(source.lines) > FILE_LINES[kind]:
        yield 1, f"a {kind} of {len(source.lines)} lines, more than {FILE_LINES[kind]}; make it two"


def line_length(source):
    """A line fits beside another one on a screen; prose with links or tables may be longer."""
    if source.starts("docs/reference/", "docs/results/"):
        return  # generated, or as it was printed
    if source.suffix in (".json", ".svg", ".corpus", ".txt") and source.name != "CMakeLists.txt":
        return
    for number, line in enumerate(source.lines, 1):
        if len(line) > LINE_MAX:
            if source.suffix == ".md" and (line.lstrip().startswith("|") or "](" in line):
                continue
            if source.suffix == ".toml" and source.starts("tests/", "api/"):
                continue  # a row of a table is one line
            yield number, f"{len(line)} columns, more than {LINE_MAX}"


def whitespace(source):
    """No tabs, no trailing blanks, one line feed at the end."""
    if source.suffix == ".corpus":
        return
    for number, line in enumerate(source.text.split("\n"), 1):
        if line.endswith((" ", "\t", "\r")):
            yield number, "trailing white space"
        if "\t" in line and source.name != "Makefile":
            yield number, "a tab; use spaces"
    if source.text and not source.text.endswith("\n"):
        yield len(source.lines), "no line feed at the end of the file"
    elif source.text.endswith("\n\n"):
        yield len(source.lines), "empty lines at the end of the file"


def include_guard(source):
    """A header is read once."""
    if source.is_header and source.suffix != ".def" and not re.search(
            r"^#pragma once$|^#ifndef \w+_H_?$", source.text, re.MULTILINE):
        yield 1, "no #pragma once"


def permissions(source):
    """What starts with #! is executable, and nothing else is."""
    if source.text.startswith("#!") != source.executable:
        yield 1, "has the executable bit but no #! line" if source.executable else \
            "has a #! line but not the executable bit; chmod +x it"

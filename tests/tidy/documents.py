"""Rules about documents: titles, links, and that what they name exists.

Documents are the Markdown files. A command in a fenced block is checked against the targets of the
Makefile and the programs of tools/; the commands of the README and of docs/start.md are also run,
by tests/docs. A knob is whatever src/config spells SABOT_NAME.
"""
import posixpath
import re

from layers import LAW

TEST = re.compile(r"\bTEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)")
NAMED_TEST = re.compile(r"`([A-Z]\w*\.[A-Z]\w+)`")
NAMED_PATH = re.compile(
    r"`((?:api|docs|examples|include|products|share|src|tests|tools)/[\w./-]*)`")
FENCE = re.compile(r"^\s*(?:```|~~~)")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
KNOB = re.compile(r"\bSABOT_[A-Z][A-Z0-9_]*\b")
MAKE = re.compile(r"(?:^|&&|;)\s*make((?:\s+[\w=./-]+)*)")
PROGRAM = re.compile(r"(?:^|\s)((?:tools|\.ci|tests|examples|share)/[\w./-]+)")


def markdown_title(source):
    """A document opens with its one title."""
    if source.suffix != ".md":
        return
    if not source.lines or not source.lines[0].startswith("# "):
        yield 1, "the first line is not the title ('# …')"
    fenced = False
    for number, line in enumerate(source.lines, 1):
        fenced ^= bool(FENCE.match(line))
        if number > 1 and not fenced and line.startswith("# "):
            yield number, "a second title; use '##'"


def links(sources):
    """A relative link leads to a file of the repository."""
    paths = {source.path for source in sources}
    folders = {posixpath.dirname(path) for path in paths}
    for source in sources:
        if source.suffix != ".md":
            continue
        for number, line in enumerate(source.lines, 1):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:", target):
                    continue
                full = posixpath.normpath(posixpath.join(posixpath.dirname(source.path), target))
                if full not in paths and full not in folders:
                    yield source.path, number, f"the link to {target} leads nowhere"


def fenced_lines(source):
    fenced = False
    for number, line in enumerate(source.lines, 1):
        if FENCE.match(line):
            fenced = not fenced
        elif fenced:
            yield number, line


def commands(sources):
    """A command in a document names a target or a file that exists."""
    makefile = next((source for source in sources if source.path == "Makefile"), None)
    rules = makefile.text if makefile else ""
    targets = set(re.findall(r"^([a-z][\w-]*):", rules, re.MULTILINE))
    paths = {source.path for source in sources}
    folders = {posixpath.dirname(path) for path in paths}
    for source in sources:
        if source.suffix != ".md":
            continue
        for number, line in fenced_lines(source):
            line = re.sub(r"\s#.*", "", line)
            for arguments in MAKE.findall(line):
                for word in arguments.split():
                    if "=" not in word and not word.startswith("-") and word not in targets:
                        yield source.path, number, f"the Makefile has no target '{word}'"
            for path in PROGRAM.findall(line):
                path = path.rstrip("/.")
                if path not in paths and path not in folders:
                    yield source.path, number, f"there is no {path}"


def names_exist(sources):
    """What a document names in backticks, a path or a test, is in the tree."""
    paths = {source.path for source in sources}
    folders = {posixpath.dirname(path) for path in paths}
    folders |= {posixpath.dirname(folder) for folder in folders}
    tests = set()
    for source in sources:
        if source.is_cxx:
            tests.update(".".join(pair) for pair in TEST.findall(source.text))
    for source in sources:
        if source.suffix != ".md" or source.starts("docs/reference/"):
            continue
        for number, line in enumerate(source.lines, 1):
            for path in NAMED_PATH.findall(line):
                if path.rstrip("/") not in paths | folders:
                    yield source.path, number, f"there is no {path}"
            for test in NAMED_TEST.findall(line):
                if test not in tests:
                    yield source.path, number, f"there is no test {test}"


def law_in_architecture(sources):
    """The table of ARCHITECTURE.md is the law that layers.py checks."""
    page = next((source for source in sources if source.path == "ARCHITECTURE.md"), None)
    if page is None:
        return
    rows = {}
    for number, line in enumerate(page.lines, 1):
        match = re.fullmatch(r"\| `([\w/]+)` \| ([\w/, ]+) \|", line)
        if match:
            rows[match.group(1)] = (number, match.group(2))
    for module, allowed in LAW.items():
        text = ", ".join(allowed) or "nothing"
        if module == "stack":
            continue  # stated there as a sentence: everything but the verbs
        if module not in rows:
            yield page.path, 1, f"the dependency law has no row for {module}"
        elif rows[module][1] != text:
            yield page.path, rows[module][0], f"{module} may include {text}; the law is" \
                                              " tests/tidy/layers.py"


def knobs_documented(sources):
    """Each knob of src/config stands in the generated reference, and documents name no other."""
    reference = [s for s in sources if s.starts("docs/reference/")]
    config = [s for s in sources if s.starts("src/config/") and s.is_cxx and not s.is_test]
    if not reference or not config:
        return
    documented = set(KNOB.findall("\n".join(source.text for source in reference)))
    existing = set()
    for source in config:
        for number, line in enumerate(source.lines, 1):
            for knob in re.findall(r'"(SABOT_[A-Z][A-Z0-9_]*)"', line):
                existing.add(knob)
                if knob not in documented:
                    yield source.path, number, f"the knob {knob} is not in docs/reference"
    options = set()
    for source in sources:
        if source.name in ("CMakeLists.txt", "CMakePresets.json") or source.suffix == ".cmake":
            options.update(KNOB.findall(source.text))
        elif source.is_cxx:
            options.update(re.findall(r"#\s*define\s+(SABOT_\w+)", source.text))
    for source in sources:
        if source.suffix == ".md":
            for number, line in enumerate(source.lines, 1):
                for knob in KNOB.findall(line):
                    if knob not in existing | options:
                        yield source.path, number, f"{knob} is no knob of src/config"

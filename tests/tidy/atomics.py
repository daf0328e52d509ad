"""Orderings other than the default carry their partner's name, and the partner exists.

A relaxed operation synchronises with nothing: one remark `relaxed: why` covers those of a file. Any
other remark covers its own line and the REACH lines below it, or the whole file from its opening
comment.
"""
import re

REACH = 10
ORDERING = re.compile(r"\bmemory_order(?:_|::)(relaxed|acquire|release|acq_rel|consume)\b"
                      r"|__ATOMIC_(RELAXED|ACQUIRE|RELEASE|ACQ_REL|CONSUME)\b")
PARTNER = re.compile(r"pairs with:\s*([\w:~]+)")
RELAXED = re.compile(r"\b[Rr]elaxed:\s*\w")


def opening_end(source):
    for number, line in enumerate(source.lines):
        if not line.startswith(("//", "/*", " *")):
            return number
    return len(source.lines)


def remarks(source, number):
    """Comment lines that cover the line with this number."""
    reach = source.comment_lines[max(0, number - 1 - REACH):number]
    return source.comment_lines[:opening_end(source)] + reach


def memory_order(source):
    """Each ordering names its partner."""
    if not source.is_cxx or source.is_test:
        return
    for number, line in enumerate(source.code_lines, 1):
        match = ORDERING.search(line)
        if not match:
            continue
        covering = remarks(source, number)
        is_relaxed = (match.group(1) or match.group(2)).lower() == "relaxed"
        if any(PARTNER.search(text) for text in covering):
            continue
        if not is_relaxed:
            yield number, f"{match.group(0)} without `pairs with: FUNCTION`"
        elif not any(RELAXED.search(text) for text in source.comment_lines):
            yield number, f"{match.group(0)} without `pairs with: FUNCTION` or `relaxed: WHY`"
            return


def partners_exist(sources):
    """The function that an ordering pairs with is in the tree."""
    words = set()
    for source in sources:
        if source.is_cxx:
            words.update(re.findall(r"\b\w+\b", source.code))
    for source in sources:
        if not source.is_cxx:
            continue
        for number, line in enumerate(source.comment_lines, 1):
            for match in PARTNER.finditer(line):
                name = match.group(1).rstrip(":").split("::")[-1]
                if name not in words:
                    yield source.path, number, f"pairs with '{name}', which is nowhere in the tree"

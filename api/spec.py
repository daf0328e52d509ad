"""Reads api/nccl_api.toml into plain objects, for generate.py and for tests.

Only the subset of TOML that the spec uses is read (tables, strings, string lists), by a reader
of our own: tomllib is missing before Python 3.11, and Ubuntu 22.04 has 3.10. A test compares the
two where both exist. Errors name the line."""

import re
from dataclasses import dataclass, field

ROLES = {
    "",
    "send",
    "recv",
    "inout",
    "count",
    "datatype",
    "redop",
    "root",
    "peer",
    "stream",
    "comm",
    "newcomm",
    "newcomms",
    "config",
    "nranks",
    "rank",
    "id",
    "ids",
    "newid",
    "asyncresult",
}
KINDS = [
    "collective",
    "p2p",
    "one_sided",
    "id",
    "init",
    "derive",
    "finalize",
    "destroy",
    "abort",
    "revoke",
    "group",
    "query",
    "memory",
    "redop",
    "param",
    "device",
]


class SpecError(Exception):
    """The spec is malformed; the message names file, line and what was expected."""


def read_toml(text, path):
    """The subset of TOML described above, as nested dicts and lists of dicts."""
    root, current, pending = {}, None, None
    current = root
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if pending is not None:
            pending[2] += " " + line
            if not line.endswith("]"):
                continue
            line_key, target, value = pending
            target[line_key] = _value(value, path, number)
            pending = None
            continue
        if not line or line.startswith("#"):
            continue
        table = re.fullmatch(r"\[\[(\w+)\]\]", line)
        if table:
            current = {}
            root.setdefault(table[1], []).append(current)
            continue
        pair = re.fullmatch(r"(\w+)\s*=\s*(.+)", line)
        if not pair:
            raise SpecError(f"{path}:{number}: expected [[table]] or key = value, found: {line}")
        if pair[2].startswith("[") and not pair[2].endswith("]"):
            pending = [pair[1], current, pair[2]]
            continue
        current[pair[1]] = _value(pair[2], path, number)
    return root


def _value(text, path, number):
    if text.startswith("["):
        return re.findall(r'"([^"]*)"', text)
    string = re.fullmatch(r'"([^"]*)"', text)
    if not string:
        raise SpecError(f"{path}:{number}: expected a string or a list of strings, found: {text}")
    return string[1]


def version_code(version):
    """2.28.9 → 22809, as NCCL's own macro computes it (other formula up to 2.8)."""
    major, minor, patch = (list(map(int, version.split("."))) + [0, 0])[:3]
    if major <= 2 and minor <= 8:
        return major * 1000 + minor * 100 + patch
    return major * 10000 + minor * 100 + patch


def version_key(version):
    return tuple((list(map(int, version.split("."))) + [0, 0])[:3])


@dataclass
class Argument:
    type: str
    name: str
    role: str

    def declaration(self):
        return f"{self.type} {self.name}"


@dataclass
class Function:
    name: str
    since: str
    kind: str
    returns: str
    header: str
    text: str
    absent_on_host: str = ""
    arguments: list = field(default_factory=list)

    def argument(self, role):
        return next((a for a in self.arguments if a.role == role), None)


@dataclass
class Spec:
    default_version: str
    functions: list
    constants: list
    enums: list
    structs: list
    types: list
    spellings: list


def _function(entry, path):
    arguments = []
    for text in entry.get("args", []):
        match = re.fullmatch(r"(.+?) (\w+)(?: : (\w+))?", text)
        if not match or (match[3] or "") not in ROLES:
            raise SpecError(f'{path}: {entry["name"]}: expected "TYPE NAME : ROLE", found: {text}')
        arguments.append(Argument(match[1], match[2], match[3] or ""))
    if entry["kind"] not in KINDS:
        raise SpecError(f'{path}: {entry["name"]}: unknown kind {entry["kind"]}')
    return Function(
        entry["name"],
        entry["since"],
        entry["kind"],
        entry.get("returns", "ncclResult_t"),
        entry.get("header", "nccl"),
        entry["text"],
        entry.get("absent_on_host", ""),
        arguments,
    )


def load(path):
    with open(path, encoding="utf-8") as file:
        data = read_toml(file.read(), path)
    functions = [_function(entry, path) for entry in data["function"]]
    names = [f.name for f in functions]
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise SpecError(f"{path}: described twice: {sorted(twice)}")
    return Spec(
        data["default_version"],
        functions,
        data["constant"],
        data["enum"],
        data["struct"],
        data["type"],
        data.get("spelling", []),
    )

"""The dependency law: which module may include which, as data, and its check.

A row names a module below src/ and what its files may include besides their own module, the
standard library and generated code of those modules. The same row bounds the link list in the
module's CMakeLists.txt. docs and ARCHITECTURE.md explain the law; this table is the law.
"""
import re

LAW = {
    "base": [],
    "abi": ["base"],
    "config": ["base"],
    "trace": ["base"],
    "schedule": ["base"],
    "scenario": ["base", "abi"],
    "call": ["base", "abi", "config"],
    "run": ["base", "config"],
    "driver": ["base"],
    "link": ["base", "driver"],
    "world": ["base", "config", "link"],
    "engine/host": ["base", "schedule", "link", "driver"],
    "engine/cuda": ["base", "schedule", "link", "driver"],
    "comm": ["base", "abi", "config", "schedule", "world", "engine/host", "link"],
    "layer": ["base", "abi", "config", "call", "scenario", "trace", "run", "driver"],
    "real": ["base", "abi", "config"],
    "report": ["base", "trace", "run"],
}
VERBS = ["launch", "drill", "doctor", "replay", "tune"]
for verb in VERBS:
    LAW[verb] = ["base", "config", "run", "report", "scenario", "real", "schedule", "abi"]
# Compiled against the user's torch on the user's machine: public headers only.
LAW["pytorch"] = []
# The one place that composes engine and layers into the stack of a process.
LAW["stack"] = sorted(set(LAW) - set(VERBS) - {"pytorch"})
# The accel layer launches kernels of our own; no other layer may. The mailbox is tested on the
# engine itself.
WIDER = {"src/layer/accel": ["engine/cuda", "world", "link"],
         "src/pytorch/mailbox/mailbox_test.cpp": ["comm"]}

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
# A pure module reaches the outside through none of these.
INPUT_OUTPUT = re.compile(r"^(fstream|iostream|cstdio|stdio\.h|unistd\.h|fcntl\.h|dlfcn\.h|poll\.h"
                          r"|thread|sys/.*|netinet/.*|arpa/.*)$")
PURE = ("schedule", "scenario")
# Where a toolchain puts its own C++ library into what it links, streams take the facets of one copy
# for those of the other, and crash. Seen with g++ 13 beside torch 2.11.
STREAMS = re.compile(r"^(fstream|iostream|sstream|iomanip|random|locale|regex)$")


def module_of(path):
    """The module that owns a path relative to src/ (or an include), or None."""
    parts = path.split("/")
    if len(parts) > 2 and "/".join(parts[:2]) in LAW:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 and parts[0] in LAW else None


def allowed(module, path):
    names = {module, *LAW[module]}
    for prefix, more in WIDER.items():
        if path.startswith(prefix):
            names.update(more)
    return names


def layering(source):
    """An include line crosses a boundary only as the law says."""
    if not source.is_cxx or not source.starts("src/"):
        return
    module = module_of(source.path[len("src/"):])
    if module is None:
        yield 1, f"{source.path} belongs to no module; add a row to the law in tests/tidy/layers.py"
        return
    for number, line in enumerate(source.lines, 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        if match.group(1) == "<":
            if module in PURE and not source.is_test and INPUT_OUTPUT.match(match.group(2)):
                yield number, f"{module} does no input or output, so it cannot include" \
                              f" <{match.group(2)}>; let the caller pass what is needed"
            if module == "pytorch" and not source.is_test and STREAMS.match(match.group(2)):
                yield number, f"<{match.group(2)}> uses locales, which a second copy of the C++" \
                              " library in a process breaks; build texts with std::to_string"
            continue
        target = module_of(match.group(2))
        if target and target not in allowed(module, source.path):
            yield number, f"{module} may not include {target}; it may include" \
                          f" {', '.join(LAW[module]) or 'nothing'}"


def link_list(source):
    """A module links no more than it may include."""
    match = re.search(r"^sabot_module\(\s*([\w/]+)([^)]*)\)", source.text, re.MULTILINE)
    if not match or not source.starts("src/") or source.name != "CMakeLists.txt":
        return
    module = source.path[len("src/"):-len("/CMakeLists.txt")]
    known = {name.split("/")[-1]: name for name in LAW}
    for name in match.group(2).split():
        if known.get(name) not in allowed(module, source.path):
            line = source.text.count("\n", 0, match.start()) + 1
            yield line, f"{module} may not link {name}; it may link" \
                        f" {', '.join(LAW[module]) or 'nothing'}"


def unused_headers(sources):
    """A header below src/ that nobody includes is dead."""
    included = set()
    for source in sources:
        for line in source.lines if source.is_cxx or source.suffix in (".py", ".in") else []:
            match = re.search(r'#\s*include\s+["<]([^">]+)[">]', line)
            if match:
                included.add(match.group(1))
    for source in sources:
        if source.starts("src/") and source.is_header:
            if source.path[len("src/"):] not in included:
                yield source.path, 1, "no file includes this header; delete it or use it"

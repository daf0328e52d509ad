#!/usr/bin/env python3
"""Checks a shared library that goes into other people's processes, by what readelf says of it.

Usage: tests/tidy/binaries.py LIBRARY --soname NAME --exports FILE

It needs nothing but glibc at run time (so neither CUDA nor NCCL nor a C++ runtime of its own), has
its SONAME, exports exactly the names listed in FILE, one a line, each function ncclX weak and at
the address of a strong pncclX (the tables of a network plugin are none), and wants no executable
stack and no text relocations. Boundary rules B1 and B2, and the absences that ARCHITECTURE.md
lists.
"""
import argparse
import re
import subprocess
import sys

GLIBC = re.compile(r"(?:libc|libm|libdl|librt|libpthread)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+")


def readelf(library, *options):
    command = ["readelf", "--wide", *options, library]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def needed_errors(dynamic):
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if not GLIBC.fullmatch(name):
            yield f"needs {name} at run time; only glibc's own libraries are allowed"
    if "TEXTREL" in dynamic:
        yield "has text relocations: its code was not compiled with -fPIC"
    if re.search(r"\((?:RPATH|RUNPATH)\)", dynamic):
        yield "has a run path: where it was built must not matter"


def soname_errors(dynamic, soname):
    names = re.findall(r"\(SONAME\).*\[(.*)\]", dynamic)
    if names != [soname]:
        yield f"has the SONAME {names or 'none'}, not {soname}"


def exported(symbols):
    """Maps the defined symbols that another object can bind to, to (address, binding)."""
    found = {}
    for line in symbols.splitlines():
        fields = line.split()
        if len(fields) >= 8 and fields[4] in ("GLOBAL", "WEAK", "UNIQUE") and fields[6] != "UND":
            if fields[5] in ("DEFAULT", "PROTECTED") and fields[3] != "TLS":
                found[fields[7].split("@")[0]] = (int(fields[1], 16), fields[4])
    return found


def export_errors(symbols, listed):
    found = exported(symbols)
    for name in sorted(set(found) - listed):
        yield f"exports {name}, which is not in its list"
    for name in sorted(listed - set(found)):
        yield f"does not export {name}"
    for name, (address, binding) in sorted(found.items()):
        if name.startswith("nccl") and not name.startswith("ncclNetPlugin_"):
            if binding != "WEAK":
                yield f"exports {name} as {binding}, not WEAK"
            if found.get("p" + name) != (address, "GLOBAL"):
                yield f"p{name} is not the strong twin of {name} at the same address"


def stack_errors(segments):
    if re.search(r"GNU_STACK.*\bRWE\b", segments):
        yield "asks for an executable stack"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("library")
    parser.add_argument("--soname", required=True)
    parser.add_argument("--exports", required=True)
    options = parser.parse_args()
    with open(options.exports, encoding="utf-8") as file:
        listed = set(file.read().split())
    dynamic = readelf(options.library, "--dynamic")
    errors = [*needed_errors(dynamic), *soname_errors(dynamic, options.soname),
              *export_errors(readelf(options.library, "--dyn-syms"), listed),
              *stack_errors(readelf(options.library, "--program-headers"))]
    for error in errors:
        print(f"{options.library}: error: {error}")
    print(f"{options.library}: {len(listed)} names to export, {len(errors)} errors")
    return 1 if errors or not listed else 0


if __name__ == "__main__":
    sys.exit(main())

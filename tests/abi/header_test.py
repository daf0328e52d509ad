"""Our generated nccl.h against NVIDIA's, for every version whose header is installed (rule B3).

    python3 header_test.py --vendor-dir DIR      DIR/VERSION/…/nccl.h, e.g. build/vendor/2.28.9

A probe is generated from the API spec, compiled once against each header, and must print the
same lines: enum values, constants, struct sizes and offsets, and the type of every function as
the compiler spells it. The set of functions is compared with the text of the vendor's header, so
that one missing in the spec is found. Against a version newer than the spec, everything of ours
must still be there unchanged. Also: the header compiles alone as C99 and C++, and the spec
reader agrees with tomllib."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "api"))

import header  # noqa: E402
import spec as spec_module  # noqa: E402

SPEC_PATH = ROOT / "api" / "nccl_api.toml"
SPEC = spec_module.load(str(SPEC_PATH))
VENDOR_DIR = None

# NVIDIA's header includes CUDA's: these stand in for them, with the one type that the API needs.
CUDA_STUBS = {
    "cuda_runtime.h": "#pragma once\n#define NCCL_OS_LINUX 1\n#include <stddef.h>\n"
    "#define CUDART_VERSION 13000\ntypedef struct CUstream_st* cudaStream_t;\n",
    "cuda_fp16.h": "#pragma once\n",
    "cuda_bf16.h": "#pragma once\n#define __CUDA_BF16_TYPES_EXIST__\n",
    "cuda_fp8.h": "#pragma once\n",
}

PROBE_HEAD = """
#include <nccl.h>
#include <cstddef>
#include <cstdio>
#include <cstring>
template <typename T> const char* spelled() { return __PRETTY_FUNCTION__; }
template <typename T> void show(const char* what, T value) {
  std::printf("%s = %lld\\n", what, (long long)value);
}
template <> void show(const char* what, float value) { std::printf("%s = %g\\n", what, value); }
template <> void show(const char* what, std::nullptr_t) { std::printf("%s = null\\n", what); }
int main() {
"""


def vendor_headers():
    found = {}
    for path in sorted(pathlib.Path(VENDOR_DIR).glob("**/nccl.h")) if VENDOR_DIR else []:
        version = next((p for p in path.parts if re.fullmatch(r"\d+\.\d+\.\d+", p)), None)
        if version:
            found[version] = path
    return found


def spec_version(version):
    """The version to generate for: the vendor's own, or the newest that the spec knows."""
    return min(version, SPEC.default_version, key=spec_module.version_key)


def probe(version):
    """C++ that prints everything the header promises for a version."""
    lines = []
    for constant in SPEC.constants:
        if header.exists(constant, version):
            value = (
                "nullptr"
                if constant["value"] == "NULL" or constant["value"].endswith("_PTR")
                else constant["name"]
            )
            lines.append(f'show("{constant["name"]}", {value});')
    for enum in SPEC.enums:
        if not header.exists(enum, version):
            continue
        for value in header.present(enum["values"], version):
            name = value.split(" = ")[0]
            lines.append(f'show("{name}", {name});')
        if enum.get("last"):
            name = enum["last"].split(" = ")[0]
            lines.append(f'show("{name}", {name});')
        lines.append(f'show("sizeof {enum["name"]}", sizeof({enum["name"]}));')
    for struct in SPEC.structs:
        if not header.exists(struct, version):
            continue
        for declaration in header.present(struct["fields"], version):
            field = declaration.split(" = ")[0].split()[-1]
            lines.append(f'show("{struct["name"]}.{field}", offsetof({struct["name"]}, {field}));')
            lines.append(f'std::printf("%s\\n", spelled<decltype({struct["name"]}::{field})>());')
    for function in SPEC.functions:
        if function.header == "nccl" and header.exists(function, version):
            for prefix in ("nccl", "pnccl"):
                lines.append(
                    f'std::printf("{prefix}{function.name}: %s\\n", '
                    f"spelled<decltype(&{prefix}{function.name})>());"
                )
    return PROBE_HEAD + "\n".join(lines) + "\n}\n"


def exact_part(version):
    """What holds for equal versions only: sizes that grow, and counters of enumerators."""
    lines = []
    for struct in SPEC.structs:
        if header.exists(struct, version):
            lines.append(f'show("sizeof {struct["name"]}", sizeof({struct["name"]}));')
            if struct.get("initializer"):
                lines.append(
                    f'{{ {struct["name"]} x = {struct["initializer"]}; const unsigned char* p = '
                    f"reinterpret_cast<unsigned char*>(&x); for (size_t i = 0; i < sizeof x; ++i) "
                    f'std::printf("%02x", p[i]); std::printf(" {struct["initializer"]}\\n"); }}'
                )
    for enum in SPEC.enums:
        if header.exists(enum, version) and "count" in enum:
            lines.append(f'show("{enum["count"]}", {enum["count"]});')
    lines.append('show("NCCL_VERSION_CODE", NCCL_VERSION_CODE);')
    lines.append(
        'show("NCCL_VERSION(2,8,4)", NCCL_VERSION(2,8,4));'
        'show("NCCL_VERSION(2,19,3)", NCCL_VERSION(2,19,3));'
    )
    return "\n".join(lines)


class HeaderTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sabot-abi-"))
        for name, text in CUDA_STUBS.items():
            (self.folder / name).write_text(text)

    def output_of(self, text, header_path):
        """Compiles text with this nccl.h and returns what it prints; nothing is linked to NCCL."""
        include = self.folder / header_path.parent.name / "include"
        include.mkdir(parents=True, exist_ok=True)
        target = include / "nccl.h"
        if target.exists():
            target.unlink()
        os.symlink(header_path, target)
        source = self.folder / "probe.cpp"
        source.write_text(text)
        binary = self.folder / "probe"
        built = subprocess.run(
            [
                "g++",
                "-std=c++17",
                "-w",
                f"-I{include}",
                f"-I{self.folder}",
                str(source),
                "-o",
                str(binary),
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual(built.returncode, 0, built.stderr[:4000])
        return subprocess.run(
            [str(binary)], capture_output=True, text=True, check=True
        ).stdout.splitlines()

    def ours(self, version):
        path = self.folder / "ours" / version / "nccl.h"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header.nccl_h(SPEC, version))
        return path

    def test_every_installed_vendor_header_equals_ours_of_that_version(self):
        headers = vendor_headers()
        self.assertGreaterEqual(len(headers), 1, f"no vendor header below {VENDOR_DIR}")
        for version, path in headers.items():
            with self.subTest(version=version):
                known = spec_version(version)
                text = probe(known)
                if known == version:
                    text = text[:-2] + exact_part(version) + "\n}\n"
                theirs, ours = self.output_of(text, path), self.output_of(text, self.ours(known))
                if (
                    known != version
                ):  # their config struct has a newer tag; its prefix is compared above
                    rename = re.compile(r"ncclConfig_v\d+")
                    theirs, ours = (
                        [rename.sub("ncclConfig", line) for line in lines]
                        for lines in (theirs, ours)
                    )
                self.assertEqual(ours, theirs)
                print(f"  {version}: {len(ours)} properties equal")

    def test_the_example_compiles_against_every_vendor_header_and_ours(self):
        example = ROOT / "examples" / "c" / "allreduce.c"
        headers = {**vendor_headers(), "ours": self.ours(SPEC.default_version)}
        for version, path in headers.items():
            with self.subTest(version=version):
                done = subprocess.run(
                    ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
                    + [f"-I{path.parent}", f"-I{self.folder}", str(example)],
                    capture_output=True,
                    text=True,
                )
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_spec_names_every_function_of_the_vendor_header(self):
        for version, path in vendor_headers().items():
            with self.subTest(version=version):
                declared = set(re.findall(r"\bpnccl(\w+)\s*\(", path.read_text()))
                declared -= {"X"}
                spec_names = {
                    f.name
                    for f in SPEC.functions
                    if f.header == "nccl" and header.exists(f, version)
                }
                missing = declared - spec_names
                if spec_version(version) == version:
                    self.assertEqual(declared, spec_names)
                else:
                    print(
                        f"  {version} has {len(missing)} functions newer than the spec: "
                        f"{sorted(missing)}"
                    )
                    self.assertEqual(spec_names - declared, set())

    def test_exported_symbols_of_the_vendor_library_are_all_described(self):
        libraries = (
            [p for p in pathlib.Path(VENDOR_DIR or ".").glob("**/libnccl.so.2")]
            if VENDOR_DIR
            else []
        )
        self.assertGreaterEqual(len(libraries), 1, f"no libnccl.so.2 below {VENDOR_DIR}")
        for library in libraries:
            table = subprocess.run(
                ["nm", "-D", "--defined-only", str(library)],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            exported = {name[5:] for name in re.findall(r"\bpnccl\w+", table)}
            self.assertEqual(exported - {f.name for f in SPEC.functions}, set())

    def test_the_header_compiles_alone_as_c99_and_cpp_in_every_version(self):
        versions = [
            "2.19.3",
            "2.20.5",
            "2.22.3",
            "2.24.3",
            "2.27.3",
            "2.28.9",
            "2.29.7",
            "2.30.4",
            "2.30.7",
        ]
        for version in versions:
            path = self.ours(version)
            for language in (["gcc", "-std=c99", "-x", "c"], ["g++", "-std=c++11", "-x", "c++"]):
                done = subprocess.run(
                    language
                    + [
                        "-Wall",
                        "-Wextra",
                        "-pedantic",
                        "-Werror",
                        "-fsyntax-only",
                        "-DSABOT_NCCL_WITHOUT_CUDA",
                        str(path),
                    ],
                    capture_output=True,
                    text=True,
                )
                self.assertEqual(done.returncode, 0, f"{version} {language}: {done.stderr}")

    def test_the_spec_reader_agrees_with_tomllib(self):
        if sys.version_info < (3, 11):
            self.skipTest("tomllib needs Python 3.11")
        import tomllib

        text = SPEC_PATH.read_text(encoding="utf-8")
        self.assertEqual(spec_module.read_toml(text, "spec"), tomllib.loads(text))

    def test_a_malformed_spec_is_refused_with_file_and_line(self):
        with self.assertRaisesRegex(
            spec_module.SpecError, r"spec.toml:2: expected a string or a list"
        ):
            spec_module.read_toml("[[function]]\nname = 7\n", "spec.toml")
        with self.assertRaisesRegex(
            spec_module.SpecError, r"spec.toml:1: expected \[\[table\]\] or key = value"
        ):
            spec_module.read_toml("nonsense\n", "spec.toml")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--vendor-dir")
    options, rest = parser.parse_known_args()
    VENDOR_DIR = options.vendor_dir
    unittest.main(argv=[sys.argv[0]] + rest)

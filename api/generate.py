#!/usr/bin/env python3
"""Makes everything that follows from the API spec: headers, tables, entries, lists, reference.

    generate.py --spec api/nccl_api.toml --out BUILD/generated [--nccl-version 2.30.7]
    generate.py --spec api/nccl_api.toml --header-only FILE --nccl-version 2.28.9
    generate.py --spec api/nccl_api.toml --reference docs/reference/api.md

Outputs under --out:
    include/nccl.h                  the public header (header.py)
    include/sabot/nccl_device_host.h
    abi/function_id.hpp             one enumerator per function
    abi/api_list.hpp                SABOT_API(X) and a function's macros: C++ expands the rest
    abi/names.inc                   rows for abi/names.cpp
    entry/entries.S                 the exported symbols, each one indirect jump
    exports/nccl.map, .txt          what a library of ours exports

A file whose content did not change is not touched, so that a build follows real changes only.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import header  # noqa: E402
from spec import load, version_code  # noqa: E402

BANNER = (
    "// Generated from api/nccl_api.toml by api/generate.py: change the spec, not this file.\n"
)


def write(path, text):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    except FileNotFoundError:
        pass
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def function_id_hpp(spec):
    rows = "".join(f"  k{f.name},\n" for f in spec.functions)
    return (
        f"{BANNER}// One enumerator per NCCL function, in the order of the spec.\n#pragma once\n\n"
        "#include <cstdint>\n\nnamespace sabot::abi {\n\n"
        f"enum class FunctionId : std::uint16_t {{\n{rows}}};\n\n"
        f"inline constexpr int kFunctionCount = {len(spec.functions)};\n\n"
        "}  // namespace sabot::abi\n"
    )


FILL = {
    "send": "(sabot_call).send = {n};",
    "recv": "(sabot_call).recv = {n};",
    "inout": "(sabot_call).send = {n}; (sabot_call).recv = {n};",
    "count": "(sabot_call).has_count = true; (sabot_call).count = {n};",
    "datatype": "(sabot_call).datatype = {n};",
    "redop": "(sabot_call).redop = {n};",
    "root": "(sabot_call).root = {n};",
    "peer": "(sabot_call).peer = {n};",
    "comm": "(sabot_call).comm = {n};",
    "stream": "(sabot_call).stream = {n};",
    "rank": "(sabot_call).rank = {n};",
    "nranks": "(sabot_call).comm_ranks = {n};",
}


# The roles whose argument a layer may replace before it forwards (abi/around.hpp).
EDITED = {
    "send": "kSend",
    "recv": "kRecv",
    "inout": "kInOut",
    "count": "kCount",
    "datatype": "kDatatype",
    "redop": "kRedop",
    "root": "kRoot",
    "peer": "kPeer",
}


def function_macros(f):
    """The macros of one function: parameters, arguments, what fills a Call, what is printed, what
    a layer may replace."""
    params = ", ".join(a.declaration() for a in f.arguments)
    args = ", ".join(a.name for a in f.arguments)
    fill = " ".join(FILL[a.role].format(n=a.name) for a in f.arguments if a.role in FILL)
    roles = " ".join(
        f"(sabot_visit).role(::sabot::abi::Role::{EDITED[a.role]}, {a.name});"
        for a in f.arguments
        if a.role in EDITED
    )
    shown = [a for a in f.arguments if a.role in ("", "config") and a.type != "ncclTeam_t"]
    show = " ".join(
        f'(sabot_sink).field("{a.name}", {a.name});' for a in shown if "Handle" not in a.type
    )
    lines = [
        f"#define SABOT_PARAMS_{f.name} {params}",
        f"#define SABOT_ARGS_{f.name} {args}",
        f"#define SABOT_TAIL_PARAMS_{f.name} {', ' + params if params else ''}",
        f"#define SABOT_TAIL_ARGS_{f.name} {', ' + args if args else ''}",
        f"#define SABOT_FILL_{f.name}(sabot_call) {fill}",
        f"#define SABOT_ROLES_{f.name}(sabot_visit) {roles}",
        f"#define SABOT_SHOW_{f.name}(sabot_sink) {show}",
        f"#define SABOT_UNUSED_{f.name} {' '.join(f'(void){a.name};' for a in f.arguments)}",
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


CREATORS = {"init", "derive"}


def created_macro(f):
    """What the boundary needs of a call that creates communicators: where, how many, config, id."""
    one, many = f.argument("newcomm"), f.argument("newcomms")
    if not one and not many:
        return ""
    config, nranks = f.argument("config"), f.argument("nranks")
    where = (one or many).name
    count = nranks.name if many else "1"
    identity = f.argument("id")
    ids = f.argument("ids")
    id_text = f"&{identity.name}" if identity else (ids.name if ids else "nullptr")
    return (
        f"#define SABOT_CREATED_{f.name} "
        f"{where}, {count}, {config.name if config else 'nullptr'}, {id_text}\n"
    )


def api_list_hpp(spec):
    out = [
        BANNER,
        "// SABOT_API(X) expands X(Name, ReturnType) for every function; the other macros give\n"
        "// its parameters, its arguments and what they mean, for tables and bridges in C++.\n"
        "#pragma once\n\n#include <nccl.h>\n#include <sabot/nccl_device_host.h>\n\n",
    ]
    rows = " \\\n".join(f"  X({f.name}, {f.returns})" for f in spec.functions)
    out.append(f"#define SABOT_API(X) \\\n{rows}\n\n")
    creators = [f for f in spec.functions if f.kind in CREATORS]
    out.append(
        "#define SABOT_CREATORS(X) \\\n"
        + " \\\n".join(f"  X({f.name}, {f.returns})" for f in creators)
        + "\n\n"
    )
    ordinary = [f for f in spec.functions if f.kind not in CREATORS]
    out.append(
        "#define SABOT_ORDINARY(X) \\\n"
        + " \\\n".join(f"  X({f.name}, {f.returns})" for f in ordinary)
        + "\n\n"
    )
    absent = [f for f in spec.functions if f.absent_on_host]
    out.append(
        "#define SABOT_ABSENT_ON_HOST(X) \\\n"
        + " \\\n".join(f'  X({f.name}, {f.returns}, "{f.absent_on_host}")' for f in absent)
        + "\n\n"
    )
    for f in spec.functions:
        out.append(function_macros(f) + created_macro(f) + "\n")
    return "".join(out)


def names_inc(spec):
    """SABOT_FUNCTION_ROW(name, kind, since text, since code, has which roles)."""
    out = [BANNER]
    for f in spec.functions:
        roles = {a.role for a in f.arguments}
        flags = [
            "true" if r in roles else "false"
            for r in ("count", "datatype", "redop", "root", "peer", "stream", "comm")
        ]
        out.append(
            f'SABOT_FUNCTION_ROW({f.name}, {f.kind}, "{f.since}", {version_code(f.since)}, '
            f'{", ".join(flags)})\n'
        )
    for enum, macro in (
        ("ncclResult_t", "RESULT"),
        ("ncclDataType_t", "DATATYPE"),
        ("ncclRedOp_t", "REDOP"),
    ):
        values = next(e for e in spec.enums if e["name"] == enum)["values"]
        for value in values:
            name, _, number = header.split_since(value)[0].partition(" = ")
            out.append(f'SABOT_{macro}_ROW("{name}", {number})\n')
    return "".join(out)


X86 = """  .globl pnccl{name}
  .weak nccl{name}
  .type pnccl{name}, @function
  .type nccl{name}, @function
pnccl{name}:
nccl{name}:
  endbr64
  jmpq *sabot_entries+{offset}(%rip)
  .size pnccl{name}, .-pnccl{name}
  .size nccl{name}, .-nccl{name}
sabot_first_{index}:
  endbr64
  movl ${index}, %eax
  jmp sabot_first_use
"""

ARM = """  .globl pnccl{name}
  .weak nccl{name}
  .type pnccl{name}, %function
  .type nccl{name}, %function
pnccl{name}:
nccl{name}:
  hint #34
  adrp x16, sabot_entries
  add x16, x16, :lo12:sabot_entries
  ldr x16, [x16, #{offset}]
  br x16
  .size pnccl{name}, .-pnccl{name}
  .size nccl{name}, .-nccl{name}
sabot_first_{index}:
  hint #36
  mov w16, #{index}
  b sabot_first_use
"""


def entries_s(spec):
    """The exported symbols: strong pncclX and weak ncclX at one address, each one indirect jump
    through sabot_entries; before first use the slot leads through src/stack/first_use.S."""
    out = ["# " + BANNER[3:], "  .text\n#if defined(__x86_64__)\n"]
    numbered = list(enumerate(spec.functions))
    out += [X86.format(name=f.name, index=i, offset=8 * i) for i, f in numbered]
    out.append("#elif defined(__aarch64__)\n")
    out += [ARM.format(name=f.name, index=i, offset=8 * i) for i, f in numbered]
    out.append('#else\n#error "Sabot exports its entries on x86-64 and aarch64"\n#endif\n\n')
    out.append(
        '  .section .data.rel.local.sabot_entries,"aw"\n  .balign 64\n  .globl sabot_entries\n'
        "  .hidden sabot_entries\n  .type sabot_entries, %object\nsabot_entries:\n"
    )
    out += [f"  .quad sabot_first_{i}\n" for i, _ in numbered]
    out.append("  .size sabot_entries, .-sabot_entries\n" + own_functions_s())
    out.append('  .section .note.GNU-stack,"",%progbits\n')
    return "".join(out)


# What our libraries export besides NCCL's names: include/sabot/*.h.
OWN_EXPORTS = [
    "sabot_call_enter",
    "sabot_call_leave",
    "sabot_channel_put",
    "sabot_channel_ready",
    "sabot_channel_take",
    "sabot_comm_close",
    "sabot_comm_entered",
    "sabot_comm_fail",
    "sabot_comm_open",
    "sabot_fault_inject",
    "sabot_fault_withdraw",
    "sabot_link_generation",
    "sabot_link_rule_for",
    "sabot_stack_v1",
    "sabot_stream_call",
    "sabot_stream_create",
    "sabot_stream_destroy",
    "sabot_stream_query",
    "sabot_stream_synchronize",
    "sabot_wait_begin",
    "sabot_wait_end",
    "sabot_wait_pause",
]


def own_functions_s():
    """sabot_own_functions (src/stack/api/host_function.cpp): name and address of each of
    OWN_EXPORTS. Being referred to, they are linked."""
    rows = "".join(f"  .quad .Lname_{name}, {name}\n" for name in OWN_EXPORTS)
    names = "".join(f'.Lname_{name}:\n  .asciz "{name}"\n' for name in OWN_EXPORTS)
    return (
        '  .section .data.rel.ro.sabot_own_functions,"aw"\n  .balign 8\n'
        "  .globl sabot_own_functions\n  .hidden sabot_own_functions\n"
        f"  .type sabot_own_functions, %object\nsabot_own_functions:\n{rows}  .quad 0, 0\n"
        "  .size sabot_own_functions, .-sabot_own_functions\n"
        f'  .section .rodata.sabot_own_names,"a"\n{names}'
    )


def export_lists(spec, out_dir):
    names = sorted(p + f.name for f in spec.functions for p in ("nccl", "pnccl")) + OWN_EXPORTS
    rows = "".join(f"    {n};\n" for n in names)
    write(f"{out_dir}/exports/nccl.map", f"{{\n  global:\n{rows}  local: *;\n}};\n")
    write(f"{out_dir}/exports/nccl.txt", "".join(n + "\n" for n in names))


def reference_md(spec):
    out = [
        "# NCCL API reference\n\nGenerated from `api/nccl_api.toml`; do not edit. Every function "
        "Sabot knows, with the first NCCL release that has it.\n\n",
        "The host engine refuses some; the last column says what it tells the caller.\n\n"
        "| function | since | kind | arguments | what it does | host engine |\n"
        "|---|---|---|---|---|---|\n",
    ]
    for f in spec.functions:
        arguments = ", ".join(f"`{a.type} {a.name}`" for a in f.arguments) or "none"
        out.append(
            f"| `nccl{f.name}` | {f.since} | {f.kind} | {arguments} | {f.text} | "
            f"{'refused: ' + f.absent_on_host if f.absent_on_host else 'yes'} |\n"
        )
    return "".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--spec", required=True)
    parser.add_argument("--nccl-version", default="")
    parser.add_argument("--out")
    parser.add_argument("--header-only", metavar="FILE")
    parser.add_argument("--reference", metavar="FILE")
    options = parser.parse_args()
    spec = load(options.spec)
    version = options.nccl_version or spec.default_version
    if options.header_only:
        write(options.header_only, header.nccl_h(spec, version))
    if options.reference:
        write(options.reference, reference_md(spec))
    if options.out:
        out = options.out
        write(f"{out}/include/nccl.h", header.nccl_h(spec, version))
        write(f"{out}/include/sabot/nccl_device_host.h", header.device_host_h(spec, version))
        write(f"{out}/abi/function_id.hpp", function_id_hpp(spec))
        write(f"{out}/abi/api_list.hpp", api_list_hpp(spec))
        write(f"{out}/abi/names.inc", names_inc(spec))
        write(f"{out}/entry/entries.S", entries_s(spec))
        export_lists(spec, out)


if __name__ == "__main__":
    main()

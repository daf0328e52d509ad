"""Writes our nccl.h for one NCCL version from the spec, and the host half of the device header.

The result compiles as C99 and C++, with or without CUDA headers, and equals NVIDIA's header of
that version in enum values, struct layouts and signatures (tests/abi proves it against installed
ones)."""

from spec import version_code, version_key

BANNER = (
    "/* Generated from api/nccl_api.toml by api/generate.py: change the spec, not this file. */\n"
)


def exists(entry, version):
    """Whether a thing with optional since/until exists in this version."""
    key = version_key(version)
    since = entry.get("since") if isinstance(entry, dict) else entry.since
    until = entry.get("until") if isinstance(entry, dict) else None
    return (not since or version_key(since) <= key) and (not until or key < version_key(until))


def split_since(text):
    """ "NAME = VALUE @ 2.27.3" → ("NAME = VALUE", "2.27.3")."""
    body, _, since = text.partition(" @ ")
    return body, since


def present(texts, version):
    out = []
    for text in texts:
        body, since = split_since(text)
        if not since or version_key(since) <= version_key(version):
            out.append(body)
    return out


def macro_block(spec, version):
    major, minor, patch = version_key(version)
    lines = [
        f"#define NCCL_MAJOR {major}",
        f"#define NCCL_MINOR {minor}",
        f"#define NCCL_PATCH {patch}",
        '#define NCCL_SUFFIX ""',
        f"#define NCCL_VERSION_CODE {version_code(version)}",
        "#define NCCL_VERSION(X, Y, Z) \\",
        "  (((X) <= 2 && (Y) <= 8) ? (X) * 1000 + (Y) * 100 + (Z) : (X) * 10000 + (Y) * 100 + (Z))",
        "",
    ]
    for constant in spec.constants:
        if exists(constant, version):
            lines.append(f'#define {constant["name"]} {constant["value"]}')
    return "\n".join(lines) + "\n"


def enum_block(enum, version):
    values = present(enum["values"], version)
    if "count" in enum:
        top = max(int(v.split("=")[1], 0) for v in values)
        values.append(f'{enum["count"]} = {top + 1}')
    if "last" in enum:
        values.append(enum["last"])
    body = ",\n".join("  " + v for v in values)
    return f'typedef enum {{\n{body}\n}} {enum["name"]};\n'


def struct_block(struct, version):
    fields = [f.partition(" = ") for f in present(struct["fields"], version)]
    tag = ""
    if "tags" in struct:
        known = present(struct["tags"], version)
        tag = f'struct {struct["tag"]}_{(known or [struct["tags"][0].split()[0]])[-1]} '
    else:
        tag = "struct "
    body = "".join(f"  {declaration};\n" for declaration, _, _ in fields)
    out = f'typedef {tag}{{\n{body}}} {struct["name"]};\n'
    if "initializer" in struct:
        rows = ", \\\n".join(
            f"  {value} /* {declaration.split()[-1]} */" for declaration, _, value in fields
        )
        out += f'\n#define {struct["initializer"]} {{ \\\n{rows} }}\n'
    return out


def spelled(spec, type_text, version):
    for rule in spec.spellings:
        if exists(rule, version):
            type_text = type_text.replace(rule["from"], rule["to"])
    return type_text


def prototype(spec, function, version):
    arguments = (
        ", ".join(f"{spelled(spec, a.type, version)} {a.name}" for a in function.arguments)
        or "void"
    )
    return "".join(
        f"{function.returns} {prefix}{function.name}({arguments});\n"
        for prefix in ("nccl", "pnccl")
    )


CUDA_PART = """
/* With CUDA's headers at hand this header brings them in, as NVIDIA's does. Without them a stream
   is an opaque handle, which is all that the API needs. */
#if defined(__has_include)
#if __has_include(<cuda_runtime.h>) && !defined(SABOT_NCCL_WITHOUT_CUDA)
#include <cuda_runtime.h>
#define SABOT_NCCL_HAS_CUDA 1
#endif
#endif
#ifndef SABOT_NCCL_HAS_CUDA
typedef struct CUstream_st* cudaStream_t;
#endif
"""


def nccl_h(spec, version):
    out = [
        BANNER,
        f"/* The NCCL API, version {version}. */\n#ifndef NCCL_H_\n#define NCCL_H_\n",
        "#include <limits.h>\n#include <stddef.h>\n#include <stdint.h>\n",
        CUDA_PART,
        "\n",
        macro_block(spec, version),
        '\n#ifdef __cplusplus\nextern "C" {\n#endif\n\n',
    ]
    for item in spec.types:
        if item.get("header") != "device" and exists(item, version):
            out.append(item["text"] + "\n")
    for enum in spec.enums:
        if exists(enum, version):
            out.append("\n" + enum_block(enum, version))
    for struct in spec.structs:
        if exists(struct, version):
            out.append("\n" + struct_block(struct, version))
    out.append("\n")
    for function in spec.functions:
        if function.header == "nccl" and exists(function, version):
            out.append(f"/* {function.text} Since {function.since}. */\n")
            out.append(prototype(spec, function, version) + "\n")
    out.append("#ifdef __cplusplus\n} /* extern C */\n#endif\n#endif /* NCCL_H_ */\n")
    return "".join(out)


def device_host_h(spec, version):
    out = [
        BANNER,
        "/* The functions of NVIDIA's nccl_device.h that run on the host. Include this or that\n"
        "   header, not both: here the types that only pass through are opaque. */\n",
        "#ifndef SABOT_NCCL_DEVICE_HOST_H_\n#define SABOT_NCCL_DEVICE_HOST_H_\n\n"
        "#include <nccl.h>\n\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n\n',
    ]
    out += [item["text"] + "\n" for item in spec.types if item.get("header") == "device"]
    for function in spec.functions:
        if function.header == "device" and exists(function, version):
            out.append(f"\n/* {function.text} Since {function.since}. */\n")
            out.append(prototype(spec, function, version))
    out.append("\n#ifdef __cplusplus\n} /* extern C */\n#endif\n#endif\n")
    return "".join(out)

"""Finds functions in C and C++ by counting braces, and in Python by its own parser.

Good enough rather than exact: a body is a brace that follows a parameter list outside any other
body. Lambdas and local types count towards the function around them.
"""
import ast
import re

from sources import line_of

LINES_MAX = 70
KERNEL_LINES_MAX = 120
PARAMETERS_MAX = 6
NESTING_MAX = 4

SCOPE = re.compile(r"^(?:template\s*<.*>\s*)?(?:inline\s+)?(?:namespace\b|extern\b|class\b|struct\b"
                   r"|union\b|enum\b|export\b)", re.DOTALL)
INITIALISERS = re.compile(r"\)\s*(?:noexcept\s*)?:\s*[^:].*[\w>]\s*$", re.DOTALL)
# "struct stat of(const char* path)" is a function although its head begins like a type's.
RETURNS_A_TYPE = re.compile(r"\)\s*(?:const|noexcept|override|\s)*$")
ACCESS = re.compile(r"\s*(?:(?:public|private|protected)\s*:\s*)*")
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)|\[\[.*?\]\]|__extension__", re.DOTALL)
CONTROL = re.compile(r"^\s*(?:(?:case\b.*?[^:]:(?!:)|default\s*:)\s*)*"
                     r"(?:if|for|while|switch|do|else|try|catch)\b", re.DOTALL)
NAME = re.compile(r"(operator\s*(?:\(\)|[^\s\w(]+)|~?[A-Za-z_]\w*(?:<[^()]*>)?)\s*\(")
NCCL_TYPE = re.compile(r"\bnccl[A-Z]\w*")


class Function:
    def __init__(self, name, parameters, first, last, nesting, head):
        self.name = name
        self.parameters = parameters
        self.first = first
        self.last = last
        self.nesting = nesting
        self.head = head


def split_parameters(text):
    """Splits at commas outside brackets."""
    parts, depth, current = [], 0, ""
    for char in text:
        depth += char in "(<[{"
        depth -= char in ")>]}"
        if char == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += char
    parts.append(current)
    return [part.strip() for part in parts if part.strip() not in ("", "void")]


def closing(code, start, pair="()"):
    """Offset of the bracket that closes the one at start, or the end of the code."""
    depth = 0
    for offset in range(start, len(code)):
        depth += code[offset] == pair[0]
        depth -= code[offset] == pair[1]
        if depth == 0:
            return offset
    return len(code) - 1


def deepest(body):
    """How deep control blocks nest in a body without its outer braces."""
    depth, most, blocks, brackets, head = 0, 0, [], 0, 0
    for offset, char in enumerate(body):
        brackets += (char == "(") - (char == ")")
        if char == "{":
            is_control = bool(CONTROL.match(body[head:offset]))
            blocks.append((is_control, brackets))
            brackets = 0
            depth += is_control
            most = max(most, depth)
        elif char == "}" and blocks:
            was_control, brackets = blocks.pop()
            depth -= was_control
        if char in "{}" or (char == ";" and brackets == 0):
            head = offset + 1
    return most


def without_directives(code):
    return re.sub(r"(?m)^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), code)


def in_cxx(code):
    """Yields the functions with a body, in order."""
    code = without_directives(code)
    offset, head_start = 0, 0
    while offset < len(code):
        char = code[offset]
        if char == "(":
            offset = closing(code, offset)
        elif char in ";}":
            head_start = offset + 1
        elif char == "{":
            head_start += ACCESS.match(code[head_start:offset]).end()
            head = ATTRIBUTE.sub("", code[head_start:offset]).strip()
            if INITIALISERS.search(head):  # a member's braces: the body is yet to come
                offset = closing(code, offset, "{}")
            elif "(" in head and (not SCOPE.match(head) or RETURNS_A_TYPE.search(head)):
                end = closing(code, offset, "{}")
                yield describe(code, head_start, head, offset, end)
                offset = end
                head_start = offset + 1
            elif not SCOPE.match(head) and head:  # braces of an initialiser
                offset = closing(code, offset, "{}")
            else:
                head_start = offset + 1
        offset += 1


def describe(code, head_start, head, start, end):
    match = NAME.search(head)
    name = match.group(1) if match else "?"
    opening = match.end() - 1 if match else head.index("(")
    parameters = split_parameters(head[opening + 1:closing(head, opening)])
    return Function(name, parameters, line_of(code, head_start), line_of(code, end),
                    deepest(code[start + 1:end]), head)


def in_python(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            count = [a.arg for a in node.args.args if a.arg != "self"]  # keyword-only: named
            yield Function(node.name, count, node.lineno, node.end_lineno, 0, "")


def function_size(source):
    """Functions are short, take few parameters and nest little."""
    if source.is_cxx:
        functions = in_cxx(source.code)
    elif source.suffix == ".py" or source.text.startswith("#!/usr/bin/env python3"):
        functions = in_python(source.text)
    else:
        return
    for function in functions:
        lines = function.last - function.first + 1
        limit = KERNEL_LINES_MAX if "__global__" in function.head else LINES_MAX
        if lines > limit:
            yield function.first, f"{function.name} has {lines} lines, more than {limit};" \
                                  " give its parts names of their own"
        if len(function.parameters) > PARAMETERS_MAX and not NCCL_TYPE.search(function.head):
            yield function.first, f"{function.name} has {len(function.parameters)} parameters," \
                                  f" more than {PARAMETERS_MAX}; pass a named options struct"
        if function.nesting > NESTING_MAX:
            yield function.first, f"{function.name} nests {function.nesting} deep, more than" \
                                  f" {NESTING_MAX}; return early or name the inner part"

"""A file as the rules see it: its text, its lines, and its code without comments and literals.

Blanking keeps every line and column in place, so a rule may search `code` and report the position
it found. `comments` is the complement. Only C and C++ are split; other files are all code.
"""
import functools
import re

CXX = (".hpp", ".cpp", ".h", ".c", ".cuh", ".cu", ".def")
HEADERS = (".hpp", ".h", ".cuh", ".def")

# In this order: a literal that contains // must win over the comment.
TOKEN = re.compile(
    r'(?P<raw>R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)")'
    r'|(?P<text>"(?:\\.|[^"\\\n])*")'
    r"|(?P<char>(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+')"
    r"|(?P<comment>//[^\n]*|/\*.*?\*/)",
    re.DOTALL)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def split(text):
    """Returns (code, comments): the text with literals and comments blanked, and the comments."""
    code, comments, last = [], [], 0
    for match in TOKEN.finditer(text):
        between, token = text[last:match.start()], match.group(0)
        code.append(between)
        comments.append(blank(between))
        is_comment = match.lastgroup == "comment"
        # An include's path and a literal's quotes stay visible to nobody but `lines`.
        code.append(blank(token))
        comments.append(token if is_comment else blank(token))
        last = match.end()
    code.append(text[last:])
    comments.append(blank(text[last:]))
    return "".join(code), "".join(comments)


class Source:
    """One file of the repository; `path` is relative to its root, with forward slashes."""

    def __init__(self, path, text, executable=False):
        self.path = path
        self.text = text
        self.executable = executable
        self.name = path.rsplit("/", 1)[-1]
        self.suffix = "." + self.name.rsplit(".", 1)[1] if "." in self.name[1:] else ""

    @functools.cached_property
    def lines(self):
        return self.text.splitlines()

    @functools.cached_property
    def _split(self):
        return split(self.text) if self.is_cxx else (self.text, "")

    @property
    def code(self):
        return self._split[0]

    @functools.cached_property
    def code_lines(self):
        return self.code.splitlines()

    @functools.cached_property
    def comment_lines(self):
        return self._split[1].splitlines()

    @property
    def is_cxx(self):
        return self.suffix in CXX

    @property
    def is_header(self):
        return self.suffix in HEADERS

    @property
    def is_test(self):
        stem = self.name.rsplit(".", 1)[0]
        return self.path.startswith("tests/") or stem.endswith(("_test", "_fuzz", "_fixture"))

    def starts(self, *prefixes):
        return self.path.startswith(prefixes)

    def opening_comment(self):
        """The comment or docstring a file opens with, as lines without their markers."""
        lines = self.lines[1:] if self.text.startswith("#!") else self.lines
        if self.suffix == ".py" or (lines and lines[0].startswith('"""')):
            match = re.match(r'\s*(?:"""|\'\'\')(.*?)(?:"""|\'\'\')', "\n".join(lines), re.DOTALL)
            return match.group(1).strip().splitlines() if match else []
        if lines and lines[0].startswith("/*"):
            body = "\n".join(lines)
            return [line.strip(" *") for line in body[2:body.index("*/")].strip().splitlines()]
        marker = "//" if self.is_cxx else "#"
        opening = []
        for line in lines:
            if not line.startswith(marker):
                break
            opening.append(line[len(marker):].strip())
        return opening


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1

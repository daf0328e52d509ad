#!/usr/bin/env python3
"""Tests of the transcript checker: what it takes for a transcript, and when output differs."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import transcripts  # noqa: E402

DOCUMENT = """# Title

```console
$ not checked
```

<!-- checked -->
```console
$ echo one; echo two
one
two
$ echo \\
> three
three
```
"""


class Transcripts(unittest.TestCase):
    def test_only_marked_blocks_are_run(self):
        (steps,) = transcripts.transcripts(DOCUMENT)
        self.assertEqual([(s.line, s.command, s.expected) for s in steps],
                         [(9, "echo one; echo two", ["one", "two"]),
                          (12, "echo \\\nthree", ["three"])])

    def test_an_ellipsis_stands_for_text_or_for_lines(self):
        self.assertTrue(transcripts.matches(["pid …", "…", "end"], ["pid 12", "a", "b", "end"]))
        self.assertTrue(transcripts.matches(["…", "end"], ["end"]))
        self.assertFalse(transcripts.matches(["pid …"], ["pid 12", "more"]))
        self.assertFalse(transcripts.matches(["a.c"], ["abc"]))

    def test_a_command_that_prints_something_else_is_shown_with_its_output(self):
        with tempfile.TemporaryDirectory() as stage:
            self.assertEqual(list(transcripts.check("a.md", DOCUMENT, stage)), [])
            errors = list(transcripts.check("a.md", DOCUMENT.replace("\nthree", "\n3"), stage))
        self.assertEqual(errors, ["a.md:12: error: this prints something else: echo \\\nthree\n"
                                  "    three"])


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The four outputs of a drill, read back by parsers that are not ours, and compared in full.

    outputs_test.py --sample PROGRAM [TEST…]     PROGRAM prints the sample: drill_report_sample

The golden files are rewritten with SABOT_UPDATE=1. The sample's texts try to break out of every
format; the parsers prove that they stay texts.
"""
import argparse
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import unicodedata
import unittest
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DOCUMENT = ROOT / "docs" / "drill.md"
GOLDEN = ROOT / "tests" / "golden" / "drill"
OPTIONS = argparse.Namespace(sample="")
FORMATS = {"table": "table.txt", "junit": "junit.xml", "json": "report.json", "html": "page.html"}
HOSTILE = "</script><img src=x onerror=alert(1)> & \"quoted\" 'too'"

# What the strictest reader of JUnit files knows: element → (attributes, children).
JUNIT = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": ({"name", "tests", "failures", "errors", "skipped", "time", "timestamp",
                   "hostname"}, {"properties", "testcase"}),
    "properties": (set(), {"property"}),
    "property": ({"name", "value"}, set()),
    "testcase": ({"classname", "name", "time"}, {"skipped", "failure", "error", "system-out"}),
    "skipped": ({"message"}, set()),
    "failure": ({"message", "type"}, set()),
    "error": ({"message", "type"}, set()),
    "system-out": (set(), set()),
}


def sample(output, *words):
    done = subprocess.run([OPTIONS.sample, output, *words], stdout=subprocess.PIPE, timeout=30,
                          check=True)
    return done.stdout.decode("utf-8")


class Outputs(unittest.TestCase):
    maxDiff = None

    def test_each_output_of_the_sample_is_the_golden_one(self):
        for output, name in FORMATS.items():
            path = GOLDEN / name
            text = sample(output)
            if os.environ.get("SABOT_UPDATE") == "1":
                path.write_text(text, encoding="utf-8")
            self.assertEqual(text, path.read_text(encoding="utf-8"),
                             f"{path} is stale; SABOT_UPDATE=1 rewrites it")

    def test_no_output_but_the_json_has_a_character_that_drives_a_terminal(self):
        for output in FORMATS:
            odd = {c for c in sample(output) if unicodedata.category(c) in ("Cc", "Cf")}
            # In JSON, what reorders text is part of a value and comes as it was.
            self.assertLessEqual(odd, {"\n", "\u202e"} if output == "json" else {"\n"}, output)


class Table(unittest.TestCase):
    def test_it_fits_eighty_columns_but_for_what_is_copied(self):
        for line in sample("table").splitlines():
            if not line.strip().startswith(("again:", "record:")):
                self.assertLessEqual(len(line), 80, line)

    def test_a_drill_that_was_skipped_says_why(self):
        self.assertIn("skipped: the Python package torchft is not installed",
                      " ".join(sample("table", "skipped").split()))


class JUnit(unittest.TestCase):
    def setUp(self):
        self.root = ElementTree.fromstring(sample("junit"))
        self.cases = list(self.root.iter("testcase"))

    def test_elements_and_attributes_are_those_that_every_reader_knows(self):
        for root in (self.root, ElementTree.fromstring(sample("junit", "skipped"))):
            for element in root.iter():
                attributes, children = JUNIT[element.tag]
                self.assertLessEqual(set(element.keys()), attributes, element.tag)
                self.assertLessEqual({child.tag for child in element}, children, element.tag)

    def test_the_totals_are_those_of_the_cases(self):
        def count(tag):
            return str(len(list(self.root.iter(tag))))

        for element in (self.root, self.root.find("testsuite")):
            self.assertEqual(
                (element.get("tests"), element.get("failures"), element.get("errors")),
                (count("testcase"), count("failure"), count("error")))
        self.assertEqual(self.root.find("testsuite").get("skipped"), count("skipped"))

    def test_names_are_distinct_and_hostile_ones_come_back_whole(self):
        names = [case.get("name") for case in self.cases]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn(HOSTILE, names)

    def test_a_failure_has_its_reasons_in_the_message_and_in_the_body(self):
        failure = next(case for case in self.cases if case.get("name") == HOSTILE).find("failure")
        reason = ("expected that the job completes or recovers, but its result is not that of the"
                  " baseline")
        self.assertEqual(failure.get("type"), "wrong-result")
        self.assertTrue(failure.get("message").startswith(reason + "; the check says: "))
        self.assertEqual(failure.text.splitlines()[0], reason)

    def test_the_output_of_a_case_has_the_facts_and_the_log_without_control_characters(self):
        output = next(case for case in self.cases if case.get("name") == HOSTILE)
        lines = output.findtext("system-out").splitlines()
        self.assertEqual(lines[0], "outcome: wrong-result (expected completes|recovers), detected:"
                                   " -, recovered: -, attempts: 1, exit status 0")
        self.assertEqual(lines[-2:], [
            "a bell \\x07, a NUL \\x00, no UTF-8 \ufffd, turned \\u202e.",
            "]]> <system-out> &amp; </pre><script>alert(1)</script>"])

    def test_a_skipped_drill_is_one_skipped_case(self):
        root = ElementTree.fromstring(sample("junit", "skipped"))
        self.assertEqual([root.get("tests"), root.get("failures")], ["1", "0"])
        self.assertEqual(root.find(".//skipped").get("message"),
                         "the Python package torchft is not installed")


class Json(unittest.TestCase):
    def keys(self, value, prefix=""):
        """Every key with its way from the top: "cases[].check.ran"."""
        if isinstance(value, list):
            for item in value:
                yield from self.keys(item, prefix + "[]")
        elif isinstance(value, dict):
            for key, item in value.items():
                name = f"{prefix}.{key}".lstrip(".")
                yield name
                yield from self.keys(item, name)

    def test_it_is_what_the_sample_holds(self):
        content = json.loads(sample("json"))
        self.assertEqual(content["seed"], 18446744073709551615)
        self.assertEqual([case["outcome"] for case in content["cases"]], [
            "recovers", "wrong-result", "hangs", "completes", "not-recorded", "skipped"])
        self.assertEqual(content["cases"][1]["name"], HOSTILE)
        self.assertEqual(content["cases"][0]["detection_ns"], 3000000)
        self.assertEqual(content["counts"], {"cases": 7, "holding": 2, "failing": 4, "skipped": 1,
                                             "not_recorded": 1, "left_out": 30})
        self.assertFalse(content["holds"])

    def test_the_document_lists_every_key_and_no_other(self):
        used = set(self.keys(json.loads(sample("json"))))
        used = {re.sub(r"^baseline(?=\.)", "cases[]", key) for key in used}
        section = DOCUMENT.read_text(encoding="utf-8").split("<!-- keys of the JSON -->")[1]
        listed = re.findall(r"^\| `([\w.\[\]]+)` \|", section, re.MULTILINE)
        self.assertEqual(sorted(listed), sorted(used))


class Elements(html.parser.HTMLParser):
    """Tags, attributes and texts as a browser's parser would see them."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.texts = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data):
        self.texts.append(data)


class Page(unittest.TestCase):
    def setUp(self):
        self.text = sample("html")
        self.elements = Elements(self.text)

    def test_it_is_well_formed(self):
        for text in (self.text, sample("html", "skipped")):
            root = ElementTree.fromstring(text.replace("<!DOCTYPE html>", "", 1))
            self.assertEqual([child.tag for child in root], ["head", "body"])

    def test_it_loads_nothing_and_runs_nothing(self):
        self.assertNotRegex(self.text, r"(?i)https?:|//[a-z]|url\(|@import|javascript:")
        tags = set(self.elements.tags)
        self.assertFalse(tags & {"script", "img", "link", "iframe", "object", "a", "form", "svg"})
        for tag, name, _ in self.elements.attributes:
            self.assertFalse(name.startswith("on") or name in ("src", "href"), (tag, name))
        self.assertIn(("meta", "content", "default-src 'none'; style-src 'unsafe-inline'"),
                      self.elements.attributes)

    def test_hostile_texts_stay_texts(self):
        self.assertIn(HOSTILE, self.elements.texts)
        self.assertTrue(any("</pre><script>alert(1)</script>" in text
                            for text in self.elements.texts))

    def test_ids_are_distinct_and_labels_lead_to_them(self):
        ids = [value for _, name, value in self.elements.attributes if name == "id"]
        self.assertEqual(len(ids), len(set(ids)))
        targets = [value for _, name, value in self.elements.attributes if name == "for"]
        self.assertTrue(targets and set(targets) <= set(ids))

    def test_it_serves_phones_and_both_colour_schemes(self):
        self.assertIn(("meta", "content", "width=device-width, initial-scale=1"),
                      self.elements.attributes)
        self.assertIn("prefers-color-scheme: dark", self.text)
        widths = [int(number) for number in re.findall(r"(?<!max-)width:\s*(\d+)px", self.text)]
        self.assertTrue(all(width <= 360 for width in widths), widths)

    def test_every_case_has_its_timeline_but_the_one_that_did_not_run(self):
        body = ElementTree.fromstring(self.text.replace("<!DOCTYPE html>", "", 1)).find("body")
        articles = {article.findtext("h2/span").lower(): article
                    for article in body.iter("article")}
        self.assertEqual(sorted(articles), ["as expected", "not as expected", "skipped"])
        with_timeline = [article for article in body.iter("article")
                         if article.find("div[@class='timeline']") is not None]
        self.assertEqual(len(with_timeline), 6)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", required=True)
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.sample = os.path.abspath(OPTIONS.sample)
    unittest.main(argv=sys.argv[:1] + rest)

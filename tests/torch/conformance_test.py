#!/usr/bin/env python3
"""The law of conformance.py on literal results: what counts as a difference, and what is told."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import conformance  # noqa: E402


def results(backend, **tests):
    rows = {name: {"result": text.split(" ", 1)[0], "reason": text.partition(" ")[2]}
            for name, text in tests.items()}
    return {"backend": backend, "world": 2, "answers": "", "tests": rows}


def gates(*rows):
    made = conformance.Gates.__new__(conformance.Gates)
    made.rows = list(rows)
    made.known = {(test, 2): row for row in rows for test in row["tests"]}
    return made


GATE = {"tests": ["test_future"], "ours": "skipped", "reason": "for the name gloo only"}


class Law(unittest.TestCase):
    def test_equal_results_and_what_gloo_does_not_pass_are_no_differences(self):
        control = results("gloo", test_a="passed", test_b="skipped no GPU", test_c="failed boom")
        ours = results("sabot", test_a="passed", test_b="failed other", test_c="skipped why")
        self.assertEqual(conformance.differences(control, ours, gates()), [])

    def test_a_test_that_passes_with_gloo_alone_is_told_with_the_reason(self):
        control = results("gloo", test_a="passed", test_b="passed")
        ours = results("sabot", test_a="failed ValueError: no", test_b="skipped by name")
        self.assertEqual(conformance.differences(control, ours, gates()), [
            "test_a, world 2: passed with gloo, failed with sabot: ValueError: no",
            "test_b, world 2: passed with gloo, skipped with sabot: by name"])

    def test_a_known_difference_is_accepted_in_the_kind_that_is_known(self):
        control = results("gloo", test_future="passed")
        skipped, failed = (results("sabot", test_future=text) for text in ("skipped", "failed x"))
        self.assertEqual(conformance.differences(control, skipped, gates(GATE)), [])
        self.assertEqual(conformance.differences(control, failed, gates(GATE)), [
            "test_future, world 2: passed with gloo, failed with sabot: x"])

    def test_a_known_difference_that_is_none_any_more_is_an_error(self):
        both = [results(name, test_future="passed") for name in ("gloo", "sabot")]
        self.assertEqual(conformance.differences(*both, gates(GATE)), [
            "test_future, world 2: passed with gloo, passed with sabot; remove its row from"
            " known_gates.toml"])

    def test_a_test_that_did_not_run_with_ours_is_a_difference(self):
        self.assertEqual(
            conformance.differences(results("gloo", test_a="passed"), results("sabot"), gates()),
            ["test_a, world 2: passed with gloo, missing with sabot: it did not run"])

    def test_what_is_skipped_for_its_name_must_pass_when_the_name_is_answered(self):
        control = results("gloo", test_future="passed")
        answered = results("sabot", test_future="failed KeyError: 1")
        self.assertEqual(conformance.misnamed(control, answered, gates(GATE)), [
            "test_future, world 2, taken for gloo: failed, not passed: KeyError: 1"])

    def test_the_reason_of_a_failure_is_the_line_of_its_error(self):
        self.assertEqual(conformance.short("Traceback\n  File x\nValueError: odd\n\nrun this\n"),
                         "ValueError: odd")


class List(unittest.TestCase):
    def test_every_row_has_a_reason_and_no_test_stands_twice(self):
        known = conformance.Gates()
        named = [(test, world) for row in known.rows for test in row["tests"]
                 for world in row.get("worlds", [2, 3])]
        self.assertEqual(len(named), len(set(named)))
        for row in known.rows:
            self.assertIn(row["ours"], ("skipped", "failed"))
            self.assertGreater(len(row["reason"]), 20)

    def test_the_list_in_the_document_is_this_one(self):
        page = conformance.HERE.parents[1] / "docs" / "torch.md"
        self.assertIn("\n".join(conformance.table_lines(conformance.Gates())), page.read_text())


if __name__ == "__main__":
    unittest.main()

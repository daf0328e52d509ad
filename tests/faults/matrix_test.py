"""The grammar of the fault matrix: what is read, and what every kind of mistake is told."""

import unittest

import matrix

ROW = """
[sets]
two = ["AllReduce", "Broadcast"]
[default]
within = { threads = "2s", processes = "2s", torch = "9s", real = "9s" }
afterwards = ["abort"]
[[row]]
name = "hang"
do = "hang"
calls = "two"
phases = ["first", "steady"]
host = ["waits", "ok | waits"]
"""


def mistake(text):
    try:
        return f"{len(matrix.read(text))} cases"
    except matrix.Mistake as found:
        return str(found)


class MatrixTest(unittest.TestCase):
    def test_a_row_is_multiplied_by_calls_phases_and_subjects(self):
        cases = matrix.read(ROW)
        self.assertEqual(len(cases), 2 * 2 * 2)
        self.assertEqual(cases[0].name, "hang/AllReduce/first/threads")
        self.assertEqual(cases[0].fault, "hang: AllReduce[rank=1,nth=1,attempt=0]=hang")
        self.assertEqual(
            cases[-1].fault, "hang: Broadcast[world_rank=1,rank=1,nth=3,attempt=0]=hang")
        self.assertEqual(cases[0].sight.others, {"ok", "waits"})
        self.assertEqual(cases[0].sight.within_ms, 2000)

    def test_the_step_under_test_is_where_the_fault_fires(self):
        steps = {case.phase: case.steps for case in matrix.read(ROW)}
        self.assertEqual(steps["first"], (["init", "Broadcast", "destroy"], 1))
        self.assertEqual(steps["steady"], (["init", *["Broadcast"] * 3, "destroy"], 3))

    def test_only_real_streams_are_captured(self):
        row = ROW.replace('["first", "steady"]', '["graph"]')
        self.assertEqual(mistake(row), "the matrix has no row")
        real = row + 'real = ["waits", "waits"]\n'
        self.assertEqual(mistake(real), "2 cases")

    def test_unknown_words_are_told_with_those_that_are_known(self):
        self.assertEqual(
            mistake(ROW.replace("phases", "phase")),
            "row 1: unknown key 'phase'; known here: name, do, calls, phases, all, host, "
            "threads, processes, torch, real, within, late, afterwards, refused")
        self.assertEqual(
            mistake(ROW.replace('"steady"', '"later"')),
            "row 'hang'.phases: no 'later'; known here: init, first, steady, group, graph, "
            "finalize")
        self.assertEqual(
            mistake(ROW.replace('"two"', '"three"')),
            "row 'hang': no set of calls is called 'three'; known: two")
        self.assertEqual(
            mistake(ROW.replace('"ok | waits"', '"ok | hangs"')),
            "row 'hang'.threads.others: 'hangs' is nothing that a rank can see; it sees ok, late, "
            "wrong, waits, \"error ncclX\", \"async ncclX\" or \"gone SIGKILL\"")

    def test_what_is_missing_is_told(self):
        self.assertEqual(
            mistake(ROW.replace('["waits", "ok | waits"]', '{ faulty = "ok" }')),
            "row 'hang'.threads: 'others' is missing")
        self.assertEqual(
            mistake(ROW.replace('["waits", "ok | waits"]', '["waits"]')),
            "row 'hang'.threads: expected [what rank 1 sees, what the others see] or a table")
        self.assertEqual(
            mistake(ROW.replace("host =", "# ")),
            "row 'hang': says of no subject what it shows")
        self.assertEqual(
            mistake(ROW.replace('threads = "2s"', 'threads = "2"')),
            "row 'hang'.threads.within: expected a duration such as \"500ms\" or \"5s\"; found '2'")

    def test_the_narrower_word_wins(self):
        row = ROW + 'all = ["ok", "ok"]\nreal = ["wrong", "ok"]\nwithin = "5s"\n'
        seen = {case.subject: case.sight for case in matrix.read(row)}
        self.assertEqual({s: set(sight.faulty) for s, sight in seen.items()},
                         {"threads": {"waits"}, "processes": {"waits"}, "torch": {"ok"},
                          "real": {"wrong"}})
        self.assertEqual({sight.within_ms for sight in seen.values()}, {5000})

    def test_late_needs_its_time(self):
        self.assertEqual(
            mistake(ROW.replace('["waits",', '["late",')),
            "row 'hang'.threads: 'late' is a sight and a time; give both or neither")

    def test_a_call_belongs_to_its_phase(self):
        self.assertEqual(
            mistake(ROW.replace('["first", "steady"]', '["finalize"]')),
            "row 'hang': AllReduce is not called in phase 'finalize'")

    def test_a_name_is_given_once(self):
        self.assertEqual(
            mistake(ROW + ROW[ROW.index("[[row]]"):]), "row 'hang' is there twice")


class SightTest(unittest.TestCase):
    CASE = matrix.read(ROW)[3]  # steady, threads

    def seen(self, lines, ends=(0,)):
        job = matrix.Job([{"rank": 0, "reported": None, "data": True, "ms": 1, **line}
                          for line in lines], list(ends), [], "")
        return matrix.sight_of(self.CASE, job, 0)[0]

    def test_the_first_trouble_is_what_a_rank_saw(self):
        good = {"step": "AllReduce", "result": "ncclSuccess"}
        self.assertEqual(self.seen([good] * 4), "ok")
        self.assertEqual(self.seen([good, {**good, "result": "ncclRemoteError"}]),
                         "error ncclRemoteError")
        self.assertEqual(self.seen([good, good, good, {**good, "data": False}]), "wrong")
        self.assertEqual(self.seen([good] * 3 + [{"step": "AllReduce", "waits": True}]), "waits")
        self.assertEqual(self.seen([good] * 3 + [{**good, "reported": "ncclRemoteError"}]),
                         "async ncclRemoteError")

    def test_who_says_no_more_is_gone(self):
        good = {"step": "AllReduce", "result": "ncclSuccess"}
        self.assertEqual(self.seen([good], ends=(-9,)), "gone SIGKILL")
        self.assertEqual(self.seen([good], ends=(3,)), "gone 3")


if __name__ == "__main__":
    unittest.main()

"""What mismatched calls and corrupted data do to a world of ranks.

python3 payload_test.py --guest PROGRAM --stub LIBRARY --preload LIBRARY [unittest arguments]

One process a rank runs payload_guest.c. Most tests compare two worlds: one in which a fault acts
on rank 1, and one without faults in which rank 1 itself called or brought what the fault should
make of it. The other ranks must not be able to tell them apart.
All of that is on the host engine; what may be mismatched before the real library is seen under the
preload, over a stub that counts the calls it gets.
"""

import argparse
import glob
import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

PATHS = None
RANKS = 3
UNTOUCHED = 0xEEEEEEEE  # what the guest puts into outputs
DEADLINE_S = 60


class Rank:
    """The lines of one rank."""

    def __init__(self, text):
        self.lines = text.splitlines()

    def elements(self, what, call=0):
        start = f"{what} {call}"
        line = next(x for x in self.lines if x == start or x.startswith(start + " "))
        return [int(word, 16) for word in line.split()[2:]]

    def output(self, call=0):
        return self.elements("output", call)

    def round(self, number):
        return self.lines[self.lines.index(f"round {number}") :]

    def without_input(self):
        """The lines that do not depend on what this rank brought."""
        return [x for x in self.lines if not x.startswith("input ")]


def called(function, **words):
    return [function, *(f"{key}={value}" for key, value in words.items())]


def world(words, fault="", rank_1=None, folder="", seed=""):
    """The lines of each rank of a world that calls the words; rank 1 calls others if it is told."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SABOT_")}
    env.update(SABOT_ENGINE="host", SABOT_QUIET="1")
    with tempfile.TemporaryDirectory(prefix="sabot-payload-") as own:
        if fault:
            env.update(SABOT_FAULT=fault, SABOT_RUN_FOLDER=folder or own)
        if seed:
            env["SABOT_SEED"] = seed
        processes = []
        try:
            for rank in range(RANKS):
                mine = rank_1 if rank == 1 and rank_1 else words
                command = [PATHS.guest, str(rank), str(RANKS), f"{own}/id", *mine]
                processes.append(started(command, env))
            return [finished(process) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.communicate()


def started(command, env):
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True)


def finished(process):
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"hangs: {process.args}") from None
    if process.returncode != 0:
        raise AssertionError(f"exit status {process.returncode}: {process.args}\n{out}{err}")
    return Rank(out)


def on_rank_1(call, action):
    return f"odd-one: {call}[rank=1]={action}"


def float_of(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def told(rank):
    """The lines but the outputs, which a failed call may have begun to write. Of the two ranks
    that a text names, rank 1 stands first, and the other, who is whoever noticed, has no number."""
    lines = []
    for line in rank.lines:
        if line.startswith("output "):
            continue
        who = re.fullmatch(
            r"text (.*): rank (\d) called (.*), but rank (\d) called (.*) \((.*)", line
        )
        if who and who[2] == "1":
            line = f"text {who[1]}: {who[3]} / {who[5]} ({who[6]}"
        elif who and who[4] == "1":
            line = f"text {who[1]}: {who[5]} / {who[3]} ({who[6]}"
        lines.append(line)
    return lines


def differing(a, b):
    return [i for i, (x, y) in enumerate(zip(a, b)) if x != y]


class PayloadTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="sabot-payload-run-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def fired(self, words, action, refusal=""):
        """The world in which the action fires once on rank 1, and is refused so."""
        ranks = world(words, on_rank_1(words[0], action), folder=self.folder)
        self.check_journal(1, refusal)
        for rank in ranks:
            self.assertNotIn("guards touched", rank.lines)
        return ranks

    def check_refused(self, words, action, refusal):
        """Nothing is done, everything is as without the fault, and the journal says why."""
        ranks = self.fired(words, action, refusal)
        for rank, plain in zip(ranks, world(words)):
            self.assertEqual(rank.lines, plain.lines)

    def check_journal(self, firings, refusal=""):
        lines = []
        for path in sorted(glob.glob(f"{self.folder}/journal/*.jsonl")):
            with open(path, encoding="utf-8") as file:
                lines += [json.loads(line) for line in file]
        refused = [line["refused"] for line in lines if "refused" in line]
        self.assertEqual(len(lines) - len(refused), firings, lines)
        self.assertEqual({line["rank"] for line in lines}, {1})
        self.assertEqual(len(refused), 1 if refusal else 0, lines)
        self.assertIn(refusal, "".join(refused))


class Mismatch(PayloadTest):
    def check(self, words, action, rank_1):
        """The fault makes the same world as a rank 1 that really calls so."""
        faulted = self.fired(words, action)
        wanted = world(words, rank_1=rank_1)
        for rank in (0, 2):
            self.assertEqual(told(faulted[rank]), told(wanted[rank]))
        results = [[x for x in w[1].lines if " result " in x] for w in (faulted, wanted)]
        self.assertEqual(results[0], results[1])
        self.assertIn("input same", faulted[1].lines)
        return faulted

    def test_of_the_count_is_named_on_every_rank_with_both_shapes(self):
        ranks = self.check(
            called("AllReduce", count=8), "mismatch(count,to=5)", called("AllReduce", count=5)
        )
        for rank in ranks:
            self.assertIn("call 0 result 5", rank.lines)
            text = next(x for x in rank.lines if x.startswith("text "))
            self.assertIn("AllReduce count=5 float32 sum", text)
            self.assertIn("AllReduce count=8 float32 sum", text)
            self.assertIn("rank 1", text)
            self.assertIn("abort 0 result 0", rank.lines)

    def test_of_the_data_type_is_seen_by_every_rank(self):
        self.check(
            called("AllReduce"),
            "mismatch(datatype,to=bfloat16)",
            called("AllReduce", datatype="bfloat16"),
        )

    def test_of_the_reduction_is_seen_by_every_rank(self):
        self.check(
            called("ReduceScatter"), "mismatch(redop,to=max)", called("ReduceScatter", redop=2)
        )

    def test_of_the_root_is_seen_by_every_rank(self):
        self.check(called("Broadcast"), "mismatch(root,to=2)", called("Broadcast", root=2))

    def test_of_the_root_may_be_this_rank_where_its_buffers_allow_it(self):
        self.check(called("Broadcast"), "mismatch(root,to=1)", called("Broadcast", root=1))

    def test_of_the_collective_is_seen_by_every_rank(self):
        self.check(called("AllReduce"), "mismatch(call,to=Broadcast)", called("Broadcast"))

    def test_of_the_collective_takes_a_smaller_count_where_the_buffers_ask_for_it(self):
        self.check(
            called("AllReduce", count=9),
            "mismatch(call,to=AllGather)",
            called("AllGather", count=3),
        )

    def test_on_a_stream_is_told_when_the_stream_is_waited_for(self):
        ranks = self.check(
            called("AllGather", stream=1),
            "mismatch(count,to=2)",
            called("AllGather", stream=1, count=2),
        )
        self.assertIn("call 0 result 0", ranks[0].lines)
        self.assertIn("stream 0 result 5", ranks[0].lines)

    def test_in_a_group_is_told_by_the_end_of_the_group(self):
        words = called("AllReduce", group=1)
        ranks = self.check(words, "mismatch(count,to=5)", called("AllReduce", group=1, count=5))
        self.assertIn("call 0 result 0", ranks[0].lines)
        self.assertIn("group 0 result 5", ranks[0].lines)

    def test_leaves_nothing_behind_for_the_next_communicator(self):
        for words in (called("AllReduce", rounds=2), called("AllReduce", rounds=2, stream=1)):
            with self.subTest(words=words):
                fault = "odd-one: AllReduce[rank=1,comm=c0]=mismatch(count,to=2)"
                ranks, plain = world(words, fault), world(words)
                for rank in range(RANKS):
                    self.assertIn("abort 0 result 0", ranks[rank].lines)
                    self.assertEqual(ranks[rank].round(1), plain[rank].round(1))

    def test_of_a_send_is_told_to_its_receiver(self):
        faulted = world(
            called("Ring"), "odd-one: Send[rank=1]=mismatch(count,to=3)", folder=self.folder
        )
        self.check_journal(1)
        text = next(x for x in faulted[2].lines if x.startswith("text "))
        self.assertIn("rank 1 sends count=3 float32 to rank 2", text)
        self.assertIn("which receives count=8 float32", text)

    def test_that_would_leave_the_callers_buffers_is_refused_and_the_call_made_as_it_was(self):
        self.check_refused(
            called("AllReduce", count=8),
            "mismatch(count,to=9)",
            "its buffers hold 8 elements, a count of 9 needs more",
        )

    def test_to_a_root_without_buffers_is_refused(self):
        self.check_refused(
            called("Scatter", count=4),
            "mismatch(root,to=1)",
            "rank 1 would need an input buffer of 48 bytes",
        )


class CorruptInput(PayloadTest):
    def check_zeroed(self, words, place_of_output):
        """Rank 1's zeroed element, found from rank 0's output, explains all that is seen."""
        faulted = self.fired(words, "corrupt(zero)")
        plain = world(words)
        places = differing(faulted[0].output(), plain[0].output())
        self.assertEqual(len(places), 1)
        place = place_of_output(places[0])
        wanted = world(words, rank_1=[*words, f"set={place}:0"])
        for rank in range(RANKS):
            self.assertEqual(faulted[rank].without_input(), wanted[rank].without_input())
        return faulted, plain

    def test_gives_every_rank_the_sum_with_the_corrupt_element_and_the_caller_its_input(self):
        faulted, plain = self.check_zeroed(called("AllReduce", count=50), lambda place: place)
        self.assertIn("input same", faulted[1].lines)
        self.assertEqual(faulted[1].elements("input"), plain[1].elements("input"))

    def test_acts_alike_on_a_stream(self):
        faulted, _ = self.check_zeroed(called("AllReduce", count=50, stream=1), lambda place: place)
        self.assertIn("input same", faulted[1].lines)

    def test_acts_alike_in_a_group(self):
        faulted, _ = self.check_zeroed(called("AllReduce", count=50, group=1), lambda place: place)
        self.assertIn("input same", faulted[1].lines)

    def test_acts_alike_in_a_group_on_a_stream(self):
        words = called("AllReduce", count=50, group=1, stream=1)
        faulted, _ = self.check_zeroed(words, lambda place: place)
        self.assertIn("input same", faulted[1].lines)

    def test_of_an_all_gather_lies_in_this_ranks_block_on_every_rank(self):
        words = called("AllGather", count=16)
        faulted, plain = self.check_zeroed(words, lambda place: place - 16)
        for rank in range(RANKS):
            places = differing(faulted[rank].output(), plain[rank].output())
            self.assertTrue(16 <= places[0] < 32)

    def test_in_place_leaves_what_the_collective_made_of_it(self):
        words = called("AllReduce", count=50, inplace=1)
        faulted, _ = self.check_zeroed(words, lambda place: place)
        self.assertEqual(faulted[1].elements("input"), faulted[0].output())

    def test_of_a_send_reaches_its_receiver_alone(self):
        words = called("Ring", count=20)
        fault = "odd-one: Send[rank=1]=corrupt(zero,elements=2)"
        ranks, plain = world(words, fault, folder=self.folder), world(words)
        places = differing(ranks[2].output(), plain[2].output())
        self.assertEqual([ranks[2].output()[p] for p in places], [0, 0])
        self.assertEqual(ranks[0].lines, plain[0].lines)
        self.assertEqual(ranks[1].lines, plain[1].lines)

    def test_in_every_call_comes_back_each_time(self):
        words = called("AllReduce", count=50, calls=3)
        fault = on_rank_1("AllReduce", "corrupt(zero,elements=4)")
        ranks, plain = world(words, fault, folder=self.folder), world(words)
        self.check_journal(3)
        places = [differing(ranks[0].output(c), plain[0].output(c)) for c in range(3)]
        self.assertEqual([len(p) for p in places], [4, 4, 4])
        self.assertNotEqual(places[0], places[1])
        self.assertEqual(ranks[1].lines.count("input same"), 3)

    def test_in_a_group_of_calls_is_that_of_the_chosen_call(self):
        words = called("AllReduce", count=50, group=3)
        fault = "odd-one: AllReduce[rank=1,nth=2]=corrupt(zero,elements=4)"
        ranks, plain = world(words, fault, folder=self.folder), world(words)
        self.check_journal(1)
        changed = [len(differing(ranks[0].output(c), plain[0].output(c))) for c in range(3)]
        self.assertEqual(changed, [0, 4, 0])
        self.assertEqual(ranks[1].lines.count("input same"), 3)

    def test_is_at_the_same_places_in_every_run_of_a_seed_and_at_others_for_another(self):
        words = called("AllReduce", count=64)
        fault = on_rank_1("AllReduce", "corrupt(bit-flip,elements=5)")
        first, again, other = (world(words, fault, seed=seed) for seed in ("7", "7", "8"))
        self.assertEqual(first[0].output(), again[0].output())
        self.assertNotEqual(first[0].output(), other[0].output())

    def test_of_every_collective_is_as_if_this_rank_had_brought_it_so(self):
        """All elements zeroed, on every way to make a call: the other ranks see zeros."""
        for function, more in (
            ("AllReduce", {}),
            ("AllReduce", {"inplace": 1}),
            ("AllReduce", {"datatype": "int32", "redop": 1}),
            ("ReduceScatter", {}),
            ("Reduce", {}),
            ("Reduce", {"inplace": 1}),
            ("Broadcast", {"root": 1}),
            ("Broadcast", {"root": 1, "inplace": 1}),
            ("AllGather", {"datatype": "bfloat16"}),
            ("AlltoAll", {"datatype": "float8e4m3"}),
            ("Gather", {"datatype": "float64"}),
            ("Scatter", {"root": 1, "datatype": "int64"}),
        ):
            for way in ({}, {"stream": 1}, {"group": 2}, {"group": 2, "stream": 1}):
                words = called(function, count=7, **more, **way)
                with self.subTest(words=words):
                    fault = on_rank_1(function, "corrupt(zero,elements=64)")
                    ranks, wanted = world(words, fault), world(words, rank_1=[*words, "zero=1"])
                    for rank in range(RANKS):
                        self.assertEqual(
                            ranks[rank].without_input(), wanted[rank].without_input()
                        )
                    is_output = "inplace" in more and function != "Reduce"
                    if not is_output:
                        self.assertNotIn("input changed", ranks[1].lines)

    def test_by_two_faults_at_one_place_comes_back_too(self):
        for words in (called("AllReduce", count=1), called("AllReduce", count=1, stream=1)):
            with self.subTest(words=words):
                first = on_rank_1("AllReduce", "corrupt(zero)")
                second = "other: AllReduce[rank=1]=corrupt(nan)"
                ranks = world(words, f"{first}; {second}")
                self.assertIn("input same", ranks[1].lines)
                self.assertTrue(math.isnan(float_of(ranks[0].output()[0])))

    def test_of_one_buffer_by_two_calls_of_a_group_comes_back_too(self):
        for words in (
            called("AllReduce", count=2, group=2, oneinput=1),
            called("AllReduce", count=2, group=2, oneinput=1, stream=1),
        ):
            with self.subTest(words=words):
                ranks = world(words, on_rank_1("AllReduce", "corrupt(bit-flip,elements=2)"))
                self.assertEqual(ranks[1].lines.count("input same"), 2)

    def test_comes_back_and_hides_nothing_where_the_call_fails(self):
        for words, told_by in (
            (called("AllReduce"), "call 0 result 5"),
            (called("AllReduce", group=1), "group 0 result 5"),
            (called("AllReduce", stream=1), "stream 0 result 5"),
        ):
            with self.subTest(words=words):
                corrupt = on_rank_1("AllReduce", "corrupt(zero,elements=4)")
                ranks = world(words, f"{corrupt}; other: AllReduce[rank=2]=mismatch(count,to=2)")
                self.assertIn(told_by, ranks[1].lines)
                self.assertIn("input same", ranks[1].lines)

    def test_that_this_rank_does_not_have_is_refused(self):
        refusal = "ncclBroadcast has no input on rank 1, root is 0"
        self.check_refused(called("Broadcast", count=4), "corrupt(zero)", refusal)


class CorruptOutput(PayloadTest):
    def changed(self, words, action, elements):
        """Rank 1's output at the changed places, and as it should have been."""
        ranks = self.fired(words, action)
        plain = world(words)
        self.assertEqual(ranks[0].lines, plain[0].lines)
        self.assertEqual(ranks[2].lines, plain[2].lines)
        self.assertIn("input same", ranks[1].lines)
        output, wanted = ranks[1].output(), plain[1].output()
        places = differing(output, wanted)
        self.assertEqual(len(places), elements)
        return [(output[place], wanted[place]) for place in places]

    def test_flips_one_bit_of_each_element(self):
        words = called("AllReduce", count=64)
        for now, wanted in self.changed(words, "corrupt(bit-flip,elements=6,at=after)", 6):
            self.assertEqual(bin(now ^ wanted).count("1"), 1)

    def test_makes_them_nan(self):
        words = called("AllReduce", count=64)
        for now, _ in self.changed(words, "corrupt(nan,elements=3,at=after)", 3):
            self.assertTrue(math.isnan(float_of(now)))

    def test_scales_them(self):
        words = called("ReduceScatter", count=20)
        for now, wanted in self.changed(words, "corrupt(scale,by=1.5,elements=3,at=after)", 3):
            self.assertEqual(float_of(now), 1.5 * float_of(wanted))

    def test_scales_whole_numbers(self):
        words = called("AllGather", count=20, datatype="int32")
        for now, wanted in self.changed(words, "corrupt(scale,by=2,elements=3,at=after)", 3):
            self.assertEqual(now, 2 * wanted)

    def test_leaves_them_stale(self):
        words = called("AllReduce", count=64)
        for now, _ in self.changed(words, "corrupt(stale,elements=3,at=after)", 3):
            self.assertEqual(now, UNTOUCHED)

    def test_acts_alike_on_a_stream_in_a_group_and_in_both(self):
        for words in (
            called("AlltoAll", count=20, stream=1),
            called("AlltoAll", count=20, group=1),
            called("AlltoAll", count=20, group=1, stream=1),
        ):
            for action, is_right in (
                ("corrupt(zero,elements=4,at=after)", lambda now: now == 0),
                ("corrupt(stale,elements=4,at=after)", lambda now: now == UNTOUCHED),
            ):
                with self.subTest(words=words, action=action):
                    shutil.rmtree(f"{self.folder}/journal", ignore_errors=True)
                    pairs = self.changed(words, action, 4)
                    self.assertTrue(all(is_right(now) for now, _ in pairs))

    def test_of_a_receive_changes_what_was_received(self):
        words = called("Ring", count=20)
        fault = "odd-one: Recv[rank=1]=corrupt(zero,elements=2,at=after)"
        ranks, plain = world(words, fault, folder=self.folder), world(words)
        places = differing(ranks[1].output(), plain[1].output())
        self.assertEqual([ranks[1].output()[p] for p in places], [0, 0])
        self.assertEqual(ranks[2].lines, plain[2].lines)

    def test_that_this_rank_does_not_have_is_refused(self):
        refusal = "ncclReduce has no output on rank 1, root is 0"
        self.check_refused(called("Reduce", count=4), "corrupt(zero,at=after)", refusal)


class MismatchBeforeTheRealLibrary(PayloadTest):
    def real(self, rank=1, **words):
        """How often the stub got each function from this rank, whose second call is another one."""
        report = f"{self.folder}/report"
        env = {k: v for k, v in os.environ.items() if not k.startswith("SABOT_")}
        env.update(
            SABOT_ENGINE="real",
            SABOT_QUIET="1",
            SABOT_REAL_NCCL=PATHS.stub,
            LD_PRELOAD=PATHS.preload,
            LD_LIBRARY_PATH=os.path.dirname(PATHS.stub),
            SABOT_FAULT="odd-one: AllReduce[rank=1,nth=2]=mismatch(call,to=Broadcast)",
            SABOT_RUN_FOLDER=self.folder,
            STUB_REPORT=report,
        )
        with open(f"{self.folder}/id.0", "wb") as file:
            file.write(b"boundary ".ljust(128, b"\0"))
        command = [PATHS.guest, str(rank), str(RANKS), f"{self.folder}/id"]
        command += called("AllReduce", calls=3, **words)
        finished(started(command, env))
        with open(report, encoding="utf-8") as file:
            return json.loads(file.read())["calls"]

    def test_another_collective_takes_the_place_of_the_chosen_one(self):
        counts = self.real()
        self.assertEqual((counts["AllReduce"], counts["Broadcast"]), (2, 1))
        self.check_journal(1)

    def test_is_refused_where_another_rank_lives_in_the_same_process(self):
        self.assertEqual(self.real(shared=1)["AllReduce"], 3)
        self.check_journal(1, "another rank of its communicator lives in this process")

    def test_is_refused_where_a_buffer_is_registered(self):
        self.assertEqual(self.real(registered=1)["AllReduce"], 3)
        self.check_journal(1, "buffers are registered with its communicator")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for path in ("--guest", "--stub", "--preload"):
        parser.add_argument(path, required=True)
    PATHS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])

#!/usr/bin/env python3
"""sabot.inject and the pytest fixture, on NCCL's API without torch: firing, proof, refusal, end."""
import json
import sys
import textwrap

import staged
from one_rank import CODE
from staged import StagedTest


class Words(StagedTest):
    """From keywords to a line of the grammar."""

    def line(self, call):
        return self.printed(f"import datetime, sabot\nprint(sabot.inject({call}).text)").strip()

    def test_are_rendered_so_that_nothing_is_taken_for_something_else(self):
        self.assertEqual(self.line("'AllReduce', rank=1, nth=3, error='SystemError'"),
                         "AllReduce[rank=1,nth=3]=error(SystemError)")
        self.assertEqual(self.line("['AllReduce', 'Bcast'], rank=[0, 2], error='RemoteError',"
                                   " at='after', name='a', budget=1"),
                         "a: AllReduce|Bcast[rank=[0,2],budget=1]=error(RemoteError,at=after)")
        self.assertEqual(self.line("'any collective', bytes='>=1MiB', probability=0.5,"
                                   " captured=False, error='SystemError'"),
                         'any collective[bytes=">=1MiB",probability=0.5,captured=false]='
                         "error(SystemError)")
        self.assertEqual(self.line("'Send', comm='a \"b\\\\', peer=None,"
                                   " after=datetime.timedelta(seconds=2), hang=True"),
                         'Send[comm="a \\"b\\\\",after="2000000us"]=hang(true)')

    def test_that_are_no_fault_are_refused_before_anything_is_opened(self):
        printed = self.printed("""
            import sabot
            for arguments, words in (
                    ((), dict(error="SystemError")),
                    (("AllReduce",), dict(rank=1)),
                    (("AllReduce",), dict(error="SystemError", hang=True)),
                    (("AllReduce[rank=1]",), dict(error="SystemError")),
                    (("AllReduce",), dict(name="a: b", error="SystemError")),
                    (("AllReduce",), dict(rank={1}, error="SystemError")),
                    (("AllReduce",), dict(text="x", rank=1))):
                try:
                    sabot.inject(*arguments, **words)
                except ValueError as error:
                    print(error)
            print("libnccl" in open("/proc/self/maps").read())
            """)
        self.assertEqual(printed.splitlines(), [
            'the call is missing; write for instance inject("AllReduce", rank=1, nth=3,'
            ' error="SystemError")',
            'a fault has exactly one action, and there is none; write for instance'
            ' error="SystemError"',
            'a fault has exactly one action, not 2 (error, hang); write for instance'
            ' error="SystemError"',
            "'AllReduce[rank=1]' is no call; give conditions and action as keywords, or the whole"
            " fault as text=",
            "'a: b' is no name; give conditions and action as keywords, or the whole fault as"
            " text=",
            "{1} cannot be a value of a condition; write a number, a text or a list",
            "text is the whole fault: it cannot be combined with rank",
            "False",
        ])


class Faults(StagedTest):
    """A fault for the length of a block."""

    def run_ranks(self, code, **environment):
        return self.printed(CODE + textwrap.dedent(code), **environment).splitlines()

    def test_fires_at_the_nth_call_from_the_beginning_of_the_block(self):
        self.assertEqual(self.run_ranks("""
            print(all_reduce())
            with sabot.inject("AllReduce", rank=0, nth=2, error="SystemError") as fault:
                print([all_reduce() for _ in range(4)], fault.fired, fault.is_armed)
            print([all_reduce() for _ in range(3)], fault.fired, fault.is_armed)
            """), ["0", "[0, 2, 0, 0] 1 True", "[0, 0, 0] 1 False"])

    def test_is_told_with_all_there_is_to_know(self):
        lines = self.run_ranks("""
            import json
            with sabot.inject("AllReduce", name="nic-dies", error="RemoteError") as fault:
                all_reduce()
            firing = fault.firings[0]
            print(firing.fault, firing.function, firing.comm, firing.rank, firing.match,
                  firing.result)
            print(json.dumps(firing.record))
            """)
        self.assertEqual(lines[0], "nic-dies AllReduce c0 0 1 6")
        record = json.loads(lines[1])
        self.assertEqual({key: record[key] for key in ("fault", "code", "comm", "bytes")},
                         {"fault": "nic-dies", "code": "ncclRemoteError", "comm": "c0",
                          "bytes": 16})

    def test_reaches_the_journal_of_the_run(self):
        run = self.folder / "run"
        run.mkdir()
        self.run_ranks("""
            with sabot.inject("AllReduce", name="nic-dies", error="SystemError"):
                all_reduce()
            """, SABOT_RUN_FOLDER=str(run))
        lines = [line for path in (run / "journal").glob("*.jsonl")
                 for line in path.read_text().splitlines()]
        self.assertEqual([json.loads(line)["fault"] for line in lines], ["nic-dies"])

    def test_is_refused_in_the_words_of_the_scenario_grammar(self):
        self.assertEqual(self.run_ranks("""
            for words in (dict(rnak=1, error="SystemError"), dict(error="Sytem"),
                          dict(mismatch="root", to=1), dict(link="cut", for_="5s")):
                try:
                    with sabot.inject("AllReduce", **words) as fault:
                        print("armed", fault.text)
                except ValueError as error:
                    print(str(error).splitlines()[0])
            """), [
                "the injection: key 'rnak': unknown key; did you mean 'rank'?",
                "the injection: key 'error': no result code is called 'Sytem'; known here: Success,"
                " UnhandledCudaError, SystemError, InternalError, InvalidArgument, InvalidUsage,"
                " RemoteError, InProgress, Timeout",
                "the injection: key 'call': 'AllReduce' has no root that could differ",
                "armed AllReduce=link(cut,for=\"5s\")"])

    def test_can_be_a_line_or_a_document(self):
        self.assertEqual(self.run_ranks('''
            document = """
            sabot = 1
            [[fault]]
            name = "a"
            when = { call = "AllReduce" }
            do = { error = "InternalError" }
            """
            for text in ("AllReduce=error(SystemError)", document):
                with sabot.inject(text=text) as fault:
                    print(all_reduce(), fault.fired)
            '''), ["2 1", "3 1"])

    def test_that_is_required_and_never_fires_fails_the_block(self):
        self.assertEqual(self.run_ranks("""
            try:
                with sabot.inject("AllReduce", rank=7, error="SystemError", required=True):
                    all_reduce()
            except AssertionError as error:
                print(type(error).__name__, error)
            with sabot.inject("AllReduce", rank=7, error="SystemError"):
                all_reduce()
            """), [
                "FaultNotFired 'AllReduce[rank=7]=error(SystemError)' did not fire on this rank:"
                ' fault "line-1" did not fire: closest: 1 call matched everything but rank (wanted'
                " 7, seen 0)"])

    def test_does_not_hide_an_exception_of_the_block(self):
        self.assertEqual(self.run_ranks("""
            try:
                with sabot.inject("AllReduce", error="SystemError", required=True):
                    raise KeyError("mine")
            except KeyError as error:
                print(error, all_reduce())
            """), ["'mine' 0"])

    def test_nests_and_the_first_to_be_armed_wins(self):
        self.assertEqual(self.run_ranks("""
            with sabot.inject("AllReduce", error="SystemError", nth=1) as outer:
                with sabot.inject("AllReduce", error="RemoteError") as inner:
                    print(all_reduce(), all_reduce(), outer.fired, inner.fired)
            """), ["2 6 1 1"])

    def test_can_be_armed_once_at_a_time_and_again_later(self):
        self.assertEqual(self.run_ranks("""
            fault = sabot.inject("AllReduce", error="SystemError")
            with fault:
                all_reduce()
                try:
                    fault.arm()
                except RuntimeError as error:
                    print(error)
            with fault:
                print(fault.fired, all_reduce(), fault.fired)
            print(fault.withdraw(), fault)
            """), [
                "this injection is armed already; make another one", "0 2 1",
                "1 <Injection 'AllReduce=error(SystemError)', not armed, fired 1>"])

    def test_that_is_forgotten_is_withdrawn(self):
        self.assertEqual(self.run_ranks("""
            fault = sabot.inject("AllReduce", error="SystemError").arm()
            del fault
            print(all_reduce())
            """), ["0"])

    def test_fires_in_every_thread(self):
        self.assertEqual(self.run_ranks("""
            import threading
            with sabot.inject("AllReduce", nth=3, error="SystemError") as fault:
                for _ in range(4):
                    thread = threading.Thread(target=all_reduce)
                    thread.start()
                    thread.join(60)
            print(fault.fired)
            """), ["1"])

    def test_does_not_follow_a_fork(self):
        self.assertEqual(self.run_ranks("""
            import os
            with sabot.inject("AllReduce", error="SystemError") as fault:
                child = os.fork()
                if child == 0:
                    os._exit(0 if not fault.is_armed and fault.withdraw() == 0 else 1)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                print(all_reduce())
            """), ["0", "2"])


class Pytest(StagedTest):
    """The fixture, found through the entry point."""

    def test_arms_for_the_length_of_a_test_and_judges_it(self):
        self.write("test_it.py", CODE + textwrap.dedent("""
            def test_fires(sabot_inject):
                fault = sabot_inject("AllReduce", nth=2, error="SystemError", required=True)
                assert [all_reduce(), all_reduce(), fault.fired] == [0, 2, 1]

            def test_nothing_is_left_of_it():
                assert [all_reduce(), all_reduce()] == [0, 0]

            def test_silent(sabot_inject):
                sabot_inject("AllReduce", error="SystemError")
                sabot_inject("AllReduce", rank=5, error="SystemError", required=True)
                assert all_reduce() == 2

            def test_still_nothing_is_left():
                assert all_reduce() == 0
            """))
        done = self.command([sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider"])
        self.assertEqual(done.status, 1, done.out + done.err)
        self.assertIn("4 passed, 1 error", done.out)
        self.assertIn("ERROR at teardown of test_silent", done.out)
        self.assertIn("FaultNotFired: 'AllReduce[rank=5]=error(SystemError)' did not fire on this"
                      " rank: ", done.out)


if __name__ == "__main__":
    sys.exit(staged.main())

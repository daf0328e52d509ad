#!/usr/bin/env python3
"""End to end through the dynamic loader: does Sabot get in, does the call arrive where it belonged,
and is it said where it cannot get in?

    loader_test.py --fixtures BUILD/e2e --stage BUILD/sabot [--require PRODUCT]… [TEST…]

Every test runs a small program as a user would, with one fault armed: the first AllReduce returns
ncclSystemError. If Sabot got in, the program saw 2 and the library saw one AllReduce less; the
reports that the stub libraries write at exit say which of them was called. A product that is not
there skips its tests with the reason, unless --require names it (lib/libsabot.so,
lib/standin/libnccl.so.2, bin/sabot).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

OPTIONS = None
FAULT = "AllReduce[nth=1]=error(SystemError)"
TIMEOUT_S = 60  # bounds a hang; nothing here takes a second


class Outcome:
    """What one run of a program left behind."""

    def __init__(self, done, reports, wrapper):
        self.status = done.returncode
        self.stderr = done.stderr
        self.stdout = done.stdout
        self.reports = reports          # one dict per stub library that was mapped
        self.wrapper = wrapper          # what another tool's wrapper counted
        self.sessions = []              # results by function, one dict per session
        for line in done.stdout.splitlines():
            key, separator, value = line.partition("=")
            if key == "session" or not self.sessions:
                self.sessions.append({})
            if separator:
                self.sessions[-1][key] = value

    def calls(self, name):
        """Calls by function that the stub of this name saw; empty if it was not mapped."""
        for report in self.reports:
            if report["name"] == name:
                return report["calls"]
        return {}

    def used(self):
        """Names of the stubs in which a communicator was created."""
        return sorted(r["name"] for r in self.reports if r["calls"].get("CommInitRank"))

    def __str__(self):
        return f"status {self.status}\n{self.stdout}\n--- stderr\n{self.stderr}\n--- {self.reports}"


def product(path):
    full = os.path.join(OPTIONS.stage, path)
    if not os.path.exists(full) and path not in OPTIONS.require:
        raise unittest.SkipTest(f"{path} is not built")
    return full


def preload():
    return product("lib/libsabot.so")


def standin():
    return product("lib/standin/libnccl.so.2")


def fixture(name):
    return os.path.join(OPTIONS.fixtures, name)


def clean_environment(folder, **changes):
    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("SABOT_", "LD_", "NCCL_", "STUB_", "WRAPPER_", "CONDA_"))}
    environment.update(STUB_REPORT=os.path.join(folder, "stub"), SABOT_ENGINE="real",
                       WRAPPER_REPORT=os.path.join(folder, "wrapper"))
    environment.update({k: v for k, v in changes.items() if v is not None})
    return environment


def read_lines(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def run(command, libraries=(), fault=FAULT, **environment):
    """Runs command with these libraries preloaded; environment holds further variables."""
    with tempfile.TemporaryDirectory() as folder:
        variables = clean_environment(folder, LD_PRELOAD=":".join(libraries) or None,
                                      SABOT_FAULT=fault, **environment)
        done = subprocess.run(command, env=variables, capture_output=True, text=True,
                              timeout=TIMEOUT_S, cwd=folder, check=False)
        reports = [json.loads(line) for line in read_lines(variables["STUB_REPORT"])]
        return Outcome(done, reports, read_lines(variables["WRAPPER_REPORT"]))


class LoaderTest(unittest.TestCase):
    """Expectations in the words of this suite."""

    def expect_intercepted(self, outcome, session=0):
        self.assertEqual(outcome.status, 0, outcome)
        results = outcome.sessions[session]
        self.assertEqual(results["AllReduce"], "2", outcome)
        self.assertIn("injected by Sabot", results["last_error"], outcome)
        self.expect_rest_untouched(outcome, session)

    def expect_untouched(self, outcome, session=0):
        self.assertEqual(outcome.status, 0, outcome)
        self.assertEqual(outcome.sessions[session]["AllReduce"], "0", outcome)
        self.expect_rest_untouched(outcome, session)

    def expect_rest_untouched(self, outcome, session):
        for function in ("GetVersion", "GetUniqueId", "CommInitRank", "CommCount", "GroupStart",
                         "GroupedAllReduce", "GroupEnd", "Bcast", "CommDestroy"):
            self.assertEqual(outcome.sessions[session][function], "0", f"{function}: {outcome}")

    def expect_calls(self, outcome, name, all_reduces):
        """The faulted call did not reach the library, the other one did, once."""
        self.assertEqual(outcome.used(), [name], outcome)
        self.assertEqual(outcome.calls(name).get("AllReduce", 0), all_reduces, outcome)
        self.assertEqual(outcome.calls(name).get("GroupStart"), 1, outcome)


class WithoutSabot(LoaderTest):
    """The fixtures themselves: what the loader does when nothing is in front."""

    def test_every_way_of_linking_reaches_the_library_that_the_loader_picks(self):
        for files, path, used in (
                (["linked_rpath"], "b", "a"), (["linked_runpath"], "b", "b"),
                (["opener", "framework_rpath.so"], "b", "a"),
                (["opener", "framework_runpath.so"], "b", "b"),
                (["opener", "framework_none.so"], "b", "b"),
                (["opener", "a/libnccl.so.2", "framework_runpath.so"], "b", "a"),
                (["opener", "framework_second.so"], "b", "c"),
                (["opener", "framework_static.so"], "b", "s"),
                (["opener", "framework_hidden.so"], "b", "s"), (["linked_static"], "b", "s")):
            with self.subTest(files=files):
                outcome = run([fixture(f) for f in files], LD_LIBRARY_PATH=fixture(path))
                self.expect_untouched(outcome)
                self.expect_calls(outcome, used, 2)


class Preload(LoaderTest):
    """libsabot.so, which has a name of its own: the vendor's library stays mapped and is called."""

    def test_a_linked_program_is_intercepted_whichever_library_the_loader_picks(self):
        for program, used in (("linked_rpath", "a"), ("linked_runpath", "b")):
            with self.subTest(program=program):
                outcome = run([fixture(program)], [preload()], LD_LIBRARY_PATH=fixture("b"))
                self.expect_intercepted(outcome)
                self.expect_calls(outcome, used, 1)

    def test_a_framework_opened_locally_is_intercepted_and_keeps_its_library(self):
        for framework, used in (("framework_rpath.so", "a"), ("framework_runpath.so", "b"),
                                ("framework_none.so", "b"), ("framework_second.so", "c")):
            with self.subTest(framework=framework):
                outcome = run([fixture("opener"), fixture(framework)], [preload()],
                              LD_LIBRARY_PATH=fixture("b"))
                self.expect_intercepted(outcome)
                self.expect_calls(outcome, used, 1)

    def test_a_library_that_the_framework_preloaded_by_path_is_the_one_called(self):
        files = ("opener", "a/libnccl.so.2", "framework_runpath.so")
        outcome = run([fixture(f) for f in files], [preload()], LD_LIBRARY_PATH=fixture("b"))
        self.expect_intercepted(outcome)
        self.expect_calls(outcome, "a", 1)

    def test_the_library_that_the_user_names_is_called_instead(self):
        outcome = run([fixture("linked_rpath")], [preload()],
                      SABOT_REAL_NCCL=fixture("b/libnccl.so.2"))
        self.expect_intercepted(outcome)
        self.expect_calls(outcome, "b", 1)

    def test_a_named_library_that_cannot_be_used_refuses_every_call_and_says_why(self):
        outcome = run([fixture("linked_rpath")], [preload()],
                      SABOT_REAL_NCCL="/nowhere/libnccl.so.2")
        self.assertEqual(outcome.status, 1, outcome)
        self.assertNotEqual(outcome.sessions[0]["CommInitRank"], "0", outcome)
        self.assertIn("SABOT_REAL_NCCL names '/nowhere/libnccl.so.2', which cannot be used: "
                      "No such file or directory", outcome.stderr)

    def test_without_layers_everything_passes(self):
        outcome = run([fixture("linked_rpath")], [preload()], fault=None)
        self.expect_untouched(outcome)
        self.expect_calls(outcome, "a", 2)
        self.assertEqual(outcome.stderr, "")
        outcome = run([fixture("linked_rpath")], [preload()], SABOT_DISABLE="1")
        self.expect_untouched(outcome)
        self.assertEqual(outcome.stderr, "")


class StandIn(LoaderTest):
    """libnccl.so.2 of Sabot: takes the vendor's name, finds the vendor's library by itself."""

    def test_preloaded_it_satisfies_every_way_of_linking(self):
        for files in (["linked_rpath"], ["linked_runpath"], ["opener", "framework_rpath.so"],
                      ["opener", "framework_runpath.so"]):
            with self.subTest(files=files):
                outcome = run([fixture(f) for f in files], [standin()])
                self.expect_intercepted(outcome)
                self.expect_calls(outcome, "a", 1)

    def test_a_program_without_a_run_path_gets_what_the_library_path_holds(self):
        outcome = run([fixture("opener"), fixture("framework_none.so")], [standin()],
                      LD_LIBRARY_PATH=fixture("b"))
        self.expect_intercepted(outcome)
        self.expect_calls(outcome, "b", 1)

    def test_on_the_library_path_it_is_used_unless_an_rpath_forbids(self):
        folder = os.path.dirname(standin())
        real = fixture("a/libnccl.so.2")
        outcome = run([fixture("linked_runpath")], LD_LIBRARY_PATH=folder, SABOT_REAL_NCCL=real)
        self.expect_intercepted(outcome)
        self.expect_calls(outcome, "a", 1)
        outcome = run([fixture("linked_rpath")], LD_LIBRARY_PATH=folder, SABOT_REAL_NCCL=real)
        self.expect_untouched(outcome)

    def test_preload_and_stand_in_together_form_one_stack(self):
        for libraries in ([preload(), standin()], [standin(), preload()]):
            with self.subTest(libraries=libraries):
                outcome = run([fixture("linked_rpath")], libraries,
                              SABOT_REAL_NCCL=fixture("a/libnccl.so.2"))
                self.expect_intercepted(outcome)
                self.expect_calls(outcome, "a", 1)

    def test_a_missing_library_is_an_error_that_names_every_place(self):
        outcome = run([fixture("handle"), "libnccl.so.2"], [standin()])
        self.assertEqual(outcome.status, 1, outcome)
        for place in ("already mapped", "next to libtorch_cuda.so", "the loader's search",
                      "CONDA_PREFIX", "NCCL_ROOT", "LD_LIBRARY_PATH", "the loader's cache"):
            self.assertIn(place, outcome.stderr)


class CaseC1(LoaderTest):
    """Two copies of NCCL in one process: each caller keeps its own."""

    def run_both(self, first, second, **environment):
        return run([fixture("opener"), fixture(first), fixture(second)], [preload()],
                   fault="AllReduce[nth=1,comm=c1]=error(SystemError)", **environment)

    def test_two_libraries_each_get_their_callers_groups_and_collectives(self):
        outcome = self.run_both("framework_rpath.so", "framework_second.so")
        self.expect_untouched(outcome, 0)
        self.expect_intercepted(outcome, 1)
        self.assertEqual(outcome.used(), ["a", "c"], outcome)
        for name, all_reduces in (("a", 2), ("c", 1)):
            self.assertEqual(outcome.calls(name)["AllReduce"], all_reduces, outcome)
            self.assertEqual(outcome.calls(name)["GroupStart"], 1, outcome)
            self.assertEqual(outcome.calls(name)["GroupEnd"], 1, outcome)
            self.assertEqual(outcome.calls(name)["CommDestroy"], 1, outcome)

    def test_both_are_named_in_one_line(self):
        outcome = self.run_both("framework_rpath.so", "framework_second.so")
        lines = [line for line in outcome.stderr.splitlines() if "copies of NCCL" in line]
        self.assertEqual(len(lines), 1, outcome)
        self.assertIn(fixture("a/libnccl.so.2") + " (NCCL 2.30.7", lines[0])
        self.assertIn(fixture("c/libnccl.so.2.23") + " (NCCL 2.23.4", lines[0])

    def test_a_copy_inside_a_framework_serves_the_framework(self):
        for first, second in (("framework_rpath.so", "framework_static.so"),
                              ("framework_static.so", "framework_rpath.so")):
            with self.subTest(first=first):
                outcome = self.run_both(first, second)
                self.expect_untouched(outcome, 0)
                self.expect_intercepted(outcome, 1)
                self.assertEqual(outcome.used(), ["a", "s"], outcome)
                self.assertEqual(outcome.calls("a")["GroupStart"], 1, outcome)
                self.assertEqual(outcome.calls("s")["GroupStart"], 1, outcome)

    def test_routing_holds_with_no_layer_too(self):
        files = ("opener", "framework_rpath.so", "framework_second.so")
        outcome = run([fixture(f) for f in files], [preload()], fault=None)
        self.expect_untouched(outcome, 0)
        self.expect_untouched(outcome, 1)
        self.assertEqual(outcome.used(), ["a", "c"], outcome)


class CaseC2(LoaderTest):
    """NCCL linked in statically."""

    def test_exported_symbols_are_intercepted_and_reach_the_copy_inside(self):
        outcome = run([fixture("opener"), fixture("framework_static.so")], [preload()])
        self.expect_intercepted(outcome)
        self.expect_calls(outcome, "s", 1)

    def test_symbols_bound_inside_or_hidden_are_never_intercepted(self):
        for framework in ("framework_symbolic.so", "framework_hidden.so"):
            with self.subTest(framework=framework):
                outcome = run([fixture("opener"), fixture(framework)], [preload()])
                self.expect_untouched(outcome)
                self.expect_calls(outcome, "s", 2)

    def test_sabot_run_refuses_a_program_that_nothing_can_reach_before_it_starts(self):
        outcome = run([product("bin/sabot"), "run", "--engine", "real", "--fault", FAULT, "--",
                       fixture("linked_static")], fault=None)
        self.assertNotEqual(outcome.status, 0, outcome)
        self.assertEqual(outcome.reports, [], "the program was started")
        self.assertIn("linked_static", outcome.stderr)
        self.assertIn("static", outcome.stderr)


class CaseC4(LoaderTest):
    """Callers that open NCCL themselves and call through the handle."""

    PYTHON = """
import ctypes, sys
nccl = ctypes.CDLL(sys.argv[1])
class Id(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]
unique, comm, data = Id(), ctypes.c_void_p(), (ctypes.c_float * 4)(1, 2, 3, 4)
assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
assert nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0) == 0
print("AllReduce=%d" % nccl.ncclAllReduce(data, data, ctypes.c_size_t(4), 7, 0, comm, None))
print("CommDestroy=%d" % nccl.ncclCommDestroy(comm))
"""

    def python(self, name, libraries, **environment):
        return run([sys.executable, "-c", self.PYTHON, name], libraries, **environment)

    def test_a_preload_with_another_name_is_bypassed_by_name_and_by_path(self):
        for name in ("libnccl.so.2", fixture("a/libnccl.so.2")):
            with self.subTest(name=name):
                outcome = run([fixture("handle"), name], [preload()], LD_LIBRARY_PATH=fixture("a"))
                self.expect_untouched(outcome)
                self.expect_calls(outcome, "a", 2)

    def test_the_stand_in_answers_to_the_name(self):
        outcome = run([fixture("handle"), "libnccl.so.2"], [standin()],
                      LD_LIBRARY_PATH=fixture("a"))
        self.expect_intercepted(outcome)
        self.expect_calls(outcome, "a", 1)
        outcome = run([fixture("handle"), fixture("a/libnccl.so.2")], [standin()])
        self.expect_untouched(outcome)

    def test_ctypes_in_python_behaves_like_any_other_handle(self):
        outcome = self.python("libnccl.so.2", [standin()],
                              SABOT_REAL_NCCL=fixture("a/libnccl.so.2"))
        self.assertEqual(outcome.sessions[0], {"AllReduce": "2", "CommDestroy": "0"}, outcome)
        self.assertEqual(outcome.calls("a").get("AllReduce", 0), 0, outcome)
        outcome = self.python("libnccl.so.2", [preload()], LD_LIBRARY_PATH=fixture("a"))
        self.assertEqual(outcome.sessions[0], {"AllReduce": "0", "CommDestroy": "0"}, outcome)

    def test_the_path_of_the_stand_in_works_as_well_as_its_name(self):
        outcome = self.python(standin(), [], SABOT_REAL_NCCL=fixture("a/libnccl.so.2"))
        self.assertEqual(outcome.sessions[0], {"AllReduce": "2", "CommDestroy": "0"}, outcome)

    def test_sabot_run_says_that_the_preload_was_bypassed(self):
        outcome = run([product("bin/sabot"), "run", "--engine", "real", "--fault", FAULT, "--",
                       fixture("handle"), fixture("a/libnccl.so.2")], fault=None)
        self.assertEqual(outcome.status, 3, outcome)
        self.assertIn("no call reached it through Sabot", outcome.stderr)


class CaseC5(LoaderTest):
    """Another tool's wrapper is preloaded too: in either order both work and nothing recurses."""

    def orders(self, wrapper):
        for ours in (preload(), standin()):
            yield [ours, fixture(wrapper)]
            yield [fixture(wrapper), ours]

    def test_a_wrapper_that_asks_for_the_next_definition(self):
        for libraries in self.orders("wrapper.so"):
            with self.subTest(libraries=libraries):
                outcome = run([fixture("linked_rpath")], libraries,
                              SABOT_REAL_NCCL=fixture("a/libnccl.so.2"))
                self.expect_intercepted(outcome)
                self.expect_calls(outcome, "a", 1)
                # In front of us it sees the faulted call as well; behind us only what passed.
                seen = 2 if libraries[0] == fixture("wrapper.so") else 1
                counted = [f"wrapper AllReduce={seen} GroupStart=1"]
                self.assertEqual(outcome.wrapper, counted, outcome)

    def test_a_wrapper_that_opens_nccl_by_name(self):
        for libraries in self.orders("wrapper_by_name.so"):
            for command in (["linked_rpath"], ["opener", "framework_rpath.so"]):
                with self.subTest(libraries=libraries, command=command):
                    outcome = run([fixture(f) for f in command], libraries,
                                  LD_LIBRARY_PATH=fixture("a"))
                    self.assertEqual(outcome.status, 0, outcome)
                    self.assertEqual(outcome.sessions[0]["CommDestroy"], "0", outcome)
                    self.assertEqual(len(outcome.wrapper), 1, outcome)
                    # In front of the preload its own handle goes past us; else we are asked.
                    bypassed = libraries == [fixture("wrapper_by_name.so"), preload()]
                    seen = "0" if bypassed else "2"
                    self.assertEqual(outcome.sessions[0]["AllReduce"], seen, outcome)
                    self.assertEqual(outcome.calls("a")["AllReduce"], 2 if bypassed else 1, outcome)


class CaseC6(LoaderTest):
    """The library's calls to its own public names are not the application's."""

    INTERNAL = ("Broadcast", "CommGetAsyncError", "CommDeregister", "MemFree", "GetErrorString")

    def test_they_are_neither_faulted_nor_logged_nor_lost(self):
        # The application's one Bcast is the first match of Broadcast; the library's own would be
        # the second.
        faults = "Broadcast[nth=2]=error(InternalError);" + ";".join(
            f"{name}=error(InternalError)" for name in self.INTERNAL[1:4])
        for ours in (preload(), standin()):
            for command in (["linked_rpath"], ["opener", "framework_rpath.so"]):
                with self.subTest(ours=ours, command=command):
                    outcome = run([fixture(f) for f in command], [ours], fault=faults,
                                  SABOT_LOG="calls")
                    self.expect_untouched(outcome)
                    for name in self.INTERNAL:
                        self.assertEqual(outcome.calls("a").get(name), 1, f"{name}: {outcome}")
                        self.assertNotIn(f" {name} ", outcome.stderr)
                    self.assertIn(" CommDestroy ", outcome.stderr)


class CaseC7(LoaderTest):
    """Functions that are newer than the library in use, or than Sabot."""

    def test_a_function_that_sabot_does_not_know_falls_through_the_preload(self):
        outcome = run([fixture("newer_future")], [preload()], fault=None)
        self.assertEqual(outcome.status, 0, outcome)
        self.assertEqual(outcome.sessions[0]["FromTheFuture"], "0", outcome)

    def test_the_stand_in_lacks_it_and_the_loader_names_it(self):
        outcome = run([fixture("newer_future")], [standin()], fault=None)
        self.assertNotEqual(outcome.status, 0, outcome)
        self.assertIn("ncclFromTheFuture", outcome.stderr)

    def test_a_function_that_the_library_in_use_lacks_is_an_error_with_both_versions(self):
        for ours in (preload(), standin()):
            with self.subTest(ours=ours):
                outcome = run([fixture("newer")], [ours], fault=None,
                              SABOT_REAL_NCCL=fixture("b/libnccl.so.2"))
                self.assertEqual(outcome.status, 0, outcome)
                self.assertEqual(outcome.sessions[0]["CommShrink"], "5", outcome)
                text = ("ncclCommShrink needs NCCL 2.27.3 or newer; the library in use is 2.21.5 "
                        f"({fixture('b/libnccl.so.2')})")
                self.assertEqual(outcome.sessions[0]["last_error"], text, outcome)
                self.assertIn(text, outcome.stderr)
                self.assertEqual(outcome.sessions[0]["CommDestroy"], "0", outcome)


class CaseC20(unittest.TestCase):
    """Programs that have nothing to do with NCCL run as if Sabot were not there."""

    COMMANDS = (["/bin/true"], ["/bin/sh", "-c", "echo one; echo two >&2; exit 7"],
                ["bash", "-c", "for i in 1 2 3; do (echo $i); done | sort -r"],
                ["git", "--version"],
                [sys.executable, "-c", "import json, subprocess; print(json.dumps({'a': 1}))"])

    def observe(self, command, **environment):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(command, env=clean_environment(folder, **environment),
                                  capture_output=True, timeout=TIMEOUT_S, cwd=folder, check=False)
            return done.returncode, done.stdout, done.stderr, sorted(os.listdir(folder))

    def test_their_output_and_status_are_the_same(self):
        for ours in (preload(), standin()):
            for command in self.COMMANDS:
                with self.subTest(ours=ours, command=command):
                    plain = self.observe(command)
                    armed = self.observe(command, LD_PRELOAD=ours, SABOT_FAULT=FAULT)
                    self.assertEqual(armed, plain)

    def test_nothing_but_our_library_is_mapped_and_no_thread_runs(self):
        look = ["/bin/sh", "-c", "exec cat /proc/self/maps /proc/self/status"]

        def files(text):
            rows = [line.split() for line in text.splitlines()]
            return {row[-1] for row in rows if row and b"-" in row[0] and b"/" in row[-1]}
        for ours in (preload(), standin()):
            with self.subTest(ours=ours):
                _, plain, _, _ = self.observe(look)
                _, maps, errors, _ = self.observe(look, LD_PRELOAD=ours, SABOT_FAULT=FAULT)
                self.assertEqual(errors, b"")
                extra = files(maps) - files(plain)
                self.assertIn(os.path.realpath(ours).encode(), extra)
                extra -= {os.path.realpath(ours).encode()}
                self.assertTrue(all(b"/libm.so" in e or b"/libc.so" in e for e in extra), extra)
                self.assertIn(b"Threads:\t1\n", maps)

    def test_a_broken_setting_is_not_their_concern(self):
        for ours in (preload(), standin()):
            with self.subTest(ours=ours):
                seen = self.observe(["/bin/true"], LD_PRELOAD=ours, SABOT_FAULT="nonsense",
                                    SABOT_ENGINE="steam")
                self.assertEqual(seen, (0, b"", b"", []))


class SabotRun(LoaderTest):
    """The same rows under the launcher, which picks the way."""

    def launch(self, *command, libraries=()):
        launcher = [product("bin/sabot"), "run", "--engine", "real", "--fault", FAULT, "--"]
        return run([*launcher, *command], libraries, fault=None, SABOT_ENGINE=None)

    def test_linked_programs_and_frameworks_are_intercepted(self):
        for files in (["linked_rpath"], ["linked_runpath"], ["opener", "framework_rpath.so"],
                      ["opener", "framework_static.so"]):
            with self.subTest(files=files):
                outcome = self.launch(*[fixture(f) for f in files])
                self.expect_intercepted(outcome)

    def test_what_was_preloaded_stays_preloaded(self):
        outcome = self.launch(fixture("linked_rpath"), libraries=[fixture("wrapper.so")])
        self.expect_intercepted(outcome)
        self.assertTrue(outcome.wrapper, outcome)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fixtures", required=True, type=os.path.abspath)
    parser.add_argument("--stage", required=True, type=os.path.abspath)
    parser.add_argument("--require", action="append", default=[])
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=1)


if __name__ == "__main__":
    main()

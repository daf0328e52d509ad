"""The rules at the boundary, seen from a process that uses a stub NCCL under the preload (DESIGN
§9).

python3 boundary_test.py --guest PROGRAM --stub LIBRARY --preload LIBRARY --standin LIBRARY
"""

import argparse
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SPEC_PATH = HERE.parents[1] / "api" / "nccl_api.toml"
sys.path.insert(0, str(SPEC_PATH.parent))

import spec  # noqa: E402

PATHS = None


def run(part, faults="", folder="", **variables):
    env = {k: v for k, v in os.environ.items() if not k.startswith("SABOT_")}
    env.update(
        LD_PRELOAD=PATHS.preload,
        SABOT_ENGINE="real",
        SABOT_REAL_NCCL=PATHS.stub,
        SABOT_QUIET="1",
        LD_LIBRARY_PATH=os.path.dirname(PATHS.stub),
    )
    if faults:
        env["SABOT_FAULT"] = faults
    if folder:
        env["SABOT_RUN_FOLDER"] = folder
    env.update(variables)
    return subprocess.run([PATHS.guest, part], env=env, capture_output=True, text=True, timeout=60)


def journal(folder):
    lines = []
    for path in glob.glob(f"{folder}/journal/*.jsonl"):
        with open(path, encoding="utf-8") as file:
            lines += [json.loads(line) for line in file]
    return lines


class BoundaryTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="sabot-boundary-")

    def test_b6_errno_is_the_callers_even_when_a_call_is_logged_faulted_and_journalled(self):
        done = run("errno", "AllReduce[nth=1]=error(SystemError)", self.folder, SABOT_LOG="all")
        self.assertEqual(done.stdout, "errno 77 78 result 2\n", done.stderr)
        self.assertEqual(len(journal(self.folder)), 1)

    def test_b2_every_function_exists_with_and_without_p_at_one_address(self):
        done = run("names")
        self.assertEqual((done.stdout, done.returncode), ("names wrong 0\n", 0))

    def test_b10_without_a_layer_nothing_is_printed_and_no_file_appears(self):
        done = run("errno", SABOT_QUIET="0")
        self.assertEqual((done.stdout, done.stderr), ("errno 77 78 result 0\n", ""))

    def test_disable_removes_every_layer(self):
        done = run("errno", "AllReduce[nth=1]=error(SystemError)", self.folder, SABOT_DISABLE="1")
        self.assertEqual(done.stdout, "errno 77 78 result 0\n")
        self.assertEqual(journal(self.folder), [])

    def test_c17_a_forked_child_leaves_its_parents_faults_and_journal_alone_until_it_has_a_comm(
        self,
    ):
        done = run("fork", "AllReduce[nth=1,budget=2]=error(SystemError)", self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "child inherited 0 own 2\nparent 2\n")
        lines = journal(self.folder)
        self.assertEqual(len(lines), 2)
        self.assertEqual(len({line["pid"] for line in lines}), 2)

    def test_c17_a_child_without_a_comm_of_its_own_consumes_no_budget(self):
        done = run("fork", "AllReduce[nth=1,budget=1,comm=c0]=error(SystemError)", self.folder)
        self.assertIn("child inherited 0", done.stdout)

    def test_numbers_are_exact_over_threads_and_every_firing_is_journalled(self):
        done = run("threads", "AllReduce[every=100]=error(SystemError)", self.folder)
        # every counts per rank: the four threads hold rank 0 of four communicators
        self.assertEqual(done.stdout, "threads failed 200 of 20000\n", done.stderr)
        self.assertEqual(len(journal(self.folder)), 200)

    def test_a_budget_holds_over_threads(self):
        run("threads", "AllReduce[every=100,budget=7]=error(SystemError)", self.folder)
        self.assertEqual(len(journal(self.folder)), 7)

    def test_an_error_in_a_group_comes_from_the_outermost_group_end(self):
        done = run("groups", "AllReduce[nth=1]=error(RemoteError)")
        self.assertEqual(done.stdout, "group 0 0 end 6 then 0 end 0\n", done.stderr)

    def test_the_last_error_text_names_the_fault_in_every_thread(self):
        done = run("lasterror", "nic-dies: AllReduce[nth=1]=error(SystemError)")
        text = (
            'injected by Sabot: fault "nic-dies" of the command line (rank 0, AllReduce, call 1)'
        )
        self.assertEqual(done.stdout, f"own: {text}\nother: {text}\n", done.stderr)

    def test_c10_in_progress_is_neither_faulted_nor_counted_as_a_failure(self):
        done = run(
            "nonblocking", "AllReduce[nth=7]=error(SystemError)", self.folder, SABOT_LOG="all"
        )
        self.assertEqual(
            done.stdout, "started 7 ready after several polls 1 reduced 0 state 0\n", done.stderr
        )
        self.assertNotIn("returned", done.stderr)
        self.assertEqual(journal(self.folder), [])

    def test_c10_an_injected_error_shows_in_the_async_state_of_a_non_blocking_communicator(self):
        done = run("nonblocking", "AllReduce[nth=1]=error(SystemError)")
        self.assertEqual(
            done.stdout, "started 7 ready after several polls 1 reduced 2 state 2\n", done.stderr
        )

    def test_a_scenario_that_cannot_be_read_is_said_and_arms_nothing(self):
        done = run("errno", "AllReduce[nht=1]=error(SystemError)", SABOT_QUIET="0")
        self.assertEqual(done.stdout, "errno 77 78 result 0\n")
        self.assertIn("[sabot] no fault is armed: ", done.stderr)
        self.assertIn("did you mean 'nth'", done.stderr)

    def test_a_missing_real_library_names_every_place_and_refuses_every_call(self):
        env = {
            "LD_PRELOAD": PATHS.preload,
            "SABOT_ENGINE": "real",
            "SABOT_REAL_NCCL": "/nowhere/libnccl.so.2",
            "LD_LIBRARY_PATH": os.path.dirname(PATHS.stub),
        }
        done = subprocess.run(
            [PATHS.guest, "errno"], env=env, capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, 10)
        self.assertIn("/nowhere/libnccl.so.2", done.stderr)

    def test_two_libraries_of_ours_are_one_stack(self):
        done = run(
            "errno",
            "AllReduce[nth=1]=error(SystemError)",
            self.folder,
            LD_PRELOAD=f"{PATHS.preload}:{PATHS.standin}",
        )
        self.assertEqual(done.stdout, "errno 77 78 result 2\n", done.stderr)
        self.assertEqual(len(journal(self.folder)), 1)
        self.assertEqual(len(glob.glob(f"{self.folder}/attach/*.json")), 1)


RESULTS = {
    "UnhandledCudaError": 1,
    "SystemError": 2,
    "InternalError": 3,
    "InvalidArgument": 4,
    "InvalidUsage": 5,
    "RemoteError": 6,
    "InProgress": 7,
    "Timeout": 8,
}
FAULTS_MAX = 64  # in one scenario


class EveryFunctionTest(unittest.TestCase):
    """Any function can return any code: the whole API times every result."""

    def rows(self, code, names):
        faults = ";".join(f"on-{name}: {name}=error({code})" for name in names)
        env = {"SABOT_ENGINE": "real", "SABOT_REAL_NCCL": PATHS.stub, "SABOT_QUIET": "1"}
        command = [sys.executable, "-B", str(HERE / "every_function.py"), PATHS.preload, *names]
        done = subprocess.run(
            command, env={**env, "SABOT_FAULT": faults}, capture_output=True, text=True, timeout=60
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_every_function_returns_every_code_and_names_its_fault(self):
        api = spec.load(str(SPEC_PATH))
        functions = [f.name for f in api.functions if f.returns == "ncclResult_t"]
        self.assertGreater(len(functions), 70)
        for code, number in RESULTS.items():
            for first in range(0, len(functions), FAULTS_MAX):
                names = functions[first : first + FAULTS_MAX]
                for name, result, text in self.rows(code, names):
                    with self.subTest(function=name, code=code):
                        self.assertEqual(result, number)
                        self.assertIn(f'injected by Sabot: fault "on-{name}" ', text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    for option in ("--guest", "--stub", "--preload", "--standin"):
        parser.add_argument(option, required=True)
    PATHS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0]] + rest)

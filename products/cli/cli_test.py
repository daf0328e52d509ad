#!/usr/bin/env python3
"""The words of the command line: help, wrong words, bad input, colours.

Everything that is printed is compared in full; golden pages are rewritten with SABOT_UPDATE=1.
"""
import os
import pathlib
import pty
import unittest

import staged_tree
from staged_tree import TreeTest

GOLDEN = pathlib.Path(__file__).parent / "golden"
VERBS = ("run", "ctl", "demo", "scenario", "drill", "schedule", "version", "help")

GOOD = """sabot = 1
name = "allreduce fails"
[[fault]]
name = "nic-dies"
when = { call = "AllReduce", rank = 1, nth = 3 }
do = { error = "SystemError" }
budget = 1
"""


class Pages(TreeTest):
    """What is printed when help is asked for."""

    def golden(self, name, text):
        path = GOLDEN / name
        if os.environ.get("SABOT_UPDATE") == "1":
            path.write_text(text)
        self.assertEqual(text, path.read_text(), f"{path} is stale; SABOT_UPDATE=1 rewrites it")

    def test_each_verb_has_a_page_and_two_ways_to_it(self):
        for verb in VERBS:
            page = self.run_sabot(verb, "--help")
            self.assertEqual((page.status, page.err), (0, ""), verb)
            self.assertEqual(self.run_sabot("help", verb).out, page.out, verb)
            self.golden(f"{verb}.txt", page.out)

    def test_the_overview_names_every_verb(self):
        page = self.run_sabot("help")
        self.assertEqual((page.status, page.err), (0, ""))
        self.golden("overview.txt", page.out)
        self.assertEqual(self.run_sabot("--help").out, page.out)
        for verb in VERBS:
            self.assertIn(f"  {verb} ", page.out)

    def test_without_words_the_overview_is_an_error(self):
        bare = self.run_sabot()
        self.assertEqual((bare.status, bare.out), (2, ""))
        self.assertEqual(bare.err.strip(), self.run_sabot("help").out.strip())

    def test_the_knobs_are_listed_and_written_as_a_page(self):
        page = self.run_sabot("help", "knobs")
        self.assertIn("SABOT_ENGINE (default auto)\n", page.out)
        self.assertTrue(self.run_sabot("help", "knobs", "--markdown").out.startswith("# Knobs\n"))

    def test_the_version_names_the_parts_that_are_there(self):
        page = self.run_sabot("version")
        self.assertEqual(page.status, 0)
        self.assertRegex(page.out, r"\Asabot \d+\.\d+\.\d+, API of NCCL \d+\.\d+\.\d+\n")
        self.assertIn(f"  preload   {staged_tree.TREE}/lib/libsabot.so\n", page.out)
        self.assertNotIn("MISSING", page.out)
        self.assertEqual(self.run_sabot("--version").out, page.out)

    def test_pages_fit_a_terminal_of_100_columns(self):
        for path in GOLDEN.glob("*.txt"):
            for line in path.read_text().splitlines():
                self.assertLessEqual(len(line), 100, f"{path.name}: {line}")


class WrongWords(TreeTest):
    """A typo costs one line and starts nothing."""

    def refused(self, words, expected):
        done = self.run_sabot(*words)
        self.assertEqual((done.status, done.out, done.err), (2, "", expected))

    def test_an_unknown_verb_names_the_nearest(self):
        self.refused(["rum"], "sabot: unknown verb 'rum'; did you mean 'run'?\n"
                              "`sabot help` lists the verbs.\n")
        self.refused(["zzzzzzzz"],
                     "sabot: unknown verb 'zzzzzzzz'\n`sabot help` lists the verbs.\n")

    def test_an_unknown_option_names_the_nearest(self):
        self.refused(["run", "--scenaro", "x", "--", "touch", "started"],
                     "sabot run: unknown option '--scenaro'; did you mean '--scenario'?\n"
                     "`sabot help run` explains it.\n")
        self.refused(["run", "--engin=host", "--", "true"],
                     "sabot run: unknown option '--engin'; did you mean '--engine'?\n"
                     "`sabot help run` explains it.\n")
        self.refused(["scenario", "check", "--fualt", "x"],
                     "sabot scenario: unknown option '--fualt'; did you mean '--fault'?\n"
                     "`sabot help scenario` explains it.\n")

    def test_a_missing_command_file_or_collective_is_said(self):
        self.refused(["run"], "sabot run: the command to run is missing\n"
                              "`sabot help run` explains it.\n")
        self.refused(["run", "--engine", "host", "--"],
                     "sabot run: the command to run is missing\n`sabot help run` explains it.\n")
        self.refused(["scenario", "check"], "sabot scenario: the scenario file is missing\n"
                                            "`sabot help scenario` explains it.\n")
        self.refused(["schedule", "show"], "sabot schedule: name one collective, for instance "
                                           "allreduce\n`sabot help schedule` explains it.\n")
        self.refused(["help", "scenari"], "sabot help: there is no page 'scenari'; did you mean "
                                          "'scenario'?\n`sabot help help` explains it.\n")

    def test_a_value_that_cannot_be_read_says_what_was_expected(self):
        self.refused(["run", "--engine", "gpu", "--", "true"],
                     "sabot run: --engine: 'gpu' is not one of auto, real, host; write for "
                     "instance host\n`sabot help run` explains it.\n")
        self.refused(["run", "--seed", "x", "--", "true"],
                     "sabot run: --seed: 'x' is not a whole number, 0 or more; write for instance "
                     "42\n`sabot help run` explains it.\n")
        self.refused(["schedule", "show", "allreduc"],
                     "sabot schedule: unknown collective 'allreduc'; did you mean 'AllReduce'?\n"
                     "`sabot help schedule` explains it.\n")
        self.refused(["schedule", "show", "allreduce", "--bytes", "5"],
                     "sabot schedule: '5' is no whole number of float32 elements\n"
                     "`sabot help schedule` explains it.\n")
        self.refused(["schedule", "show", "broadcast", "--ranks", "4", "--root", "4"],
                     "sabot schedule: root 4 is not a rank of 4\n"
                     "`sabot help schedule` explains it.\n")

    def test_an_empty_value_is_no_value(self):
        done = self.run_sabot("run", "--scenario", "", "--", "touch", "started")
        self.assertEqual(done.status, 2)
        self.assertIn("the value is empty", done.err)
        self.assertFalse((self.folder / "started").exists())


class Scenarios(TreeTest):
    """sabot scenario check, and the same mistakes under sabot run: nothing is started."""

    def rejected(self, name, *expected):
        """Both verbs refuse the file with the same words; the command does not run."""
        checked = self.run_sabot("scenario", "check", name)
        self.assertEqual((checked.status, checked.out), (2, ""))
        for text in expected:
            self.assertIn(text, checked.err)
        run = self.run_sabot("run", "--scenario", name, "--", "touch", "started")
        self.assertEqual(run.status, 2, run.err)
        for text in expected:
            self.assertIn(text, run.err)
        self.assertFalse((self.folder / "started").exists())
        self.assertFalse((self.folder / "runs").exists(), "nothing is written either")

    def test_a_good_file_is_fine_and_is_shown_in_both_forms(self):
        self.write("s.toml", GOOD)
        self.assertEqual(self.run_sabot("scenario", "check", "s.toml").out,
                         "s.toml: fine, 1 fault\n")
        shown = self.run_sabot("scenario", "show", "s.toml")
        self.assertEqual(shown.status, 0)
        self.assertIn('when = { call = "AllReduce", rank = 1, nth = 3 }\n', shown.out)
        self.assertIn("# nic-dies: AllReduce[rank=1,nth=3,budget=1]=error(SystemError)\n",
                      shown.out)

    def test_what_is_shown_is_a_scenario_again(self):
        self.write("s.toml", GOOD)
        self.write("again.toml", self.run_sabot("scenario", "show", "s.toml").out)
        self.assertEqual(self.run_sabot("scenario", "show", "again.toml").out,
                         self.run_sabot("scenario", "show", "s.toml").out)

    def test_one_bad_file_among_good_ones_is_status_2(self):
        self.write("a.toml", GOOD)
        self.write("b.toml", "sabot = 1\n")
        done = self.run_sabot("scenario", "check", "a.toml", "b.toml")
        self.assertEqual((done.status, done.out), (2, "a.toml: fine, 1 fault\n"))

    def test_an_unknown_key_names_file_line_and_the_nearest(self):
        self.write("s.toml", GOOD.replace("rank", "rnak"))
        self.rejected("s.toml", "s.toml:5", "rnak", "did you mean 'rank'")

    def test_a_wrong_type_names_file_and_line(self):
        self.write("s.toml", GOOD.replace("nth = 3", "nth = \"third\""))
        self.rejected("s.toml", "s.toml:5", "nth")

    def test_an_impossible_rank_is_refused(self):
        self.write("s.toml", GOOD.replace("rank = 1", "rank = -1"))
        self.rejected("s.toml", "s.toml:5", "rank")

    def test_contradictory_triggers_are_refused(self):
        self.write("s.toml", GOOD.replace("nth = 3", "nth = 3, every = 2"))
        self.rejected("s.toml", "s.toml:5")

    def test_text_that_is_no_toml_is_refused(self):
        self.write("s.toml", "sabot = = 1\n")
        self.rejected("s.toml", "s.toml:1")

    def test_a_file_that_is_missing_names_its_neighbour(self):
        self.write("nic-dies.toml", GOOD)
        self.rejected("nic-dise.toml", "cannot read scenario 'nic-dise.toml': there is no such "
                                       "file; did you mean 'nic-dies.toml'?")

    def test_an_empty_file_a_directory_and_a_binary_file_are_refused(self):
        self.write("empty.toml", "")
        self.rejected("empty.toml", "cannot read scenario 'empty.toml': it is empty")
        (self.folder / "folder").mkdir()
        self.rejected("folder", "cannot read scenario 'folder': it is a directory")
        self.write("binary.toml", b"\x7fELF\x00\x01")
        self.rejected("binary.toml", "cannot read scenario 'binary.toml': it is not UTF-8 text "
                                     "(byte 0x00 at offset 4)")

    def test_a_file_of_100_megabytes_is_refused_unread(self):
        path = self.write("big.toml", "x")
        os.truncate(path, 100 * 1024 * 1024)
        self.rejected("big.toml", "cannot read scenario 'big.toml': it is 104857600 bytes long; a "
                                  "scenario is at most 1MiB")

    def test_a_wrong_fault_line_points_at_the_place(self):
        done = self.run_sabot("run", "--fault", "AllReduc[rank=1]=error(SystemError)", "--",
                              "touch", "started")
        self.assertEqual(done.status, 2)
        self.assertIn("did you mean 'AllReduce'?", done.err)
        self.assertIn("AllReduc[rank=1]=error(SystemError)", done.err)
        self.assertFalse((self.folder / "started").exists())

    def test_a_wrong_line_in_the_environment_names_the_variable(self):
        done = self.run_sabot("run", "--", "touch", "started", SABOT_FAULT="nonsense")
        self.assertEqual(done.status, 2)
        self.assertIn("SABOT_FAULT", done.err)
        self.assertFalse((self.folder / "started").exists())

    def test_a_pipe_is_a_scenario_file_too(self):
        done = self.command(["bash", "-c", f"{self.sabot} scenario check <(cat s.toml)"])
        self.assertEqual(done.status, 2)
        self.write("s.toml", GOOD)
        done = self.command(["bash", "-c", f"{self.sabot} scenario check <(cat s.toml)"])
        self.assertEqual(done.status, 0, done.err)


class Schedules(TreeTest):
    """sabot schedule show."""

    def test_the_steps_of_every_rank_are_shown(self):
        done = self.run_sabot("schedule", "show", "allreduce", "--ranks", "2", "--bytes", "64B")
        self.assertEqual((done.status, done.err), (0, ""))
        self.assertEqual(done.out.splitlines()[0], "AllReduce of 16 float32 (64B) on 2 ranks")
        for rank in ("0", "1"):
            self.assertRegex(done.out, rf"(?m)^ +{rank} +1 ")

    def test_an_algorithm_can_be_asked_for_and_refused(self):
        asked = self.run_sabot("schedule", "show", "all_reduce", "--ranks", "4", "--algorithm",
                               "ring")
        self.assertEqual(asked.status, 0, asked.err)
        self.assertIn("\nring: ", asked.out)
        refused = self.run_sabot("schedule", "show", "all_to_all", "--ranks", "4", "--algorithm",
                                 "tree")
        self.assertEqual(refused.status, 2)
        self.assertIn("'tree' cannot do AllToAll", refused.err)


class Colours(TreeTest):
    """Only for people: on a terminal, unless they said no."""

    def on_a_terminal(self, **environment):
        """What `sabot help` prints into a pseudo-terminal."""
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(self.sabot, [self.sabot, "help"], {**self.environment, **environment})
        output = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            output += piece
        os.close(master)
        os.waitpid(pid, 0)
        return output.decode()

    def test_headings_are_bold_on_a_terminal(self):
        self.assertIn("\033[1mVerbs\033[0m", self.on_a_terminal(TERM="xterm"))

    def test_no_color_a_dumb_terminal_and_a_pipe_get_plain_text(self):
        self.assertNotIn("\033", self.on_a_terminal(TERM="xterm", NO_COLOR="1"))
        self.assertNotIn("\033", self.on_a_terminal(TERM="dumb"))
        self.assertNotIn("\033", self.run_sabot("help", TERM="xterm").out)

    def test_an_empty_no_color_does_not_count(self):
        self.assertIn("\033[1m", self.on_a_terminal(TERM="xterm", NO_COLOR=""))


if __name__ == "__main__":
    staged_tree.main()

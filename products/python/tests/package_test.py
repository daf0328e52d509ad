#!/usr/bin/env python3
"""The package without its compiled half: what importing it costs, names, entry points, refusals."""
import re
import sys

import staged
from staged import ROOT, StagedTest

# Stands in front of the real torch on the path.
FAKE_TORCH = """
    __version__ = "{version}"
    from torch import distributed
    """
FAKE_DISTRIBUTED = """
    def is_available():
        return {available}
    """


class Package(StagedTest):
    """import sabot."""

    def test_needs_no_torch_and_opens_nothing(self):
        printed = self.printed("""
            import sys, sabot
            print("torch" in sys.modules, "libnccl" in open("/proc/self/maps").read())
            """)
        self.assertEqual(printed, "False False\n")

    def test_has_the_version_of_the_libraries(self):
        printed = self.printed("""
            import importlib.metadata, sabot, sabot._library
            print(sabot.__version__, importlib.metadata.version("sabot"),
                  sabot._library.faults().version)
            """)
        first, second, third = printed.split()
        self.assertEqual((first, first), (second, third))

    def test_finds_its_libraries_and_headers_in_the_tree(self):
        printed = self.printed("""
            import sabot
            print(sabot.standin_library(), sabot.preload_library(), sabot.include_folder())
            """)
        self.assertEqual(printed.split(), [
            str(staged.STAGE / part)
            for part in ("lib/standin/libnccl.so.2", "lib/libsabot.so", "include")])

    def test_without_libraries_says_where_it_looked(self):
        copy = self.copy_package()
        done = self.python("import sabot; sabot.standin_library()", PYTHONPATH=str(copy))
        self.assertIn(f"libnccl.so.2 of Sabot is missing; looked for {copy}/sabot/lib/standin/"
                      f"libnccl.so.2 and {copy.parent}/lib/standin/libnccl.so.2: build the tree",
                      done.err)

    def copy_package(self):
        done = self.command(["cp", "-r", staged.STAGE / "python", "deep"])
        self.assertEqual(done.status, 0, done.err)
        return self.folder / "deep"

    def test_knows_the_folder_of_the_run(self):
        code = "import sabot; print(sabot.run_folder())"
        self.assertEqual(self.printed(code), "None\n")
        self.assertEqual(self.printed(code, SABOT_RUN_FOLDER=""), "None\n")
        self.assertEqual(self.printed(code, SABOT_RUN_FOLDER="/runs/1"), "/runs/1\n")
        self.assertEqual(self.printed(code, SABOT_RUN_FOLDER="r"), f"{self.folder}/r\n")

    def test_reads_no_variable_that_has_no_row_in_the_table_of_knobs(self):
        rows = set(re.findall(r'"([A-Z][A-Z0-9_]+)"', (ROOT / "src/config/knobs.def").read_text()))
        package = ROOT / "products/python/sabot"
        read = set()
        for path in package.glob("*.py"):
            text = path.read_text()
            read.update(re.findall(r'_?read\("([A-Z_0-9]+)"\)', text))
            if path.name != "_knobs.py":
                self.assertNotRegex(text, r"\benviron\b|getenv", path.name)
        self.assertEqual(read - rows, set())
        self.assertIn("SABOT_CACHE", read)

    def test_knows_the_actions_and_parameters_of_the_grammar(self):
        page = (ROOT / "docs/reference/scenario.md").read_text()
        actions = page[page.index("## Actions"):page.index("## Expectations")]
        conditions = page[page.index("## Conditions"):page.index("## Actions")]
        names = set(re.findall(r"^### `(\w+)`", actions, re.M))
        keys = set(re.findall(r"^\| `(\w+)` \|", actions, re.M))
        ambiguous = set(re.findall(r"^\| `(\w+)` \|", conditions, re.M))
        printed = self.printed("""
            from sabot import faults
            print(*faults._ACTIONS)
            print(*faults._PARAMETERS)
            """)
        known_actions, known_parameters = (set(line.split()) for line in printed.splitlines())
        self.assertEqual(known_actions, names)
        self.assertEqual(known_parameters, keys - names - ambiguous)


class EntryPoints(StagedTest):
    """What PYTHONPATH alone does."""

    def test_torch_finds_the_backends_and_nothing_is_opened(self):
        printed = self.printed("""
            import torch, torch.distributed as dist, sabot
            print([name in dist.Backend.backend_list for name in ("sabot", "sabot-gloo")])
            maps = open("/proc/self/maps").read()
            print(str(sabot.standin_library()) in maps, "_native" in maps)
            print({device: name for device, name in
                   getattr(dist.Backend, "default_device_backend_map", {}).items()
                   if "sabot" in name})
            """)
        self.assertEqual(printed, "[True, True]\nFalse False\n{}\n")

    def test_importing_again_changes_nothing(self):
        printed = self.printed("""
            import torch.distributed as dist, sabot.torch
            before = list(dist.Backend.backend_list)
            sabot.torch.register()
            print(before == dist.Backend.backend_list)
            """)
        self.assertEqual(printed, "True\n")

    def test_a_backend_registered_later_can_be_wrapped(self):
        printed = self.printed("""
            import torch.distributed as dist, sabot.torch
            dist.Backend.register_backend("late", lambda *_: None, devices=["cpu"])
            print(sabot.torch.wrap("late"), "late" in sabot.torch.backends())
            print(dist.Backend.backend_capability["sabot:late"])
            """)
        self.assertEqual(printed, "sabot-late True\n['cpu']\n")

    def test_what_cannot_be_wrapped_is_refused(self):
        printed = self.printed("""
            import sabot.torch
            for name in ("glo", "sabot"):
                try:
                    sabot.torch.wrap(name)
                except sabot.torch.SabotError as error:
                    print(error)
            """).splitlines()
        self.assertRegex(printed[0], r"^torch \S+ has no backend 'glo' to wrap; it has .*gloo")
        self.assertEqual(printed[1], "'sabot' is a backend of Sabot already; wrap another one")

    def test_a_wrapped_backend_that_this_torch_lacks_is_named_with_those_it_has(self):
        printed = self.printed("""
            import torch.distributed as dist, sabot.torch
            if "mpi" not in sabot.torch.backends():
                try:
                    dist.init_process_group("sabot:mpi", store=dist.HashStore(), rank=0,
                                            world_size=1)
                except sabot.torch.SabotError as error:
                    print(error)
            """)
        self.assertRegex(printed, r"^cannot create 'sabot:mpi': this torch \S+ has no backend 'mpi'"
                                  r" to wrap; it has gloo")

    def test_the_console_script_names_what_is_missing_outside_a_wheel(self):
        done = self.python("import sabot._cli; sabot._cli.main()")
        self.assertEqual(done.status, 1)
        self.assertIn("install the wheel again", done.err)


class OtherTorches(StagedTest):
    """A torch that cannot have the backend."""

    def fake(self, version, available=True):
        self.write("fake/torch/__init__.py", FAKE_TORCH.format(version=version))
        self.write("fake/torch/distributed.py", FAKE_DISTRIBUTED.format(available=available))
        return f"{self.folder}/fake:{staged.STAGE}/python"

    def test_that_is_too_old_is_refused_with_its_version(self):
        done = self.python("import sabot.torch", PYTHONPATH=self.fake("2.1.2+cpu"))
        self.assertIn('SabotError: the backend "sabot" needs torch 2.2 or newer, and this is torch'
                      ' 2.1.2+cpu; under this one `sabot run` still reaches NCCL', done.err)

    def test_without_distributed_is_refused(self):
        done = self.python("import sabot.torch", PYTHONPATH=self.fake("2.6.0", available=False))
        self.assertIn("SabotError: this torch 2.6.0 was built without torch.distributed, so it can"
                      " have no backend", done.err)

    def test_never_fails_to_be_imported_because_sabot_is_there(self):
        path = self.fake("2.6.0", available=False)
        code = "import sabot._autoload; sabot._autoload.register(); print('fine')"
        done = self.python(code, PYTHONPATH=path)
        self.assertEqual((done.out, done.err), ("fine\n", ""))
        self.write("fake/torch/distributed.py", "raise AttributeError('moved')\n")
        done = self.python(code, PYTHONPATH=path)
        self.assertEqual(done.out, "fine\n")
        self.assertIn("Sabot could not register its backends with this torch:"
                      " AttributeError('moved')", done.err)


if __name__ == "__main__":
    sys.exit(staged.main())

#!/usr/bin/env python3
"""The wheel: built from the repository, installed into an environment, used there without a tree.

The wheel is built once, from the build tree under test; the environment borrows torch from the
Python that runs the tests. The compiled half comes from the staged tree, put where the package
keeps what it has built, since build_test.py is about building.
"""
import json
import os
import shutil
import site
import sys
import zipfile

import staged
from one_rank import CODE
from staged import ROOT, StagedTest

FAULT = "AllReduce[rank=1,nth=2]=error(SystemError)"


class Wheel(StagedTest):
    """pip wheel, pip install, and the three faces: console script, package, torch backend."""

    def setUp(self):
        super().setUp()
        self.environment.pop("PYTHONPATH")
        self.wheel = self.build()
        self.bin = self.install()

    def build(self):
        """pip wheel, with everything that it writes in the test's folder."""
        settings = self.write("extra.cfg", f"""\
            [build_py]
            tree = {staged.BUILD}
            [build]
            build_base = {self.folder}/base
            [egg_info]
            egg_base = {self.folder}
            """)
        done = self.command(
            [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
             "--wheel-dir", "dist", ROOT / "products/python"], DIST_EXTRA_CONFIG=str(settings))
        self.assertEqual(done.status, 0, done.out + done.err)
        [wheel] = (self.folder / "dist").iterdir()
        return wheel

    def install(self):
        """A virtual environment with the wheel, which sees torch but none of our folders."""
        done = self.command([sys.executable, "-m", "venv", "env"])
        self.assertEqual(done.status, 0, done.out + done.err)
        [packages] = (self.folder / "env").glob("lib/python*/site-packages")
        borrowed = "\n".join(site.getsitepackages())
        (packages / "borrowed.pth").write_text(f"{borrowed}\n")
        bin_folder = self.folder / "env/bin"
        done = self.command([bin_folder / "pip", "install", "--quiet", "--no-deps", "--no-index",
                             self.wheel])
        self.assertEqual(done.status, 0, done.out + done.err)
        self.packages = packages
        return bin_folder

    def keep_extension(self):
        """Puts the staged extension into the cache, under the key that the package computes."""
        done = self.command([self.bin / "python", "-c",
                             "import torch\nfrom sabot import _build, _target\n"
                             "target = _target.describe(torch)\n"
                             "print(target.name, _build._cached(target))"])
        self.assertEqual(done.status, 0, done.err)
        name, place = done.out.split()
        os.makedirs(place)
        shutil.copy(staged.STAGE / "python/sabot/prebuilt" / name / "_native.so", place)

    def test_serves_command_line_package_and_backend(self):
        self.has_the_tag_and_the_parts()
        self.runs_the_command_line()
        self.injects_without_torch()
        self.keep_extension()
        self.trains_under_a_run()

    def has_the_tag_and_the_parts(self):
        self.assertRegex(self.wheel.name, r"^sabot-[\d.]+-py3-none-linux_\w+\.whl$")
        names = zipfile.ZipFile(self.wheel).namelist()
        for part in ("bin/sabot", "lib/libsabot.so", "lib/libnccl-net-sabot.so",
                     "lib/standin/libnccl.so.2", "include/nccl.h",
                     "include/sabot/stack.h", "csrc/pytorch/bindings.cpp", "py.typed",
                     "share/sabot/demo/allreduce"):
            self.assertIn(f"sabot/{part}", names)
        self.assertEqual([name for name in names if "prebuilt" in name or "_test." in name], [])

    def runs_the_command_line(self):
        done = self.command([self.bin / "sabot", "version"])
        self.assertEqual(done.status, 0, done.err)
        self.assertIn(str(self.packages / "sabot"), done.out)
        done = self.command([self.bin / "sabot", "demo"])
        self.assertEqual(done.status, 0, done.out + done.err)
        self.assertIn("demo: planned 1, fired 1", done.out)

    def injects_without_torch(self):
        done = self.command([self.bin / "python", "-c", CODE + """
with sabot.inject("AllReduce", error="SystemError") as fault:
    print(all_reduce(), fault.fired)
"""])
        self.assertEqual(done.out, "2 1\n", done.err)

    def trains_under_a_run(self):
        script = ROOT / "examples/torch/ddp_step.py"
        done = self.command([
            self.bin / "sabot", "run", "--engine", "host", "--run-folder", "r", "--fault", FAULT,
            "--", self.bin / "python", "-m", "torch.distributed.run", "--nproc-per-node", "2",
            script, "--steps", "3"])
        self.assertEqual(done.status, 1, done.out + done.err)
        self.assertIn("rank 1 raised torch.distributed.DistBackendError: ", done.err)
        self.assertNotIn("compiling", done.err)
        lines = [json.loads(line) for path in (self.folder / "r/journal").glob("*.jsonl")
                 for line in path.read_text().splitlines()]
        self.assertEqual([(line["rank"], line["nth"]) for line in lines], [(1, 2)])


if __name__ == "__main__":
    sys.exit(staged.main())

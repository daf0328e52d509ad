#!/usr/bin/env python3
"""Building the compiled half at first use: found, cached, built once, and every way to fail.

Uses a copy of the package with a source of a few lines in the place of the real ones, so that a
build takes a second; the real ones are compiled by CMake, and by test_fits_the_torch_it_was_built_
for with the words that the package uses.
"""
import pathlib
import shutil
import sys
import textwrap

import staged
from staged import StagedTest

SOURCE = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <nccl.h>
static PyObject* number(PyObject*, PyObject*) { return PyLong_FromLong(NUMBER); }
static PyMethodDef methods[] = {{"number", number, METH_NOARGS, nullptr}, {}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "_native", nullptr, -1, methods};
PyMODINIT_FUNC PyInit__native() { return PyModule_Create(&module); }
"""
WITH_TORCH = """
#include <torch/extension.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
struct Probe : c10d::Backend {
  using c10d::Backend::Backend;
  const std::string getBackendName() const override { return "probe"; }
};
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::class_<Probe, c10d::Backend, c10::intrusive_ptr<Probe>>(m, "Probe")
      .def(py::init([] { return c10::make_intrusive<Probe>(0, 1); }));
  m.def("number", [] { return SABOT_NCCL_WITHOUT_CUDA + 41; });
}
"""
LOAD = """
import torch, sabot._build
print(sabot._build.load().number())
"""


class BuildTest(StagedTest):
    """A test with a package whose build is quick."""

    def setUp(self):
        super().setUp()
        tree = self.folder / "tree"
        shutil.copytree(staged.STAGE / "python", tree / "python",
                        ignore=shutil.ignore_patterns("prebuilt", "csrc"))
        for part in ("lib", "include"):
            (tree / part).symlink_to(staged.STAGE / part)
        self.package = tree / "python/sabot"
        self.environment["PYTHONPATH"] = str(tree / "python")
        self.source(SOURCE)

    def source(self, text, number=42):
        self.write("tree/python/sabot/csrc/pytorch/probe.cpp",
                   f"#define NUMBER {number}\n" + textwrap.dedent(text))

    def counting_compiler(self):
        """A compiler that leaves a line in the file `compiled` for each source it compiles."""
        path = self.write("counting", """\
            #!/bin/sh
            case "$*" in *" -c "*) echo "$*" >> "$COUNT" ;; esac
            exec c++ "$@"
            """)
        path.chmod(0o755)
        return {"CXX": str(path), "COUNT": str(self.folder / "compiled")}

    def compiled(self):
        path = self.folder / "compiled"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def refused(self, **environment):
        """The text of the exception that load() raised."""
        done = self.python(LOAD, **environment)
        self.assertEqual(done.status, 1, done.out)
        return done.err


class Build(BuildTest):
    """load()."""

    def test_happens_once_and_is_announced(self):
        compiler = self.counting_compiler()
        first = self.python(LOAD, **compiler)
        self.assertEqual((first.status, first.out), (0, "42\n"), first.err)
        self.assertRegex(first.err, r"\A\[sabot\] compiling the backend for torch \S+, once; it is"
                                    rf" kept in {self.cache}/torch-\S+\n\Z")
        again = self.python(LOAD, **compiler)
        self.assertEqual((again.status, again.out, again.err), (0, "42\n", ""))
        self.assertEqual(self.compiled(), 1)
        [place] = self.cache.iterdir()
        self.assertEqual(sorted(path.name for path in place.iterdir()), ["_native.so", "lock"])

    def test_happens_again_for_other_sources(self):
        compiler = self.counting_compiler()
        self.assertEqual(self.printed(LOAD, **compiler), "42\n")
        self.source(SOURCE, number=43)
        self.assertEqual(self.printed(LOAD, **compiler), "43\n")
        self.assertEqual(self.compiled(), 2)

    def test_is_done_by_one_of_many_that_start_at_once(self):
        compiler = self.counting_compiler()
        ranks = [self.start([sys.executable, "-c", LOAD], **compiler) for _ in range(4)]
        done = [self.finish(rank) for rank in ranks]
        self.assertEqual([rank.out for rank in done], ["42\n"] * 4,
                         "".join(rank.err for rank in done))
        self.assertEqual(self.compiled(), 1)
        self.assertEqual("".join(rank.err for rank in done).count("compiling"), 1)

    def test_that_fails_on_the_first_rank_fails_on_all(self):
        self.source("#error no good\n" + SOURCE)
        ranks = [self.start([sys.executable, "-c", LOAD]) for _ in range(2)]
        for rank in ranks:
            self.assertIn("#error no good", self.finish(rank).err)

    def test_compiles_several_sources_and_links_them(self):
        self.write("tree/python/sabot/csrc/pytorch/part/other.cpp", "int other() { return 1; }\n")
        compiler = self.counting_compiler()
        self.assertEqual(self.printed(LOAD, **compiler), "42\n")
        self.assertEqual(self.compiled(), 2)

    def test_is_not_needed_where_one_was_staged(self):
        self.assertEqual(self.printed(LOAD), "42\n")
        [place] = self.cache.iterdir()
        printed = self.printed("""
            import torch
            from sabot import _build, _target
            print(_target.describe(torch).name)
            """)
        prebuilt = self.package / "prebuilt" / printed.strip()
        prebuilt.mkdir(parents=True)
        shutil.move(place / "_native.so", prebuilt)
        self.assertEqual(self.printed(LOAD, PATH="/nowhere"), "42\n")

    def test_goes_to_the_users_cache_by_default(self):
        self.environment.pop("SABOT_CACHE")
        self.assertEqual(self.printed(LOAD, XDG_CACHE_HOME=str(self.folder / "xdg")), "42\n")
        self.assertEqual(len(list((self.folder / "xdg/sabot").iterdir())), 1)
        self.assertEqual(self.printed(LOAD, XDG_CACHE_HOME="relative", HOME=str(self.folder)),
                         "42\n")
        self.assertEqual(len(list((self.folder / ".cache/sabot").iterdir())), 1)

    def test_fits_the_torch_it_was_built_for(self):
        self.source(WITH_TORCH)
        printed = self.printed("""
            import torch.distributed as dist, sabot._build
            native = sabot._build.load()
            print(native.Probe().rank(), isinstance(native.Probe(), dist.Backend) or
                  isinstance(native.Probe(), torch._C._distributed_c10d.Backend), native.number())
            """.replace("import torch.", "import torch, torch.", 1))
        self.assertEqual(printed, "0 True 42\n")

    def test_by_command_goes_where_it_is_told(self):
        done = self.command([sys.executable, "-m", "sabot._build", "--output", "here"])
        self.assertEqual((done.status, done.out), (0, "here/_native.so\n"), done.err)
        self.assertTrue((self.folder / "here/_native.so").exists())
        self.assertFalse(self.cache.exists())


class Failure(BuildTest):
    """What people read who cannot have the extension."""

    def test_without_a_compiler_says_what_to_install_and_what_is_wanted(self):
        tools = self.folder / "tools"
        tools.mkdir()
        error = self.refused(PATH=str(tools))
        self.assertRegex(
            error, r'BuildError: cannot build the backend "sabot" for torch \S+: there is no C\+\+'
                   r" compiler \(looked for c\+\+ g\+\+ clang\+\+\); install one that knows C\+\+20"
                   r" \(g\+\+ 11 or newer; `apt-get install g\+\+`\), or set CXX\n"
                   rf"the file that is wanted is {self.cache}/torch-\S+/_native.so\n")

    def test_of_a_compiler_that_does_not_exist_names_it(self):
        self.assertIn("there is no C++ compiler (looked for no-such-compiler of CXX)",
                      self.refused(CXX="no-such-compiler -O3"))

    def test_of_the_compiler_shows_its_first_errors_and_where_the_rest_is(self):
        self.source(SOURCE + "int wrong = missing_name;\n")
        error = self.refused()
        self.assertRegex(error, r"BuildError: cannot build .*: the compiler failed with status 1:\n"
                                r"    \S+/probe.cpp:\d+:13: error: .missing_name. was not declared")
        log = pathlib.Path(error.strip().rsplit("the whole output is in ", 1)[1])
        self.assertIn("-std=c++20", log.read_text())
        self.assertIn("missing_name", log.read_text())
        # Nothing is left of the attempt but the log, and a repaired source builds.
        self.assertEqual(sorted(path.name for path in log.parent.iterdir()), ["build.log", "lock"])
        self.source(SOURCE)
        self.assertEqual(self.printed(LOAD), "42\n")

    def test_of_the_linker_is_told_too(self):
        self.write("linkless", """\
            #!/bin/sh
            case "$*" in *" -c "*) exec c++ "$@" ;; esac
            echo "undefined reference to everything" >&2
            exit 3
            """).chmod(0o755)
        error = self.refused(CXX=str(self.folder / "linkless"))
        self.assertIn("the compiler failed with status 3:\n    undefined reference to everything\n",
                      error)

    def test_to_write_the_cache_says_which_folder_and_what_to_set(self):
        self.write("file", "")
        error = self.refused(SABOT_CACHE=str(self.folder / "file"))
        self.assertRegex(error, r"BuildError: cannot write the torch extension to the cache"
                                rf" {self.folder}/file/torch-\S+: Not a directory; set SABOT_CACHE"
                                r" to a folder that can be written, or build the extension"
                                r" beforehand with `make torch`")

    def test_to_get_the_lock_is_bounded_and_names_its_holder(self):
        done = self.python("""
            import os, pathlib, sabot._lock as lock
            path = pathlib.Path("lock")
            with lock.held(path, "the extension"):
                try:
                    with lock.held(path, "the extension", wait_s=0.2):
                        print("both")
                except lock.LockTimeout as error:
                    print(str(error).replace(str(os.getpid()), "PID"))
            with lock.held(path, "the extension", wait_s=0.2):
                print("free again")
            """)
        self.assertRegex(done.out, r"\Awaited 0.2 s for the extension, which process PID on \S+ is"
                                   r" building; look what that process does, end it, and start"
                                   r" again\nfree again\n\Z")

    def test_to_load_a_damaged_file_names_it(self):
        self.assertEqual(self.printed(LOAD), "42\n")
        [place] = self.cache.iterdir()
        (place / "_native.so").write_bytes(b"\x7fELF, once")
        error = self.refused()
        self.assertIn(f"{place}/_native.so does not fit to this torch although it was built for it;"
                      " delete the folder that it is in, and it is built again", error)

    def test_for_want_of_sources_says_where_they_are(self):
        shutil.rmtree(self.package / "csrc")
        self.assertIn(f"there are no sources in {self.package}/csrc; use the staged tree",
                      self.refused())

    def test_for_want_of_headers_names_them(self):
        self.write("torch/__init__.py", """
            import types
            __version__ = "2.9.1"
            _C = types.SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True)
            version = types.SimpleNamespace(git_version="f00")
            """)
        done = self.command([sys.executable, "-m", "sabot._build", "--describe"],
                            PYTHONPATH=f"{self.folder}:{self.environment['PYTHONPATH']}")
        self.assertEqual(done.status, 1)
        self.assertIn("sabot._build: the headers of torch 2.9.1 are missing: there is no"
                      " torch/csrc/distributed/c10d/Backend.hpp below"
                      f" {self.folder}/torch/include or /usr/include; install them (libtorch-dev on"
                      " Debian and Ubuntu)", done.err)


if __name__ == "__main__":
    sys.exit(staged.main())

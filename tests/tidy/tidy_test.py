#!/usr/bin/env python3
"""Tests of the style checker: for each rule a small input and the exact findings it must give."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import atomics  # noqa: E402
import binaries  # noqa: E402
import documents  # noqa: E402
import functions  # noqa: E402
import layers  # noqa: E402
import texts  # noqa: E402
import tidy  # noqa: E402
from sources import Source, split  # noqa: E402


def found(rule, path, text, executable=False):
    """What a rule says about one file, as 'line: message' lines."""
    return [f"{line}: {message}" for line, message in rule(Source(path, text, executable))]


def found_in_tree(rule, files):
    """What a rule says about a tree, as 'path:line: message' lines."""
    sources = [Source(path, text) for path, text in files.items()]
    return [f"{path}:{line}: {message}" for path, line, message in rule(sources)]


class Splitting(unittest.TestCase):
    def test_code_and_comments_keep_their_columns(self):
        code, comments = split('int a = 1;  // "no string"\nf("// no comment");\n')
        self.assertEqual(code, 'int a = 1;                \nf(               );\n')
        self.assertEqual(comments, '            // "no string"\n                   \n')

    def test_raw_strings_character_literals_and_digit_separators_are_no_code(self):
        code, _ = split("auto a = R\"x(goto // )\"\n)x\"; char b = '\"'; int c = 1'000;")
        self.assertNotIn("goto", code)
        self.assertIn("int c = 1'000;", code)


class Layering(unittest.TestCase):
    def test_a_module_may_include_itself_and_its_row(self):
        text = '#include "abi/call.hpp"\n#include "base/text.hpp"\n#include <vector>\n'
        self.assertEqual(found(layers.layering, "src/abi/names.cpp", text), [])

    def test_an_include_that_reaches_up_is_an_error(self):
        self.assertEqual(
            found(layers.layering, "src/abi/names.cpp", '// x\n#include "comm/comm.hpp"\n'),
            ["2: abi may not include comm; it may include base"])

    def test_a_nested_module_is_one_module(self):
        text = '#include "engine/host/queue.hpp"\n#include "config/knobs.hpp"\n'
        self.assertEqual(
            found(layers.layering, "src/engine/host/run.cpp", text),
            ["2: engine/host may not include config; it may include base, schedule, link, driver"])

    def test_only_the_accel_layer_launches_kernels(self):
        text = '#include "engine/cuda/launch.hpp"\n'
        self.assertEqual(found(layers.layering, "src/layer/accel/accel.cpp", text), [])
        self.assertEqual(len(found(layers.layering, "src/layer/log.cpp", text)), 1)

    def test_the_stack_includes_layers_but_no_verbs(self):
        text = '#include "layer/fault.hpp"\n#include "launch/run.hpp"\n'
        errors = found(layers.layering, "src/stack/stack.cpp", text)
        self.assertEqual(len(errors), 1)
        self.assertTrue(errors[0].startswith("2: stack may not include launch"))

    def test_a_pure_module_does_no_input_or_output(self):
        self.assertEqual(
            found(layers.layering, "src/schedule/ring.cpp", "#include <unistd.h>\n"),
            ["1: schedule does no input or output, so it cannot include <unistd.h>; let the caller"
             " pass what is needed"])

    def test_an_unknown_folder_needs_a_row(self):
        self.assertEqual(
            found(layers.layering, "src/utils/x.cpp", ""),
            ["1: src/utils/x.cpp belongs to no module; add a row to the law in"
             " tests/tidy/layers.py"])

    def test_a_link_list_is_bounded_by_the_same_row(self):
        text = "# Comment.\nsabot_module(comm base host layer)\nsabot_tests(comm comm)\n"
        self.assertEqual(
            found(layers.link_list, "src/comm/CMakeLists.txt", text),
            ["2: comm may not link layer; it may link base, abi, config, schedule, world,"
             " engine/host, link"])

    def test_a_header_that_nobody_includes_is_dead(self):
        files = {"src/base/a.hpp": "", "src/base/b.hpp": "",
                 "src/base/a.cpp": '#include "base/a.hpp"'}
        self.assertEqual(found_in_tree(layers.unused_headers, files),
                         ["src/base/b.hpp:1: no file includes this header; delete it or use it"])


def names(code):
    return [(f.name, len(f.parameters), f.first, f.last) for f in functions.in_cxx(code)]


class Functions(unittest.TestCase):
    def test_finds_methods_free_functions_and_constructors(self):
        code = """namespace a {
class B : public C {
 public:
  explicit B(int x) : x_{x}, y_(2) {
  }
  int get() const { return x_; }
};
template <typename T, int n>
std::map<int, T> make(std::map<int, T> from, int (&array)[n]) {
  if (n) { return {}; }
}
const int kRows[] = {1, 2};
struct stat of(const char* path) {
}
}
"""
        self.assertEqual(names(code), [("B", 1, 4, 5), ("get", 0, 6, 6), ("make", 2, 8, 11),
                                       ("of", 1, 13, 14)])

    def test_attributes_and_directives_are_not_part_of_a_function(self):
        code = ('#define F(x) { x\n__attribute__((visibility("default")))\nint f(int a) {\n}\n'
                'struct __attribute__((packed)) A {\n};\n')
        self.assertEqual(names(code), [("f", 1, 2, 4)])

    def test_a_long_function_is_an_error(self):
        text = "void f() {\n" + "  g();\n" * 69 + "}\n"
        self.assertEqual(found(functions.function_size, "src/base/a.cpp", text),
                         ["1: f has 71 lines, more than 70; give its parts names of their own"])

    def test_seven_parameters_are_too_many_unless_the_signature_is_nccls(self):
        ours = "void f(int a, int b, int c, int d, int e, int f, int g) {}\n"
        theirs = "void f(int a, int b, int c, int d, int e, int f, ncclComm_t g) {}\n"
        self.assertEqual(found(functions.function_size, "src/base/a.cpp", ours),
                         ["1: f has 7 parameters, more than 6; pass a named options struct"])
        self.assertEqual(found(functions.function_size, "src/base/a.cpp", theirs), [])

    def test_control_blocks_nest_at_most_four_deep(self):
        opening = "void f() { if (a) { for (;;) { while (b) { switch (c) { "
        deep = opening + "default: if (d) { g(); } } } } } }\n"
        fine = opening + "default: h([&] { g(); }); } } } } }\n"
        self.assertEqual(found(functions.function_size, "src/base/a.cpp", deep),
                         ["1: f nests 5 deep, more than 4; return early or name the inner part"])
        self.assertEqual(found(functions.function_size, "src/base/a.cpp", fine), [])

    def test_python_functions_count_too(self):
        text = "def f(a, b, c, d, e, f, g):\n    pass\n"
        self.assertEqual(found(functions.function_size, "api/x.py", text),
                         ["1: f has 7 parameters, more than 6; pass a named options struct"])


class Bans(unittest.TestCase):
    def banned(self, line, path="src/comm/a.cpp"):
        return found(texts.banned_words, path, line + "\n")

    def test_a_ban_names_its_replacement(self):
        self.assertEqual(self.banned("using namespace std;"),
                         ["1: 'using namespace std' is banned; use the names you need"])
        self.assertEqual(self.banned("  goto done;"),
                         ["1: 'goto' is banned; use a destructor, or an early return"])

    def test_each_banned_word_is_found(self):
        for line in [
                "// TO" "DO: later", "std::regex r;", 'getenv("X");', "secure_getenv(name);",
                'printf("x");', 'std::fprintf(stderr, "x");', "std::cout << 1;",
                "#include <iostream>", "strcpy(a, b);", "sprintf(a, b);", "atoi(text);",
                "} catch (...) {", "std::abort();", "exit(1);", "assert(x);", "f(NULL);",
                "std::endl", "volatile int x;", "thread.detach();", "cuInit(0);",
                "cudaMalloc(&p, n);", "class CommManager {", 'open("/ho' 'me/me/x");']:
            with self.subTest(line):
                self.assertEqual(len(self.banned(line)), 1)

    def test_words_that_look_like_banned_ones_pass(self):
        for line in [
                "snprintf(a, n, b);", "std::snprintf(a, n, b);", "// goto is banned", 'f("goto");',
                "comm.abort();", "Status abort(Reason why);", "using std::string;",
                "cube(3);", "cuda_driver();", "static_assert(x);", 'mkstemp("aXXXXXX");']:
            with self.subTest(line):
                self.assertEqual(self.banned(line), [])

    def test_a_word_is_allowed_where_it_is_at_home(self):
        self.assertEqual(self.banned('getenv("X");', "src/config/environment.cpp"), [])
        self.assertEqual(self.banned("} catch (...) {", "src/stack/bridge.cpp"), [])
        self.assertEqual(self.banned('printf("x");', "src/launch/run.cpp"), [])
        self.assertEqual(self.banned('printf("x");', "products/cli/main.cpp"), [])
        self.assertEqual(self.banned("cuInit(0);", "src/driver/real_driver.cpp"), [])

    def test_only_tests_may_not_sleep(self):
        line = "std::this_thread::sleep_for(1ms);"
        self.assertEqual(self.banned(line), [])
        self.assertEqual(len(self.banned(line, "src/comm/a_test.cpp")), 1)
        self.assertEqual(len(self.banned("usleep(10);", "tests/e2e/x.c")), 1)


class Texts(unittest.TestCase):
    def test_a_file_opens_with_its_purpose(self):
        self.assertEqual(
            found(texts.opening_comment, "src/base/a.cpp", "#include <x>\n"),
            ["1: the file does not open with a comment that says what it is for"])
        self.assertEqual(
            found(texts.opening_comment, "src/base/a.hpp",
                  "// Reads numbers from text.\n" + "int f();\n" * 60),
            ["1: a header is a contract: open it with at least three lines (what it is for, the"
             " idea that makes it work, what it leaves to whom)"])
        self.assertEqual(
            found(texts.opening_comment, "tools/x", '#!/bin/sh\n# Prints what is installed.\n'), [])
        self.assertEqual(
            found(texts.opening_comment, "api/x.py", '"""Writes the header from a spec."""\n'), [])
        self.assertEqual(
            found(texts.opening_comment, "include/sabot/a.h",
                  "/* Faults for C programs.\n *\n * One call.\n * Thread-safe.\n */\n"), [])

    def test_a_novel_is_not_an_opening_comment(self):
        self.assertEqual(
            found(texts.opening_comment, "src/base/a.hpp", "// A line of the novel.\n" * 17),
            ["1: the opening comment has 17 lines, more than 16; move the detail to where it"
             " applies"])

    def test_files_have_a_size_by_kind(self):
        self.assertEqual(found(texts.file_size, "src/base/a.hpp", "\n" * 301),
                         ["1: a header of 301 lines, more than 300; make it two"])
        self.assertEqual(found(texts.file_size, "src/base/a.cpp", "\n" * 501),
                         ["1: a source of 501 lines, more than 500; make it two"])
        self.assertEqual(found(texts.file_size, "src/base/a_test.cpp", "\n" * 501), [])

    def test_lines_fit_except_tables_and_links_of_documents(self):
        self.assertEqual(found(texts.line_length, "src/base/a.cpp", "x" * 101 + "\n"),
                         ["1: 101 columns, more than 100"])
        self.assertEqual(found(texts.line_length, "docs/a.md", "| " + "x" * 101 + " |\n"), [])
        self.assertEqual(found(texts.line_length, "docs/a.md", "x" * 101 + "\n"),
                         ["1: 101 columns, more than 100"])

    def test_white_space_is_plain(self):
        self.assertEqual(
            found(texts.whitespace, "a.cpp", "a \n\tb\n\n"),
            ["1: trailing white space", "2: a tab; use spaces",
             "3: empty lines at the end of the file"])
        self.assertEqual(found(texts.whitespace, "a.cpp", "a"),
                         ["1: no line feed at the end of the file"])

    def test_headers_are_read_once(self):
        self.assertEqual(found(texts.include_guard, "src/a/a.hpp", "int a;\n"),
                         ["1: no #pragma once"])
        self.assertEqual(
            found(texts.include_guard, "include/sabot/a.h", "#ifndef SABOT_A_H\n#endif\n"), [])

    def test_the_executable_bit_and_the_first_line_agree(self):
        self.assertEqual(
            found(texts.permissions, "tools/x", "#!/bin/sh\n"),
            ["1: has a #! line but not the executable bit; chmod +x it"])
        self.assertEqual(found(texts.permissions, "a.cpp", "int a;\n", executable=True),
                         ["1: has the executable bit but no #! line"])


class Atomics(unittest.TestCase):
    def test_an_ordering_names_its_partner(self):
        bare = "flag.store(1, std::memory_order_release);\n"
        self.assertEqual(found(atomics.memory_order, "src/a/a.cpp", bare),
                         ["1: memory_order_release without `pairs with: FUNCTION`"])
        self.assertEqual(
            found(atomics.memory_order, "src/a/a.cpp", "// pairs with: wait\n" + bare), [])

    def test_a_relaxed_access_may_give_its_reason_instead(self):
        bare = "count.fetch_add(1, std::memory_order_relaxed);\n"
        self.assertEqual(
            found(atomics.memory_order, "src/a/a.cpp", bare),
            ["1: memory_order_relaxed without `pairs with: FUNCTION` or `relaxed: WHY`"])
        self.assertEqual(
            found(atomics.memory_order, "src/a/a.cpp", "// relaxed: a statistic.\n" + bare), [])

    def test_a_partner_must_exist(self):
        files = {"src/a/a.cpp": "// pairs with: wait\n// pairs with: Lock::release\n",
                 "src/a/b.cpp": "void wait();\n"}
        self.assertEqual(found_in_tree(atomics.partners_exist, files),
                         ["src/a/a.cpp:2: pairs with 'release', which is nowhere in the tree"])


class Documents(unittest.TestCase):
    def test_a_document_has_one_title(self):
        text = "# A\n\n```\n# a shell comment\n```\n\n# B\n"
        self.assertEqual(found(documents.markdown_title, "docs/a.md", text),
                         ["7: a second title; use '##'"])
        self.assertEqual(found(documents.markdown_title, "docs/a.md", "A\n"),
                         ["1: the first line is not the title ('# …')"])

    def test_links_lead_somewhere(self):
        files = {"docs/a.md": "[b](b.md) [c](../README.md#x) [d](gone.md) [e](https://example.org)",
                 "docs/b.md": "", "README.md": ""}
        self.assertEqual(found_in_tree(documents.links, files),
                         ["docs/a.md:1: the link to gone.md leads nowhere"])

    def test_commands_name_what_exists(self):
        files = {"Makefile": "demo:\n", "tools/run": "",
                 "README.md": "```sh\nmake demo  # all\nmake fly PREFIX=/opt\ntools/run x\n"
                              "tools/gone\n```\nmake nothing\n"}
        self.assertEqual(found_in_tree(documents.commands, files),
                         ["README.md:3: the Makefile has no target 'fly'",
                          "README.md:5: there is no tools/gone"])

    def test_paths_and_tests_in_backticks_exist(self):
        files = {"docs/a.md": "`src/a/` `src/a/b.cpp` `src/c/` `A.IsFine` `A.IsGone`\n",
                 "src/a/b.cpp": "TEST(A, IsFine) {\n"}
        self.assertEqual(found_in_tree(documents.names_exist, files),
                         ["docs/a.md:1: there is no src/c/",
                          "docs/a.md:1: there is no test A.IsGone"])

    def test_the_architecture_states_the_law(self):
        rows = "".join(f"| `{module}` | {', '.join(allowed) or 'nothing'} |\n"
                       for module, allowed in layers.LAW.items() if module != "stack")
        self.assertEqual(
            found_in_tree(documents.law_in_architecture, {"ARCHITECTURE.md": rows}), [])
        wrong = rows.replace("| `abi` | base |", "| `abi` | comm |")
        wrong = wrong.replace("| `base` |", "| base |")
        self.assertEqual(
            found_in_tree(documents.law_in_architecture, {"ARCHITECTURE.md": wrong}),
            ["ARCHITECTURE.md:1: the dependency law has no row for base",
             "ARCHITECTURE.md:2: abi may include base; the law is tests/tidy/layers.py"])

    def test_knobs_are_documented_and_documents_name_real_knobs(self):
        files = {"src/config/knobs.cpp": '{"SABOT_LOG", 1},\n{"SABOT_NEW", 2},\n',
                 "docs/reference/knobs.md": "SABOT_LOG\n", "docs/start.md": "SABOT_OLD\n",
                 "CMakeLists.txt": "option(SABOT_TESTS)\n", "docs/b.md": "SABOT_TESTS\n"}
        self.assertEqual(found_in_tree(documents.knobs_documented, files),
                         ["src/config/knobs.cpp:2: the knob SABOT_NEW is not in docs/reference",
                          "docs/start.md:1: SABOT_OLD is no knob of src/config"])


class Binaries(unittest.TestCase):
    DYNAMIC = """
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [libstdc++.so.6]
 0x000000000000000e (SONAME)             Library soname: [libsabot.so]
"""
    SYMBOLS = """
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND write@GLIBC_2.2.5 (2)
     2: 0000000000001000    12 FUNC    WEAK   DEFAULT   12 ncclAllReduce
     3: 0000000000001000    12 FUNC    GLOBAL DEFAULT   12 pncclAllReduce
     4: 0000000000001010    12 FUNC    GLOBAL DEFAULT   12 helper
"""

    def test_a_library_needs_only_glibc(self):
        self.assertEqual(
            list(binaries.needed_errors(self.DYNAMIC)),
            ["needs libstdc++.so.6 at run time; only glibc's own libraries are allowed"])

    def test_a_library_has_its_soname(self):
        self.assertEqual(list(binaries.soname_errors(self.DYNAMIC, "libsabot.so")), [])
        self.assertEqual(list(binaries.soname_errors(self.DYNAMIC, "libnccl.so.2")),
                         ["has the SONAME ['libsabot.so'], not libnccl.so.2"])

    def test_a_library_exports_exactly_its_list(self):
        self.assertEqual(
            list(binaries.export_errors(self.SYMBOLS, {"ncclAllReduce", "pncclAllReduce", "a"})),
            ["exports helper, which is not in its list", "does not export a"])

    def test_a_public_function_is_weak_and_has_a_strong_twin(self):
        listed = {"ncclAllReduce", "pncclAllReduce", "helper"}
        strong = self.SYMBOLS.replace("WEAK  ", "GLOBAL")
        apart = self.SYMBOLS.replace("1000    12 FUNC    GLOBAL", "1008    12 FUNC    GLOBAL")
        self.assertEqual(list(binaries.export_errors(self.SYMBOLS, listed)), [])
        self.assertEqual(list(binaries.export_errors(strong, listed)),
                         ["exports ncclAllReduce as GLOBAL, not WEAK"])
        self.assertEqual(
            list(binaries.export_errors(apart, listed)),
            ["pncclAllReduce is not the strong twin of ncclAllReduce at the same address"])


class Exceptions(unittest.TestCase):
    FINDING = tidy.Finding("src/a.cpp", 3, "file_size", "too long")

    def read(self, path="src/a.cpp"):
        return tidy.read_exceptions(
            f'[[exception]]\npath = "{path}"\nrule = "file_size"\nreason = "one table"\n')

    def test_an_exception_excuses_one_rule_in_one_file(self):
        self.assertEqual(tidy.apply_exceptions([self.FINDING], self.read()), [])
        other = self.FINDING._replace(rule="line_length")
        self.assertIn(other, tidy.apply_exceptions([self.FINDING, other], self.read()))

    def test_an_exception_that_excuses_nothing_is_an_error(self):
        self.assertEqual(
            [f.message for f in tidy.apply_exceptions([], self.read())],
            ["src/a.cpp no longer breaks file_size; delete the exception"])

    def test_an_exception_needs_a_reason_and_no_wildcard(self):
        with self.assertRaisesRegex(ValueError, "line 1: no reason"):
            tidy.read_exceptions('[[exception]]\npath = "a"\nrule = "b"\n')
        with self.assertRaisesRegex(ValueError, "line 1: no wildcards; name the file"):
            self.read("src/*.cpp")


class Tree(unittest.TestCase):
    def test_a_crowded_module_is_an_error(self):
        sources = [Source(f"src/comm/{n}.cpp", "") for n in range(26)]
        self.assertEqual(list(tidy.folder_size(sources)),
                         [("src/comm/CMakeLists.txt", 1, "26 files in src/comm, more than 25;"
                           " name a part as a sub-folder")])


if __name__ == "__main__":
    unittest.main()

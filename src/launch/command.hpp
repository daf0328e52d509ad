// The command that is to be run: which file it is, and whether Sabot can get into it at all.
//
// The file is found as execvp finds it, along the PATH that the command will have. Its ELF tables
// then tell whether NCCL is linked in with symbols that nothing can be put in front of: that is
// said before the start, since "no effect" without a word is the one result a run must never give.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace sabot::launch {

// The executable file of this word, absolute or relative as PATH has it. The error is a sentence.
Result<std::string> find_program(const std::string& word, std::string_view path);

// The interpreter of a script, its own arguments left out, with "/usr/bin/env NAME" looked up along
// path; "" if the file is no script.
std::string interpreter_of(const std::string& program, std::string_view path);

// Whether this looks like a Python interpreter by its name: python, python3, python3.11, pypy3.
bool is_python(std::string_view program);

// Why calls of NCCL in this program can never reach us; "" if nothing speaks against it.
std::string unreachable_text(const std::string& program);

// The absolute path of the working folder, "." where it cannot be known.
std::string working_folder();

// A word as a shell would have to be given it, for messages.
std::string quoted(std::string_view word);
std::string quoted(const std::vector<std::string>& words);

}  // namespace sabot::launch

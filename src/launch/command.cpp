// Finding the command's file and looking into it.
#include "launch/command.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "real/elf_file.hpp"
#include "run/identity.hpp"
#include "run/read/folder_listing.hpp"

namespace sabot::launch {
namespace {

constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

bool is_executable_file(const std::string& path) {
  struct stat facts {};
  return ::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::string why_not(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return run::errno_text(errno);
  if (S_ISDIR(facts.st_mode)) return "it is a directory";
  return "it is not executable";
}

std::string base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(slash == path.npos ? path : path.substr(slash + 1));
}

std::vector<std::string_view> folders_of(std::string_view path) {
  return split(path.empty() ? kDefaultPath : path, ':');
}

std::string suggestion_for(const std::string& word, std::string_view path) {
  std::vector<std::string> names;
  for (const std::string_view folder : folders_of(path))
    for (std::string& name : run::list_folder(std::string(folder), ""))
      names.push_back(std::move(name));
  const std::vector<std::string_view> views(names.begin(), names.end());
  // Thousands of programs make some name close to any word: only one slip counts.
  const auto close = nearest(word, views);
  if (!close || close->size() > word.size() + 1 || word.size() > close->size() + 1) return "";
  return "; did you mean '" + std::string(*close) + "'?";
}

}  // namespace

Result<std::string> find_program(const std::string& word, std::string_view path) {
  const auto cannot = [&word](const std::string& why) {
    return Error(Code::kNotFound, "cannot run '" + word + "': " + why);
  };
  if (word.empty()) return cannot("the name is empty");
  if (word.find('/') != word.npos) {
    if (is_executable_file(word)) return word;
    return cannot(why_not(word));
  }
  for (const std::string_view folder : folders_of(path)) {
    const std::string candidate = (folder.empty() ? "." : std::string(folder)) + "/" + word;
    if (is_executable_file(candidate)) return candidate;
  }
  if (is_executable_file("./" + word))
    return cannot("there is no such program in PATH; a program of this folder is run as ./" + word);
  return cannot("there is no such program in PATH" + suggestion_for(word, path));
}

std::string interpreter_of(const std::string& program, std::string_view path) {
  const Fd file(::open(program.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::array<char, 256> buffer{};
  const ssize_t got = file.valid() ? ::read(file.get(), buffer.data(), buffer.size()) : 0;
  std::string_view line(buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  if (!line.starts_with("#!")) return "";
  line = trim(line.substr(2, std::min(line.find('\n'), line.size()) - 2));
  std::vector<std::string_view> words = split(line, ' ');
  std::erase_if(words, [](std::string_view word) { return word.empty(); });
  if (words.empty()) return "";
  if (base_name(words[0]) != "env") return std::string(words[0]);
  // env -S NAME, env VAR=value NAME: the first word that is neither an option nor a setting.
  const auto name = std::find_if(words.begin() + 1, words.end(), [](std::string_view word) {
    return !word.starts_with('-') && word.find('=') == word.npos;
  });
  if (name == words.end()) return "";
  Result<std::string> found = find_program(std::string(*name), path);
  return found.ok() ? std::move(found).value() : "";
}

bool is_python(std::string_view program) {
  std::string name = base_name(program);
  while (!name.empty() && (name.back() == '.' || (name.back() >= '0' && name.back() <= '9')))
    name.pop_back();
  return name == "python" || name == "pypy";
}

std::string unreachable_text(const std::string& program) {
  std::array<char, 4096> self{};
  // This program carries the names of NCCL itself; a run within a run is fine.
  if (::realpath(program.c_str(), self.data()) != nullptr && run::executable_path() == self.data())
    return "";
  const Result<real::ElfFile> file = real::ElfFile::open(program);
  if (!file.ok()) return "";
  const Result<real::NcclLinkage> linkage = file->nccl_linkage();
  if (!linkage.ok()) return "";
  if (*linkage != real::NcclLinkage::kHidden && *linkage != real::NcclLinkage::kBound) return "";
  const std::string how = *linkage == real::NcclLinkage::kHidden
                              ? "with local symbols"
                              : "with its calls bound inside the program";
  return "NCCL is linked statically into '" + program + "' " + how +
         ", so no library can be put in front of it and no fault would ever arrive; link the "
         "program to libnccl.so.2 instead (for PyTorch: USE_SYSTEM_NCCL=1), or use the backend "
         "\"sabot\" of torch.distributed";
}

std::string working_folder() {
  std::array<char, PATH_MAX> buffer{};
  return ::getcwd(buffer.data(), buffer.size()) != nullptr ? buffer.data() : ".";
}

std::string quoted(std::string_view word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return std::string(word);
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'')
      out.append("'\\''");
    else
      out.push_back(c);
  }
  return out + "'";
}

std::string quoted(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out.push_back(' ');
    out.append(quoted(word));
  }
  return out;
}

}  // namespace sabot::launch

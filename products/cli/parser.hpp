// The command line of one verb: its options, and the help page made from the same rows.
//
// Each option is registered with the sentence that explains it, so that the page cannot forget one.
// The parsing is CLI11's, which is kept behind this interface: it is a large header, and its own
// help is not what we want people to read. Wrong words end in a message with the nearest right one
// and status 2.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sabot::cli {

using Words = std::vector<std::string>;

class Parser {
 public:
  // usage: "sabot run [options] [--] COMMAND [ARGUMENT…]".
  Parser(std::string verb, std::string usage, std::string summary);
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  ~Parser();

  void flag(const std::string& name, const std::string& text, bool& target);
  void option(const std::string& name, const std::string& value, const std::string& text,
              std::string& target);
  // May be given several times.
  void list(const std::string& name, const std::string& value, const std::string& text,
            std::vector<std::string>& target);
  // A whole number from low to high.
  void number(const std::string& name, const std::string& text, std::uint64_t low,
              std::uint64_t high, std::uint64_t& target);
  // Paragraphs below the options: examples, exit status.
  void section(const std::string& title, const std::string& body);
  // Words that are no options end the options and stay in rest(); otherwise options may stand
  // anywhere.
  void stop_at_first_word();

  // nullopt: go on. Else the verb is finished with this status: after --help, or after a message.
  std::optional<int> parse(const Words& words);
  const Words& rest() const { return rest_; }

  // Prints "sabot run: TEXT" with the way to the help to stderr; returns 2.
  int refuse(const std::string& text) const;
  std::string help() const;

 private:
  struct Row {
    std::string left;
    std::string text;
  };
  struct Section {
    std::string title;
    std::string body;
  };
  class Engine;

  std::optional<int> complain(const std::string& unknown) const;

  std::string verb_;
  std::string usage_;
  std::string summary_;
  std::vector<Row> rows_;
  std::vector<Section> sections_;
  Words rest_;
  bool stops_at_word_ = false;
  std::unique_ptr<Engine> engine_;
};

}  // namespace sabot::cli

// CLI11 behind the interface, and the layout of a help page.
#include "cli/parser.hpp"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "base/text.hpp"
#include "cli/terminal.hpp"

namespace sabot::cli {
namespace {

constexpr std::size_t kTextColumn = 26;
constexpr std::size_t kLineWidth = 80;

// Characters, not bytes: continuation bytes of UTF-8 take no place on a line.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

// Breaks text at spaces; every line but the first is indented.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  for (const std::string_view word : split(text, ' ')) {
    if (column > indent && column + 1 + width_of(word) > kLineWidth) {
      out.append("\n").append(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out.push_back(' ');
      ++column;
    }
    out.append(word);
    column += width_of(word);
  }
  return out;
}

// A variable that a script forgot to set must not turn into a run without its scenario.
std::string check_not_empty(const std::string& value) {
  return value.empty() ? "the value is empty" : "";
}

}  // namespace

class Parser::Engine {
 public:
  Engine() {
    app.set_help_flag();
    app.add_flag("-h,--help", help);
  }
  CLI::App app;
  bool help = false;
};

Parser::Parser(std::string verb, std::string usage, std::string summary)
    : verb_(std::move(verb)),
      usage_(std::move(usage)),
      summary_(std::move(summary)),
      engine_(std::make_unique<Engine>()) {}

Parser::~Parser() = default;

void Parser::flag(const std::string& name, const std::string& text, bool& target) {
  rows_.push_back({name, text});
  engine_->app.add_flag(name, target);
}

void Parser::option(const std::string& name, const std::string& value, const std::string& text,
                    std::string& target) {
  rows_.push_back({name + " " + value, text});
  engine_->app.add_option(name, target)->check(&check_not_empty);
}

void Parser::list(const std::string& name, const std::string& value, const std::string& text,
                  std::vector<std::string>& target) {
  rows_.push_back({name + " " + value, text});
  CLI::Option* const option = engine_->app.add_option(name, target);
  // One value for each time the option is given: what follows is the next option or a word.
  option->expected(1)->check(&check_not_empty);
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void Parser::number(const std::string& name, const std::string& text, std::uint64_t low,
                    std::uint64_t high, std::uint64_t& target) {
  rows_.push_back({name + " N", text});
  engine_->app.add_option(name, target)->check(CLI::Range(low, high));
}

void Parser::section(const std::string& title, const std::string& body) {
  sections_.push_back({title, body});
}

void Parser::stop_at_first_word() {
  stops_at_word_ = true;
  engine_->app.prefix_command();
}

std::optional<int> Parser::parse(const Words& words) {
  CLI::App& app = engine_->app;
  if (!stops_at_word_) app.allow_extras();
  // CLI11 takes the words from the back.
  Words reversed(words.rbegin(), words.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::ParseError& error) {
    return refuse(error.what());
  }
  if (engine_->help) {
    print_out(help());
    return 0;
  }
  rest_ = app.remaining();
  for (const std::string& word : rest_) {
    if (word.size() > 1 && word.starts_with('-')) return complain(word);
    if (stops_at_word_) break;
  }
  return std::nullopt;
}

std::optional<int> Parser::complain(const std::string& unknown) const {
  const std::string name = unknown.substr(0, unknown.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : engine_->app.get_options())
    for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
  const std::vector<std::string_view> views(names.begin(), names.end());
  const auto close = nearest(name, views);
  return refuse("unknown option '" + name + "'" +
                (close ? "; did you mean '" + std::string(*close) + "'?" : ""));
}

int Parser::refuse(const std::string& text) const {
  print_error("sabot " + verb_ + ": " + text + "\n`sabot help " + verb_ + "` explains it.");
  return kStatusUsage;
}

std::string Parser::help() const {
  const Paint paint(1);
  std::string page = summary_ + "\n\n" + paint.bold("Usage") + "\n  " + usage_ + "\n\n";
  page += paint.bold("Options") + "\n";
  std::vector<Row> rows = rows_;
  rows.push_back({"-h, --help", "This page."});
  for (const Row& row : rows) {
    std::string line = "  " + row.left;
    if (line.size() + 2 > kTextColumn)
      line.append("\n").append(kTextColumn, ' ');
    else
      line.append(kTextColumn - line.size(), ' ');
    page += line + wrapped(row.text, kTextColumn) + "\n";
  }
  for (const Section& section : sections_)
    page += "\n" + paint.bold(section.title) + "\n" + section.body;
  return page;
}

}  // namespace sabot::cli

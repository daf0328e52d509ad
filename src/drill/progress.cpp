// Lines and bars, and what of a case goes into one line.
#include "drill/progress.hpp"

#include "base/units.hpp"

namespace sabot::drill {
namespace {

constexpr std::size_t kBarColumns = 20;

// Names hold what people wrote: a terminal gets no control characters of theirs.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
  return out;
}

}  // namespace

std::string bar_text(std::size_t done, std::size_t total, std::size_t failed,
                     const std::vector<std::string>& running, std::size_t columns) {
  const std::size_t filled = total == 0 ? 0 : done * kBarColumns / total;
  std::string text = "[" + std::string(filled, '#') + std::string(kBarColumns - filled, ' ') +
                     "] " + std::to_string(done) + "/" + std::to_string(total);
  if (failed > 0) text += ", " + std::to_string(failed) + " not as expected";
  for (std::size_t i = 0; i < running.size(); ++i)
    text += (i == 0 ? ", running: " : ", ") + plain(running[i]);
  if (text.size() <= columns) return text;
  std::size_t end = columns > 3 ? columns - 3 : 0;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}

void Progress::wipe() {
  if (!drawn_.empty()) options_.write("\r\033[K");
  drawn_.clear();
}

void Progress::say(const std::string& line) {
  wipe();
  options_.write(plain(line) + "\n");
}

void Progress::finished(const Case& one) {
  ++done_;
  const bool holds = one.holds || one.outcome == Outcome::kSkipped;
  if (!holds) ++failed_;
  say("[" + std::to_string(done_) + "/" + std::to_string(total_) + "] " +
      (holds ? "as expected      " : "NOT AS EXPECTED  ") + one.name + ": " +
      std::string(word_of(one.outcome)) + ", " + format_duration_ns(one.duration_ns()));
  for (const std::string& reason : one.reasons) say("        " + reason);
}

void Progress::draw(const std::vector<std::string>& running) {
  if (!options_.is_terminal || total_ == 0) return;
  const std::string text = bar_text(done_, total_, failed_, running, options_.columns - 1);
  if (text == drawn_) return;
  options_.write("\r\033[K" + text);
  drawn_ = text;
}

void Progress::end() { wipe(); }

}  // namespace sabot::drill

// Where messages of the library go: one process-wide sink, stderr until somebody sets another.
//
// Nothing is printed before the first use of the API (boundary rule B11): callers format into their
// own buffer and hand over one finished line. A line is written with a single write(2), so lines of
// several processes do not mix. Thread-safe; never throws; keeps errno.
#pragma once

#include <string_view>

namespace sabot::log {

// Writes "[sabot] TEXT\n" to the sink.
void line(std::string_view text);

// Redirects the sink to this file descriptor (not owned); 2 is the default.
void set_sink(int fd);

// Writes bytes as they are to fd in one call where possible; retries on EINTR; returns success.
bool write_all(int fd, std::string_view bytes);

}  // namespace sabot::log

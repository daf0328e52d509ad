// The text that ncclGetLastError gives for errors that Sabot made, not the library.
//
// A thread's own text comes first, else the process's newest (PyTorch's watchdog asks from another
// thread than the one that saw the error). An error of the real library clears them: its own text
// is newer then. Thread-safe; the returned pointer stays valid until the thread asks again.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace sabot::call {

void set_last_error(std::string_view text);
void clear_last_error();
// Grows with every text: tells whether a call set one.
// relaxed: compared by the thread that set it
inline std::atomic<std::uint64_t> last_error_texts{0};
inline std::uint64_t last_error_count() { return last_error_texts.load(std::memory_order_relaxed); }
// Null if there is none.
const char* last_error();
// The same, once: for ways past the layers, where nobody sees the library fail afterwards.
const char* take_last_error();

}  // namespace sabot::call

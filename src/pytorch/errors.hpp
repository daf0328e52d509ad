// What a failed call looks like to a training script: the exceptions that torch throws for NCCL.
//
// Programs match on class and text, so both are those of torch's own NCCL backend: DistBackendError
// "NCCL error in: …" for most calls, and a plain RuntimeError "NCCL Error 2: …" where torch itself
// has no better one (all_to_all, gather, scatter). The library's last error follows in both.
#pragma once

#include <c10/util/Exception.h>
#include <nccl.h>

#include <exception>
#include <string>

namespace sabot::pytorch {

// Where a call was made, for the text.
struct Place {
  const char* file;
  int line;
};
constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {file, line};
}

enum class Style : std::uint8_t {
  kBackendError,  // DistBackendError
  kPlain,         // RuntimeError, as torch throws from its helpers
};

std::string error_text(ncclResult_t code, const std::string& last_error, Style style, Place place);

// DistBackendError with a text of our own.
std::exception_ptr backend_error(const std::string& text);
[[noreturn]] void throw_backend_error(const std::string& text);
[[noreturn]] void throw_error(ncclResult_t code, const std::string& last_error, Style style,
                              Place place);
std::exception_ptr make_error(ncclResult_t code, const std::string& last_error, Style style,
                              Place place);

// ValueError "sabot: OPERATION: what": an argument that cannot be served.
[[noreturn]] void refuse(const char* operation, const std::string& what);

// As torch's NCCL backend sees it: a communicator that blocks has nothing in progress.
constexpr bool is_success(ncclResult_t code) {
  return code == ncclSuccess || code == ncclInProgress;
}

// Throws unless the code is success; the text is that of the calling thread's last error.
void check(ncclResult_t code, ncclComm_t comm, Style style = Style::kBackendError,
           Place place = here());

}  // namespace sabot::pytorch

// The words of torch's NCCL backend; facts about them are pinned by tests/torch.
#include "pytorch/errors.hpp"

#include <string_view>

#include "pytorch/library.hpp"

namespace sabot::pytorch {
namespace {

// What torch adds to NCCL's own words.
const char* interpretation(ncclResult_t code) {
  switch (code) {
    case ncclUnhandledCudaError: return "ncclUnhandledCudaError: Call to CUDA function failed.";
    case ncclSystemError:
      return "ncclSystemError: System call (e.g. socket, malloc) or external library call failed "
             "or device error. ";
    case ncclInternalError: return "ncclInternalError: Internal check failed.";
    case ncclInvalidArgument: return "ncclInvalidArgument: Invalid value for an argument.";
    case ncclInvalidUsage:
      return "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.";
    case ncclRemoteError:
      return "ncclRemoteError: A call failed possibly due to a network error or a remote process "
             "exiting prematurely.";
    default: return "Unknown NCCL error!";
  }
}

std::string version_text() {
  int version = 0;
  library().GetVersion(&version);
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

// "sabot/csrc/collectives.cpp": stable, whatever folder the sources were compiled in.
std::string file_text(std::string_view path) {
  return "sabot/csrc/" + std::string(path.substr(path.rfind('/') + 1));
}

}  // namespace

std::string error_text(ncclResult_t code, const std::string& last_error, Style style, Place place) {
  const std::string words = library().GetErrorString(code);
  if (style == Style::kPlain) {
    return "NCCL Error " + std::to_string(code) + ": " + words + "\nLast error:\n" + last_error;
  }
  return "NCCL error in: " + file_text(place.file) + ":" + std::to_string(place.line) + ", " +
         words + ", NCCL version " + version_text() + "\n" + interpretation(code) +
         "\nLast error:\n" + last_error;
}

std::exception_ptr backend_error(const std::string& text) {
  const c10::SourceLocation location{__func__, __FILE__, __LINE__};
  return std::make_exception_ptr(c10::DistBackendError(location, text));
}

std::exception_ptr make_error(ncclResult_t code, const std::string& last_error, Style style,
                              Place place) {
  const std::string text = error_text(code, last_error, style, place);
  if (style == Style::kBackendError) return backend_error(text);
  const c10::SourceLocation location{__func__, place.file, static_cast<std::uint32_t>(place.line)};
  return std::make_exception_ptr(c10::Error(location, text));
}

void throw_backend_error(const std::string& text) { std::rethrow_exception(backend_error(text)); }

void refuse(const char* operation, const std::string& what) {
  C10_THROW_ERROR(ValueError, std::string("sabot: ") + operation + ": " + what);
}

void throw_error(ncclResult_t code, const std::string& last_error, Style style, Place place) {
  std::rethrow_exception(make_error(code, last_error, style, place));
}

void check(ncclResult_t code, ncclComm_t comm, Style style, Place place) {
  if (is_success(code)) [[likely]]
    return;
  throw_error(code, library().GetLastError(comm), style, place);
}

}  // namespace sabot::pytorch

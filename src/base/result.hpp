// Errors as values: Result<T> carries a value or an Error, Status carries success or an Error.
//
// An Error says what was being done, to whom, what happened and what to try; it remembers where it
// was born, whether Sabot injected it, and which rank and peer it concerns. Context is added on the
// way up. Success costs one null pointer. The only place that turns a Code into an ncclResult_t is
// src/abi/result_code.hpp.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

namespace sabot {

// A code exists only where some caller acts differently on it.
enum class Code : std::uint8_t {
  kInvalidArgument,  // a value the caller passed is wrong
  kInvalidUsage,     // the value is fine, the moment or the combination is not
  kSystem,           // the operating system refused
  kInternal,         // our own invariant does not hold
  kRemote,           // a peer died, left or answered nonsense
  kCuda,             // the CUDA driver refused
  kTimeout,          // a bounded wait ran out
  kInProgress,       // not an error: poll again
  kNotFound,         // the thing asked for does not exist
  kUnsupported,      // known, but not implemented here
  kAborted,          // this communicator was aborted while the operation ran
};

const char* to_string(Code code);

class [[nodiscard]] Error {
 public:
  Error(Code code, std::string message, const char* file = __builtin_FILE(),
        int line = __builtin_LINE())
      : code_(code), line_(line), file_(file), message_(std::move(message)) {}

  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const char* file() const { return file_; }
  int line() const { return line_; }
  bool injected() const { return injected_; }
  int rank() const { return rank_; }
  int peer() const { return peer_; }

  // Prefixes "doing: "; the innermost cause stays last.
  Error&& context(const std::string& doing) && {
    message_ = doing + ": " + message_;
    return std::move(*this);
  }
  Error&& mark_injected() && {
    injected_ = true;
    return std::move(*this);
  }
  Error&& at_rank(int rank) && {
    rank_ = rank;
    return std::move(*this);
  }
  Error&& about_peer(int peer) && {
    peer_ = peer;
    return std::move(*this);
  }

 private:
  Code code_;
  bool injected_ = false;
  int line_;
  int rank_ = -1;
  int peer_ = -1;
  const char* file_;
  std::string message_;
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  // NOLINTNEXTLINE: implicit, so that `return Error(...)` reads well.
  Status(Error error) : error_(std::make_unique<Error>(std::move(error))) {}

  bool ok() const { return error_ == nullptr; }
  explicit operator bool() const { return ok(); }
  const Error& error() const& { return *error_; }
  Error&& error() && { return std::move(*error_); }
  // Says in code that losing this error is intended.
  void ignore() const {}

 private:
  std::unique_ptr<Error> error_;
};

template <typename T>
class [[nodiscard]] Result {
  static_assert(!std::is_reference_v<T> && !std::is_same_v<std::remove_cv_t<T>, Error>);

 public:
  // NOLINTBEGIN: implicit on both sides, so that `return value` and `return Error(...)` read well.
  Result(T value) : value_(std::move(value)), is_ok_(true) {}
  Result(Error error) : error_(std::make_unique<Error>(std::move(error))), is_ok_(false) {}
  // NOLINTEND
  Result(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>)
      : error_(std::move(other.error_)), is_ok_(other.is_ok_) {
    if (is_ok_) new (&value_) T(std::move(other.value_));
  }
  Result& operator=(Result&& other) noexcept(std::is_nothrow_move_constructible_v<T>) {
    if (this != &other) {
      this->~Result();
      new (this) Result(std::move(other));
    }
    return *this;
  }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result() {
    if (is_ok_) value_.~T();
  }

  bool ok() const { return is_ok_; }
  explicit operator bool() const { return ok(); }
  // Precondition: ok().
  T& value() & { return value_; }
  const T& value() const& { return value_; }
  T&& value() && { return std::move(value_); }
  T* operator->() { return &value_; }
  const T* operator->() const { return &value_; }
  T& operator*() & { return value_; }
  const T& operator*() const& { return value_; }
  T&& operator*() && { return std::move(value_); }
  // Precondition: !ok().
  const Error& error() const& { return *error_; }
  Error&& error() && { return std::move(*error_); }
  void ignore() const {}

 private:
  union {
    T value_;
  };
  std::unique_ptr<Error> error_;
  bool is_ok_;  // not whether there is an error: of what was moved from there is none
};

}  // namespace sabot

// Unwraps a Result or Status, or returns its Error from the enclosing function.
#define SABOT_TRY(expression)                                         \
  __extension__({                                                     \
    auto sabot_result_ = (expression);                                \
    if (!sabot_result_.ok()) return std::move(sabot_result_).error(); \
    ::sabot::detail::take(std::move(sabot_result_));                  \
  })

namespace sabot::detail {
inline void take(Status&&) {}
template <typename T>
T take(Result<T>&& result) {
  return std::move(result).value();
}
}  // namespace sabot::detail

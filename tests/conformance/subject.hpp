// What is being tested: one libnccl, the memory its pointers must point to, and what it may lack.
//
// The library is opened by name or path, every function looked up by name, so that the same program
// tests ours, NVIDIA's, and NVIDIA's with something preloaded. A test that needs what the subject
// cannot have says so with one of the REQUIRE_ macros; those are the only permitted reasons to
// skip, main.cpp counts them and prints the list. How ranks are made of the subject: world.hpp.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "abi/api_list.hpp"
#include "abi/names.hpp"
#include "base/result.hpp"
#include "memory.hpp"

namespace sabot::conformance {

// Every function of the API under its name without the prefix; null where the library has none.
struct Api {
#define SABOT_MEMBER(name, type) decltype(&::nccl##name) name = nullptr;
  SABOT_API(SABOT_MEMBER)
#undef SABOT_MEMBER
};

enum class Where {
  kHost,     // pointers to ordinary memory, ranks limited only by patience
  kCuda,     // pointers to GPU memory, one rank a GPU
  kNowhere,  // only what works without memory and devices
};

struct Options {
  std::string library;
  bool global = false;  // call what a program linked to the library calls, preloads included
  Where where = Where::kHost;
  std::string program;        // as started, for the command that replays a failure
  std::string arguments;      // --library … --memory …
  unsigned deadline_s = 120;  // of one test; reaching it ends the program
};

struct Subject {
  Options options;
  Api api;
  void* handle = nullptr;
  int version = 0;
  std::unique_ptr<Memory> memory;

  int ranks_max() const;
  bool on_host() const { return options.where == Where::kHost; }
  // A function the library may export beyond the NCCL API.
  void* symbol(const char* name) const;
};

// Opens the library and its memory; the error says what to try.
Result<std::unique_ptr<Subject>> open_subject(const Options& options);

// The subject of this program; set once by main.
Subject& subject();
void set_subject(std::unique_ptr<Subject> subject);
inline const Api& nccl() { return subject().api; }

// Permitted reasons to skip, noted for the list at the end. Each returns the reason, empty if there
// is none. A function that the version should have and the library lacks is a failure, not a
// reason.
std::string reason_without(abi::FunctionId function);
std::string reason_without_ranks(int ranks);
std::string reason_without_type(ncclDataType_t type);
// Whether a whole test stops here: the reason must have come from one of the functions above.
bool is_permitted(const std::string& reason);
std::vector<std::string> permitted_reasons();

std::string text_of(ncclResult_t result);

}  // namespace sabot::conformance

#define REQUIRE_NOTHING_MISSING(reason_expression)             \
  do {                                                         \
    const std::string sabot_reason_ = (reason_expression);     \
    if (!sabot_reason_.empty()) GTEST_SKIP() << sabot_reason_; \
    if (::testing::Test::HasFatalFailure()) return;            \
  } while (0)
#define REQUIRE_FUNCTION(name) \
  REQUIRE_NOTHING_MISSING(::sabot::conformance::reason_without(::sabot::abi::FunctionId::k##name))
#define REQUIRE_RANKS(count) \
  REQUIRE_NOTHING_MISSING(::sabot::conformance::reason_without_ranks(count))

// Compare results by name: "ncclInvalidArgument", not 4.
#define EXPECT_RESULT(expected, call)                                                     \
  EXPECT_EQ(::sabot::conformance::text_of(expected), ::sabot::conformance::text_of(call)) \
      << #call << ", last error: " << ::sabot::conformance::nccl().GetLastError(nullptr)
#define ASSERT_RESULT(expected, call)                                                     \
  ASSERT_EQ(::sabot::conformance::text_of(expected), ::sabot::conformance::text_of(call)) \
      << #call << ", last error: " << ::sabot::conformance::nccl().GetLastError(nullptr)

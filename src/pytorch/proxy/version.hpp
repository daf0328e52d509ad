// How one source fits every version of torch: what c10d::Backend has is asked of the class itself.
//
// Only where a type is missing in older versions does a number or one of c10d's own feature macros
// decide.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "pytorch/version.hpp"

// object.method(arguments) if the class has it, else the value `otherwise` (for void: nothing).
#define SABOT_FORWARD(object, otherwise, method, ...)         \
  [&](auto& target) {                                         \
    if constexpr (requires { target.method(__VA_ARGS__); }) { \
      return target.method(__VA_ARGS__);                      \
    } else {                                                  \
      return otherwise;                                       \
    }                                                         \
  }(object)

namespace sabot::pytorch::proxy {

// c10d::ErrorType, or something else where torch has no getError().
template <typename Backend>
struct ErrorTypeOf {
  using type = int;
};
template <typename Backend>
requires requires(Backend& backend) { backend.getError(); }
struct ErrorTypeOf<Backend> {
  using type = decltype(std::declval<Backend&>().getError());
};
template <typename Backend>
using ErrorOf = typename ErrorTypeOf<Backend>::type;

}  // namespace sabot::pytorch::proxy

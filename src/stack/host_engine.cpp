// The host engine, configured from the settings of this process.
#include "stack/product.hpp"

#if __has_include("comm/host_api.hpp")
#include "comm/host_api.hpp"
#endif

namespace sabot::stack {

abi::Api host_engine(const config::Snapshot& settings) {
  (void)settings;
  return {};
}

}  // namespace sabot::stack

// What a product (preload, stand-in) tells the stack about itself, and the engine it carries.
#pragma once

#include "abi/api_table.hpp"
#include "config/snapshot.hpp"

namespace sabot::stack {

struct Product {
  const char* way;  // "preload", "stand-in"
};

// Defined by each product.
const Product& product();
// The host engine, configured from the settings.
abi::Api host_engine(const config::Snapshot& settings);

}  // namespace sabot::stack

// A small array in the subject's memory, for tests that are about order rather than arithmetic.
#pragma once

#include <vector>

#include "subject.hpp"

namespace sabot::conformance {

template <typename Element>
class Array {
 public:
  Array(std::size_t count, Stream stream) : count_(count), stream_(stream) {
    data_ = static_cast<Element*>(subject().memory->allocate((count + 1) * sizeof(Element)));
    set(std::vector<Element>(count));
  }
  Array(const std::vector<Element>& values, Stream stream) : Array(values.size(), stream) {
    set(values);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { subject().memory->release(data_); }

  Element* data() const { return data_; }
  std::size_t size() const { return count_; }

  void set(const std::vector<Element>& values) const {
    subject().memory->write(data_, values.data(), values.size() * sizeof(Element), stream_);
  }
  // Waits for the stream.
  std::vector<Element> get() const {
    std::vector<Element> values(count_);
    subject().memory->read(values.data(), data_, count_ * sizeof(Element), stream_);
    return values;
  }

 private:
  Element* data_ = nullptr;
  std::size_t count_;
  Stream stream_;
};

// "" or the first difference; what says which array.
template <typename Element>
std::string differs(const char* what, const std::vector<Element>& got,
                    const std::vector<Element>& wanted) {
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (got[i] != wanted[i])
      return std::string(what) + ": element " + std::to_string(i) + " is " +
             std::to_string(got[i]) + ", not " + std::to_string(wanted[i]);
  return "";
}

}  // namespace sabot::conformance

// A stay in a context: makes it current for this thread, with the relaxed capture mode, and puts
// both back.
//
// With the relaxed mode, what this thread does breaks no capture that another thread has under way
// (B15), and what is legal on a stream that is being captured stays legal. The application finds
// the context and the mode that it had (B9).
#pragma once

#include "driver/driver.hpp"

namespace sabot::driver {

class Visit {
 public:
  // Null: the context that is current already.
  static Result<Visit> begin(Driver& driver, Context context) {
    const CaptureMode before = SABOT_TRY(driver.exchange_capture_mode(CaptureMode::kRelaxed));
    Visit visit(driver, before);
    if (context != nullptr) {
      SABOT_TRY(driver.push(context));
      visit.has_pushed_ = true;
    }
    return visit;
  }

  Visit(Visit&& other) noexcept
      : driver_(other.driver_), before_(other.before_), has_pushed_(other.has_pushed_) {
    other.driver_ = nullptr;
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  Visit& operator=(Visit&&) = delete;
  ~Visit() {
    if (driver_ == nullptr) return;
    if (has_pushed_) driver_->pop().ignore();
    driver_->exchange_capture_mode(before_).ignore();
  }

 private:
  Visit(Driver& driver, CaptureMode before) : driver_(&driver), before_(before) {}

  Driver* driver_;
  CaptureMode before_;
  bool has_pushed_ = false;
};

}  // namespace sabot::driver

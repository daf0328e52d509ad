// The functions of sabot/fault.h: whose stack, which error code, no exception.
#include <cxxabi.h>

#include <cstdio>
#include <string>

#include "abi/result_code.hpp"
#include "base/log.hpp"
#include "call/last_error.hpp"
#include "call/thread_state.hpp"
#include "stack/api/announced.hpp"
#include "stack/owner.hpp"

#define SABOT_PUBLIC extern "C" __attribute__((visibility("default")))

namespace {

using namespace sabot;
using stack::Owner;
using stack::Stack;

ncclResult_t refused(ncclResult_t code, const std::string& text) {
  call::set_last_error(text);
  return code;
}

ncclResult_t refused(const Error& error) {
  // An id that names nothing is a wrong argument; elsewhere kNotFound is the system's.
  const bool is_unknown = error.code() == Code::kNotFound;
  return refused(is_unknown ? ncclInvalidArgument : sabot::abi::to_result(error.code()),
                 error.message());
}

void copy_text(const std::string& text, char* out, std::size_t size) {
  if (out != nullptr && size > 0) std::snprintf(out, size, "%s", text.c_str());
}

// Calls body(stack) where this copy owns the stack, else the owner's function of the same name.
template <auto Member, typename Body, typename... Arguments>
ncclResult_t in_stack(const char* name, Body body, Arguments... arguments) {
  const call::KeepErrno keep;
  try {
    if (const Owner* owner = stack::owner()) {
      if (owner->*Member != nullptr) return (owner->*Member)(arguments...);
      return refused(ncclSystemError, std::string(name) +
                                          ": the library of Sabot that was loaded first is older "
                                          "and lacks this function");
    }
    if (Stack* own = Stack::current()) return body(*own);
    return refused(ncclSystemError, std::string(name) + ": Sabot could not open its stack");
  } catch (__cxxabiv1::__forced_unwind&) {
    throw;  // the thread is being cancelled
  } catch (...) {
    log::line(std::string(name) + ": an exception from inside was turned into an error");
    return ncclInternalError;
  }
}

ncclResult_t result_of(const Status& status) {
  return status.ok() ? ncclSuccess : refused(status.error());
}

}  // namespace

SABOT_PUBLIC ncclResult_t sabot_comm_open(const sabot_comm_info_t* info) {
  return in_stack<&Owner::comm_open>(
      __func__, [&](Stack& own) { return result_of(stack::api::open_comm(own, info)); }, info);
}

SABOT_PUBLIC ncclResult_t sabot_comm_close(const void* key) {
  return in_stack<&Owner::comm_close>(
      __func__, [&](Stack& own) { return result_of(stack::api::close_comm(own, key)); }, key);
}

SABOT_PUBLIC ncclResult_t sabot_call_enter(sabot_call_t* call, sabot_decision_t* decision) {
  return in_stack<&Owner::call_enter>(
      __func__, [&](Stack& own) { return result_of(stack::api::enter_call(own, call, decision)); },
      call, decision);
}

SABOT_PUBLIC ncclResult_t sabot_call_leave(sabot_call_t* call, ncclResult_t result) {
  return in_stack<&Owner::call_leave>(
      __func__,
      [&](Stack& own) {
        const Result<ncclResult_t> given = stack::api::leave_call(own, call, result);
        return given.ok() ? *given : refused(given.error());
      },
      call, result);
}

SABOT_PUBLIC ncclResult_t sabot_fault_inject(const char* text, sabot_fired_fn fired, void* user,
                                             uint64_t* id, char* error_text, size_t error_size) {
  return in_stack<&Owner::fault_inject>(
      __func__,
      [&](Stack& own) {
        copy_text("", error_text, error_size);
        const auto fail = [&](const Error& error) {
          copy_text(error.message(), error_text, error_size);
          return refused(error);
        };
        if (text == nullptr || id == nullptr)
          return fail({Code::kInvalidArgument, "sabot_fault_inject: text and id must not be NULL"});
        const Result<std::uint64_t> injected = own.inject(text, {fired, user});
        if (!injected.ok()) return fail(injected.error());
        *id = *injected;
        return ncclSuccess;
      },
      text, fired, user, id, error_text, error_size);
}

SABOT_PUBLIC ncclResult_t sabot_fault_withdraw(uint64_t id, uint64_t* fired_count, char* why_not,
                                               size_t why_not_size) {
  return in_stack<&Owner::fault_withdraw>(
      __func__,
      [&](Stack& own) {
        copy_text("", why_not, why_not_size);
        const Result<Stack::Withdrawal> withdrawal = own.withdraw(id);
        if (!withdrawal.ok()) return refused(withdrawal.error());
        if (fired_count != nullptr) *fired_count = withdrawal->fired_count;
        copy_text(withdrawal->why_not, why_not, why_not_size);
        return withdrawal->is_left ? ncclSuccess : ncclInProgress;
      },
      id, fired_count, why_not, why_not_size);
}

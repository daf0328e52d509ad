// Assertions: preconditions of internal functions, on in release on the control path.
//
// Neither macro is ever reached by a user's argument; that is an error value. In somebody else's
// process a failed check must not end the process, so SABOT_ASSERT reports once to the log sink and
// lets the caller go on only where memory is not yet corrupt: use it before, not after, the damage.
#pragma once

namespace sabot::detail {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);
}

// For conditions whose failure means memory is already corrupt: prints and aborts.
#define SABOT_ASSERT(condition)                                          \
  do {                                                                   \
    if (__builtin_expect(!(condition), 0))                               \
      ::sabot::detail::assertion_failed(#condition, __FILE__, __LINE__); \
  } while (0)

#ifdef NDEBUG
#define SABOT_DCHECK(condition) ((void)0)
#else
#define SABOT_DCHECK(condition) SABOT_ASSERT(condition)
#endif

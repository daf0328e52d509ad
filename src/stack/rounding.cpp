// The rounding mode that libstdc++'s std::from_chars asks for, so that it does not ask libm.
//
// These two are all that our libraries would need of libm, and loading it costs every preloaded
// process a tenth of a millisecond, /bin/true included. Both are local to our libraries (the export
// list keeps them in). Parsing rounds to nearest, whatever mode the application has set.
#include <cfenv>

extern "C" int fegetround() noexcept { return FE_TONEAREST; }
extern "C" int fesetround(int) noexcept { return 0; }

// The PTX text of both kernels.
//
// Offsets into the parameters are those of the structs in kernels.hpp. The words of the host are
// read and written with system scope, since the other side is a CPU. An element is read and written
// byte by byte: a buffer that is not aligned to its type would otherwise end the context.
#include "driver/kernels.hpp"

namespace sabot::driver {

static_assert(offsetof(SpinParameters, release) == 0 && offsetof(SpinParameters, arrival) == 8 &&
              offsetof(SpinParameters, departure) == 16 &&
              offsetof(SpinParameters, limit_ns) == 24);
static_assert(offsetof(EditParameters, buffer) == 0 && offsetof(EditParameters, saved) == 8 &&
              offsetof(EditParameters, done) == 16 && offsetof(EditParameters, count) == 24 &&
              offsetof(EditParameters, element_bytes) == 28 &&
              offsetof(EditParameters, edit) == 32 && offsetof(EditParameters, type) == 36 &&
              offsetof(EditParameters, factor) == 40 && offsetof(EditParameters, index) == 48 &&
              offsetof(EditParameters, mask) == 560 && offsetof(EditParameters, flip) == 1072 &&
              offsetof(EditParameters, table) == 1584);

const char* const kKernelsPtx = R"ptx(
.version 6.4
.target sm_70
.address_size 64

.visible .entry sabot_spin(.param .align 8 .b8 spin[32])
{
  .reg .pred %has_arrival, %is_released, %has_limit, %is_over, %has_departure;
  .reg .b32 %word, %one;
  .reg .b64 %release, %arrival, %departure, %limit, %start, %now;

  ld.param.u64 %release, [spin];
  ld.param.u64 %arrival, [spin+8];
  ld.param.u64 %departure, [spin+16];
  ld.param.u64 %limit, [spin+24];
  mov.u64 %start, %globaltimer;
  mov.u32 %one, 1;
  setp.ne.u64 %has_arrival, %arrival, 0;
  setp.ne.u64 %has_limit, %limit, 0;
  setp.ne.u64 %has_departure, %departure, 0;
  @%has_arrival st.release.sys.global.u32 [%arrival], %one;
WAIT:
  ld.acquire.sys.global.u32 %word, [%release];
  setp.ne.u32 %is_released, %word, 0;
  @%is_released bra LEAVE;
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %start;
  setp.ge.and.u64 %is_over, %now, %limit, %has_limit;
  @%is_over bra LEAVE;
  nanosleep.u32 1000;
  bra WAIT;
LEAVE:
  @%has_departure st.release.sys.global.u32 [%departure], %one;
  ret;
}

.visible .entry sabot_edit(.param .align 8 .b8 edit[1840])
{
  .reg .pred %is_idle, %is_true, %has_saved, %is_last, %is_nan;
  .reg .b16 %half;
  .reg .b32 %thread, %count, %size, %kind, %type, %i, %byte, %shift, %bits, %odd;
  .reg .b64 %block, %entry, %buffer, %saved, %done, %index, %at, %slot, %wide, %old, %new, %mask;
  .reg .f32 %single, %narrow;
  .reg .f64 %value, %factor;

  mov.u32 %thread, %tid.x;
  ld.param.u32 %count, [edit+24];
  ld.param.u64 %saved, [edit+8];
  setp.ge.u32 %is_idle, %thread, %count;
  @%is_idle bra DONE;

  mov.b64 %block, edit;
  mul.wide.u32 %wide, %thread, 8;
  add.u64 %entry, %block, %wide;
  ld.param.u64 %index, [%entry+48];
  ld.param.u64 %buffer, [edit];
  ld.param.u32 %size, [edit+28];
  ld.param.u32 %kind, [edit+32];
  ld.param.u32 %type, [edit+36];
  ld.param.f64 %factor, [edit+40];
  cvt.u64.u32 %wide, %size;
  mad.lo.u64 %at, %index, %wide, %buffer;
  setp.ne.u64 %has_saved, %saved, 0;
  mul.wide.u32 %wide, %thread, 8;
  add.u64 %slot, %saved, %wide;

  setp.eq.u32 %is_true, %kind, 2;
  @%is_true bra PUT_BACK;

  mov.u64 %old, 0;
  mov.u32 %i, 0;
READ:
  cvt.u64.u32 %wide, %i;
  add.u64 %wide, %at, %wide;
  ld.volatile.global.u8 %byte, [%wide];
  cvt.u64.u32 %wide, %byte;
  shl.b32 %shift, %i, 3;
  shl.b64 %wide, %wide, %shift;
  or.b64 %old, %old, %wide;
  add.u32 %i, %i, 1;
  setp.lt.u32 %is_true, %i, %size;
  @%is_true bra READ;

  @%has_saved st.volatile.global.u64 [%slot], %old;
  setp.eq.u32 %is_true, %kind, 1;
  @%is_true bra SCALE;
  ld.param.u64 %mask, [%entry+560];
  and.b64 %new, %old, %mask;
  ld.param.u64 %mask, [%entry+1072];
  xor.b64 %new, %new, %mask;
  bra WRITE;

PUT_BACK:
  ld.param.u64 %mask, [%entry+560];
  setp.eq.u64 %is_true, %mask, 0;
  @%is_true bra DONE;
  ld.volatile.global.u64 %new, [%slot];
  bra WRITE;

SCALE:
  cvt.rn.f32.f64 %narrow, %factor;
  setp.eq.u32 %is_true, %size, 1;
  @%is_true bra BY_TABLE;
  cvt.u32.u64 %bits, %old;
  setp.eq.u32 %is_true, %type, 2;
  @%is_true bra INT32;
  setp.eq.u32 %is_true, %type, 3;
  @%is_true bra UINT32;
  setp.eq.u32 %is_true, %type, 4;
  @%is_true bra INT64;
  setp.eq.u32 %is_true, %type, 5;
  @%is_true bra UINT64;
  setp.eq.u32 %is_true, %type, 6;
  @%is_true bra FLOAT16;
  setp.eq.u32 %is_true, %type, 7;
  @%is_true bra FLOAT32;
  setp.eq.u32 %is_true, %type, 8;
  @%is_true bra FLOAT64;
  setp.eq.u32 %is_true, %type, 9;
  @%is_true bra BFLOAT16;
  bra DONE;

BY_TABLE:
  add.u64 %wide, %block, %old;
  ld.param.u8 %byte, [%wide+1584];
  cvt.u64.u32 %new, %byte;
  bra WRITE;
INT32:
  cvt.rn.f64.s32 %value, %bits;
  mul.rn.f64 %value, %value, %factor;
  cvt.rni.s32.f64 %bits, %value;
  cvt.u64.u32 %new, %bits;
  bra WRITE;
UINT32:
  cvt.rn.f64.u32 %value, %bits;
  mul.rn.f64 %value, %value, %factor;
  cvt.rni.u32.f64 %bits, %value;
  cvt.u64.u32 %new, %bits;
  bra WRITE;
INT64:
  cvt.rn.f64.s64 %value, %old;
  mul.rn.f64 %value, %value, %factor;
  cvt.rni.s64.f64 %new, %value;
  bra WRITE;
UINT64:
  cvt.rn.f64.u64 %value, %old;
  mul.rn.f64 %value, %value, %factor;
  cvt.rni.u64.f64 %new, %value;
  bra WRITE;
FLOAT16:
  cvt.u16.u32 %half, %bits;
  cvt.f32.f16 %single, %half;
  mul.rn.f32 %single, %single, %narrow;
  cvt.rn.f16.f32 %half, %single;
  cvt.u64.u16 %new, %half;
  bra WRITE;
FLOAT32:
  mov.b32 %single, %bits;
  mul.rn.f32 %single, %single, %narrow;
  mov.b32 %bits, %single;
  cvt.u64.u32 %new, %bits;
  bra WRITE;
FLOAT64:
  mov.b64 %value, %old;
  mul.rn.f64 %value, %value, %factor;
  mov.b64 %new, %value;
  testp.notanumber.f64 %is_nan, %value;
  @%is_nan mov.u64 %new, 0x7fffffffffffffff;
  bra WRITE;
BFLOAT16:
  shl.b32 %bits, %bits, 16;
  mov.b32 %single, %bits;
  mul.rn.f32 %single, %single, %narrow;
  mov.b32 %bits, %single;
  testp.notanumber.f32 %is_nan, %single;
  @%is_nan bra BFLOAT16_NAN;
  bfe.u32 %odd, %bits, 16, 1;
  add.u32 %bits, %bits, %odd;
  add.u32 %bits, %bits, 32767;
  shr.u32 %bits, %bits, 16;
  cvt.u64.u32 %new, %bits;
  bra WRITE;
BFLOAT16_NAN:
  mov.u64 %new, 32767;

WRITE:
  mov.u32 %i, 0;
WRITE_BYTE:
  shl.b32 %shift, %i, 3;
  shr.u64 %wide, %new, %shift;
  cvt.u32.u64 %byte, %wide;
  cvt.u64.u32 %wide, %i;
  add.u64 %wide, %at, %wide;
  st.volatile.global.u8 [%wide], %byte;
  add.u32 %i, %i, 1;
  setp.lt.u32 %is_true, %i, %size;
  @%is_true bra WRITE_BYTE;

DONE:
  membar.sys;
  bar.sync 0;
  ld.param.u64 %done, [edit+16];
  setp.ne.u64 %is_last, %done, 0;
  setp.eq.and.u32 %is_last, %thread, 0, %is_last;
  mov.u32 %i, 1;
  @%is_last st.release.sys.global.u32 [%done], %i;
  ret;
}
)ptx";

}  // namespace sabot::driver

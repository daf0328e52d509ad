# The way of a call whose entry was not opened yet: keep the arguments, ask where to go, go there.
#
# An entry (entries.S) comes here with its index in a scratch register and the caller's arguments
# and return address in place; sabot_first_use_target opens the stack once and returns the function
# to go on with. No function of the API takes floating-point arguments, so that the integer
# registers are all there is to keep.
  .text
#if defined(__x86_64__)
  .globl sabot_first_use
  .hidden sabot_first_use
  .type sabot_first_use, @function
sabot_first_use:
  .cfi_startproc
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %rcx
  pushq %r8
  pushq %r9
  movl %eax, %edi
  call sabot_first_use_target
  movq %rax, %r11
  popq %r9
  popq %r8
  popq %rcx
  popq %rdx
  popq %rsi
  popq %rdi
  popq %rbp
  .cfi_def_cfa %rsp, 8
  jmpq *%r11
  .cfi_endproc
  .size sabot_first_use, .-sabot_first_use
#elif defined(__aarch64__)
  .globl sabot_first_use
  .hidden sabot_first_use
  .type sabot_first_use, %function
sabot_first_use:
  .cfi_startproc
  stp x29, x30, [sp, #-96]!
  .cfi_def_cfa_offset 96
  .cfi_offset 29, -96
  .cfi_offset 30, -88
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  mov w0, w16
  bl sabot_first_use_target
  mov x16, x0
  ldr x8, [sp, #80]
  ldp x6, x7, [sp, #64]
  ldp x4, x5, [sp, #48]
  ldp x2, x3, [sp, #32]
  ldp x0, x1, [sp, #16]
  ldp x29, x30, [sp], #96
  .cfi_def_cfa_offset 0
  br x16
  .cfi_endproc
  .size sabot_first_use, .-sabot_first_use
#endif
  .section .note.GNU-stack,"",%progbits

#include "fiber.h"

#include <cstdint>

#if defined(__x86_64__) && defined(__linux__)

// The System V ABI asks a callee to keep six registers and the stack pointer. The floating-point control words are the
// same for all fibers: kernels do not touch them.
extern "C" void uva_shim_switch(void** from, void* to);
asm(R"(
  .text
  .p2align 4
  .hidden uva_shim_switch
  .globl uva_shim_switch
  .type uva_shim_switch, @function
uva_shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size uva_shim_switch, .-uva_shim_switch
)");

namespace uva_shim {

void* new_fiber(void* stack, size_t bytes, void (*entry)()) {
  // As if `entry` had been called: a return address that is never used, on a stack aligned to 16 before the call.
  uint64_t* top = reinterpret_cast<uint64_t*>((reinterpret_cast<uintptr_t>(stack) + bytes) & ~uintptr_t{15});
  *--top = 0;
  *--top = reinterpret_cast<uint64_t>(entry);
  for (int registers = 0; registers < 6; ++registers) *--top = 0;
  return top;
}

void switch_to(void** from, void* to) { uva_shim_switch(from, to); }

}  // namespace uva_shim

#else

#include <ucontext.h>

namespace uva_shim {

// A context lies at the low end of its fiber's own stack; that of a scheduler on the scheduler's.
void* new_fiber(void* stack, size_t bytes, void (*entry)()) {
  ucontext_t* context = static_cast<ucontext_t*>(stack);
  getcontext(context);
  context->uc_stack.ss_sp = context + 1;
  context->uc_stack.ss_size = bytes - sizeof(ucontext_t);
  context->uc_link = nullptr;
  makecontext(context, entry, 0);
  return context;
}

void switch_to(void** from, void* to) {
  ucontext_t here;
  *from = &here;
  swapcontext(&here, static_cast<ucontext_t*>(to));
}

}  // namespace uva_shim

#endif

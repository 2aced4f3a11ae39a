// Stacks to switch between: a few lines of assembly on x86-64 Linux, ucontext elsewhere.
#pragma once

#include <cstddef>

namespace uva_shim {

// Prepares a fiber on the stack of `bytes` at `stack`, which will run `entry`; `entry` never returns. Returns
// its context, for `switch_to`.
void* new_fiber(void* stack, size_t bytes, void (*entry)());

// Leaves the running fiber, stores it in *from, and continues where `to` was left. Both on one operating-system thread.
void switch_to(void** from, void* to);

}  // namespace uva_shim

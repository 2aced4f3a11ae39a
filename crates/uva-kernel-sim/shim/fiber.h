// Stacks to switch between: a few lines of assembly on x86-64 Linux, ucontext elsewhere.
#pragma once

#include <cstddef>

namespace uva_shim {

// Prepares a fiber on the stack of `bytes` at `stack`, which will run `entry`; `entry` never returns. What comes back
// is its context, to be given to `switch_to`.
void* new_fiber(void* stack, size_t bytes, void (*entry)());

// Leaves the running fiber, keeps it in *from, and goes on where `to` was left. Both on one operating-system thread.
void switch_to(void** from, void* to);

}  // namespace uva_shim

// What block.cpp, entries.cpp and the Rust side share.
#pragma once

#include <cstdint>

#include "shim.h"

namespace uva_shim {

// A kernel that can be called with arguments as cuLaunchKernel takes them.
struct Launchable {
  const char* name;
  void (*call)(void** arguments);
};

// One warp instruction: the lanes that read part of the watched range. Mirrored in src/shim.rs.
struct WarpAccess {
  uint32_t count;
  uint32_t bytes;
  uint64_t address[32];
  uint8_t lane[32];
};

// The receiver of all reads between `begin` and `end`. Mirrored in src/shim.rs.
struct AccessSink {
  uint64_t begin;
  uint64_t end;
  void* owner;
  void (*take)(void* owner, const WarpAccess* access);
};

// Runs a launch; returns null, or the error (a static string).
const char* run(const Launchable& kernel, Index grid, Index block, void** arguments, AccessSink* sink);

}  // namespace uva_shim

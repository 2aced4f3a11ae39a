// The kernels themselves, compiled for the host, and the table of their entry points.

#include <cstddef>
#include <utility>

#include "sources.h"
#include "launch.h"
#ifdef UVA_SHIM_SELFTEST
#include "selftest.cu"
#endif

namespace {

template <auto Kernel>
struct Call;

// A kernel's parameters are taken from an array of pointers to them, as cuLaunchKernel does.
template <class... Parameters, void (*Kernel)(Parameters...)>
struct Call<Kernel> {
  template <size_t... Index>
  static void spread(void** arguments, std::index_sequence<Index...>) {
    Kernel(*static_cast<const Parameters*>(arguments[Index])...);
  }
  static void call(void** arguments) { spread(arguments, std::index_sequence_for<Parameters...>{}); }
};

#define ENTRY(name) {#name, &Call<&name>::call}
const uva_shim::Launchable ENTRIES[] = {
// Those of crates/uva-kernels, written by the build script.
#include "entry_points.h"
#ifdef UVA_SHIM_SELFTEST
    ENTRY(selftest_reverse), ENTRY(selftest_block_sum), ENTRY(selftest_diverge), ENTRY(selftest_return_early),
    ENTRY(selftest_misaligned), ENTRY(selftest_where),
#endif
};

}  // namespace

extern "C" {

// The name of entry point `index`, null after the last one.
const char* uva_shim_entry(size_t index) {
  return index < sizeof ENTRIES / sizeof ENTRIES[0] ? ENTRIES[index].name : nullptr;
}

// Launches entry point `index`, which there must be. Null, or what went wrong.
const char* uva_shim_launch(size_t index, const unsigned* grid, const unsigned* block, void** arguments,
                            uva_shim::AccessSink* sink) {
  return uva_shim::run(ENTRIES[index], {grid[0], grid[1], grid[2]}, {block[0], block[1], block[2]}, arguments, sink);
}

}  // extern "C"

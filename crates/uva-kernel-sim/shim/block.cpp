// Runs the blocks of a launch, one after another.

#include <sched.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "fiber.h"
#include "launch.h"
#include "shim.h"

namespace uva_shim {

namespace {

constexpr unsigned LANES = 32;
// Kernels keep little on the stack and call nothing deep; pages of it that are never touched cost nothing. The odd
// number of cache lines after the power of two puts the lanes' stacks into different sets of the cache.
constexpr size_t STACK_BYTES = 64 * 1024 + 11 * 64;
// Before them: what their fibers find there.
constexpr size_t HERE_BYTES = 4096;
static_assert(sizeof(Here) <= HERE_BYTES && HERE_BYTES + LANES * STACK_BYTES <= STACKS_ALIGNMENT);

// The stacks of one warp. Kept for the next warp, since mapping them costs more than most warps do.
class Stacks {
 public:
  Stacks() : mapped_(mmap(nullptr, MAPPED_BYTES, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    const uintptr_t last = reinterpret_cast<uintptr_t>(mapped_) + STACKS_ALIGNMENT - 1;
    begin_ = reinterpret_cast<char*>(last & ~(STACKS_ALIGNMENT - 1));
  }
  ~Stacks() { munmap(mapped_, MAPPED_BYTES); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  Here& here() const { return *reinterpret_cast<Here*>(begin_); }
  void* of(unsigned lane) const { return begin_ + HERE_BYTES + lane * STACK_BYTES; }

 private:
  // Twice the alignment holds an aligned half.
  static constexpr size_t MAPPED_BYTES = 2 * STACKS_ALIGNMENT;
  void* mapped_;
  char* begin_;
};

// Stacks that no warp uses: one set, unless a kernel makes all warps of a block wait for each other.
thread_local std::vector<std::unique_ptr<Stacks>> spare_stacks;

}  // namespace

struct Warp {
  Lane lanes[LANES];
  unsigned count = 0;
  unsigned running = 0;
  // What lanes brought, for two operations in turn: a lane can be one ahead of another, never two.
  unsigned long long brought[2][LANES];
  // The operation that the first lane to leave it has checked.
  unsigned long long checked = 0;
  bool at_block_barrier = false;
  std::unique_ptr<Stacks> stacks;
};

struct Launch {
  const Launchable* kernel;
  Index grid, block;
  void** arguments;
  AccessSink* sink;
  void* scheduler = nullptr;
  const char* error = nullptr;
  std::vector<WarpAccess> accesses;
};

namespace {

// Goes to the next lane of the warp that has not finished; back to the scheduler when all have.
void pass_on(Lane& me) {
  Warp& warp = *me.warp;
  if (warp.running == 0) {
    switch_to(&me.context, here().launch->scheduler);
    return;
  }
  unsigned next = me.lane;
  do next = next + 1 == warp.count ? 0 : next + 1;
  while (warp.lanes[next].finished);
  if (next == me.lane) return;
  Lane& other = warp.lanes[next];
  here().current = &other;
  switch_to(&me.context, other.context);
}

// A fiber begins here.
void run_lane() {
  const Launch& launch = *here().launch;
  launch.kernel->call(launch.arguments);
  Lane& me = *here().current;
  me.finished = true;
  --me.warp->running;
  pass_on(me);
  __builtin_unreachable();
}

// Whether this is the first lane to leave the operation it is at, after checking that all lanes came to the same one.
bool first_to_leave(const Lane& me) {
  Warp& warp = *me.warp;
  if (warp.checked == me.generation) return false;
  for (unsigned lane = 0; lane < warp.count; ++lane) {
    const Lane& other = warp.lanes[lane];
    if (other.finished) fail("a thread returned while others of its warp wait for it");
    if (other.generation != me.generation || other.operation != me.operation)
      fail("the threads of a warp came to different operations of the warp");
  }
  warp.checked = me.generation;
  return true;
}

unsigned long long* meet(Operation operation, unsigned long long value, bool& first) {
  Lane& me = *here().current;
  me.operation = operation;
  ++me.generation;
  unsigned long long* brought = me.warp->brought[me.generation & 1];
  brought[me.lane] = value;
  pass_on(me);
  first = first_to_leave(me);
  return brought;
}

}  // namespace

void fail(const char* why) {
  // The fibers are abandoned where they stand: kernels own nothing.
  Launch& launch = *here().launch;
  launch.error = why;
  switch_to(&here().current->context, launch.scheduler);
  __builtin_unreachable();
}

const unsigned long long* exchange(Operation operation, unsigned long long value) {
  bool first;
  return meet(operation, value, first);
}

void sync_block() {
  bool first;
  meet(Operation::SyncBlock, 0, first);
  // The scheduler comes back to this lane when all warps of the block are here; the others follow it in the ring.
  if (first) {
    Lane& me = *here().current;
    me.warp->at_block_barrier = true;
    switch_to(&me.context, here().launch->scheduler);
  }
}

void table_load(const void* address, unsigned bytes, bool wanted) {
  if (wanted) check_aligned(address, bytes);
  Launch& launch = *here().launch;
  AccessSink* sink = launch.sink;
  if (sink == nullptr) return;
  const uint64_t at = reinterpret_cast<uint64_t>(address);
  // The bytes are the same for all lanes: they came to the same load. An address needs all 64 bits, so an
  // unwanted load is marked by one that no load has.
  bool first;
  const unsigned long long* all = meet(Operation::Load, wanted ? at : ~0ull, first);
  if (!first) return;
  WarpAccess access;
  access.count = 0;
  access.bytes = bytes;
  for (unsigned lane = 0; lane < here().current->warp->count; ++lane) {
    if (all[lane] == ~0ull || all[lane] + bytes <= sink->begin || all[lane] >= sink->end) continue;
    access.lane[access.count] = static_cast<uint8_t>(lane);
    access.address[access.count++] = all[lane];
  }
  if (access.count != 0) launch.accesses.push_back(access);
}

void check_aligned(const void* address, unsigned long bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes != 0) fail("an access that is not aligned to its size");
}

unsigned long long nanoseconds() {
  return static_cast<unsigned long long>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
}

void breathe() { sched_yield(); }

namespace {

// Lets a warp run until it ends or waits for the block.
void resume(Launch& launch, Warp& warp) {
  warp.at_block_barrier = false;
  unsigned first = 0;
  while (warp.lanes[first].finished) ++first;
  warp.stacks->here().current = &warp.lanes[first];
  switch_to(&launch.scheduler, warp.lanes[first].context);
}

void begin(Launch& launch, Index block, Warp& warp, unsigned index, unsigned threads) {
  if (spare_stacks.empty()) {
    warp.stacks = std::make_unique<Stacks>();
  } else {
    warp.stacks = std::move(spare_stacks.back());
    spare_stacks.pop_back();
  }
  warp.stacks->here() = {nullptr, &launch, block, launch.block, launch.grid};
  warp.count = threads - index * LANES < LANES ? threads - index * LANES : LANES;
  warp.running = warp.count;
  for (unsigned lane = 0; lane < warp.count; ++lane) {
    const unsigned thread = index * LANES + lane;
    Lane& it = warp.lanes[lane];
    const Index size = launch.block;
    it.thread = {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
    it.lane = lane;
    it.finished = false;
    it.operation = Operation::None;
    it.generation = 0;
    it.warp = &warp;
    it.context = new_fiber(warp.stacks->of(lane), STACK_BYTES, run_lane);
  }
}

void run_block(Launch& launch, Index block, std::vector<Warp>& warps, unsigned threads) {
  std::vector<bool> ended(warps.size(), false);
  size_t left = warps.size();
  for (bool first_round = true; left != 0 && launch.error == nullptr; first_round = false) {
    for (size_t index = 0; index < warps.size() && launch.error == nullptr; ++index) {
      Warp& warp = warps[index];
      if (ended[index]) continue;
      if (first_round) {
        warp.checked = 0;
        begin(launch, block, warp, static_cast<unsigned>(index), threads);
      }
      resume(launch, warp);
      if (launch.error != nullptr || warp.running == 0) {
        ended[index] = true;
        --left;
        spare_stacks.push_back(std::move(warp.stacks));
      }
    }
  }
  for (Warp& warp : warps)
    if (warp.stacks) spare_stacks.push_back(std::move(warp.stacks));
}

}  // namespace

const char* run(const Launchable& kernel, Index grid, Index block, void** arguments, AccessSink* sink) {
  Launch launch;
  launch.kernel = &kernel;
  launch.grid = grid;
  launch.block = block;
  launch.arguments = arguments;
  launch.sink = sink;
  const unsigned threads = block.x * block.y * block.z;
  try {
    std::vector<Warp> warps((threads + LANES - 1) / LANES);
    for (Index at = {0, 0, 0}; at.z < grid.z; ++at.z)
      for (at.y = 0; at.y < grid.y; ++at.y)
        for (at.x = 0; at.x < grid.x; ++at.x) {
          if (launch.error != nullptr) break;
          run_block(launch, at, warps, threads);
          for (const WarpAccess& access : launch.accesses) sink->take(sink->owner, &access);
          launch.accesses.clear();
        }
  } catch (const std::bad_alloc&) {
    launch.error = "no memory for the stacks of a warp";
  }
  return launch.error;
}

}  // namespace uva_shim

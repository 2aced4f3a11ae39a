// Launch shapes and depths of the gather kernels, in one place. crates/uva-kernels reads them from this text.
//
// They come from this: a link of 55 GB/s and 1.3 µs has 72 KB in flight (560 lines of 128 bytes); spread over 8
// multiprocessors that is 9 KB each. A block of 512 threads with four 16-byte loads each has 32 KB in flight, two such
// blocks 64 KB, so that there is room for warps that are between two loads. On an H100 four multiprocessors give `wide`
// the rate of the link, and one gives 44 % of it (docs/results/gpu/pcie-near-h100.json). Other values have not been
// compared on a GPU.
#pragma once

// Threads of a block. Every kernel takes any multiple of 32 up to this; `gather_begin` and `gather_finish` take one
// thread.
#define UVA_GATHER_BLOCK_THREADS 512
// Blocks that a multiprocessor must be able to hold at once: bounds the registers to 64 a thread.
#define UVA_GATHER_BLOCKS_PER_MULTIPROCESSOR 2
// Rows that a warp takes from the counter at once, at most. `wide` keeps one row a lane: 32 at most.
#define UVA_GATHER_ROWS_PER_TAKE 32
// Takes that each warp should get at least before they are made that large, so that the last ones end together.
#define UVA_GATHER_TAKES_PER_WARP 4
// Independent loads of a thread before the first is used, in `naive` and `shift`.
#define UVA_GATHER_NARROW_DEPTH 4
// The same in `wide`, of 16 bytes each: a warp has four lines in flight for each of them.
#define UVA_GATHER_WIDE_DEPTH 4

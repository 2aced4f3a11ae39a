//! What the programs of a run take beside the batches, for `--dry-run`.
//!
//! Measured as proportional set sizes (`Pss` of `/proc/PID/smaps_rollup`) on x86-64 Linux, `uvatrain train` on a graph of
//! 300 nodes, whose batches take next to nothing. In MiB, of their own and of mapped files:
//!
//! | process | own | files |
//! |---|---|---|
//! | launcher | 3 | 4 |
//! | janitor | 2 | 3 |
//! | sampler | 2 | 3 |
//! | producer | 2 | 3 |
//! | consumer with libtorch 2.11 for the CPU | 61 | 77 |

/// Bytes of its own that a process of `uvatrain` has: heap, stacks of its threads, and the loader's pages.
pub const OWN: u64 = 5 << 19;

/// Bytes of the program and the system's libraries, which all its processes map.
pub const CODE: u64 = 13 << 20;

/// Bytes of its own that a consumer has with libtorch loaded and its threads started.
pub const LIBTORCH_OWN: u64 = 60 << 20;

/// Bytes of libtorch's files that training reads.
pub const LIBTORCH_CODE: u64 = 76 << 20;

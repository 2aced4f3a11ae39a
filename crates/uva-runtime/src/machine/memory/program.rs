//! Memory of a run's programs without batches, for `--dry-run`.
//!
//! Measured as proportional set sizes (`Pss` of `/proc/PID/smaps_rollup`) on x86-64 Linux, `uvatrain train` on a graph
//! of 300 nodes, whose batches are negligible. Values are in MiB, for private memory and mapped files:
//!
//! | process | own | files |
//! |---|---|---|
//! | launcher | 3 | 4 |
//! | janitor | 2 | 3 |
//! | sampler | 2 | 3 |
//! | producer | 2 | 3 |
//! | consumer with libtorch 2.11 for the CPU | 61 | 77 |

/// Private bytes of a process of `uvatrain`: heap, stacks of its threads, and the loader's pages.
pub const OWN: u64 = 5 << 19;

/// Bytes of the program and the system's libraries, which all its processes map.
pub const CODE: u64 = 13 << 20;

/// Private bytes of a consumer with libtorch loaded and its threads started.
pub const LIBTORCH_OWN: u64 = 60 << 20;

/// Bytes of libtorch's files that training reads.
pub const LIBTORCH_CODE: u64 = 76 << 20;

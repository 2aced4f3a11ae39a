//! The machine below a run: limits, cores, the clock, memory.
//!
//! | file | holds |
//! |---|---|
//! | `limits` | limits of `/proc` and the system, and threads |
//! | [`cores`], [`pin_cores`] | cores of a run; threads pinned to them |
//! | [`clock`] | the clock of all processes of a run |
//! | [`memory`] | memory of a process, and the items of a run's memory |

pub mod clock;
pub mod cores;
mod limits;
pub mod memory;
pub mod pin_cores;

pub use limits::{
    MOST_CORES, allowed_cores, check_proc, core_set, has_proc, keep_on_core, keep_on_cores, not_started,
    own_program, pin_to_core, share_of_cores, start_threads,
};

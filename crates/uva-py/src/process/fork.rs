//! Forks. A fork has the memory of its parent and none of its threads: waiting for one of them never ends.
//!
//! Loaders record the process that their threads belong to. In addition, the whole process has one thread pool
//! (rayon's), which checks and writes datasets and orders seeds. It starts with its first use and cannot be restarted.
//! A loaded CUDA driver does not work in a fork either. So operations that need them are refused in a fork of a process
//! that has used them already, and allowed in any other.
//!
//! Slots belong to one process as well: a fork has no access to their memory (`uva_mem::SharedRegion`). So code that
//! lends slot memory checks the process first, and raises an exception instead of a SIGSEGV.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::prelude::*;

use crate::errors::UvatrainError;

/// The process that slots and threads belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnProcess(u32);

impl OwnProcess {
    /// The process that runs this.
    pub fn here() -> Self {
        Self(std::process::id())
    }

    /// Whether it runs this.
    pub fn is_here(self) -> bool {
        self == Self::here()
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0
    }

    /// Call it before slot memory is lent or read. `what` describes the owner of that memory.
    ///
    /// # Errors
    /// In any other process than the memory's own. The message names both, and remedies.
    pub fn check_slot(self, what: impl FnOnce() -> String) -> PyResult<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(UvatrainError::new_err(format!(
            "{} belongs to process {} and was used in its fork {}, which cannot access the memory of its slot. Use the \
             batch in the process that made it, clone its tensors before the fork (batch.x.clone()), or start this \
             process by spawn instead (multiprocessing_context=\"spawn\")",
            what(),
            self.0,
            std::process::id()
        )))
    }
}

/// The process that has used the pool first; 0: none has.
static FIRST: AtomicU32 = AtomicU32::new(0);

/// Call it before anything that uses the pool or CUDA.
///
/// # Errors
/// If the process is a fork of one that has used them. The message names a remedy.
pub fn check(what: &str) -> PyResult<()> {
    let here = std::process::id();
    // Relaxed: nothing is read that another thread has written before it. Threads of one process write the same.
    match FIRST.compare_exchange(0, here, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => Ok(()),
        Err(first) if first == here => Ok(()),
        Err(first) => Err(UvatrainError::new_err(format!(
            "{what} in process {here}, a fork of process {first}, which has used uvatrain before: threads do not survive \
             a fork. Use it in one of the two only, or start this process by spawn instead \
             (multiprocessing_context=\"spawn\")"
        ))),
    }
}

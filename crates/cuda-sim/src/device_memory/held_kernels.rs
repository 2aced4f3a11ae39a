//! Held kernels, and a watchdog over calls that may wait for them.
//!
//! `spin_until` runs until the host sets a word. In a driver, a call that allocates or frees memory may wait for all
//! queued work, and a host that makes such a call before it sets the word deadlocks. The simulator does not wait, so
//! `CUDA_SIM_WATCHDOG=1` makes the deadlock an error.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use uva_kernels::Access;

use crate::device_memory::ranges;
use crate::machine::codes::{Code, Outcome};
use crate::machine::context;
use crate::machine::registry::lock;
use crate::machine::settings::known_settings;

/// The words of the launches of `spin_until` that have not finished.
static WORDS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// A launch of `spin_until`, from the call to its end.
pub struct Launch(u64);

impl Launch {
    /// Registers a launch that waits for the word at `word`.
    pub fn of(word: u64) -> Self {
        lock(&WORDS).push(word);
        Self(word)
    }
}

impl Drop for Launch {
    fn drop(&mut self) {
        let mut words = lock(&WORDS);
        if let Some(place) = words.iter().position(|&word| word == self.0) {
            words.swap_remove(place);
        }
    }
}

/// Whether a launch waits for a word that is not set yet.
fn any() -> bool {
    lock(&WORDS).iter().any(|&word| {
        let held = ranges::hold(word, 4, Access::Read, false);
        // SAFETY: four readable bytes for as long as they are held; a kernel wants them aligned, and the host writes
        // them as an atomic.
        held.is_some()
            && unsafe { AtomicU32::from_ptr(word as usize as *mut u32) }.load(Ordering::Acquire) == 0
    })
}

/// The check of calls that allocate or free memory.
///
/// # Errors
/// `CUDA_ERROR_LAUNCH_TIMEOUT`, which loses the context, if the watchdog is on and a kernel is held.
pub fn watch(call: &str) -> Outcome {
    if !known_settings().is_ok_and(|settings| settings.watches_held_kernels) || !any() {
        return Ok(());
    }
    eprintln!("cuda-sim: {call} while a kernel is held: a driver may wait for that kernel without end");
    context::current()?.poison(Code::LAUNCH_TIMEOUT);
    Err(Code::LAUNCH_TIMEOUT)
}

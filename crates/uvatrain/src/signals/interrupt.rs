//! Signals that ask a long command to stop. The first is noted, and the command keeps what it has done; the second ends
//! the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown, register_usize};
use signal_hook::low_level::unregister;

/// The signals received, shared by all clones.
#[derive(Clone)]
pub struct Interrupt {
    /// The signal's number; 0 until one arrives.
    signal: Arc<AtomicUsize>,
    /// The handlers that end the process at the second signal.
    at_once: Arc<[SigId]>,
}

impl Interrupt {
    /// Listens from now on to SIGINT and SIGTERM, until the process ends.
    pub fn listen() -> anyhow::Result<Self> {
        let signal = Arc::new(AtomicUsize::new(0));
        let again = Arc::new(AtomicBool::new(false));
        let mut ending = Vec::new();
        for number in [SIGINT, SIGTERM] {
            // In this order, so that only the second signal ends the process at once.
            let cannot = "cannot listen for signals";
            let at_once = register_conditional_shutdown(number, 128 + number, Arc::clone(&again));
            ending.push(at_once.context(cannot)?);
            register(number, Arc::clone(&again)).context(cannot)?;
            register_usize(number, Arc::clone(&signal), number as usize).context(cannot)?;
        }
        Ok(Self { signal, at_once: ending.into() })
    }

    /// From now on no signal ends the process at once: it is about to rename its results, and would leave some under
    /// temporary names.
    pub fn hold(&self) {
        for &action in &*self.at_once {
            unregister(action);
        }
    }

    /// Whether a signal has arrived.
    pub fn has_arrived(&self) -> bool {
        // Relaxed: no other data depends on the number.
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// The signal that arrived last; SIGTERM if there was none.
    pub fn signal(&self) -> i32 {
        match i32::try_from(self.signal.load(Ordering::Relaxed)) {
            Ok(signal) if signal != 0 => signal,
            _ => SIGTERM,
        }
    }
}

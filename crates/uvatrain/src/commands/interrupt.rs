//! Signals that ask a long command to stop. The first is noted, and the command keeps what it has done; the second ends
//! the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown, register_usize};

/// What has arrived, for all clones.
#[derive(Clone)]
pub struct Interrupt {
    /// The signal's number; 0 as long as none has arrived.
    signal: Arc<AtomicUsize>,
}

impl Interrupt {
    /// Listens from now on to SIGINT and SIGTERM, until the process ends.
    pub fn listen() -> anyhow::Result<Self> {
        let signal = Arc::new(AtomicUsize::new(0));
        let again = Arc::new(AtomicBool::new(false));
        for number in [SIGINT, SIGTERM] {
            // In this order, so that only the second signal ends the process at once.
            let at_once = register_conditional_shutdown(number, 128 + number, Arc::clone(&again));
            at_once
                .and_then(|_| register(number, Arc::clone(&again)))
                .context("cannot listen for signals")?;
            let noted = register_usize(number, Arc::clone(&signal), number as usize);
            noted.context("cannot listen for signals")?;
        }
        Ok(Self { signal })
    }

    /// Whether one has arrived.
    pub fn has_arrived(&self) -> bool {
        // Relaxed: the number stands alone.
        self.signal.load(Ordering::Relaxed) != 0
    }

    /// The one that arrived last; SIGTERM stands for none.
    pub fn signal(&self) -> i32 {
        match i32::try_from(self.signal.load(Ordering::Relaxed)) {
            Ok(signal) if signal != 0 => signal,
            _ => SIGTERM,
        }
    }
}

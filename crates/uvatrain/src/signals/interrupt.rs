//! Signals that ask a long command to stop. The first is noted, and the command keeps what it has done; the second ends
//! the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;
use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown, register_usize};
use signal_hook::low_level::unregister;

/// What has arrived, for all clones.
#[derive(Clone)]
pub struct Interrupt {
    /// The signal's number; 0 as long as none has arrived.
    signal: Arc<AtomicUsize>,
    /// What ends the process at the second signal.
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

    /// From now on no signal ends the process at once: it is about to give its results their names, in a moment, and would
    /// leave some of them under temporary ones.
    pub fn hold(&self) {
        for &action in &*self.at_once {
            unregister(action);
        }
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

//! A group of one rank.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Cause, ExchangeError};
use crate::exchange::{Canceller, Exchange, OwnMemory, Splits, check_counts};

/// The only rank of its group: it receives its own data.
#[derive(Debug, Default)]
pub struct Single {
    cancelled: Arc<AtomicBool>,
    calls: u64,
    own: OwnMemory,
}

impl Single {
    /// Creates a group of one rank.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a call, unless the exchange was cancelled.
    fn call(&mut self) -> Result<(), ExchangeError> {
        // Acquire: partner of the store in `canceller`.
        if self.cancelled.load(Ordering::Acquire) {
            return Err(ExchangeError::Peer {
                rank: 0,
                call: self.calls + 1,
                peer: 0,
                cause: Cause::Cancelled,
                detail: String::new(),
            });
        }
        self.calls += 1;
        Ok(())
    }
}

impl Exchange for Single {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn counts(&mut self, send: &[u64]) -> Result<Vec<u64>, ExchangeError> {
        check_counts(0, 1, send)?;
        self.call()?;
        Ok(send.to_vec())
    }

    fn all_to_all(&mut self, send: &[u8], recv: &mut [u8], splits: Splits<'_>) -> Result<(), ExchangeError> {
        splits.check(0, 1, send.len(), recv.len())?;
        self.call()?;
        recv.copy_from_slice(send);
        Ok(())
    }

    fn lend(&mut self, bytes: usize) -> Result<&mut [u8], ExchangeError> {
        Ok(self.own.lend(bytes))
    }

    fn exchange_lent(&mut self, splits: Splits<'_>) -> Result<(), ExchangeError> {
        OwnMemory::exchange(self, |exchange| &mut exchange.own, splits)
    }

    fn received(&self) -> &[u8] {
        self.own.received()
    }

    fn canceller(&self) -> Canceller {
        let cancelled = Arc::clone(&self.cancelled);
        // Release: partner of the load in `call`.
        Canceller::new(move || cancelled.store(true, Ordering::Release))
    }
}

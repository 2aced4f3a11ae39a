//! The exchange between ranks over torch.distributed: Python makes the calls (`uvatrain/_exchange.py`), and this is the
//! contract that producer and sampler know.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use uva_exchange::{Canceller, Cause, Exchange, ExchangeError, Splits};

/// An `uvatrain.loader.exchange.Exchange`.
///
/// The memory that it lends is Python's. A call that is cancelled leaves gloo with memory that it may still write to, and this
/// memory has to outlive the call.
pub struct TorchExchange {
    object: Py<PyAny>,
    rank: usize,
    ranks: usize,
    calls: u64,
    failed: Option<ExchangeError>,
    raised: Arc<Mutex<Option<PyErr>>>,
    lent: Lent,
    received: Lent,
}

/// Memory of a tensor that the object keeps until it is asked to lend other memory of that kind.
#[derive(Clone, Copy, Default)]
struct Lent {
    address: usize,
    bytes: usize,
}

impl TorchExchange {
    /// Over this object.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (rank, ranks) = (object.getattr("rank")?.extract()?, object.getattr("ranks")?.extract()?);
        Ok(Self {
            object: object.clone().unbind(),
            rank,
            ranks,
            calls: 0,
            failed: None,
            raised: Arc::default(),
            lent: Lent::default(),
            received: Lent::default(),
        })
    }

    /// The place for an exception that the exchange itself did not cause: an interrupt, or one that a signal's handler
    /// raised.
    pub fn raised(&self) -> Arc<Mutex<Option<PyErr>>> {
        Arc::clone(&self.raised)
    }

    /// Makes a call, whose failure is final.
    fn call<T>(
        &mut self,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, ExchangeError> {
        self.calls += 1;
        self.of_python(call)
    }

    /// Calls Python for an operation that is not a numbered call of the group.
    fn of_python<T>(
        &mut self,
        call: impl FnOnce(Python<'_>, &Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T, ExchangeError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let (rank, number) = (self.rank, self.calls);
        // The interpreter ends after loaders are closed; a call that comes later cannot be made any more.
        let called =
            Python::try_attach(|py| call(py, self.object.bind(py)).map_err(|raised| self.of(py, &raised)));
        let gone = || ExchangeError::Peer {
            rank,
            call: number,
            peer: rank,
            cause: Cause::Ended,
            detail: ": its interpreter ends".to_owned(),
        };
        called.unwrap_or_else(|| Err(gone())).inspect_err(|error| self.failed = Some(error.clone()))
    }

    /// The error for a Python exception. The exchange's own exceptions name the rank concerned.
    fn of(&self, py: Python<'_>, raised: &PyErr) -> ExchangeError {
        let value = raised.value(py);
        let peer = value.getattr("peer").and_then(|peer| peer.extract()).unwrap_or(self.rank);
        let cause = value.getattr("cause").and_then(|cause| cause.extract::<String>());
        let detail = value.getattr("detail").and_then(|detail| detail.extract::<String>());
        if cause.is_err() {
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(raised.clone_ref(py));
        }
        ExchangeError::Peer {
            rank: self.rank,
            call: self.calls,
            peer,
            cause: match cause.as_deref() {
                Ok("left") => Cause::Left,
                Ok("ended") => Cause::Ended,
                Ok("silent") => Cause::Silent,
                Ok("cancelled") => Cause::Cancelled,
                _ => Cause::Disagreed,
            },
            detail: detail.unwrap_or_else(|_| format!(": {raised}")),
        }
    }
}

impl Exchange for TorchExchange {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn counts(&mut self, send: &[u64]) -> Result<Vec<u64>, ExchangeError> {
        if send.len() != self.ranks {
            let reason = format!("{} counts for {} ranks", send.len(), self.ranks);
            return Err(ExchangeError::Arguments { rank: self.rank, reason });
        }
        self.call(|_, object| object.call_method1("counts", (send.to_vec(),))?.extract())
    }

    fn lend(&mut self, bytes: usize) -> Result<&mut [u8], ExchangeError> {
        self.received = Lent::default();
        let address = self.of_python(|_, object| object.call_method1("lend", (bytes,))?.extract())?;
        self.lent = Lent { address, bytes };
        if bytes == 0 {
            return Ok(&mut []);
        }
        // SAFETY: `lend` returns the address of a tensor with at least this many bytes, which the object keeps until
        // the next call of `lend`, and this borrow ends before that. The memory is not used otherwise: gloo is done
        // with the calls before, since each waits for it, and after one that did not wait to the end this has failed.
        Ok(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) })
    }

    fn exchange_lent(&mut self, splits: Splits<'_>) -> Result<(), ExchangeError> {
        let recv = splits.recv.iter().fold(0_usize, |sum, bytes| sum.saturating_add(*bytes));
        splits.check(self.rank, self.ranks, self.lent.bytes, recv)?;
        let (send, from) = (splits.send.to_vec(), splits.recv.to_vec());
        let address = self.call(|_, object| object.call_method1("exchange", (send, from))?.extract())?;
        self.received = Lent { address, bytes: recv };
        Ok(())
    }

    fn received(&self) -> &[u8] {
        let Lent { address, bytes } = self.received;
        if bytes == 0 {
            return &[];
        }
        // SAFETY: `exchange` gave the address of a tensor with these bytes, which the object keeps until its next call.
        // gloo has written them and is done: `exchange` waits for it, and raises where it did not wait to the end.
        // Every call that changes them takes the exchange, and so ends this borrow.
        unsafe { std::slice::from_raw_parts(address as *const u8, bytes) }
    }

    fn canceller(&self) -> Canceller {
        let Some(object) = Python::try_attach(|py| self.object.clone_ref(py)) else {
            return Canceller::new(|| {});
        };
        Canceller::new(move || {
            // If the interpreter has ended, so has every waiting thread.
            Python::try_attach(|py| drop(object.call_method0(py, "cancel")));
        })
    }
}

impl Drop for TorchExchange {
    fn drop(&mut self) {
        Python::try_attach(|py| {
            // gloo cannot give up a call that others have not joined, and the end of its group waits for it. So a group
            // that was used is never freed: the process may end before such a call does.
            std::mem::forget(self.object.clone_ref(py));
            if self.failed.is_none() {
                drop(self.object.call_method0(py, "leave"));
            }
        });
    }
}

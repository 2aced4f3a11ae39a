//! The contract of every exchange.

use std::fmt;
use std::sync::Arc;

use crate::error::ExchangeError;

/// One rank's end of an exchange between the ranks of a group.
///
/// # Contract
/// - **All ranks make the same calls in the same order.** A call is a rendezvous: [`counts`](Self::counts) and
///   [`all_to_all`](Self::all_to_all) return when this rank has received the data of all others. A rank without data
///   makes the call anyway, with zeros.
/// - **Both sides agree on sizes.** Rank `a` sends rank `b` exactly as many bytes as `b` expects from `a`. If sizes are
///   unknown, exchange [`counts`](Self::counts) first.
/// - **An error on one rank ends the others.** A rank that dies, stops, leaves, falls silent or disagrees makes the
///   calls of all other ranks fail, within the group's timeout. Their errors name the calling rank and the
///   [culprit](ExchangeError::culprit). Calls before the failed one still complete. No call waits indefinitely.
/// - **An error is final.** Every later call of the rank fails with it. The exception is [`ExchangeError::Arguments`]:
///   such a call has not begun, and the other ranks still expect it.
/// - **[Cancelling](Self::canceller) wakes.** A rank that waits in a call fails soon, as do the others.
/// - **Dropping it leaves the group.** Its earlier calls still complete on the other ranks.
///
/// Peers are trusted: an exchange detects mistakes and failures, not attacks.
pub trait Exchange: Send {
    /// This rank, from 0.
    fn rank(&self) -> usize;

    /// The number of ranks in the group, at least one.
    fn ranks(&self) -> usize;

    /// Sends rank `r` the number `send[r]`, and returns the numbers sent to this rank, by rank. Both include this rank
    /// itself.
    ///
    /// # Errors
    /// By the contract; [`ExchangeError::Arguments`] unless there is one number per rank.
    fn counts(&mut self, send: &[u64]) -> Result<Vec<u64>, ExchangeError>;

    /// Sends rank `r` the next `splits.send[r]` bytes of `send`, and writes the `splits.recv[r]` bytes from rank `r` to
    /// the next place in `recv`. Both are contiguous in rank order. Data that a rank sends to itself is copied.
    ///
    /// # Errors
    /// By the contract; [`ExchangeError::Arguments`] if [`Splits::check`] fails. `recv` may then be partly written.
    fn all_to_all(&mut self, send: &[u8], recv: &mut [u8], splits: Splits<'_>) -> Result<(), ExchangeError> {
        splits.check(self.rank(), self.ranks(), send.len(), recv.len())?;
        self.lend(send.len())?.copy_from_slice(send);
        self.exchange_lent(splits)?;
        recv.copy_from_slice(self.received());
        Ok(())
    }

    /// Lends memory of the exchange for `bytes` bytes to send. [`exchange_lent`](Self::exchange_lent) sends them
    /// without a copy. Invalidates [`received`](Self::received).
    ///
    /// # Errors
    /// By the contract, if the exchange has failed before.
    fn lend(&mut self, bytes: usize) -> Result<&mut [u8], ExchangeError>;

    /// Like [`all_to_all`](Self::all_to_all), with all of the memory lent last. The received bytes are in
    /// [`received`](Self::received).
    ///
    /// # Errors
    /// As [`all_to_all`](Self::all_to_all).
    fn exchange_lent(&mut self, splits: Splits<'_>) -> Result<(), ExchangeError>;

    /// The bytes received in the last call of [`exchange_lent`](Self::exchange_lent), until the next call of any kind.
    fn received(&self) -> &[u8];

    /// A handle with which any thread ends the exchange, also during a call.
    fn canceller(&self) -> Canceller;

    /// Ends the exchange on all ranks, when a rank cannot continue.
    fn cancel(&self) {
        self.canceller().cancel();
    }
}

macro_rules! forwarded {
    ($(#[$about:meta] $type:ty),* $(,)?) => {$(
        #[$about]
        impl<X: Exchange + ?Sized> Exchange for $type {
            fn rank(&self) -> usize {
                (**self).rank()
            }

            fn ranks(&self) -> usize {
                (**self).ranks()
            }

            fn counts(&mut self, send: &[u64]) -> Result<Vec<u64>, ExchangeError> {
                (**self).counts(send)
            }

            fn all_to_all(
                &mut self,
                send: &[u8],
                recv: &mut [u8],
                splits: Splits<'_>,
            ) -> Result<(), ExchangeError> {
                (**self).all_to_all(send, recv, splits)
            }

            fn lend(&mut self, bytes: usize) -> Result<&mut [u8], ExchangeError> {
                (**self).lend(bytes)
            }

            fn exchange_lent(&mut self, splits: Splits<'_>) -> Result<(), ExchangeError> {
                (**self).exchange_lent(splits)
            }

            fn received(&self) -> &[u8] {
                (**self).received()
            }

            fn canceller(&self) -> Canceller {
                (**self).canceller()
            }
        }
    )*};
}
forwarded!(
    /// An exchange of any type.
    Box<X>,
    /// A borrowed exchange: the rank leaves the group when the owner drops it.
    &mut X,
);

/// Memory to lend, for an exchange without memory of its own.
#[derive(Debug, Default)]
pub(crate) struct OwnMemory {
    send: Vec<u8>,
    received: Vec<u8>,
    lent: usize,
    got: usize,
}

impl OwnMemory {
    pub(crate) fn lend(&mut self, bytes: usize) -> &mut [u8] {
        (self.lent, self.got) = (bytes, 0);
        first_bytes(&mut self.send, bytes)
    }

    /// The lent memory, and space for received bytes.
    fn both(&mut self, splits: Splits<'_>) -> (&[u8], &mut [u8]) {
        self.got = splits.recv.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes));
        (&self.send[..self.lent], first_bytes(&mut self.received, self.got))
    }

    pub(crate) fn received(&self) -> &[u8] {
        &self.received[..self.got]
    }

    /// The call of [`Exchange::exchange_lent`], for an exchange that uses [`OwnMemory`].
    pub(crate) fn exchange<X: Exchange>(
        exchange: &mut X,
        own: fn(&mut X) -> &mut Self,
        splits: Splits<'_>,
    ) -> Result<(), ExchangeError> {
        // Moved out during the call, which borrows all of the exchange.
        let mut memory = std::mem::take(own(exchange));
        let (send, recv) = memory.both(splits);
        let exchanged = exchange.all_to_all(send, recv, splits);
        *own(exchange) = memory;
        exchanged
    }
}

/// The first `bytes` bytes of memory, which grows if needed.
fn first_bytes(memory: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if memory.len() < bytes {
        memory.resize(bytes, 0);
    }
    &mut memory[..bytes]
}

/// The division of a call's bytes among the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splits<'s> {
    /// Bytes for each rank, in the order of the ranks.
    pub send: &'s [usize],
    /// Bytes from each rank.
    pub recv: &'s [usize],
}

impl Splits<'_> {
    /// Checks that there is one number per rank, that they add up to the available bytes, and that both agree on the
    /// bytes that `rank` sends to itself.
    ///
    /// # Errors
    /// [`ExchangeError::Arguments`] if not.
    pub fn check(self, rank: usize, ranks: usize, send: usize, recv: usize) -> Result<(), ExchangeError> {
        let refused = |reason: String| Err(ExchangeError::Arguments { rank, reason });
        for (what, splits, bytes) in [("send", self.send, send), ("recv", self.recv, recv)] {
            if splits.len() != ranks {
                return refused(format!("{} {what} splits for {ranks} ranks", splits.len()));
            }
            let sum = splits.iter().try_fold(0_usize, |sum, &split| sum.checked_add(split));
            if sum != Some(bytes) {
                let sum = sum.map_or("more than memory".to_owned(), |sum| sum.to_string());
                return refused(format!("the {what} splits add up to {sum} bytes, not to the {bytes} given"));
            }
        }
        if self.send[rank] != self.recv[rank] {
            let (gives, gets) = (self.send[rank], self.recv[rank]);
            return refused(format!("it sends itself {gives} bytes but expects {gets}"));
        }
        Ok(())
    }
}

/// Checks that there is one count per rank.
///
/// # Errors
/// [`ExchangeError::Arguments`] if not.
pub(crate) fn check_counts(rank: usize, ranks: usize, send: &[u64]) -> Result<(), ExchangeError> {
    if send.len() == ranks {
        return Ok(());
    }
    Err(ExchangeError::Arguments { rank, reason: format!("{} counts for {ranks} ranks", send.len()) })
}

/// A handle that ends an exchange from any thread. A clone refers to the same exchange.
#[derive(Clone)]
pub struct Canceller {
    cancel: Arc<dyn Fn() + Send + Sync>,
}

impl Canceller {
    /// Creates a handle that calls `cancel`, possibly more than once and from several threads.
    pub fn new(cancel: impl Fn() + Send + Sync + 'static) -> Self {
        Self { cancel: Arc::new(cancel) }
    }

    /// Ends the exchange on all ranks, in any call. A second call has no effect.
    pub fn cancel(&self) {
        (self.cancel)();
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Canceller")
    }
}

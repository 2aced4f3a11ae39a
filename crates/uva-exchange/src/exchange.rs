//! The contract of every exchange.

use std::fmt;
use std::sync::Arc;

use crate::error::ExchangeError;

/// One rank's end of an exchange between the ranks of a group.
///
/// # Contract
/// - **All ranks call equally often, and in the same order.** A call is a meeting: [`counts`](Self::counts) and
///   [`all_to_all`](Self::all_to_all) return when this rank has what the others gave it. A rank with nothing to give or to
///   get makes the call all the same, with zeros.
/// - **Both sides agree on sizes.** Rank `a` gives rank `b` as many bytes as `b` expects of `a`. Where they don't know,
///   they exchange [`counts`](Self::counts) first.
/// - **An error on one rank ends the others.** A rank that dies, stops, leaves, falls silent or disagrees makes the calls
///   of all other ranks fail, within the group's timeout. Their errors name the calling rank and the
///   [culprit](ExchangeError::culprit). Calls before the one that failed still complete. No call waits without end.
/// - **An error is final.** Every later call of the rank fails with it. Only [`ExchangeError::Arguments`] is not: such a
///   call has not begun, and the others still expect it.
/// - **[Cancelling](Self::canceller) wakes.** A rank that waits in a call fails soon, as do the others.
/// - **Dropping it leaves the group.** The calls that it made still complete on the other ranks.
///
/// Peers are trusted: an exchange finds mistakes and failures, no attacks.
pub trait Exchange: Send {
    /// Which rank this is, from 0.
    fn rank(&self) -> usize;

    /// How many ranks the group has, at least one.
    fn ranks(&self) -> usize;

    /// Gives rank `r` the number `send[r]`, and returns the numbers that the ranks gave this one, by rank. Its own is
    /// among both.
    ///
    /// # Errors
    /// As the contract says; [`ExchangeError::Arguments`] unless there is one number a rank.
    fn counts(&mut self, send: &[u64]) -> Result<Vec<u64>, ExchangeError>;

    /// Gives rank `r` the next `splits.send[r]` bytes of `send`, and writes the `splits.recv[r]` bytes that rank `r`
    /// gives to the next place in `recv`. Both lie in the order of the ranks, without gaps. What a rank gives itself is
    /// copied.
    ///
    /// # Errors
    /// As the contract says; [`ExchangeError::Arguments`] where [`Splits::check`] fails. `recv` may be written in part
    /// then.
    fn all_to_all(&mut self, send: &[u8], recv: &mut [u8], splits: Splits<'_>) -> Result<(), ExchangeError> {
        splits.check(self.rank(), self.ranks(), send.len(), recv.len())?;
        self.lend(send.len())?.copy_from_slice(send);
        self.exchange_lent(splits)?;
        recv.copy_from_slice(self.received());
        Ok(())
    }

    /// Memory of the exchange's own for so many bytes to give. [`exchange_lent`](Self::exchange_lent) gives them without a
    /// copy. What [`received`](Self::received) had is gone.
    ///
    /// # Errors
    /// As the contract says, where it has failed before.
    fn lend(&mut self, bytes: usize) -> Result<&mut [u8], ExchangeError>;

    /// As [`all_to_all`](Self::all_to_all), of the memory that was lent last, all of it. What the ranks give is
    /// [`received`](Self::received) then.
    ///
    /// # Errors
    /// As of [`all_to_all`](Self::all_to_all).
    fn exchange_lent(&mut self, splits: Splits<'_>) -> Result<(), ExchangeError>;

    /// What the ranks gave in the last call of [`exchange_lent`](Self::exchange_lent), until the next call of any kind.
    fn received(&self) -> &[u8];

    /// A handle with which any thread ends the exchange, also during a call.
    fn canceller(&self) -> Canceller;

    /// Ends the exchange on all ranks: what a rank does that cannot go on.
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
    /// Whichever it is.
    Box<X>,
    /// Lends an exchange: the group is left when its owner drops it.
    &mut X,
);

/// Memory to lend, of an exchange that has none of another kind.
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

    /// What was lent, and room for what comes.
    fn both(&mut self, splits: Splits<'_>) -> (&[u8], &mut [u8]) {
        self.got = splits.recv.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes));
        (&self.send[..self.lent], first_bytes(&mut self.received, self.got))
    }

    pub(crate) fn received(&self) -> &[u8] {
        &self.received[..self.got]
    }

    /// The call of [`Exchange::exchange_lent`], for an exchange that has its memory there.
    pub(crate) fn exchange<X: Exchange>(
        exchange: &mut X,
        own: fn(&mut X) -> &mut Self,
        splits: Splits<'_>,
    ) -> Result<(), ExchangeError> {
        // Out of there for the call, which takes all of the exchange.
        let mut memory = std::mem::take(own(exchange));
        let (send, recv) = memory.both(splits);
        let exchanged = exchange.all_to_all(send, recv, splits);
        *own(exchange) = memory;
        exchanged
    }
}

/// The first bytes of memory that grows where it has fewer.
fn first_bytes(memory: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if memory.len() < bytes {
        memory.resize(bytes, 0);
    }
    &mut memory[..bytes]
}

/// How the bytes of a call divide among the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splits<'s> {
    /// Bytes for each rank, in the order of the ranks.
    pub send: &'s [usize],
    /// Bytes from each rank.
    pub recv: &'s [usize],
}

impl Splits<'_> {
    /// Refuses splits that are not one number a rank, do not add up to the bytes at hand, or differ in what `rank` gives
    /// itself.
    ///
    /// # Errors
    /// [`ExchangeError::Arguments`].
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
            return refused(format!("it gives itself {gives} bytes and expects {gets}"));
        }
        Ok(())
    }
}

/// Refuses counts that are not one number a rank.
///
/// # Errors
/// [`ExchangeError::Arguments`].
pub(crate) fn check_counts(rank: usize, ranks: usize, send: &[u64]) -> Result<(), ExchangeError> {
    if send.len() == ranks {
        return Ok(());
    }
    Err(ExchangeError::Arguments { rank, reason: format!("{} counts for {ranks} ranks", send.len()) })
}

/// Ends an exchange from any thread. A clone is the same handle.
#[derive(Clone)]
pub struct Canceller {
    cancel: Arc<dyn Fn() + Send + Sync>,
}

impl Canceller {
    /// A handle that calls `cancel`, possibly more than once and from several threads.
    pub fn new(cancel: impl Fn() + Send + Sync + 'static) -> Self {
        Self { cancel: Arc::new(cancel) }
    }

    /// Ends the exchange on all ranks, in whatever call they are. Once more it does nothing.
    pub fn cancel(&self) {
        (self.cancel)();
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Canceller")
    }
}

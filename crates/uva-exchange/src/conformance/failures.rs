//! Checks of a group in which one rank fails.

use std::sync::Barrier;
use std::{iter, thread};

use super::rounds::rounds;
use super::threads::{Make, in_threads};
use crate::error::{Cause, ExchangeError};
use crate::exchange::{Exchange, Splits};

/// Makes calls until one fails. A rank need not notice the failure of its peers in the current call.
fn until_it_fails(exchange: &mut dyn Exchange) -> ExchangeError {
    let zeros = vec![0; exchange.ranks()];
    // The other ranks are at most one call ahead, and one more call cannot complete without them.
    let mut results = iter::repeat_with(|| exchange.counts(&zeros)).take(3);
    let error = results.find_map(Result::err).expect("the exchange continues without a rank");
    assert_eq!(exchange.counts(&zeros), Err(error.clone()), "an error is final");
    error
}

/// Checks that the error of `rank` contains the rank, the culprit and the cause.
fn names(error: &ExchangeError, rank: usize, culprit: usize, causes: &[Cause]) {
    assert_eq!(error.culprit(), Some(culprit), "{error}");
    assert!(error.cause().is_some_and(|cause| causes.contains(&cause)), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("rank {rank}")), "{text}");
    assert!(text.contains(&format!("rank {culprit} ")), "{text}");
}

/// Inconsistent arguments are rejected, and the group continues.
///
/// # Panics
/// As [`run`](super::run).
pub fn refused_arguments(make: &Make<'_>, ranks: usize) {
    in_threads(make(ranks), |rank, mut exchange| {
        let ones = vec![1; ranks];
        let bytes = vec![7; ranks + 1];
        let mut recv = vec![0; ranks + 1];
        let mut to_itself = ones.clone();
        to_itself[rank] = 2;
        let huge = vec![usize::MAX; ranks + 1];
        for (send, got, splits) in [
            (ranks, ranks, Splits { send: &ones[1..], recv: &ones }),
            (ranks, ranks, Splits { send: &ones, recv: &ones[1..] }),
            (ranks + 1, ranks, Splits { send: &ones, recv: &ones }),
            (ranks, ranks - 1, Splits { send: &ones, recv: &ones }),
            (ranks + 1, ranks, Splits { send: &to_itself, recv: &ones }),
            (ranks, ranks, Splits { send: &huge[1..], recv: &ones }),
        ] {
            let refused = exchange.all_to_all(&bytes[..send], &mut recv[..got], splits);
            let is_refused =
                matches!(&refused, Err(ExchangeError::Arguments { rank: named, .. }) if *named == rank);
            assert!(is_refused, "{send} bytes out, {got} in, {splits:?}: {refused:?}");
        }
        let refused = exchange.counts(&vec![1; ranks + 1]);
        assert!(matches!(refused, Err(ExchangeError::Arguments { .. })), "{refused:?}");
        exchange
            .all_to_all(&bytes[..ranks], &mut recv[..ranks], Splits { send: &ones, recv: &ones })
            .unwrap_or_else(|error| panic!("after refused arguments: {error}"));
        assert_eq!(recv[..ranks], bytes[..ranks]);
    });
}

/// The last rank makes no call and cancels. Then, in another group, rank 0 is cancelled during a call.
///
/// # Panics
/// As [`run`](super::run).
pub fn cancelling(make: &Make<'_>, ranks: usize) {
    let last = ranks - 1;
    for _ in 0..5 {
        let start = Barrier::new(ranks);
        in_threads(make(ranks), |rank, mut exchange| {
            start.wait();
            if rank == last {
                exchange.cancel();
                // A second time, without effect.
                exchange.cancel();
            }
            names(&until_it_fails(&mut *exchange), rank, last, &[Cause::Cancelled]);
        });
        let ended = Barrier::new(ranks);
        in_threads(make(ranks), |rank, mut exchange| {
            // The last rank makes no call, so the others wait, and stays until they have failed. A group of one never
            // waits: there the call after the cancellation fails.
            if rank < last || ranks == 1 {
                if rank == 0 {
                    let canceller = exchange.canceller();
                    let cancelling = thread::spawn(move || canceller.cancel());
                    if ranks == 1 {
                        cancelling.join().expect("cancelling does not panic");
                    }
                }
                names(&until_it_fails(&mut *exchange), rank, 0, &[Cause::Cancelled]);
            }
            ended.wait();
        });
    }
}

/// Rank 1 leaves after a round, whose calls still complete. The next calls of the other ranks fail with an error that
/// names it.
///
/// # Panics
/// As [`run`](super::run).
pub fn leaving(make: &Make<'_>, ranks: usize) {
    for round in 0..5 {
        in_threads(make(ranks), |rank, mut exchange| {
            rounds(&mut *exchange, round, 1);
            if rank != 1 {
                names(&until_it_fails(&mut *exchange), rank, 1, &[Cause::Left, Cause::Ended]);
            }
        });
    }
}

/// Two ranks disagree: about the number of bytes between them, then about the call.
///
/// # Panics
/// As [`run`](super::run).
pub fn disagreement(make: &Make<'_>, ranks: usize) {
    for (gives, expects) in [(8, 16), (16, 8), (0, 8), (8, 0), (100_000, 100_001)] {
        in_threads(make(ranks), |rank, mut exchange| {
            let (mut send, mut recv) = (vec![0; ranks], vec![0; ranks]);
            if rank == 0 {
                send[1] = gives;
            } else if rank == 1 {
                recv[0] = expects;
            }
            let given = vec![1; send.iter().sum()];
            let mut got = vec![0; recv.iter().sum()];
            let result = exchange.all_to_all(&given, &mut got, Splits { send: &send, recv: &recv });
            assert!(rank != 1 || result.is_err(), "{gives} bytes arrived where {expects} were expected");
            let error = result.err().unwrap_or_else(|| until_it_fails(&mut *exchange));
            names(&error, rank, 0, &[Cause::Disagreed]);
        });
    }
    in_threads(make(ranks), |rank, mut exchange| {
        let (eights, bytes) = (vec![8; ranks], vec![0; 8 * ranks]);
        // The same number of bytes as counts have.
        let result = if rank == 0 {
            exchange.all_to_all(&bytes, &mut bytes.clone(), Splits { send: &eights, recv: &eights })
        } else {
            exchange.counts(&vec![0; ranks]).map(drop)
        };
        let error = result.err().unwrap_or_else(|| until_it_fails(&mut *exchange));
        // Each of the two finds that the other makes a different call.
        let culprit = error.culprit().unwrap_or(ranks);
        assert!(culprit < ranks && error.cause() == Some(Cause::Disagreed), "rank {rank}: {error}");
    });
}

/// Rank 1 makes no call, without leaving. The other ranks fail within the timeout with an error that names it,
/// including those that wait for it indirectly. Its own late call fails too.
///
/// # Panics
/// As [`run`](super::run).
pub fn silence(make: &Make<'_>, ranks: usize) {
    let ended = Barrier::new(ranks);
    in_threads(make(ranks), |rank, mut exchange| {
        if rank != 1 {
            names(&until_it_fails(&mut *exchange), rank, 1, &[Cause::Silent]);
        }
        ended.wait();
        if rank == 1 {
            names(&until_it_fails(&mut *exchange), 1, 1, &[Cause::Silent]);
        }
    });
}

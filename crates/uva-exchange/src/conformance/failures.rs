//! What becomes of a group when one of its ranks cannot go on.

use std::sync::Barrier;
use std::{iter, thread};

use super::rounds::rounds;
use super::threads::{Make, in_threads};
use crate::error::{Cause, ExchangeError};
use crate::exchange::{Exchange, Splits};

/// Makes calls until one fails. A rank whose peers have failed need not notice it in the call that it is in.
fn until_it_fails(exchange: &mut dyn Exchange) -> ExchangeError {
    let zeros = vec![0; exchange.ranks()];
    // The others are in one call at most, and one more than that cannot complete without them.
    let mut results = iter::repeat_with(|| exchange.counts(&zeros)).take(3);
    let error = results.find_map(Result::err).expect("the exchange goes on without a rank");
    assert_eq!(exchange.counts(&zeros), Err(error.clone()), "an error is final");
    error
}

/// Checks that the error of `rank` names it, the culprit and the cause.
fn names(error: &ExchangeError, rank: usize, culprit: usize, causes: &[Cause]) {
    assert_eq!(error.culprit(), Some(culprit), "{error}");
    assert!(error.cause().is_some_and(|cause| causes.contains(&cause)), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("rank {rank}")), "{text}");
    assert!(text.contains(&format!("rank {culprit} ")), "{text}");
}

/// Arguments that do not fit together are refused, and the group goes on.
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

/// The last rank makes no call and cancels. Then, in another group, rank 0 is cancelled while it calls.
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
                // Again, which changes nothing.
                exchange.cancel();
            }
            names(&until_it_fails(&mut *exchange), rank, last, &[Cause::Cancelled]);
        });
        let ended = Barrier::new(ranks);
        in_threads(make(ranks), |rank, mut exchange| {
            // The last rank makes no call, so the others wait, and stays until they have failed. A group of one never
            // waits: there a call behind the cancelling one fails.
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

/// Rank 1 leaves after a round, whose calls still complete. The others' next calls fail and name it.
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

/// Two ranks disagree: about how many bytes pass between them, then about which call it is.
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
        // As many bytes as counts have.
        let result = if rank == 0 {
            exchange.all_to_all(&bytes, &mut bytes.clone(), Splits { send: &eights, recv: &eights })
        } else {
            exchange.counts(&vec![0; ranks]).map(drop)
        };
        let error = result.err().unwrap_or_else(|| until_it_fails(&mut *exchange));
        // Each of the two finds that the other one makes another call.
        let culprit = error.culprit().unwrap_or(ranks);
        assert!(culprit < ranks && error.cause() == Some(Cause::Disagreed), "rank {rank}: {error}");
    });
}

/// Rank 1 makes no call, without leaving. The others fail within the timeout and name it, also those that wait for a rank
/// that waits for it. So does its own call, when it comes late.
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

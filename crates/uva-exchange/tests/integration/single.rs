//! A group of one rank.

use uva_exchange::conformance::{in_threads, refused_arguments, rounds};
use uva_exchange::{Cause, Exchange, Single, conformance};

#[test]
fn a_group_of_one_rank_conforms() {
    let make = |ranks: usize| -> Vec<Box<dyn Exchange>> {
        assert_eq!(ranks, 1);
        vec![Box::new(Single::new())]
    };
    in_threads(make(1), |_, mut exchange| rounds(&mut *exchange, 7, 40));
    refused_arguments(&make, 1);
    conformance::cancelling(&make, 1);
}

#[test]
fn a_canceller_ends_a_group_of_one_rank() {
    let mut exchange = Single::new();
    assert_eq!(exchange.counts(&[3]), Ok(vec![3]));
    exchange.canceller().cancel();
    let error = exchange.counts(&[3]).unwrap_err();
    assert_eq!(error.cause(), Some(Cause::Cancelled));
    assert_eq!(error.to_string(), "rank 0, call 2 of the exchange: rank 0 cancelled the exchange");
}

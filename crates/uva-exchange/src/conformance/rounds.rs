//! Random uneven splits, round after round: every byte arrives at its destination.

use uva_mem::mix;

use crate::exchange::{Exchange, Splits};

/// Makes `rounds` rounds of counts and bytes with the other ranks, which call this with the same arguments, and checks all
/// that arrives.
///
/// # Panics
/// If a call fails, or the received bytes differ from the sent ones.
pub fn rounds(exchange: &mut dyn Exchange, seed: u64, rounds: u64) {
    for round in 0..rounds {
        one_round(exchange, mix(seed ^ mix(round)));
    }
}

fn one_round(exchange: &mut dyn Exchange, key: u64) {
    let (rank, ranks) = (exchange.rank(), exchange.ranks());
    let send: Vec<usize> = (0..ranks).map(|to| amount(key, rank, to)).collect();
    let recv: Vec<usize> = (0..ranks).map(|from| amount(key, from, rank)).collect();

    let counts: Vec<u64> = send.iter().map(|&count| count as u64).collect();
    let counted = exchange.counts(&counts).unwrap_or_else(|error| panic!("counts: {error}"));
    assert!(counted.iter().map(|&count| count as usize).eq(recv.iter().copied()), "rank {rank}: {counted:?}");

    let given: Vec<u8> = (0..ranks).flat_map(|to| bytes(key, rank, to)).collect();
    let splits = Splits { send: &send, recv: &recv };
    let mut got = vec![0xa5; recv.iter().sum()];
    exchange.all_to_all(&given, &mut got, splits).unwrap_or_else(|error| panic!("all_to_all: {error}"));
    check_got(&got, key, &*exchange, &recv);

    let lent = exchange.lend(given.len()).unwrap_or_else(|error| panic!("lend: {error}"));
    lent.copy_from_slice(&given);
    exchange.exchange_lent(splits).unwrap_or_else(|error| panic!("exchange_lent: {error}"));
    check_got(exchange.received(), key, &*exchange, &recv);
}

/// Checks the received bytes of a round.
fn check_got(got: &[u8], key: u64, exchange: &dyn Exchange, recv: &[usize]) {
    let rank = exchange.rank();
    assert_eq!(got.len(), recv.iter().sum::<usize>(), "rank {rank}");
    let mut rest = got;
    for (from, &length) in recv.iter().enumerate() {
        let (theirs, behind) = rest.split_at(length);
        assert!(theirs.iter().copied().eq(bytes(key, from, rank)), "rank {rank}: other bytes from {from}");
        rest = behind;
    }
}

/// The number of bytes that a rank sends to another: none, few, some, or many.
fn amount(key: u64, from: usize, to: usize) -> usize {
    let random = mix(key ^ mix((from << 32 | to) as u64));
    let most = [1, 100, 5000, 200_000][(random >> 60) as usize % 4];
    (random % most) as usize
}

fn bytes(key: u64, from: usize, to: usize) -> impl Iterator<Item = u8> {
    let first = mix(key ^ mix((to << 32 | from) as u64)) as usize;
    (0..amount(key, from, to)).map(move |i| first.wrapping_add(i * 7 + (i >> 8)) as u8)
}

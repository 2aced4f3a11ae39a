//! Shared memory between the threads of this process.

use std::time::Duration;

use proptest::prelude::*;
use uva_exchange::conformance::{self, in_threads};
use uva_exchange::{Cause, Exchange, ExchangeError, Group, Link, MOST_RANKS, Settings, SharedMemory, Splits};

/// A group of threads.
fn group(settings: &Settings) -> Vec<Box<dyn Exchange>> {
    let ranks = SharedMemory::threads(settings).unwrap();
    ranks.into_iter().map(|rank| Box::new(rank) as Box<dyn Exchange>).collect()
}

/// A short timeout, so that a silent rank is noticed soon. No other step of the checks takes nearly as long.
fn quick(ranks: usize) -> Settings {
    Settings { timeout: Duration::from_secs(2), ..Settings::new(ranks) }
}

#[test]
fn shared_memory_conforms() {
    conformance::run(&|ranks| group(&quick(ranks)));
}

#[test]
fn mailboxes_of_one_small_piece_suffice_for_any_message() {
    for ranks in [2, 3] {
        let settings = Settings { pieces: 1, piece_bytes: 100, ..Settings::new(ranks) };
        in_threads(group(&settings), |_, mut exchange| conformance::rounds(&mut *exchange, 3, 4));
        conformance::disagreement(&|ranks| group(&Settings { ranks, ..settings.clone() }), ranks);
    }
}

#[test]
fn a_rank_waiting_for_a_slow_link_and_its_waiters_do_not_time_out() {
    // A piece from rank 0 to rank 1 takes longer than the timeout. Meanwhile rank 3 waits for rank 1.
    let link = Some(Link { bytes_per_second: 40_000, burst: 0 });
    let settings = Settings { timeout: Duration::from_secs(1), link, ..Settings::new(4) };
    in_threads(group(&settings), |rank, mut exchange| {
        let (mut send, mut recv) = ([0; 4], [0; 4]);
        match rank {
            0 => send[1] = 60_000,
            1 => recv[0] = 60_000,
            _ => {}
        }
        let given = vec![5; send[1]];
        let mut got = vec![0; recv[0]];
        exchange.all_to_all(&given, &mut got, Splits { send: &send, recv: &recv }).unwrap();
        assert!(got.iter().all(|&byte| byte == 5));
    });
}

#[test]
fn a_rank_that_waits_for_its_slow_link_can_be_cancelled() {
    // It would wait for hours.
    let link = Some(Link { bytes_per_second: 1, burst: 0 });
    let settings = Settings { link, ..Settings::new(2) };
    in_threads(group(&settings), |rank, mut exchange| {
        let canceller = exchange.canceller();
        if rank == 0 {
            std::thread::spawn(move || canceller.cancel());
        }
        let (bytes, mut got, splits) = (vec![0; 20_000], vec![0; 20_000], [10_000; 2]);
        let result = exchange.all_to_all(&bytes, &mut got, Splits { send: &splits, recv: &splits });
        let error = result.unwrap_err();
        assert_eq!((error.culprit(), error.cause()), (Some(0), Some(Cause::Cancelled)), "{error}");
    });
}

#[test]
fn a_rank_that_never_joined_is_named() {
    let settings = Settings { timeout: Duration::from_millis(500), ..Settings::new(2) };
    let group = Group::create(&settings).unwrap();
    let mut exchange = SharedMemory::join(&group, 0).unwrap();
    let error = exchange.counts(&[0, 0]).unwrap_err();
    let text = "rank 0, call 1 of the exchange: rank 1 has not joined the group within 0.5 s";
    assert_eq!(error.to_string(), text);
}

#[test]
fn messages_name_rank_peer_call_and_cause() {
    let settings = Settings { timeout: Duration::from_millis(500), ..Settings::new(3) };
    let group = Group::create(&settings).unwrap();
    let mut ranks: Vec<_> = (0..3).map(|rank| SharedMemory::join(&group, rank).unwrap()).collect();
    drop(ranks.pop());
    let error = ranks[0].counts(&[0; 3]).unwrap_err();
    assert_eq!(error.to_string(), "rank 0, call 1 of the exchange: rank 2 has left the group");
    let told = ranks[1].counts(&[0; 3]).unwrap_err();
    let text = "rank 1, call 1 of the exchange: rank 0 ended it, since rank 2 has left the group";
    assert_eq!(told.to_string(), text);
}

#[test]
fn a_rank_can_be_joined_once_and_only_where_the_group_has_it() {
    let group = Group::create(&Settings::new(2)).unwrap();
    let first = SharedMemory::join(&group, 1).unwrap();
    let process = std::process::id();
    let taken = ExchangeError::Taken { rank: 1, process };
    assert_eq!(SharedMemory::join(&group, 1).unwrap_err(), taken);
    drop(first);
    assert_eq!(SharedMemory::join(&group, 1).unwrap_err(), taken);
    let error = SharedMemory::join(&group, 2).unwrap_err();
    assert_eq!(error.to_string(), "no group of ranks can have rank 2: ranks of this group are 0 to 1");
}

#[test]
fn settings_that_no_group_can_have_are_refused_by_name() {
    let refused = |settings: Settings| match Group::create(&settings) {
        Err(ExchangeError::Setting { setting, value, .. }) => (setting, value),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(Settings::new(0)), ("ranks", 0));
    assert_eq!(refused(Settings::new(MOST_RANKS + 1)), ("ranks", MOST_RANKS as u64 + 1));
    let short = Settings { timeout: Duration::from_millis(499), ..Settings::new(2) };
    assert_eq!(refused(short), ("timeout_ms", 499));
    assert_eq!(refused(Settings { pieces: 0, ..Settings::new(2) }), ("pieces", 0));
    assert_eq!(refused(Settings { piece_bytes: 63, ..Settings::new(2) }), ("piece_bytes", 63));
    let link = Some(Link { bytes_per_second: 0, burst: 1 });
    assert_eq!(refused(Settings { link, ..Settings::new(2) }), ("bytes_per_second", 0));
    // More than any memory has.
    let huge = Settings { pieces: u32::MAX, piece_bytes: 1 << 30, ..Settings::new(2) };
    let error = Group::create(&huge).unwrap_err();
    assert!(matches!(error, ExchangeError::Memory { ranks: 2, .. }), "{error}");
}

#[test]
fn the_memory_of_another_group_is_refused() {
    let group = Group::create(&Settings::new(2)).unwrap();
    let copies = || group.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    assert!(Group::open(&Settings::new(2), copies()).is_ok());
    for other in [Settings::new(3), Settings { pieces: 5, ..Settings::new(2) }] {
        let error = Group::open(&other, copies()).unwrap_err();
        assert!(matches!(error, ExchangeError::Memory { .. }), "{error}");
    }
    let [page, rings] = copies();
    let error = Group::open(&Settings::new(2), [rings, page]).unwrap_err();
    assert!(error.to_string().starts_with("the shared memory of a group of 2 ranks: "), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_splits_deliver_every_byte_where_it_belongs(
        ranks in 1usize..5,
        lengths in prop::collection::vec(0usize..400, 16),
        pieces in 1u32..4,
        piece_bytes in 64usize..200,
    ) {
        let settings = Settings { pieces, piece_bytes, ..Settings::new(ranks) };
        let length = |from: usize, to: usize| lengths[from * 4 + to];
        let bytes = |from: usize, to: usize| (0..length(from, to)).map(move |i| (i * 5 + from * 4 + to) as u8);
        in_threads(group(&settings), |rank, mut exchange| {
            let send: Vec<usize> = (0..ranks).map(|to| length(rank, to)).collect();
            let recv: Vec<usize> = (0..ranks).map(|from| length(from, rank)).collect();
            let given: Vec<u8> = (0..ranks).flat_map(|to| bytes(rank, to)).collect();
            let expected: Vec<u8> = (0..ranks).flat_map(|from| bytes(from, rank)).collect();
            let mut got = vec![0; expected.len()];
            exchange.all_to_all(&given, &mut got, Splits { send: &send, recv: &recv }).unwrap();
            assert_eq!(got, expected);
        });
    }
}

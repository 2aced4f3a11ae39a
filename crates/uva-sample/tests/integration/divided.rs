//! Lists divided among ranks: every batch is that of the whole graph, and no rank reads a list of another.

use std::sync::{Arc, Mutex};

use uva_exchange::conformance::in_threads;
use uva_exchange::{Book, Cause, Exchange, Settings, SharedMemory, Single};
use uva_graph::{Split, mix};
use uva_sample::{
    BatchKey, BatchSampler, Divided, Expand, InvalidOption, ListCounts, MiniBatch, SampleError, SamplerKind,
    SamplerOptions, divided_sampler,
};

use crate::common::{Graph, Ids};

const NODES: usize = 240;
const BATCH: usize = 9;

/// Ranks of one group, as threads.
fn group(ranks: usize) -> Vec<Box<dyn Exchange>> {
    // Small pieces, so that most messages have several.
    let settings = Settings { pieces: 2, piece_bytes: 4096, ..Settings::new(ranks) };
    let ranks = SharedMemory::threads(&settings).unwrap();
    ranks.into_iter().map(|rank| Box::new(rank) as Box<dyn Exchange>).collect()
}

/// Uneven parts, one of which is empty if there are four.
fn book(ranks: usize) -> Book {
    Book::new(match ranks {
        1 => &[0, NODES as u64],
        2 => &[0, NODES as u64 / 3, NODES as u64],
        _ => &[0, NODES as u64 / 5, NODES as u64 / 5, NODES as u64 * 3 / 4, NODES as u64],
    })
    .unwrap()
}

/// A random graph with hubs, empty lists, repeated edges and weights of 0, in an arbitrary order.
fn graph(seed: u64) -> Graph {
    let mut state = seed;
    let mut below = |bound: usize| {
        state = mix(state.wrapping_add(0x9E37_79B9_7F4A_7C15));
        (state % bound as u64) as usize
    };
    let lists: Vec<Vec<i64>> = (0..NODES)
        .map(|node| {
            (0..if node % 17 == 3 { 60 } else { [0, 1, 4, 9][below(4)] })
                .map(|_| below(NODES) as i64)
                .collect()
        })
        .collect();
    let weights: Vec<Vec<f32>> =
        lists.iter().map(|list| list.iter().map(|_| below(4) as f32).collect()).collect();
    let original = (0..NODES as i64).map(|node| (node * 77 + 5) % NODES as i64).collect();
    let graph = Graph { original_ids: Some(original), ..Graph::from_lists(&lists).weighted(&weights) };
    if seed % 2 == 1 { graph.narrow() } else { graph }
}

/// A rank's view of the graph: in the other ranks' lists the entries are not nodes, and their weights not numbers.
fn own_lists(graph: &Graph, book: &Book, rank: usize) -> Graph {
    let mut own = graph.clone();
    let range = book.range(rank);
    let kept = graph.indptr[range.start as usize] as usize..graph.indptr[range.end as usize] as usize;
    let others = |position: &usize| !kept.contains(position);
    match &mut own.indices {
        Ids::I32(ids) => (0..ids.len()).filter(others).for_each(|position| ids[position] = -1),
        Ids::I64(ids) => (0..ids.len()).filter(others).for_each(|position| ids[position] = i64::MAX),
    }
    let weights = own.weights.as_mut().unwrap();
    (0..weights.len()).filter(others).for_each(|position| weights[position] = f32::NAN);
    own
}

/// Options of every kind that picks list by list, in every way that may change a batch.
fn all_options() -> Vec<SamplerOptions> {
    let mut all = Vec::new();
    for (kind, replace) in [
        (SamplerKind::NEIGHBOR, false),
        (SamplerKind::NEIGHBOR, true),
        (SamplerKind::LABOR, false),
        (SamplerKind::WEIGHTED, false),
        (SamplerKind::WEIGHTED, true),
    ] {
        for (fanouts, expand, batch_dependency, edge_ids) in [
            (vec![5, 3, 2], Expand::All, 1, true),
            (vec![-1, 4], Expand::All, 1, false),
            (vec![70, 2], Expand::New, 1, true),
            (vec![4, 4], Expand::All, 8, false),
        ] {
            let seed = all.len() as u64;
            let default = SamplerOptions::default();
            all.push(SamplerOptions {
                kind,
                replace,
                fanouts: fanouts.into(),
                expand,
                batch_dependency,
                edge_ids,
                seed,
                ..default
            });
        }
    }
    all
}

fn key(batch: usize) -> BatchKey {
    BatchKey { split: Split::ALL[batch % 3], epoch: batch as u32 % 2, batch: batch as u32 }
}

fn seeds(batch: usize) -> Vec<i64> {
    (0..BATCH).map(|seed| ((batch * 31 + seed * 7) % NODES) as i64).collect()
}

/// A batch: its hash, reads of lists, nodes, and blocks with edge ids.
type Content = (u64, u64, Vec<i64>, Vec<(Vec<i32>, Vec<i32>, Vec<i64>)>);

fn content(
    sampler: &mut dyn BatchSampler,
    batch: &mut MiniBatch,
    number: usize,
) -> Result<Content, SampleError> {
    let counts = sampler.sample_into(key(number), &seeds(number), batch)?;
    let blocks =
        batch.blocks().map(|block| (block.indptr.into(), block.indices.into(), block.edge_ids.into()));
    Ok((batch.hash(), counts.list_reads.all, batch.nodes().to_vec(), blocks.collect()))
}

#[test]
fn divided_lists_give_the_graphs_batches_and_ranks_read_only_their_own() {
    const BATCHES: usize = 7;
    for (graph, options) in
        [graph(1), graph(2)].iter().flat_map(|graph| all_options().into_iter().map(move |o| (graph, o)))
    {
        let mut whole = graph.sampler_for(&options);
        let mut room = graph.room_for(BATCH, &options);
        let expected: Vec<Content> =
            (0..BATCHES).map(|number| content(&mut *whole, &mut room, number).unwrap()).collect();
        for ranks in [1, 2, 4] {
            let book = book(ranks);
            let told = in_threads(group(ranks), |rank, exchange| {
                let own = own_lists(graph, &book, rank);
                let counts = Arc::new(Mutex::new(ListCounts::default()));
                let divided = Divided::new(book.clone(), exchange).unwrap().telling(Arc::clone(&counts));
                let mut sampler = divided_sampler(own.view(), &options, divided).unwrap();
                let mut room = graph.room_for(BATCH, &options);
                // Rank r has the batches r, r + ranks, …: in the last round some have none.
                for number in (rank..BATCHES.next_multiple_of(ranks)).step_by(ranks) {
                    match expected.get(number) {
                        Some(expected) => {
                            let found = content(&mut *sampler, &mut room, number).unwrap();
                            assert_eq!(
                                &found, expected,
                                "batch {number} on rank {rank} of {ranks}: {options:?}"
                            );
                        }
                        None => sampler.serve().unwrap(),
                    }
                }
                *counts.lock().unwrap()
            });
            let sum = |of: fn(&ListCounts) -> u64| told.iter().map(of).sum::<u64>();
            assert_eq!(sum(|told| told.remote_lists), sum(|told| told.given_lists));
            assert_eq!(sum(|told| told.sent_bytes), sum(|told| told.received_bytes));
            assert_eq!(sum(|told| told.remote_lists) > 0, ranks > 1);
            assert!(sum(|told| told.own_lists) > 0);
        }
    }
}

#[test]
fn a_rank_that_fails_ends_the_sampling_of_all_and_is_named_by_the_others() {
    let (graph, options) = (graph(3), SamplerOptions { fanouts: [4, 4].into(), ..SamplerOptions::default() });
    let book = book(2);
    let errors = in_threads(group(2), |rank, exchange| {
        let divided = Divided::new(book.clone(), exchange).unwrap();
        let mut sampler = divided_sampler(graph.view(), &options, divided).unwrap();
        let mut room = graph.room_for(BATCH, &options);
        if rank == 0 {
            // A seed that is not a node.
            return sampler.sample_into(key(0), &[NODES as i64], &mut room).unwrap_err();
        }
        loop {
            if let Err(error) = sampler.sample_into(key(0), &seeds(0), &mut room) {
                return error;
            }
        }
    });
    assert!(matches!(errors[0], SampleError::SeedOutOfRange { .. }), "{}", errors[0]);
    let SampleError::Exchange(error) = &errors[1] else { panic!("{}", errors[1]) };
    assert_eq!((error.culprit(), error.cause()), (Some(0), Some(Cause::Cancelled)), "{error}");
}

#[test]
fn a_rank_that_leaves_ends_the_others_after_the_batches_that_all_have() {
    let (graph, options) = (graph(4), SamplerOptions { fanouts: [4, 4].into(), ..SamplerOptions::default() });
    let book = book(4);
    let made = in_threads(group(4), |rank, exchange| {
        let divided = Divided::new(book.clone(), exchange).unwrap();
        let mut sampler = divided_sampler(graph.view(), &options, divided).unwrap();
        let mut room = graph.room_for(BATCH, &options);
        for number in 0..3 {
            content(&mut *sampler, &mut room, number).unwrap();
        }
        if rank == 2 {
            return None;
        }
        Some(content(&mut *sampler, &mut room, 3).unwrap_err())
    });
    for (rank, error) in made.into_iter().enumerate() {
        match error {
            None => assert_eq!(rank, 2),
            Some(SampleError::Exchange(error)) => {
                assert_eq!((error.culprit(), error.cause()), (Some(2), Some(Cause::Left)), "{error}");
            }
            Some(error) => panic!("rank {rank}: {error}"),
        }
    }
}

#[test]
fn what_does_not_fit_divided_lists_is_refused_with_the_reason() {
    let graph = graph(5);
    let alone =
        |nodes: u64| Divided::new(Book::new(&[0, nodes]).unwrap(), Box::new(Single::default())).unwrap();
    for kind in SamplerKind::ALL {
        let picks_alone = [SamplerKind::NEIGHBOR, SamplerKind::LABOR, SamplerKind::WEIGHTED].contains(&kind);
        let options = SamplerOptions { kind, fanouts: [3, 3].into(), ..SamplerOptions::default() };
        match divided_sampler(graph.view(), &options, alone(NODES as u64)) {
            Ok(_) => assert!(picks_alone, "{kind}"),
            Err(error) => {
                assert!(!picks_alone, "{kind}: {error}");
                assert_eq!(error.field(), Some("sampler_kind"));
                assert!(error.to_string().contains("neighbor, labor or weighted"), "{error}");
            }
        }
    }
    let options = SamplerOptions::default();
    let error = divided_sampler(graph.view(), &options, alone(7)).err().unwrap();
    assert_eq!(error, InvalidOption::DividedNodes { lists: 7, nodes: NODES }.into());
    let error = Divided::new(book(2), Box::new(Single::default())).err().unwrap();
    assert_eq!(error, InvalidOption::Parts { parts: 2, ranks: 1 }.into());
}

#[test]
fn ranks_with_other_options_find_it_at_once_and_draw_nothing() {
    let graph = graph(6);
    let book = book(2);
    let usual = SamplerOptions { fanouts: [4, 4].into(), ..SamplerOptions::default() };
    for other in [
        SamplerOptions { seed: 1, ..usual.clone() },
        SamplerOptions { fanouts: [4, 5].into(), ..usual.clone() },
        SamplerOptions { replace: true, ..usual.clone() },
        SamplerOptions { kind: SamplerKind::LABOR, ..usual.clone() },
        SamplerOptions { batch_dependency: 2, ..usual.clone() },
        SamplerOptions { edge_ids: true, ..usual.clone() },
    ] {
        let said = in_threads(group(2), |rank, exchange| {
            let divided = Divided::new(book.clone(), exchange).unwrap();
            let options = if rank == 0 { &usual } else { &other };
            let mut sampler = divided_sampler(graph.view(), options, divided).unwrap();
            let mut room = graph.room_for(BATCH, options);
            content(&mut *sampler, &mut room, 0).unwrap_err().to_string()
        });
        let found = said.iter().filter(|said| said.contains("must be the same on all ranks")).count();
        let told = said.iter().filter(|said| said.contains("cancelled the exchange")).count();
        assert!(found >= 1 && found + told == 2, "{other:?}: {said:?}");
    }
}

#[test]
fn an_entry_that_is_not_a_node_is_named_by_its_place_on_its_rank() {
    let mut graph = graph(8);
    // The last node with a list, which the second rank owns.
    let node = (0..NODES).rev().find(|&node| graph.indptr[node] < graph.indptr[node + 1]).unwrap();
    let place = graph.indptr[node] as usize;
    let Ids::I64(ids) = &mut graph.indices else { panic!("narrow ids") };
    ids[place..].fill(-5);
    let options = SamplerOptions { fanouts: [-1].into(), ..SamplerOptions::default() };
    let book = book(2);
    let errors = in_threads(group(2), |rank, exchange| {
        let divided = Divided::new(book.clone(), exchange).unwrap();
        let mut sampler = divided_sampler(graph.view(), &options, divided).unwrap();
        let mut room = graph.room_for(BATCH, &options);
        match rank {
            0 => sampler.sample_into(key(0), &[node as i64], &mut room).map(drop).unwrap_err(),
            _ => sampler.serve().unwrap_err(),
        }
    });
    assert_eq!(errors[1], SampleError::InvalidNeighbor { position: place, neighbor: -5, nodes: NODES });
    let SampleError::Exchange(error) = &errors[0] else { panic!("{}", errors[0]) };
    assert_eq!((error.culprit(), error.cause()), (Some(1), Some(Cause::Cancelled)), "{error}");
}

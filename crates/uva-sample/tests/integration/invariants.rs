//! Batches against the plain method, on graphs of all sorts.

use crate::common::{Graph, content, fanouts_for, key, plainly, plainly_weighed, weight_bits};
use proptest::prelude::*;
use uva_graph::{Csc, Indices, Relation, Split};
use uva_sample::{
    BatchBounds, BatchKey, BatchMut, BatchSampler, BlockMut, BlockRef, Capacity, Expand, FanoutPer,
    GraphView, InvalidOption, MAX_EPOCH, MAX_FANOUT, MiniBatch, NeighborSampler, OriginalEdges, SampleError,
    SamplerKind, SamplerOptions, Walks, batch_hash, sampler,
};

/// Up to `nodes` lists with repeated edges, self-loops and empty lists among them, and hubs.
fn lists(nodes: usize) -> impl Strategy<Value = Vec<Vec<i64>>> {
    (1..nodes).prop_flat_map(|nodes| {
        let list = |longest| proptest::collection::vec(0..nodes as i64, 0..longest);
        proptest::collection::vec(prop_oneof![8 => list(12), 1 => list(200)], nodes)
    })
}

fn options() -> impl Strategy<Value = SamplerOptions> {
    (
        proptest::collection::vec(prop_oneof![1 => Just(-1), 6 => 1..8, 1 => 8..100], 1..4),
        any::<bool>(),
        any::<u64>(),
        prop_oneof![2 => Just(1_u32), 1 => 2..9_u32, 1 => any::<u32>().prop_map(|kappa| kappa.max(1))],
        prop_oneof![Just(Expand::All), Just(Expand::New)],
        proptest::sample::select(&SamplerKind::ALL[..]),
        any::<bool>(),
    )
        .prop_map(|(fanouts, replace, seed, batch_dependency, expand, kind, edge_ids)| SamplerOptions {
            fanout_per: FanoutPer::Relation,
            kind,
            fanouts: fanouts_for(kind, &fanouts).into(),
            replace: replace && kind.replaces(),
            seed,
            batch_dependency,
            expand: if kind.draws_together() { Expand::All } else { expand },
            edge_ids: edge_ids && kind.picks_in_lists(),
            trees: None,
            walks: Walks {
                count: 1 + (seed >> 3) as u32 % 9,
                length: 1 + seed as u32 % 7,
                stop: (seed >> 9) as u32 % 101,
            },
        })
}

/// The graph of these lists, with weights of all sorts: most of one size, some 0, some far lighter and heavier.
fn graph_of(lists: &[Vec<i64>]) -> Graph {
    Graph::from_lists(lists).weighted(&weights(lists))
}

fn weights(lists: &[Vec<i64>]) -> Vec<Vec<f32>> {
    let weight = |node: usize, place: usize| {
        let mixed = uva_graph::mix((node << 20 | place) as u64);
        let size = (mixed >> 40) as f32 / 2_f32.powi(20) + 1e-3;
        match mixed % 13 {
            0 => 0.0,
            1 => size * 1e-20,
            2 => size * 1e20,
            _ => size,
        }
    };
    let of_list =
        |(node, list): (usize, &Vec<i64>)| (0..list.len()).map(|place| weight(node, place)).collect();
    lists.iter().enumerate().map(of_list).collect()
}

fn batch_key() -> impl Strategy<Value = BatchKey> {
    (0..3_usize, 0..=MAX_EPOCH, any::<u32>()).prop_map(|(split, epoch, batch)| BatchKey {
        split: Split::ALL[split],
        epoch,
        batch,
    })
}

/// Some distinct nodes, by a stride that is coprime to any count.
fn some_seeds(nodes: usize, seeds: usize) -> Vec<i64> {
    (0..seeds.min(nodes)).map(|i| ((i * 1_000_003 + 17) % nodes) as i64).collect()
}

fn sample(graph: &Graph, options: &SamplerOptions, key: BatchKey, seeds: &[i64]) -> MiniBatch {
    let mut batch = graph.room_for(seeds.len(), options);
    graph.sampler_for(options).sample_into(key, seeds, &mut batch).unwrap();
    batch
}

fn originals(graph: &Graph, nodes: &[i64]) -> Vec<i64> {
    match &graph.original_ids {
        Some(original) => nodes.iter().map(|&node| original[node as usize]).collect(),
        None => nodes.to_vec(),
    }
}

proptest! {
    #[test]
    fn a_batch_is_what_the_plain_method_makes(
        lists in lists(60), options in options(), key in batch_key(), seeds in 0_usize..20,
    ) {
        let graph = graph_of(&lists);
        let seeds = some_seeds(lists.len(), seeds);
        let batch = sample(&graph, &options, key, &seeds);
        let plain = plainly_weighed(&graph, &options, key, &seeds);
        prop_assert_eq!((content(&batch), weight_bits(&batch)), plain);
        let blocks: Vec<BlockRef<'_>> = batch.blocks().collect();
        prop_assert_eq!(batch.hash(), batch_hash(batch.nodes(), batch.seeds().len(), &blocks));
        for block in &blocks {
            prop_assert_eq!(block.edge_ids.len(), if options.edge_ids { block.indices.len() } else { 0 });
            let weighed = options.kind.weighs_edges();
            prop_assert_eq!(block.weights.len(), if weighed { block.indices.len() } else { 0 });
            for (&edge_id, &local) in block.edge_ids.iter().zip(block.indices) {
                prop_assert_eq!(graph.csc().indices.get(edge_id as usize), batch.nodes()[local as usize]);
            }
        }
        // The width of the ids is not part of a batch.
        let narrow = sample(&graph.narrow(), &options, key, &seeds);
        prop_assert_eq!(content(&narrow), content(&batch));
        prop_assert_eq!(narrow.hash(), batch.hash());
    }

    #[test]
    fn a_reordered_graph_has_the_same_batches(
        (lists, new_ids) in lists(40).prop_flat_map(|lists| {
            let ids: Vec<usize> = (0..lists.len()).collect();
            (Just(lists), Just(ids).prop_shuffle())
        }),
        options in options(), key in batch_key(), seeds in 1_usize..10,
    ) {
        let mut moved = vec![Vec::new(); lists.len()];
        let mut moved_weights = vec![Vec::new(); lists.len()];
        let weights = weights(&lists);
        let mut original = vec![0; lists.len()];
        for (old, list) in lists.iter().enumerate() {
            moved[new_ids[old]] = list.iter().map(|&node| new_ids[node as usize] as i64).collect();
            moved_weights[new_ids[old]] = weights[old].clone();
            original[new_ids[old]] = old as i64;
        }
        let before = graph_of(&lists);
        let after = Graph { original_ids: Some(original), ..Graph::from_lists(&moved).weighted(&moved_weights) };
        let seeds = some_seeds(lists.len(), seeds);
        let moved_seeds: Vec<i64> = seeds.iter().map(|&node| new_ids[node as usize] as i64).collect();
        let expected = sample(&before, &options, key, &seeds);
        let batch = sample(&after, &options, key, &moved_seeds);
        prop_assert_eq!(batch.hash(), expected.hash());
        prop_assert_eq!(content(&batch).1, content(&expected).1);
        prop_assert_eq!(originals(&after, batch.nodes()), expected.nodes());

        // The same in memory, its weights and its edge ids being those of the graph that it was made from.
        let home = OriginalEdges { indptr: &before.indptr, nodes: after.original_ids.as_ref().unwrap() };
        let view = GraphView { weights: before.weights.as_deref(), home: Some(home), ..after.csc().into() };
        let mut batch = after.room_for(seeds.len(), &options);
        sampler(view, &options).unwrap().sample_into(key, &moved_seeds, &mut batch).unwrap();
        prop_assert_eq!(batch.hash(), expected.hash());
        for (block, expected) in batch.blocks().zip(expected.blocks()) {
            prop_assert_eq!(block.edge_ids, expected.edge_ids);
        }
    }

    #[test]
    fn batches_keep_the_bounds_that_were_computed_for_them(
        lists in lists(60), fanouts in proptest::collection::vec(1..10, 1..4), seeds in 1_usize..20, batch in any::<u32>(),
    ) {
        let graph = graph_of(&lists);
        let csc = graph.csc();
        let count = seeds;
        let seeds = some_seeds(lists.len(), count);
        for (kind, replace) in SamplerKind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
          for expand in [Expand::All, Expand::New] {
            if (replace && !kind.replaces()) || (expand == Expand::New && kind.draws_together()) {
                continue;
            }
            let fanouts = fanouts_for(kind, &fanouts).into();
            let options = SamplerOptions { kind, fanouts, replace, expand, ..SamplerOptions::default() };
            let bounds = BatchBounds::for_options(&options, count, csc.nodes(), csc.edges(), None).unwrap();
            let mut room = MiniBatch::with_bounds(&bounds);
            let counts = graph.sampler_for(&options).sample_into(key(batch), &seeds, &mut room).unwrap();
            prop_assert!(counts.nodes() <= bounds.nodes());
            for (layer, bound) in counts.blocks().iter().zip(&bounds.blocks) {
                prop_assert!(layer.destinations <= bound.destinations);
                prop_assert!(layer.sources <= bound.sources);
                prop_assert!(layer.edges <= bound.edges);
            }
          }
        }
    }
}

proptest! {
    #[test]
    fn where_only_new_nodes_are_expanded_a_block_begins_with_the_block_before(
        lists in lists(60),
        options in options().prop_filter("draws together", |options| !options.kind.draws_together()),
        key in batch_key(),
        seeds in 1_usize..20,
    ) {
        let graph = graph_of(&lists);
        let seeds = some_seeds(lists.len(), seeds);
        let batch = sample(&graph, &SamplerOptions { expand: Expand::New, ..options.clone() }, key, &seeds);
        let blocks: Vec<BlockRef<'_>> = batch.blocks().collect();
        for pair in blocks.windows(2) {
            prop_assert_eq!(&pair[1].indptr[..pair[0].indptr.len()], pair[0].indptr);
            prop_assert_eq!(&pair[1].indices[..pair[0].indices.len()], pair[0].indices);
            prop_assert_eq!(&pair[1].edge_ids[..pair[0].edge_ids.len()], pair[0].edge_ids);
        }
        // The hop at the seeds knows no difference.
        let all = sample(&graph, &SamplerOptions { expand: Expand::All, ..options.clone() }, key, &seeds);
        prop_assert_eq!(all.block(0), batch.block(0));
        // A list is read once for each expanded node, and again for each pick, or for each entry.
        let last = blocks[blocks.len() - 1];
        if options.kind.reads_whole_lists() {
            let read = &batch.nodes()[..last.destinations];
            let entries: usize = read.iter().map(|&node| 1 + graph.list(node).len()).sum();
            prop_assert_eq!(batch.counts().list_reads.all, entries as u64);
            return Ok(());
        }
        let weights = if options.kind.needs_weights() { reads_of_weights(&graph, &options, &batch) } else { 0 };
        let entries = last.destinations + last.indices.len();
        prop_assert_eq!(batch.counts().list_reads.all, (entries + weights) as u64);
    }
}

/// Sectors of 32 bytes of the weights of every list of a batch, each of whose nodes was expanded once. A list that is
/// taken whole takes one pass. Picks take two, with replacement three.
fn reads_of_weights(graph: &Graph, options: &SamplerOptions, batch: &MiniBatch) -> usize {
    let mut expanded = 0;
    let of_hop = |(block, fanout): (BlockRef<'_>, i32)| -> usize {
        let nodes = &batch.nodes()[expanded..block.destinations];
        expanded = block.destinations;
        let of_list = |&node: &i64| {
            let degree = graph.list(node).len();
            let whole = usize::try_from(fanout).map_or(true, |fanout| degree <= fanout && !options.replace);
            let passes = if whole { 1 } else { 2 + usize::from(options.replace) };
            passes * (4 * degree).div_ceil(32)
        };
        nodes.iter().map(of_list).sum()
    };
    batch.blocks().zip(options.fanouts.of_relation(Relation::ONLY)).map(of_hop).sum()
}

/// 3000 nodes: list lengths from 0 to 40, and one node with 9000 neighbours, which is more than any scratch holds.
fn large() -> Graph {
    graph_of(&large_lists())
}

fn large_lists() -> Vec<Vec<i64>> {
    let nodes = 3000_i64;
    let list = |node: i64| -> Vec<i64> {
        let length = if node == 1234 { 9000 } else { node % 41 };
        (0..length).map(|i| (node * 31 + i * i * 7 + i) % nodes).collect()
    };
    (0..nodes).map(list).collect()
}

#[test]
fn groups_and_pieces_leave_no_seam() {
    let graph = large();
    for fanouts in [&[15, 10][..], &[1], &[-1, 2], &[2500], &[10_000, 3], &[2048], &[-1]] {
        // With replacement each list has as many picks as the fanout says.
        for (replace, count) in [(false, 700), (true, 130), (false, 257), (false, 1)] {
            let options =
                SamplerOptions { fanouts: fanouts.into(), replace, seed: 5, ..SamplerOptions::default() };
            let mut seeds = some_seeds(3000, count);
            if !seeds.contains(&1234) {
                seeds.push(1234);
            }
            for kind in SamplerKind::ALL {
                // The plain method takes its time: the other kinds need not have as many seeds.
                let few = if kind == SamplerKind::NEIGHBOR { seeds.len() } else { 260 };
                let seeds = &seeds[seeds.len() - seeds.len().min(few)..];
                if replace && !kind.replaces() {
                    continue;
                }
                let options =
                    SamplerOptions { kind, fanouts: fanouts_for(kind, fanouts).into(), ..options.clone() };
                let batch = sample(&graph, &options, key(9), seeds);
                let plain = plainly_weighed(&graph, &options, key(9), seeds);
                assert_eq!((content(&batch), weight_bits(&batch)), plain, "{kind} {fanouts:?} {replace}");
            }
        }
    }
}

#[test]
fn thirty_two_hops_are_sampled() {
    let graph =
        Graph::from_lists(&(0..100).map(|node| vec![(node + 1) % 100, (node + 7) % 100]).collect::<Vec<_>>());
    let options =
        SamplerOptions { fanouts: vec![1; 32].into(), replace: false, seed: 5, ..SamplerOptions::default() };
    let batch = sample(&graph, &options, key(0), &[3]);
    assert_eq!(content(&batch), plainly(&graph, &options, key(0), &[3]));
    assert_eq!(batch.counts().layers(), 32);
}

#[test]
fn a_batch_does_not_depend_on_what_the_sampler_did_before() {
    let graph = large();
    let options =
        |kind| SamplerOptions { kind, fanouts: [5, 5].into(), seed: 1, ..SamplerOptions::default() };
    let seeds = some_seeds(3000, 50);
    for (kind, number) in SamplerKind::ALL.into_iter().flat_map(|kind| [(kind, 3), (kind, 900), (kind, 7)]) {
        let mut batch = graph.room_for(500, &options(kind));
        let fresh = sample(&graph, &options(kind), key(7), &seeds);
        let mut sampler = graph.sampler_for(&options(kind));
        sampler.sample_into(key(number), &some_seeds(3000, 500), &mut batch).unwrap();
        // A batch that fails half-way leaves no trace either.
        let bounds = BatchBounds::for_options(&options(kind), 50, 3000, 50_000, Some(820));
        let mut tiny = MiniBatch::with_bounds(&bounds.unwrap());
        assert!(sampler.sample_into(key(number), &seeds, &mut tiny).is_err());
        assert!(tiny.nodes().is_empty() && tiny.block(0).is_none());
        sampler.sample_into(key(7), &seeds, &mut batch).unwrap();
        assert_eq!((batch.hash(), content(&batch)), (fresh.hash(), content(&fresh)));
    }
}

#[test]
fn every_part_of_the_key_changes_the_batch() {
    let graph = large();
    let seeds = some_seeds(3000, 50);
    let hash = |seed, key| {
        sample(
            &graph,
            &SamplerOptions { fanouts: [5, 5].into(), replace: false, seed, ..SamplerOptions::default() },
            key,
            &seeds,
        )
        .hash()
    };
    let base = BatchKey { split: Split::Train, epoch: 1, batch: 2 };
    let hashes = [
        hash(1, base),
        hash(2, base),
        hash(1 | 1 << 32, base),
        hash(1, BatchKey { split: Split::Valid, ..base }),
        hash(1, BatchKey { epoch: 2, ..base }),
        hash(1, BatchKey { batch: 3, ..base }),
    ];
    for (i, hash) in hashes.iter().enumerate() {
        assert!(!hashes[..i].contains(hash));
    }
}

#[test]
fn memory_of_exactly_the_size_is_enough_and_one_less_is_named() {
    let graph = large();
    let seeds = some_seeds(3000, 40);
    let mut sampler = graph.sampler(&[6, 4], false, 1);
    let mut whole = graph.room(40, [6, 4]);
    let counts = sampler.sample_into(key(3), &seeds, &mut whole).unwrap();

    let mut run = |nodes: usize, destinations: [usize; 2], edges: [usize; 2]| {
        let mut ids = vec![0; nodes];
        let mut offsets = destinations.map(|count| vec![0; count]);
        let mut locals = edges.map(|count| vec![0; count]);
        let mut layers: Vec<BlockMut<'_>> = offsets
            .iter_mut()
            .zip(&mut locals)
            .map(|(indptr, indices)| BlockMut { indptr, indices, ..BlockMut::default() })
            .collect();
        sampler.sample(
            key(3),
            &seeds,
            &mut BatchMut { nodes: &mut [&mut ids], blocks: &mut layers, trees: &mut [] },
        )
    };
    let [first, second] = [counts.blocks()[0], counts.blocks()[1]];
    let destinations = [first.destinations + 1, second.destinations + 1];
    let edges = [first.edges, second.edges];
    assert_eq!(run(counts.nodes(), destinations, edges), Ok(counts.clone()));
    // More is fine too.
    assert_eq!(
        run(counts.nodes() + 9, destinations.map(|n| n + 9), edges.map(|n| n + 9)),
        Ok(counts.clone())
    );

    let too_large = |what, capacity| Err(SampleError::BatchTooLarge { key: key(3), what, capacity });
    assert_eq!(run(counts.nodes() - 1, destinations, edges), too_large(Capacity::Nodes, counts.nodes() - 1));
    assert_eq!(run(39, destinations, edges), too_large(Capacity::Nodes, 39));
    assert_eq!(run(0, destinations, edges), too_large(Capacity::Nodes, 0));
    for layer in 0..2 {
        let mut less = destinations;
        less[layer] -= 1;
        let capacity = destinations[layer] - 2;
        assert_eq!(run(counts.nodes(), less, edges), too_large(Capacity::Destinations { layer }, capacity));
        less[layer] = 0;
        assert_eq!(run(counts.nodes(), less, edges), too_large(Capacity::Destinations { layer }, 0));
        let mut less = edges;
        less[layer] -= 1;
        assert_eq!(
            run(counts.nodes(), destinations, less),
            too_large(Capacity::Edges { layer }, less[layer])
        );
        less[layer] = 0;
        assert_eq!(run(counts.nodes(), destinations, less), too_large(Capacity::Edges { layer }, 0));
    }
    let message = run(counts.nodes() - 1, destinations, edges).unwrap_err().to_string();
    for part in ["train batch 4 of epoch 1", "nodes", "`slot_bytes`", "`batch_size`", "`fanouts`"] {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

#[test]
fn edge_ids_need_as_much_room_as_the_picks_and_what_is_missing_is_named() {
    let graph = Graph::from_lists(&[vec![1, 2, 3], vec![3], vec![], vec![0]]);
    let options = SamplerOptions { fanouts: [2].into(), edge_ids: true, ..SamplerOptions::default() };
    let mut sampler = graph.sampler_for(&options);
    let mut run = |room: usize| {
        let (mut nodes, mut indptr, mut indices, mut ids) = ([0; 4], [0; 3], [0; 9], vec![-1; room]);
        let (indptr, indices, edge_ids) = (&mut indptr[..], &mut indices[..], &mut ids[..]);
        let block = BlockMut { indptr, indices, edge_ids, weights: &mut [] };
        let mut out = BatchMut { nodes: &mut [&mut nodes], blocks: &mut [block], trees: &mut [] };
        sampler.sample(key(0), &[3, 0], &mut out).map(|counts| (counts.edges(), ids))
    };
    let (edges, ids) = run(3).unwrap();
    assert_eq!((edges, ids[0]), (3, 4));
    assert!(ids[1..].iter().all(|id| (0..3).contains(id)));
    let what = Capacity::Edges { layer: 0 };
    assert_eq!(run(2).unwrap_err(), SampleError::BatchTooLarge { key: key(0), what, capacity: 2 });
}

#[test]
fn weights_need_as_much_room_as_the_picks_and_what_is_missing_is_named() {
    let graph = Graph::from_lists(&[vec![1, 2, 3], vec![3], vec![], vec![0]]);
    for kind in SamplerKind::ALL.into_iter().filter(|kind| kind.draws_together()) {
        let options = SamplerOptions { kind, fanouts: [-1].into(), ..SamplerOptions::default() };
        let mut sampler = graph.sampler_for(&options);
        let mut run = |room: usize| {
            let (mut nodes, mut indptr, mut indices, mut weights) =
                ([0; 4], [0; 3], [0; 9], vec![-1.0; room]);
            let (indptr, indices, weights) = (&mut indptr[..], &mut indices[..], &mut weights[..]);
            let block = BlockMut { indptr, indices, edge_ids: &mut [], weights };
            let mut out = BatchMut { nodes: &mut [&mut nodes], blocks: &mut [block], trees: &mut [] };
            let counts = sampler.sample(key(0), &[3, 0], &mut out)?;
            Ok((counts.edges(), out.blocks[0].weights.to_vec()))
        };
        let third = 1.0 / 3.0;
        assert_eq!(run(4), Ok((4, vec![1.0, third, third, third])), "{kind}");
        let what = Capacity::Edges { layer: 0 };
        assert_eq!(run(3), Err(SampleError::BatchTooLarge { key: key(0), what, capacity: 3 }), "{kind}");
    }
}

#[test]
fn what_a_kind_of_sampler_cannot_do_is_refused_when_it_is_made() {
    let graph = Graph::from_lists(&[vec![1, 1], vec![0]]);
    let refused = |view: GraphView<'_>, kind, replace| {
        let options = SamplerOptions { kind, replace, fanouts: [1].into(), ..SamplerOptions::default() };
        let Err(SampleError::InvalidOption(refused)) = sampler(view, &options).map(drop) else {
            panic!("{kind} was taken")
        };
        refused
    };
    let (labor, weighted) = (SamplerKind::LABOR, SamplerKind::WEIGHTED);
    assert_eq!(
        refused(graph.view(), labor, true),
        InvalidOption::Replace { kind: labor, instead: "neighbor or weighted".into() }
    );
    let none = refused(graph.view(), weighted, false);
    assert!(
        none == InvalidOption::NoWeights { kind: weighted } && none.to_string().contains("weight.npy"),
        "{none}"
    );
    let short = GraphView { weights: Some(&[1.0]), ..graph.view() };
    assert_eq!(refused(short, weighted, false), InvalidOption::Weights { given: 1, edges: 3 });
    let refused_with = |kind: SamplerKind, expand, fanout| {
        let first = if kind.draws_one_subgraph() { fanout } else { 5 };
        let options =
            SamplerOptions { kind, expand, fanouts: [first, fanout].into(), ..SamplerOptions::default() };
        match sampler(graph.view(), &options).map(drop) {
            Err(SampleError::InvalidOption(refused)) => Some(refused),
            other => other.map(|()| None).unwrap(),
        }
    };
    for kind in SamplerKind::ALL.into_iter().filter(|kind| kind.draws_together()) {
        let replaced = refused(graph.view(), kind, true);
        assert!(matches!(replaced, InvalidOption::Replace { kind: of, .. } if of == kind), "{replaced}");
        assert!(replaced.to_string().contains("`sampler_kind=neighbor or weighted`"), "{replaced}");
        let instead = SamplerKind::names_of(|kind| !kind.draws_together());
        assert_eq!(refused_with(kind, Expand::New, 5), Some(InvalidOption::ExpandNew { kind, instead }));
        assert_eq!(refused_with(kind, Expand::All, 1 << 17), None);
        let options = SamplerOptions { kind, fanouts: [9, 9, 8].into(), ..SamplerOptions::default() };
        let differ = InvalidOption::OneSubgraph { kind, layer: 2, fanout: 8 };
        assert_eq!(options.check_kind().err(), kind.draws_one_subgraph().then_some(differ));
    }
    let home = OriginalEdges { indptr: &[0, 1], nodes: &[0] };
    let elsewhere = GraphView { home: Some(home), ..graph.view() };
    assert_eq!(refused(elsewhere, labor, false), InvalidOption::OriginalIds { given: 1, nodes: 2 });
    let options = SamplerOptions { kind: labor, fanouts: [1].into(), ..SamplerOptions::default() };
    let other = NeighborSampler::new(graph.csc(), options).map(drop).unwrap_err();
    assert!(matches!(other, SampleError::InvalidOption(InvalidOption::OtherKind { .. })), "{other}");
}

#[test]
fn seeds_that_cannot_be_are_refused_with_their_position() {
    let graph = large();
    let mut sampler = graph.sampler(&[3], false, 1);
    let mut batch = graph.room(10, [3]);
    for bad in [-1, 3000, i64::MAX, i64::MIN] {
        let refused = sampler.sample_into(key(1), &[5, bad], &mut batch).unwrap_err();
        assert_eq!(refused, SampleError::SeedOutOfRange { key: key(1), position: 1, seed: bad, nodes: 3000 });
    }
    let late = BatchKey { epoch: MAX_EPOCH + 1, ..key(1) };
    let refused = sampler.sample_into(late, &[5], &mut batch).unwrap_err();
    assert_eq!(refused, SampleError::InvalidOption(InvalidOption::Epoch { epoch: MAX_EPOCH + 1 }));
    let refused = sampler.sample_into(key(1), &[5], &mut graph.room(10, [3, 3])).unwrap_err();
    assert_eq!(refused, SampleError::LayerMismatch { expected: 1, given: 2 });
}

#[test]
fn an_inconsistent_graph_is_an_error_and_not_a_panic() {
    for kind in SamplerKind::ALL {
        lies(kind);
    }
}

fn lies(kind: SamplerKind) {
    let sample = |indptr: &[i64], indices: Indices<'_>| {
        let csc = Csc { indptr, indices, original_ids: None, degrees: None };
        let options = SamplerOptions { kind, fanouts: [2].into(), seed: 1, ..SamplerOptions::default() };
        let bounds = BatchBounds::for_options(&options, 3, 3, 9, Some(10_000)).unwrap();
        let mut batch = MiniBatch::with_bounds(&bounds);
        let view = GraphView { weights: Some(&[1.0; 4]), ..csc.into() };
        // Who looks at the whole graph before the first batch says so then.
        sampler(view, &options)?.sample_into(key(0), &[0, 1, 2], &mut batch)
    };
    let ids = Indices::I32(&[1, 2, 0, 1]);
    assert!(sample(&[0, 2, 3, 4], ids).is_ok());
    let list = |node, begin, end| Err(SampleError::InvalidList { node, begin, end, edges: 4 });
    assert_eq!(sample(&[0, 2, 1, 4], ids), list(1, 2, 1));
    assert_eq!(sample(&[0, 2, 3, 5], ids), list(2, 3, 5));
    assert_eq!(sample(&[-1, 2, 3, 4], ids), list(0, -1, 2));
    assert_eq!(sample(&[0, i64::MIN, 3, 4], ids), list(0, 0, i64::MIN));
    let neighbor = |neighbor| Err(SampleError::InvalidNeighbor { position: 2, neighbor, nodes: 3 });
    for bad in [3, -1, i32::MAX, i32::MIN] {
        assert_eq!(sample(&[0, 2, 3, 4], Indices::I32(&[1, 2, bad, 1])), neighbor(bad.into()));
    }
    for bad in [3, -1, i64::MAX, i64::MIN, 1 << 32] {
        assert_eq!(sample(&[0, 2, 3, 4], Indices::I64(&[1, 2, bad, 1])), neighbor(bad));
    }
}

#[test]
fn invalid_options_are_refused_before_anything_is_sampled() {
    let graph = large();
    let refusal = |fanouts: Vec<i32>| match NeighborSampler::new(
        graph.csc(),
        SamplerOptions { fanouts: fanouts.into(), replace: false, seed: 0, ..SamplerOptions::default() },
    ) {
        Err(SampleError::InvalidOption(refusal)) => refusal,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("accepted"),
    };
    assert_eq!(refusal(vec![]), InvalidOption::NoFanouts);
    assert_eq!(refusal(vec![1; 33]), InvalidOption::TooManyFanouts { given: 33 });
    assert_eq!(refusal(vec![5, 0]), InvalidOption::Fanout { layer: 1, fanout: 0 });
    assert_eq!(refusal(vec![-2]), InvalidOption::Fanout { layer: 0, fanout: -2 });
    let too_large = InvalidOption::Fanout { layer: 1, fanout: MAX_FANOUT + 1 };
    assert_eq!(refusal(vec![MAX_FANOUT, MAX_FANOUT + 1]), too_large);
    let expected = "invalid value '16777217': expected -1 (all neighbours) or 1 to 16777216";
    assert!(too_large.to_string().contains(expected), "{too_large}");

    let mut csc = graph.csc();
    csc.original_ids = Some(&[1, 2]);
    let options =
        SamplerOptions { fanouts: [1].into(), replace: false, seed: 0, ..SamplerOptions::default() };
    let refused = NeighborSampler::new(csc, options).err();
    let expected = InvalidOption::OriginalIds { given: 2, nodes: 3000 };
    assert_eq!(refused, Some(SampleError::InvalidOption(expected)));
}

#[test]
fn a_fanout_beyond_the_random_words_is_refused_only_for_longer_lists() {
    let hub = |degree: i64| Graph::from_lists(&[vec![0; degree as usize], vec![0]]);
    let options = |fanout| SamplerOptions {
        fanouts: [2, fanout].into(),
        replace: false,
        seed: 0,
        ..SamplerOptions::default()
    };
    assert!(NeighborSampler::new(hub(70_000).csc(), options(70_000)).is_ok());
    assert!(NeighborSampler::new(hub(70_001).csc(), options(1 << 16)).is_ok());
    let refused = NeighborSampler::new(hub(70_001).csc(), options(70_000)).err();
    let expected = InvalidOption::TooManyPicks { layer: 1, fanout: 70_000, node: 0, degree: 70_001 };
    assert_eq!(refused, Some(SampleError::InvalidOption(expected)));
    // With replacement a short list would be drawn from too; only where there is none is nothing to refuse.
    let replaced = |lists: &[Vec<i64>]| {
        let options = SamplerOptions { replace: true, ..options(70_000) };
        NeighborSampler::new(Graph::from_lists(lists).csc(), options).map(drop).err()
    };
    let expected = InvalidOption::TooManyPicks { layer: 1, fanout: 70_000, node: 1, degree: 1 };
    assert_eq!(replaced(&[vec![], vec![0]]), Some(SampleError::InvalidOption(expected)));
    assert_eq!(replaced(&[vec![], vec![]]), None);
}

#[test]
fn no_seeds_make_an_empty_batch() {
    let graph = large();
    let mut batch = graph.room(5, [3, 3]);
    let counts = graph.sampler(&[3, 3], false, 1).sample_into(key(0), &[], &mut batch).unwrap();
    assert_eq!((counts.nodes(), counts.edges(), counts.layers()), (0, 0, 2));
    assert_eq!(batch.block(1).unwrap().indptr, [0]);
}

#[test]
fn picks_are_kept_for_kappa_batches_and_a_kappath_changes_each_batch() {
    let (nodes, kappa) = (400_i64, 4);
    let lists: Vec<Vec<i64>> =
        (0..nodes).map(|node| (0..50).map(|i| (node * 7 + i * 31) % nodes).collect()).collect();
    let graph = Graph::from_lists(&lists);
    let seeds: Vec<i64> = (0..nodes).collect();
    let options =
        SamplerOptions { fanouts: [5].into(), seed: 5, batch_dependency: kappa, ..SamplerOptions::default() };
    let picks = |batch| {
        let (sampled, blocks) = content(&sample(&graph, &options, key(batch), &seeds));
        let (indptr, indices) = &blocks[0];
        let ids = |local: &i32| sampled[*local as usize];
        let list = |ends: &[i32]| indices[ends[0] as usize..ends[1] as usize].iter().map(ids).collect();
        indptr.windows(2).map(list).collect::<Vec<Vec<i64>>>()
    };
    for batch in 0..3 * kappa {
        let (now, next) = (picks(batch), picks(batch + 1));
        let changed = now.iter().zip(&next).filter(|(now, next)| now != next).count();
        assert!((60..140).contains(&changed), "batch {batch} changed the picks of {changed} of 400 nodes");
    }
    // Each node changes once in any kappa consecutive steps: after that many, hardly any list is unchanged.
    let unchanged = picks(2).iter().zip(&picks(2 + kappa)).filter(|(now, next)| now == next).count();
    assert!(unchanged < 5, "{unchanged} lists are the same {kappa} batches later");
}

#[test]
fn reads_of_lists_are_counted_and_those_of_cached_ones_apart() {
    let graph = Graph::from_lists(&[vec![1, 2, 3], vec![3], vec![], vec![0, 0, 1, 2, 3, 1]]);
    for (cached_lists, replace) in
        (0..=4).flat_map(|cached_lists| [(cached_lists, false), (cached_lists, true)])
    {
        let options = SamplerOptions { fanouts: [2, -1].into(), replace, ..SamplerOptions::default() };
        let mut batch = graph.room(2, &options.fanouts);
        let mut sampler =
            NeighborSampler::new(graph.csc(), options.clone()).unwrap().with_cached_lists(cached_lists);
        let reads = sampler.sample_into(key(0), &[0, 3], &mut batch).unwrap().list_reads;
        let (mut all, mut cached) = (0, 0);
        for (block, fanout) in batch.blocks().zip([2, usize::MAX]) {
            for &node in &batch.nodes()[..block.destinations] {
                let degree = graph.list(node).len();
                let drawn = replace && fanout == 2 && degree > 0;
                let of_list = 1 + if drawn { 2 } else { degree.min(fanout) } as u64;
                all += of_list;
                cached += if (node as usize) < cached_lists { of_list } else { 0 };
            }
        }
        assert_eq!((reads.all, reads.cached), (all, cached));
    }
}

use proptest::prelude::*;

use super::*;
use crate::npy::NpyArray;

/// Reference implementation of the builder, in a few lines.
fn expected(nodes: u64, edges: &[(u64, u64)], changes: Changes) -> (Vec<i64>, Vec<i64>) {
    let mut lists = vec![Vec::new(); nodes as usize];
    for &(source, destination) in edges {
        lists[destination as usize].push(source as i64);
        if changes.symmetrise && source != destination {
            lists[source as usize].push(destination as i64);
        }
    }
    for (node, list) in (0_i64..).zip(&mut lists) {
        if changes.self_loops != SelfLoops::Keep {
            list.retain(|&source| source != node);
        }
        if changes.self_loops == SelfLoops::Add {
            list.push(node);
        }
        if changes.symmetrise || changes.deduplicate {
            list.sort_unstable();
        }
        if changes.deduplicate {
            list.dedup();
        }
    }
    let mut indptr = vec![0];
    indptr.extend(lists.iter().scan(0, |end, list| {
        *end += list.len() as i64;
        Some(*end)
    }));
    (indptr, lists.concat())
}

/// A builder with a memory that no option accepts, so that small graphs use the temporary file too.
fn builder(directory: &Path, nodes: u64, changes: Changes, weighted: bool, memory: u64) -> CscBuilder {
    let mut builder = CscBuilder::new(directory, nodes, changes, weighted, LEAST_MEMORY).unwrap();
    builder.memory = memory;
    let record_bytes = if weighted { 12 } else { 8 };
    builder.buckets = Buckets::new(directory, builder.buckets_len(), record_bytes, memory / 2);
    builder
}

impl CscBuilder {
    fn buckets_len(&self) -> usize {
        (self.nodes.saturating_sub(1) >> self.shift) as usize + 1
    }
}

fn ids(directory: &Path) -> Vec<i64> {
    let array = NpyArray::open(&directory.join(names::INDICES)).unwrap();
    array.elements::<i32>(NpyType::I32).unwrap().iter().map(|&id| id.into()).collect()
}

fn ends(directory: &Path) -> Vec<i64> {
    NpyArray::open(&directory.join(names::INDPTR)).unwrap().elements::<i64>(NpyType::I64).unwrap().to_vec()
}

fn built(nodes: u64, edges: &[(u64, u64)], changes: Changes, memory: u64) -> (Vec<i64>, Vec<i64>) {
    let directory = tempfile::tempdir().unwrap();
    let mut builder = builder(directory.path(), nodes, changes, false, memory);
    for &(source, destination) in edges {
        builder.push(source, destination, 0.0).unwrap();
    }
    let edges = builder.finish(&|_| {}).unwrap();
    let lists = (ends(directory.path()), ids(directory.path()));
    assert_eq!(lists.1.len() as u64, edges);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "something else is left");
    lists
}

fn every_change() -> impl Strategy<Value = Changes> {
    let loops = prop_oneof![Just(SelfLoops::Keep), Just(SelfLoops::Add), Just(SelfLoops::Remove)];
    (any::<bool>(), any::<bool>(), loops).prop_map(|(symmetrise, deduplicate, self_loops)| Changes {
        symmetrise,
        deduplicate,
        self_loops,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_lists_are_those_of_the_definition_whatever_the_memory(
        nodes in 1_u64..700,
        edges in prop::collection::vec((any::<u64>(), any::<u64>()), 0..400),
        changes in every_change(),
        memory in 8000_u64..20_000,
    ) {
        let edges: Vec<(u64, u64)> =
            edges.into_iter().map(|(source, destination)| (source % nodes, destination % nodes)).collect();
        prop_assert_eq!(built(nodes, &edges, changes, memory), expected(nodes, &edges, changes));
    }
}

#[test]
fn edges_that_exceed_the_memory_use_the_file_with_equal_results() {
    // 3 million edges of 8 bytes in 16 MiB; half of them end in the first bucket, which then takes several runs.
    let (nodes, count) = (40_000_u64, 3_000_000_u64);
    let edges: Vec<(u64, u64)> = (0..count)
        .map(|i| {
            let source = crate::mix(i) % nodes;
            (source, if i % 2 == 0 { crate::mix(i + count) % 100 } else { crate::mix(i + count) % nodes })
        })
        .collect();
    for changes in [Changes::NONE, Changes { symmetrise: true, deduplicate: true, ..Changes::NONE }] {
        let directory = tempfile::tempdir().unwrap();
        let mut builder = builder(directory.path(), nodes, changes, false, 1 << 20);
        for &(source, destination) in &edges {
            builder.push(source, destination, 0.0).unwrap();
        }
        assert!(builder.buckets.spilled(), "this test has to use the file to test it");
        assert!(
            builder.buckets.len(0) > (1 << 20) / 2 / 4,
            "the first bucket has to be too large for one run"
        );
        builder.finish(&|_| {}).unwrap();
        let (indptr, indices) = expected(nodes, &edges, changes);
        assert_eq!(ends(directory.path()), indptr);
        assert_eq!(ids(directory.path()), indices);
    }
}

#[test]
fn weights_stay_with_their_edges() {
    let directory = tempfile::tempdir().unwrap();
    let mut builder = builder(directory.path(), 600, Changes::NONE, true, 20_000);
    let count = 5000_u64;
    for i in 0..count {
        builder.push(crate::mix(i) % 600, crate::mix(i + count) % 600, i as f32).unwrap();
    }
    builder.finish(&|_| {}).unwrap();
    let weights = NpyArray::open(&directory.path().join(names::WEIGHTS)).unwrap();
    let weights = weights.elements::<f32>(NpyType::F32).unwrap();
    let (ends, ids) = (ends(directory.path()), ids(directory.path()));
    for node in 0..600 {
        let list = ends[node] as usize..ends[node + 1] as usize;
        assert!(weights[list.clone()].is_sorted(), "edges of node {node} changed places");
        for edge in list {
            let i = weights[edge] as u64;
            assert_eq!((crate::mix(i) % 600, crate::mix(i + count) % 600), (ids[edge] as u64, node as u64));
        }
    }
}

#[test]
fn edge_numbers_stay_with_their_edges_for_all_weights_and_id_widths() {
    for (weighted, narrow) in [(false, true), (true, true), (false, false), (true, false)] {
        let directory = tempfile::tempdir().unwrap();
        let mut builder = CscBuilder::numbered(directory.path(), 600, weighted, LEAST_MEMORY).unwrap();
        builder.narrow = narrow;
        let record_bytes = 16 + if weighted { 4 } else { 0 } + if narrow { 0 } else { 4 };
        // With this little memory, most records go through the temporary file.
        builder.memory = 40_000;
        builder.buckets = Buckets::new(directory.path(), builder.buckets_len(), record_bytes, 20_000);
        let count = 5000_u64;
        for i in 0..count {
            builder.push(crate::mix(i) % 600, crate::mix(i + count) % 600, i as f32).unwrap();
        }
        let mut numbers = Vec::new();
        let take = &mut |more: &[u64]| {
            numbers.extend_from_slice(more);
            Ok(())
        };
        assert_eq!(builder.finish_numbered(&|_| {}, take).unwrap(), count);
        let (ends, ids) = (ends(directory.path()), ids(directory.path()));
        for node in 0..600 {
            let list = ends[node] as usize..ends[node + 1] as usize;
            assert!(numbers[list.clone()].is_sorted(), "edges of node {node} changed places");
            for edge in list {
                let i = numbers[edge];
                let (source, destination) = (crate::mix(i) % 600, crate::mix(i + count) % 600);
                assert_eq!((source, destination), (ids[edge] as u64, node as u64));
            }
        }
        if weighted {
            let weights = NpyArray::open(&directory.path().join(names::WEIGHTS)).unwrap();
            let weights = weights.elements::<f32>(NpyType::F32).unwrap();
            assert!(weights.iter().zip(&numbers).all(|(weight, number)| *weight as u64 == *number));
        }
    }
}

#[test]
fn ids_beyond_32_bits_keep_all_of_theirs() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = (1_u64 << 32) + 10;
    // Lists of that many nodes would take 32 GiB, so only the records are checked.
    let mut builder = CscBuilder::new(directory.path(), nodes, Changes::NONE, true, LEAST_MEMORY).unwrap();
    builder.push(nodes - 1, nodes - 2, 0.5).unwrap();
    builder.push(3, nodes - 2, 1.5).unwrap();
    let (last, mut seen) = ((nodes - 1) >> builder.shift, Vec::new());
    let first = last << builder.shift;
    builder.each(last, |local, source, weight, _| seen.push((first + local as u64, source, weight))).unwrap();
    assert_eq!(seen, [(nodes - 2, nodes - 1, 0.5), (nodes - 2, 3, 1.5)]);
}

#[test]
fn a_list_larger_than_the_memory_is_refused_with_the_node_and_its_size() {
    let directory = tempfile::tempdir().unwrap();
    let mut builder = builder(directory.path(), 10, Changes::NONE, false, 4000);
    for _ in 0..501 {
        builder.push(1, 7, 0.0).unwrap();
    }
    let message = builder.finish(&|_| {}).unwrap_err().to_string();
    assert!(message.contains("`memory`: node 7 has 501 in-neighbours, which need 2004 bytes"), "{message}");
    let error = CscBuilder::new(directory.path(), 10, Changes::NONE, false, 1000).unwrap_err();
    assert!(error.to_string().contains("at least 64 MiB"), "{error}");
}

#[test]
fn a_graph_without_edges_or_without_nodes_has_empty_lists() {
    let all = Changes { symmetrise: true, deduplicate: true, self_loops: SelfLoops::Remove };
    assert_eq!(built(3, &[], all, 4000), (vec![0; 4], vec![]));
    assert_eq!(built(0, &[], all, 4000), (vec![0], vec![]));
}

/// Lists of a relation between 300 sources and 40 destinations, with the numbers of their edges.
fn between(changes: Changes, ends: Ends, key: Option<SortKey<'_>>) -> (Vec<i64>, Vec<i64>, Vec<u64>) {
    let directory = tempfile::tempdir().unwrap();
    let mut builder = CscBuilder::between(directory.path(), ends, changes, true, LEAST_MEMORY).unwrap();
    for i in 0..2000_u64 {
        builder.push(crate::mix(i) % ends.sources, crate::mix(i + 5000) % ends.destinations, 0.0).unwrap();
    }
    let mut numbers = Vec::new();
    let take = &mut |more: &[u64]| {
        numbers.extend_from_slice(more);
        Ok(())
    };
    builder.finish_in_order(&|_| {}, key, take).unwrap();
    (self::ends(directory.path()), ids(directory.path()), numbers)
}

#[test]
fn a_relation_has_as_many_lists_as_destinations_and_ids_of_sources() {
    for ends in [Ends { sources: 3000, destinations: 40 }, Ends { sources: 40, destinations: 3000 }] {
        let (indptr, indices, numbers) = between(Changes::NONE, ends, None);
        assert_eq!((indptr.len() as u64, indices.len()), (ends.destinations + 1, 2000));
        for (node, pair) in indptr.windows(2).enumerate() {
            for place in pair[0] as usize..pair[1] as usize {
                let number = numbers[place];
                assert_eq!(crate::mix(number + 5000) % ends.destinations, node as u64);
                assert_eq!(crate::mix(number) % ends.sources, indices[place] as u64);
            }
        }
    }
}

#[test]
fn an_added_reverse_edge_has_the_number_of_its_edge() {
    let changes = Changes { symmetrise: true, ..Changes::NONE };
    let (indptr, indices, numbers) = between(changes, Ends::among(60), None);
    let loops = (0..2000).filter(|&i| crate::mix(i) % 60 == crate::mix(i + 5000) % 60).count();
    assert_eq!(indices.len(), 4000 - loops);
    for (node, pair) in indptr.windows(2).enumerate() {
        for place in pair[0] as usize..pair[1] as usize {
            let ends = [crate::mix(numbers[place]) % 60, crate::mix(numbers[place] + 5000) % 60];
            let listed = [indices[place] as u64, node as u64];
            assert!(listed == ends || listed == [ends[1], ends[0]], "{listed:?} is not {ends:?}");
        }
    }
}

#[test]
fn lists_ascend_by_a_key_and_equal_keys_keep_their_order() {
    let key = |number: u64| -((number / 10) as i64);
    let (indptr, _, numbers) = between(Changes::NONE, Ends { sources: 300, destinations: 40 }, Some(&key));
    for pair in indptr.windows(2) {
        let list = &numbers[pair[0] as usize..pair[1] as usize];
        assert!(list.is_sorted_by_key(|&number| (key(number), number)), "{list:?}");
    }
}

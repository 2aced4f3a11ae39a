use std::collections::BTreeSet;

use proptest::prelude::*;
use uva_graph::Dataset;

use crate::auto::{BALANCED, Candidate, is_better};
use crate::graphs::counts;
use crate::options::{Count, Method, PartitionOptions};
use crate::testing::{Lists, on_threads, shuffled, unwatched};
use crate::{NodePartition, partition};

fn made(lists: &Lists, options: &PartitionOptions) -> NodePartition {
    let temp = tempfile::tempdir().unwrap();
    partition(&lists.dataset(temp.path()), options, &unwatched).unwrap()
}

/// The share of nodes that are in the part of most nodes of their group; groups are ids modulo their number.
fn recovered(of: &[u16], groups: usize) -> f64 {
    let mut found = vec![vec![0; groups]; groups];
    of.iter().enumerate().for_each(|(node, part)| found[node % groups][usize::from(*part)] += 1);
    let of_group = |counts: &Vec<usize>| (0..groups).max_by_key(|part| counts[*part]).unwrap();
    let parts: BTreeSet<usize> = found.iter().map(of_group).collect();
    assert_eq!(parts.len(), groups, "every group has a part of its own: {found:?}");
    let right: usize = found.iter().map(|counts| counts.iter().max().unwrap()).sum();
    right as f64 / of.len() as f64
}

#[test]
fn planted_groups_are_found() {
    let lists = Lists::planted(3, 2000, 4, 12, 96, 3);
    for method in [Method::Bgl, Method::Ldg, Method::Auto] {
        let found = made(&lists, &PartitionOptions { method, ..PartitionOptions::of_parts(4) });
        let share = recovered(&found.of, 4);
        assert!(share >= 0.95, "{method}: {share}");
        assert!(over_mean_of(&found) <= BALANCED, "{method}: {:?}", found.train);
    }
    // The measure distinguishes a good partition from a poor one.
    let random = made(&lists, &PartitionOptions { method: Method::Range, ..PartitionOptions::of_parts(4) });
    assert!(random.edge_cut * 3 > made(&lists, &PartitionOptions::of_parts(4)).edge_cut * 10);
}

fn over_mean_of(partition: &NodePartition) -> f64 {
    counts::over_mean(&partition.train)
}

#[test]
fn auto_keeps_the_fewest_remote_visits_and_lists_what_it_tried() {
    // Consecutive ids are near each other, so a range of them is the best part.
    let nodes = 1200;
    let lists = Lists {
        lists: (0..nodes).map(|node| (1..4).map(|by| (node + by) % nodes).collect()).collect(),
        train: (0..nodes).step_by(2).collect(),
    };
    let found = made(&lists, &PartitionOptions::of_parts(4));
    assert_eq!(found.method, "range+refine");
    let tried: Vec<_> = found.candidates.iter().map(|tried| tried.method.as_str()).collect();
    assert_eq!(tried, ["range+refine", "ldg+refine", "bgl+refine", "multilevel"]);
    let best = &found.candidates[0];
    assert!(found.candidates.iter().all(|tried| tried.remote_list_visits >= best.remote_list_visits));
    let candidate = |remote_list_visits, train_balance| Candidate {
        method: String::new(),
        list_visits: 100,
        remote_list_visits,
        train_balance,
        untrained_parts: 0,
    };
    assert!(is_better(&candidate(5, 1.05), &candidate(6, 1.0)));
    assert!(!is_better(&candidate(6, 1.0), &candidate(6, 1.0)), "the first of equal ones stays");
    assert!(!is_better(&candidate(1, 1.06), &candidate(6, 1.05)), "it is not balanced");
    assert!(is_better(&candidate(6, 1.05), &candidate(1, 1.06)));
    assert!(is_better(&candidate(9, 1.1), &candidate(1, 1.2)), "the more balanced one");
    let untrained = |candidate| Candidate { untrained_parts: 1, ..candidate };
    assert!(is_better(&candidate(90, 1.5), &untrained(candidate(1, 1.5))), "every part trains");
    assert!(!is_better(&untrained(candidate(1, 1.0)), &candidate(90, 1.5)));
}

#[test]
fn auto_keeps_a_division_in_which_every_part_trains_if_it_tried_one() {
    let mut differing = 0;
    for seed in 0..12 {
        let train = (0..4).map(|place| (place * 3 + seed as usize) % 120).collect();
        let lists = Lists { train, ..Lists::planted(seed, 120, 3, 5, 95, 4) };
        let found = made(&lists, &PartitionOptions::of_parts(3));
        let untrained = found.train.iter().filter(|nodes| **nodes == 0).count();
        let of_tried = || found.candidates.iter().map(|tried| tried.untrained_parts);
        assert_eq!(Some(untrained), of_tried().min(), "{:?}", found.candidates);
        differing += usize::from(of_tried().max() != of_tried().min());
    }
    assert!(differing > 0, "no choice to make");
}

#[test]
fn threads_and_the_order_of_the_dataset_change_nothing() {
    let lists = Lists::planted(8, 3000, 3, 5, 80, 4);
    let temp = tempfile::tempdir().unwrap();
    let dataset = lists.dataset(&temp.path().join("data"));
    let reordered = lists.reordered(&temp.path().join("reordered"), &shuffled(3000));
    for method in Method::ALL {
        let options = PartitionOptions { method, seed: 5, ..PartitionOptions::of_parts(3) };
        let of = |dataset: &Dataset, threads| {
            let made = on_threads(threads, || partition(dataset, &options, &unwatched).unwrap());
            (made.of, made.method, made.edge_cut, made.candidates)
        };
        let one = of(&dataset, 1);
        for other in [of(&dataset, 2), of(&dataset, 8), of(&reordered, 2)] {
            assert!(one == other, "{method}");
        }
    }
}

#[test]
fn graphs_of_any_shape_are_divided_and_every_count_is_reproducible() {
    let nodes = 400;
    let of_star = |node: usize| if node == 0 { (1..nodes).collect() } else { vec![0] };
    let shapes = [
        ("a star", (0..nodes).map(of_star).collect(), (0..100).collect::<Vec<usize>>()),
        ("no edges", vec![Vec::new(); nodes], (0..nodes).collect()),
        (
            "pairs, the last ones train",
            (0..nodes).map(|node| vec![node ^ 1]).collect(),
            (300..nodes).collect(),
        ),
        ("a node alone with itself", vec![vec![0, 0]; 1], vec![0]),
    ];
    for (what, lists, train) in shapes {
        let lists = Lists { lists, train };
        for (method, parts) in Method::ALL.into_iter().flat_map(|method| [(method, 1), (method, 5)]) {
            if parts as usize > lists.train.len() {
                continue;
            }
            let found = made(&lists, &PartitionOptions { method, ..PartitionOptions::of_parts(parts) });
            check(&lists, &found, &format!("{what}, {method}, {parts} parts"));
            // The leaves that do not train fill the hub's part, and leave no room in it for those that do.
            let refined = found.method.ends_with("+refine") && what != "a star";
            if refined || method == Method::Pagraph {
                let most = *found.train.iter().max().unwrap();
                let mean = lists.train.len() as f64 / f64::from(parts);
                assert!(most as f64 <= (1.05 * mean).max(mean.ceil()), "{what}, {method}: {:?}", found.train);
            }
        }
    }
}

/// All sizes and cuts, counted in the obvious way.
fn check(lists: &Lists, found: &NodePartition, what: &str) {
    let parts = found.parts as usize;
    let part = |node: usize| usize::from(found.of[node]);
    let (mut nodes, mut train, mut cut) = (vec![0; parts], vec![0; parts], 0);
    (0..lists.lists.len()).for_each(|node| nodes[part(node)] += 1);
    lists.train.iter().for_each(|&node| train[part(node)] += 1);
    for (node, list) in lists.lists.iter().enumerate() {
        cut += list.iter().filter(|&&entry| part(entry) != part(node)).count() as u64;
    }
    assert_eq!((&found.nodes, &found.train), (&nodes, &train), "{what}");
    assert_eq!(found.edge_cut, cut, "{what}");
}

#[test]
fn what_cannot_be_divided_is_refused_with_what_would_do() {
    let temp = tempfile::tempdir().unwrap();
    let lists = Lists::planted(1, 40, 2, 3, 50, 4);
    let dataset = lists.dataset(&temp.path().join("data"));
    let refused = |change: &dyn Fn(&mut PartitionOptions)| {
        let mut options = PartitionOptions::of_parts(2);
        change(&mut options);
        let error = partition(&dataset, &options, &unwatched).unwrap_err();
        assert!(error.is_bad_input(), "{error}");
        error.to_string()
    };
    assert_eq!(refused(&|o| o.parts = 0), "`parts`: 0 is not from 1 to 65535");
    assert_eq!(
        refused(&|o| o.parts = 11),
        "`parts`: 11 is more than the 10 training nodes: a part could not train"
    );
    assert_eq!(refused(&|o| o.hops = 33), "`hops`: 33 is not from 1 to 32");
    assert_eq!(refused(&|o| o.sources = 0), "`sources`: invalid value 0: expected 1 or more");
    assert_eq!(refused(&|o| o.block_nodes = Some(0)), "`block_nodes`: invalid value 0: expected 1 or more");
    let message = refused(&|o| (o.method, o.refine) = (Method::Pagraph, Some(1)));
    assert!(message.starts_with("`refine`: not supported with `method=pagraph`"), "{message}");

    let none = Lists { train: Vec::new(), ..lists.clone() }.dataset(&temp.path().join("none"));
    let error = partition(&none, &PartitionOptions::of_parts(2), &unwatched).unwrap_err();
    assert!(error.to_string().contains("train_idx.npy: the training split is empty"), "{error}");

    let directory = temp.path().join("part");
    drop(lists.reordered(&directory, &(0..40).collect::<Vec<_>>()));
    let ids: Vec<i64> = (0..40).map(|id| if id == 7 { 1000 } else { id }).collect();
    std::fs::remove_file(directory.join("orig_id.npy")).unwrap();
    let kind = uva_graph::npy::NpyType::I64;
    uva_graph::npy::write_array(&directory.join("orig_id.npy"), kind, &[], &ids).unwrap();
    let part = Dataset::open(&directory).unwrap();
    let error = partition(&part, &PartitionOptions::of_parts(2), &unwatched).unwrap_err();
    assert!(error.to_string().contains("node 7 has the original id 1000"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn every_node_has_a_part_and_limits_hold(
        seed: u64,
        nodes in 8_usize..120,
        groups in 1_usize..5,
        degree in 0_usize..5,
        train_every in 1_usize..3,
        parts in 1_u32..5,
        method in prop::sample::select(&Method::ALL[..]),
        count in prop::sample::select(Count::ALL.to_vec()),
        block_nodes in prop::option::of(1_u64..40),
        sources in 1_u32..9,
    ) {
        let lists = Lists::planted(seed, nodes, groups, degree, 70, train_every);
        let options =
            PartitionOptions { seed, method, count, block_nodes, sources, ..PartitionOptions::of_parts(parts) };
        prop_assume!(parts as usize <= lists.train.len());
        let found = made(&lists, &options);
        check(&lists, &found, "random");
        let spread = |counts: &[u64]| counts.iter().max().unwrap() - counts.iter().min().unwrap();
        match method {
            Method::Pagraph => prop_assert!(spread(&found.train) <= 1, "{:?}", found.train),
            Method::Range | Method::Random => prop_assert!(spread(&found.nodes) <= 1, "{:?}", found.nodes),
            Method::Auto | Method::Bgl | Method::Ldg | Method::Multilevel => {}
        }
    }
}

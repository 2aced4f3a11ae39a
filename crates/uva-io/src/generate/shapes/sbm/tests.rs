use uva_graph::Labels;

use super::*;
use crate::generate::testing::{
    assert_bytes_depend_on_the_seed_alone, assert_refused, generated, list, with,
};

fn small() -> Sbm {
    let defaults = Sbm::default();
    Sbm { common: Common { nodes: 60_000, feature_dim: 4, ..defaults.common }, ..defaults }
}

#[test]
fn the_bytes_are_the_same_for_any_number_of_threads() {
    assert_bytes_depend_on_the_seed_alone(&small());
}

#[test]
fn the_content_is_that_of_every_other_machine() {
    let (_directory, dataset) = generated(&with(small(), |options| options.common.nodes = 3000));
    assert_eq!(dataset.fingerprint(), "bfa49a74fff2845c");
}

#[test]
fn the_share_of_edges_within_a_class_and_the_degree_are_as_requested() {
    for share in [0.0, 0.5, 0.9, 1.0] {
        // 7 does not divide 60,000, so there are two class sizes.
        let (_directory, dataset) = generated(&with(small(), |options| {
            options.common.classes = 7;
            options.mixing = Mixing::Homophily(share);
        }));
        let mut within = 0;
        for node in 0..dataset.nodes() {
            let list = list(&dataset, node);
            assert!(list.is_sorted_by(|a, b| a < b), "list of {node}: {list:?}");
            assert!(!list.contains(&(node as i64)));
            within += list.iter().filter(|&&other| other as usize % 7 == node % 7).count();
        }
        let found = within as f64 / dataset.edges() as f64;
        assert!((found - share).abs() < 0.005, "{found} of the edges are within a class, for {share}");
        let average = dataset.edges() as f64 / 60_000.0;
        // Five standard errors.
        assert!((average - 20.0).abs() < 0.1, "average degree {average}");
    }
}

#[test]
fn every_pair_is_an_edge_with_the_probability_of_its_classes() {
    // So dense that lists are chosen by the nodes they lack.
    let options = with(small(), |options| {
        options.common.nodes = 1001;
        options.common.classes = 10;
        options.mixing = Mixing::Probabilities { within: 0.8, between: 0.3 };
    });
    let (_directory, dataset) = generated(&options);
    let (mut edges, mut pairs) = ([0_usize; 2], [0_usize; 2]);
    let mut named = vec![0_usize; 1001];
    for node in 0..1001 {
        let list = list(&dataset, node);
        list.iter().for_each(|&other| named[other as usize] += 1);
        for kind in [0, 1] {
            let of_kind = |other: usize| usize::from(other % 10 != node % 10) == kind && other != node;
            edges[kind] += list.iter().filter(|&&other| of_kind(other as usize)).count();
            pairs[kind] += (0..1001).filter(|&other| of_kind(other)).count();
        }
    }
    for (kind, probability) in [0.8, 0.3].into_iter().enumerate() {
        let found = edges[kind] as f64 / pairs[kind] as f64;
        assert!((found - probability).abs() < 0.01, "{found} for {probability}");
    }
    // No node occurs much more often than others: 0.35 · 1000 with a deviation of 15.
    let (least, most) = (named.iter().min().unwrap(), named.iter().max().unwrap());
    assert!(*least > 270 && *most < 430, "{least} to {most}");
    let mean = options.common().average_degree;
    assert!((dataset.edges() as f64 / 1001.0 / mean - 1.0).abs() < 0.01, "{} for {mean}", dataset.edges());
}

#[test]
fn a_choice_has_the_requested_size_and_omits_all_members_equally_often() {
    for (count, population) in [(0, 5), (1, 5), (2, 5), (3, 5), (5, 5), (0, 0), (1, 1)] {
        let mut chosen = vec![0; population as usize];
        let mut stream = RandomStream::new(2, GeneratorPurpose::Neighbours, count);
        for _ in 0..20_000 {
            let mut list = vec![7];
            choose(&mut list, count, population, &mut stream);
            assert!(list[1..].is_sorted_by(|a, b| a < b) && list.len() as u64 == count + 1, "{list:?}");
            list[1..].iter().for_each(|&number| chosen[number as usize] += 1);
        }
        for times in chosen {
            let expected = 20_000.0 * count as f64 / population as f64;
            assert!((f64::from(times) - expected).abs() < 5.0 * 100.0, "{count} of {population}: {times}");
        }
    }
}

#[test]
fn labels_are_the_communities_but_for_the_noise_and_tiny_graphs_do() {
    let (_directory, dataset) = generated(&small());
    let Labels::Single(labels) = dataset.labels() else { panic!("one class a node") };
    let same = labels.iter().enumerate().filter(|(node, label)| **label == (node % 12) as i64).count();
    // A tenth is redrawn; one in twelve of these keeps its class.
    assert!((same as f64 / 60_000.0 - 0.9083).abs() < 0.01, "{same}");
    for (nodes, classes, share) in [(2, 1, 1.0), (3, 3, 0.0), (50, 5, 0.5), (5000, 1, 1.0)] {
        let (_directory, dataset) = generated(&with(small(), |options| {
            options.common.nodes = nodes;
            options.common.classes = classes;
            options.common.average_degree = 0.5;
            options.mixing = Mixing::Homophily(share);
        }));
        assert_eq!(dataset.nodes() as u64, nodes);
    }
}

#[test]
fn options_out_of_range_are_refused_by_name_and_nothing_is_written() {
    let pairs =
        |within, between| with(small(), |options| options.mixing = Mixing::Probabilities { within, between });
    let cases = [
        ("`nodes`", with(small(), |options| options.common.nodes = 1)),
        ("`homophily`", with(small(), |options| options.mixing = Mixing::Homophily(1.5))),
        ("`homophily`", with(small(), |options| options.mixing = Mixing::Homophily(f64::NAN))),
        // With one class, half of the edges have no other class; with a class per node, no edge is within a class.
        ("`homophily`", with(small(), |options| options.common.classes = 1)),
        ("`homophily`", with(small(), |options| options.common.classes = 60_000)),
        ("`p_in`", pairs(1.1, 0.1)),
        ("`p_out`", pairs(0.1, -0.1)),
        ("`p_in`", pairs(0.0, 0.0)),
        ("`p_in`", pairs(0.9, 0.9)),
        ("`train_share`", with(small(), |options| options.common.train_share = 1.0)),
    ];
    assert_refused(cases);
}

use uva_graph::Dataset;

use super::*;
use crate::generate::testing::{assert_bytes_depend_on_the_seed_alone, assert_refused, generated, with};

fn small() -> Rmat {
    let defaults = Rmat::default();
    Rmat { common: Common { nodes: 60_000, feature_dim: 4, ..defaults.common }, ..defaults }
}

#[test]
fn the_bytes_are_the_same_for_any_number_of_threads() {
    assert_bytes_depend_on_the_seed_alone(&small());
}

#[test]
fn the_content_is_that_of_every_other_machine() {
    let (_directory, dataset) = generated(&with(small(), |options| options.common.nodes = 3000));
    assert_eq!(dataset.fingerprint(), "c5b002fb5b4a494e");
}

/// The chance of every cell, by cutting the matrix as the paper does, halves of any size.
fn cut(sources: Run, destinations: Run, chance: f64, quadrants: [f64; 4], cells: &mut Vec<(u64, u64, f64)>) {
    let [a, b, c, d] = quadrants;
    match (sources.len, destinations.len) {
        (1, 1) => cells.push((sources.start, destinations.start, chance)),
        (1, _) => {
            cut(sources, destinations.half(false), chance * (a + c), quadrants, cells);
            cut(sources, destinations.half(true), chance * (b + d), quadrants, cells);
        }
        (_, 1) => {
            cut(sources.half(false), destinations, chance * (a + b), quadrants, cells);
            cut(sources.half(true), destinations, chance * (c + d), quadrants, cells);
        }
        _ => {
            for (second_source, second, part) in
                [(false, false, a), (false, true, b), (true, false, c), (true, true, d)]
            {
                let (sources, destinations) = (sources.half(second_source), destinations.half(second));
                cut(sources, destinations, chance * part, quadrants, cells);
            }
        }
    }
}

#[test]
fn every_cell_of_the_matrix_has_the_chance_that_cutting_it_in_four_gives() {
    for nodes in [2, 3, 8, 11, 13] {
        let options = with(small(), |options| {
            options.common.nodes = nodes;
            options.common.classes = 1;
            options.common.average_degree = 0.5;
            options.quadrants = [0.5, 0.25, 0.15, 0.1];
            options.noise = 0.0;
        });
        let plan = Plan::new(&options).unwrap();
        let whole = Run { start: 0, len: nodes };
        let mut cells = Vec::new();
        cut(whole, whole, 1.0, options.quadrants, &mut cells);
        assert_eq!(cells.len() as u64, nodes * nodes);
        const DRAWS: usize = 200_000;
        for destination in 0..nodes {
            let way = plan.way_to(destination);
            let mut drawn = vec![0.0; nodes as usize];
            let mut stream = RandomStream::new(1, GeneratorPurpose::Neighbours, destination);
            (0..DRAWS).for_each(|_| drawn[plan.source(way, &mut stream) as usize] += 1.0 / DRAWS as f64);
            let of_this: Vec<_> = cells.iter().filter(|cell| cell.1 == destination).collect();
            let sum: f64 = of_this.iter().map(|cell| cell.2).sum();
            assert!((way.chance - sum).abs() < 1e-12, "{nodes} nodes, list of {destination}: {}", way.chance);
            for &&(source, _, chance) in &of_this {
                let (expected, found) = (chance / sum, drawn[source as usize]);
                // Six standard errors.
                let room = 6.0 * (expected / DRAWS as f64).sqrt();
                assert!((found - expected).abs() < room, "{source} in {destination} of {nodes}: {found}");
            }
        }
    }
}

#[test]
fn noise_differs_by_level_and_leaves_probabilities() {
    let options = small();
    let plan = Plan::new(&options).unwrap();
    let destinations: Vec<f64> = plan.levels.iter().map(|level| level.destination).collect();
    assert!(destinations.iter().all(|p| (0.5..0.95).contains(p)), "{destinations:?}");
    let mut sorted = destinations.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.dedup();
    assert_eq!(sorted.len(), destinations.len(), "every level has noise of its own: {destinations:?}");
    let quiet = with(small(), |options| options.noise = 0.0);
    assert!(Plan::new(&quiet).unwrap().levels.iter().all(|level| (level.destination - 0.76).abs() < 1e-12));
}

/// Of all edges: those whose ends are of one class.
fn share_within_classes(dataset: &Dataset, plan: &Plan<'_>) -> f64 {
    let csc = dataset.csc();
    let within: usize = (0..dataset.nodes())
        .map(|node| {
            let class = plan.class_of(node as u64);
            let range = csc.indptr[node]..csc.indptr[node + 1];
            range.filter(|&edge| plan.class_of(csc.indices.get(edge as usize) as u64) == class).count()
        })
        .sum();
    within as f64 / dataset.edges() as f64
}

#[test]
fn one_percent_of_nodes_has_a_fifth_of_the_edges_without_repeats() {
    for homophily in [0.0, 0.5] {
        let options = with(small(), |options| options.homophily = homophily);
        let (_directory, dataset) = generated(&options);
        let csc = dataset.csc();
        let (mut into, mut out_of) = (vec![0_usize; dataset.nodes()], vec![0_usize; dataset.nodes()]);
        for (node, length) in into.iter_mut().enumerate() {
            let range = csc.indptr[node]..csc.indptr[node + 1];
            let list: Vec<i64> = range.map(|edge| csc.indices.get(edge as usize)).collect();
            assert!(list.is_sorted_by(|a, b| a < b), "list of {node}: {list:?}");
            assert!(!list.contains(&(node as i64)));
            list.iter().for_each(|&source| out_of[source as usize] += 1);
            *length = list.len();
        }
        for degrees in [&mut into, &mut out_of] {
            degrees.sort_unstable_by(|a, b| b.cmp(a));
            let top: usize = degrees[..600].iter().sum();
            let share = top as f64 / dataset.edges() as f64;
            println!("homophily {homophily}: the top 1 % have {share:.3}, the largest {}", degrees[0]);
            // Of 60,000 nodes, where quadrants are equal it would be under 0.02.
            assert!((0.2..0.5).contains(&share), "the top 1 % have {share}");
        }
        let average = dataset.edges() as f64 / 60_000.0;
        assert!((19.0..=20.2).contains(&average), "average degree {average}");
        // A twelfth is within its class by chance.
        let expected = homophily + (1.0 - homophily) / 12.0;
        let within = share_within_classes(&dataset, &Plan::new(&options).unwrap());
        assert!((within - expected).abs() < 0.05, "{within} of the edges are within a class");
    }
}

#[test]
fn equal_quadrants_make_a_graph_without_hubs() {
    let (_directory, dataset) = generated(&with(small(), |options| {
        options.quadrants = [0.25; 4];
        options.noise = 0.0;
    }));
    let csc = dataset.csc();
    let largest = (0..dataset.nodes()).map(|node| csc.degree(node)).max().unwrap();
    assert!(largest < 60, "a list of {largest}, where 20 is the mean and lengths are nearly Poisson");
}

#[test]
fn tiny_graphs_and_any_number_of_nodes_do() {
    for (nodes, classes) in [(2, 1), (3, 3), (5, 2), (63, 12), (64, 12), (65, 12), (5000, 1)] {
        let (_directory, dataset) = generated(&with(small(), |options| {
            options.common.nodes = nodes;
            options.common.classes = classes;
            options.common.average_degree = 0.5;
        }));
        assert_eq!(dataset.nodes() as u64, nodes);
    }
}

#[test]
fn options_out_of_range_are_refused_by_name_and_nothing_is_written() {
    let cases = [
        ("`nodes`", with(small(), |options| options.common.nodes = 1)),
        ("`homophily`", with(small(), |options| options.homophily = 1.5)),
        ("`quadrants`", with(small(), |options| options.quadrants = [0.5, 0.5, 0.5, 0.5])),
        ("`quadrants`", with(small(), |options| options.quadrants = [1.2, -0.2, 0.0, 0.0])),
        ("`quadrants`", with(small(), |options| options.quadrants = [f64::NAN, 0.4, 0.3, 0.3])),
        ("`noise`", with(small(), |options| options.noise = 0.2)),
        ("`noise`", with(small(), |options| options.noise = -0.1)),
        ("`noise`", with(small(), |options| options.noise = f64::NAN)),
        ("`train_share`", with(small(), |options| options.common.train_share = 1.0)),
    ];
    assert_refused(cases);
}

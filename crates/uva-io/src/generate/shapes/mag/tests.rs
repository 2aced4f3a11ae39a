use uva_graph::{NodeType, Relation, TypedDataset};

use super::published::{IGBH_TINY, MAG240M};
use super::*;
use crate::generate::testing::{assert_typed_bytes_depend_on_the_seed_alone, generated_types, with};

fn small(papers: u64) -> Mag {
    with(Mag::default(), |mag| (mag.common.nodes, mag.common.feature_dim) = (papers, 2))
}

fn degrees(dataset: &TypedDataset, relation: usize) -> Vec<i64> {
    let lists = dataset.lists(Relation(relation as u16));
    let mut degrees: Vec<i64> = lists.indptr.windows(2).map(|pair| pair[1] - pair[0]).collect();
    degrees.sort_unstable();
    degrees
}

#[test]
fn types_and_relations_have_the_proportions_of_ogbn_mag() {
    let papers = 30_000;
    let (_directory, dataset, _) = generated_types(&small(papers));
    let metagraph = dataset.metagraph();
    let types: Vec<&str> = metagraph.types().map(|node_type| metagraph.type_name(node_type)).collect();
    assert_eq!(types, ["paper", "author", "institution", "field"]);
    assert_eq!(dataset.target(), Some(NodeType(0)));
    let relations: Vec<&str> = metagraph.relations().map(|relation| metagraph.full_name(relation)).collect();
    assert_eq!(relations[..2], ["paper__cites__paper", "author__writes__paper"]);
    assert_eq!(relations[4..6], ["paper__rev_writes__author", "institution__rev_affiliated_with__author"]);
    let scale = papers as f64 / OGBN_MAG.papers as f64;
    for (node_type, published) in [(1, 1_134_649.0), (2, 8740.0), (3, 59_965.0)] {
        let nodes = dataset.nodes_of(NodeType(node_type)) as f64;
        assert!((nodes - published * scale).abs() <= 0.5, "{nodes} of type {node_type}");
    }
    for (relation, published) in
        [(0, 2.0 * 5_416_271.0), (1, 7_145_660.0), (2, 1_043_998.0), (3, 7_505_078.0)]
    {
        let edges = dataset.edges_of(Relation(relation)) as f64 / (published * scale);
        // Repeated neighbours are dropped, most of them in the longest lists.
        assert!((0.85..1.02).contains(&edges), "{edges} of the published edges of relation {relation}");
    }
    let splits = Split::ALL.map(|split| dataset.split_of(NodeType(0), split).len() as f64 / papers as f64);
    for (share, published) in splits.iter().zip(OGBN_MAG.splits) {
        assert!((share - published as f64 / OGBN_MAG.papers as f64).abs() < 0.01, "{splits:?}");
    }
    assert_eq!(dataset.classes_of(NodeType(0)), 349);
}

#[test]
fn reverses_are_exact_and_citations_have_both_directions() {
    // Opening with every check compares the edges of each relation with those of its reverse.
    let (_directory, dataset, _) = generated_types(&small(5000));
    let metagraph = dataset.metagraph();
    for (relation, reverse) in [(0, 0), (1, 4), (2, 5), (3, 6), (4, 1)] {
        assert_eq!(metagraph.reverse(Relation(relation)), Some(Relation(reverse)));
    }
    let cites = dataset.lists(Relation(0));
    let list = |node: usize| {
        let places = cites.indptr[node] as usize..cites.indptr[node + 1] as usize;
        places.map(|place| cites.indices.get(place) as usize).collect::<Vec<_>>()
    };
    assert!((0..5000).all(|node| list(node).iter().all(|&other| list(other).contains(&node))));
}

#[test]
fn degrees_follow_power_laws_at_both_ends() {
    let (_directory, dataset, _) = generated_types(&small(30_000));
    for relation in [1, 3, 4, 6] {
        let degrees = degrees(&dataset, relation);
        let mean = degrees.iter().sum::<i64>() as f64 / degrees.len() as f64;
        let (median, top) = (degrees[degrees.len() / 2] as f64, degrees[degrees.len() * 999 / 1000] as f64);
        assert!(median < 0.8 * mean && top > 5.0 * mean, "{relation}: {median}, {mean}, {top}");
    }
}

#[test]
fn bytes_depend_on_the_seed_alone() {
    // The splits divide all papers by time.
    assert_typed_bytes_depend_on_the_seed_alone(
        &small(3000),
        &["train_idx.npy", "valid_idx.npy", "test_idx.npy"],
    );
}

#[test]
fn the_citations_are_those_of_the_citation_generator() {
    let mag = small(2000);
    let (_directory, dataset, _) = generated_types(&mag);
    let all_labelled = Citation::all_labelled(mag.common);
    let (_other, alone) = crate::generate::testing::generated(&all_labelled);
    let cites = dataset.lists(Relation(0));
    for node in 0..2000 {
        let older = crate::generate::testing::list(&alone, node);
        let places = cites.indptr[node] as usize..cites.indptr[node + 1] as usize;
        let cited: Vec<i64> =
            places.map(|place| cites.indices.get(place)).filter(|&other| other < node as i64).collect();
        assert_eq!(cited, older);
    }
}

#[test]
fn igbh_tiny_has_the_types_and_edges_in_proportion() {
    let papers = 20_000;
    let recipe = with(Mag::of(&IGBH_TINY), |mag| (mag.common.nodes, mag.common.feature_dim) = (papers, 3));
    let (_directory, dataset, _) = generated_types(&recipe);
    let metagraph = dataset.metagraph();
    let types: Vec<(&str, usize)> = metagraph
        .types()
        .map(|node_type| (metagraph.type_name(node_type), dataset.nodes_of(node_type)))
        .collect();
    let expected = [
        ("paper", 20_000),
        ("author", 71_408),
        ("institute", 1748),
        ("fos", 16_844),
        ("journal", 1620),
        ("conference", 80),
    ];
    assert_eq!(types, expected);
    assert!(metagraph.types().all(|node_type| dataset.rows(node_type).is_some_and(|rows| rows.dim == 3)));
    let wanted = [
        ("paper__cites__paper", 2.0 * 447_416.0),
        ("paper__written_by__author", 471_443.0),
        ("paper__topic__fos", 718_445.0),
        ("author__affiliated_to__institute", 325_410.0),
        ("paper__published__journal", 60_000.0),
        ("paper__venue__conference", 12_000.0),
        ("author__rev_written_by__paper", 471_443.0),
        ("fos__rev_topic__paper", 718_445.0),
        ("institute__rev_affiliated_to__author", 325_410.0),
        ("journal__rev_published__paper", 60_000.0),
        ("conference__rev_venue__paper", 12_000.0),
    ];
    assert_eq!(metagraph.relation_count(), wanted.len());
    for (relation, (name, edges)) in metagraph.relations().zip(wanted) {
        assert_eq!(metagraph.full_name(relation), name);
        let found = dataset.edges_of(relation) as f64 / (edges / 5.0);
        assert!((0.85..1.02).contains(&found), "{found} of the edges of {name}");
    }
    assert!(degrees(&dataset, 9).last() <= Some(&1), "a paper is in one journal");
    let splits = Split::ALL.map(|split| dataset.split_of(NodeType(0), split).len() as f64 / papers as f64);
    assert!((splits[0] - 0.6).abs() < 0.02 && (splits[1] - 0.005).abs() < 0.003, "{splits:?}");
    assert_eq!((splits[2], dataset.classes_of(NodeType(0))), (0.0, 19));
    let meta = std::fs::read_to_string(dataset.path().join("meta.json")).unwrap();
    assert!(meta.contains("paper__published__journal for 60 % of the papers"), "{meta}");
}

#[test]
fn mag240m_has_few_labels_and_features_of_papers_only() {
    let recipe = with(Mag::of(&MAG240M), |mag| {
        (mag.common.nodes, mag.common.feature_dim, mag.common.classes) = (50_000, 2, 8);
    });
    let (_directory, dataset, _) = generated_types(&recipe);
    let metagraph = dataset.metagraph();
    let types: Vec<&str> = metagraph.types().map(|node_type| metagraph.type_name(node_type)).collect();
    assert_eq!(types, ["paper", "author", "institution"]);
    let featured: Vec<bool> = metagraph.types().map(|of| dataset.rows(of).is_some()).collect();
    assert_eq!((featured, metagraph.relation_count()), (vec![true, false, false], 5));
    let train = dataset.split_of(NodeType(0), Split::Train).len() as f64 / 50_000.0;
    assert!((train - 1_112_392.0 / 121_751_666.0).abs() < 0.003, "{train} of the papers train");
}

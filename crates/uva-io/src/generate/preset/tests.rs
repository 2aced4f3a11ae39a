use uva_graph::{NodeType, Relation, Split, TypedDataset, Verify};

use super::*;
use crate::generate::{estimate, write};

#[test]
fn every_preset_makes_a_graph_of_its_shape_at_a_small_scale() {
    for preset in &PRESETS {
        // About a million edges, and few features: otherwise those of igb alone would be 200 MB.
        let wanted = preset.edges as f64 / preset.nodes as f64;
        let nodes = (1e6 / wanted).clamp(8000.0, 60_000.0).round();
        let mut recipe = preset.recipe(nodes / preset.nodes as f64).unwrap();
        recipe.common_mut().feature_dim = 2;
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("graph");
        write(&out, &*recipe, &|_| ()).unwrap_or_else(|error| panic!("{}: {error}", preset.name));
        let dataset = TypedDataset::open_verified(&out, Verify::Full).unwrap();
        assert_eq!(dataset.nodes_of(NodeType::ONLY) as f64, nodes, "{}", preset.name);
        assert_eq!(dataset.classes_of(NodeType::ONLY) as u64, preset.classes, "{}", preset.name);
        assert_eq!(dataset.rows(NodeType::ONLY).unwrap().element, preset.feature_element, "{}", preset.name);
        // Small graphs do not have enough nodes for the longest lists: reddit's have 492 entries among 8000 nodes here.
        let both = dataset.metagraph().reverse(Relation::ONLY).is_some();
        let found = dataset.edges_of(Relation::ONLY) as f64 / nodes / if both { 2.0 } else { 1.0 };
        println!("{}: {found:.2} neighbours of {wanted:.2}", preset.name);
        assert!((0.75 * wanted..1.05 * wanted).contains(&found), "{}: {found} for {wanted}", preset.name);
        for (split, count) in Split::ALL.into_iter().zip(preset.splits) {
            let wanted = nodes * count as f64 / preset.nodes as f64;
            let found = dataset.split_of(NodeType::ONLY, split).len() as f64;
            assert!((found - wanted).abs() < 5.0 * wanted.sqrt() + 5.0, "{} {split}: {found}", preset.name);
        }
    }
}

#[test]
fn the_splits_fit_their_graph_and_names_differ() {
    for (place, preset) in PRESETS.iter().enumerate() {
        assert!(preset.splits.iter().sum::<u64>() <= preset.nodes, "{}", preset.name);
        assert_eq!(Preset::named(preset.name), Some(preset));
        assert!(
            PRESETS[..place].iter().all(|other| other.name != preset.name && other.nodes <= preset.nodes)
        );
    }
    assert_eq!(Preset::named("papers"), None);
    assert_eq!(Preset::named("uk"), Preset::named("uk-2006"));
}

#[test]
fn scale_one_is_the_published_size_and_a_scale_of_nothing_is_refused() {
    let papers = Preset::named("papers100m").unwrap();
    let estimate = estimate(&*papers.recipe(1.0).unwrap()).unwrap();
    assert_eq!(estimate.nodes, 111_059_956);
    assert!(estimate.edges.abs_diff(1_615_685_872) < 2, "{estimate:?}");
    // 56.9 GB of rows, 6.5 GB of lists, 1.8 GB of arrays with one entry per node.
    assert!((65_100_000_000..65_200_000_000).contains(&estimate.disk_bytes), "{estimate:?}");
    for scale in [0.0, -1.0, 1e-9, f64::NAN, f64::INFINITY] {
        let error = papers.recipe(scale).unwrap_err();
        assert!(error.is_bad_input() && error.to_string().starts_with("`scale`"), "{error}");
    }
}

#[test]
fn igbh_full_is_estimated_with_the_entries_and_lists_that_mlperf_trains() {
    let full = Preset::named("igbh-full").unwrap();
    let estimate = estimate(&*full.recipe(1.0).unwrap()).unwrap();
    let papers = full.nodes as f64;
    assert_eq!(estimate.nodes, 547_306_935 + 49_052 + 4547);
    // The sizes of two relations are not published.
    let guessed = 2.0 * (0.6 + 0.12) * papers;
    let entries = estimate.edges as f64 - guessed;
    assert!((entries / 11.624e9 - 1.0).abs() < 0.02, "{entries} entries");
    let features = (547_306_935 + 49_052 + 4547) as f64 * 4096.0;
    let lists = estimate.disk_bytes as f64 - features - 16.0 * papers - 4.0 * guessed;
    assert!((lists / (46.5e9 + 15.2e9) - 1.0).abs() < 0.02, "{lists} bytes of lists");
}

#[test]
fn an_estimate_is_what_the_files_come_to() {
    for preset in ["igb-tiny", "products", "uk-2006", "mag240m"] {
        let preset = Preset::named(preset).unwrap();
        let mut recipe = preset.recipe(20_000.0 / preset.nodes as f64).unwrap();
        recipe.common_mut().feature_dim = 2;
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("graph");
        write(&out, &*recipe, &|_| ()).unwrap();
        let found: u64 =
            std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        let said = estimate(&*recipe).unwrap().disk_bytes;
        // Repeated neighbours are omitted, and every file has a header.
        assert!(found as f64 > 0.85 * said as f64 && found < said + said / 50 + 2000, "{found} for {said}");
    }
}

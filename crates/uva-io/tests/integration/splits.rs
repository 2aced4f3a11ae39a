//! `--split`, of every importer.

use proptest::prelude::*;
use uva_graph::{Meta, Split};
use uva_io::import::SplitRule;

use super::*;

fn by(rule: &str) -> ImportOptions {
    ImportOptions {
        split: Some(SplitRule::from_text(rule).unwrap()),
        symmetrise: Some(true.into()),
        ..Default::default()
    }
}

fn splits(dataset: &Dataset) -> [Vec<i64>; 3] {
    Split::ALL.map(|split| dataset.split(split).to_vec())
}

#[test]
fn a_rule_takes_the_place_of_the_splits_of_every_source() {
    let imported =
        |source: &&sources::SeedSource| import::importer(source.importer).is_some() && !source.is_typed();
    for source in sources::SOURCES.iter().filter(imported) {
        let (place, name) = (Place::new(), format!("graph/{}", source.path));
        sources::pack(&place.path("graph"), source.files(), zip::CompressionMethod::Deflated);
        let options = ImportOptions { symmetrise: Some(true.into()), ..Default::default() };
        let own = splits(&place.import(source.importer, &name, &options).unwrap());
        let rule = by("random:0.5,0.25,0.25,3");
        let dataset = place.import(source.importer, &name, &rule).unwrap();
        let mut all = splits(&dataset).concat();
        all.sort_unstable();
        let labelled = |node: &i64| match dataset.labels() {
            Labels::Single(labels) => labels[*node as usize] >= 0,
            _ => true,
        };
        assert!(
            all.iter().copied().eq((0..dataset.nodes() as i64).filter(labelled)),
            "{}: {all:?}",
            source.name
        );
        let meta = Meta::read(dataset.path()).unwrap();
        assert_eq!(meta.other["split"], "random:0.5,0.25,0.25 seed 3", "{}", source.name);
        let notes = place.notes_of(source.importer, &name, &rule);
        let replaced =
            notes.iter().any(|note| note.contains("the source's splits") && note.contains("are replaced"));
        let has_own = own.iter().any(|split| !split.is_empty()) && source.importer != "gnn-npz";
        assert_eq!(replaced, has_own, "{}: {notes:?}", source.name);
        let counts = splits(&dataset).map(|split| split.len().to_string());
        let line = format!("{}, {} and {} nodes", counts[0], counts[1], counts[2]);
        assert!(notes.iter().any(|note| note.contains(&line)), "{}: {notes:?}", source.name);
        let none = place.import(source.importer, &name, &by("none")).unwrap();
        assert!(splits(&none).concat().is_empty(), "{}", source.name);
    }
}

#[test]
fn sources_need_no_files_of_splits_where_a_rule_makes_them() {
    let place = Place::new();
    place.npy("graph/edge_index.npy", NpyType::I64, &[3], &[0_i64, 1, 2, 1, 2, 0]);
    place.npy("graph/x.npy", NpyType::F32, &[1], &[1_f32, 2.0, 3.0]);
    place.npy("graph/y.npy", NpyType::F32, &[], &[0.5_f32, 1.5, 2.5]);
    assert!(place.refusal("npy", "graph", &ImportOptions::default()).contains("has no split"));
    let dataset = place.import("npy", "graph", &by("random:0.4,0.3,0.3")).unwrap();
    assert_eq!(splits(&dataset).concat().len(), 3);
    let message = place.refusal("npy", "graph", &by("per-class:1,1"));
    assert!(message.contains("`split`: per-class requires one class a node: use random"), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every rule that is read divides the nodes with a label, and no other, by its shares.
    #[test]
    fn shares_are_kept_and_no_node_is_in_two(
        shares in [1_u32..60, 1_u32..40, 1_u32..40],
        seed in any::<u64>(),
        nodes in 1_usize..400,
        gaps in 1_usize..5,
    ) {
        let total: u32 = shares.iter().sum();
        let [train, valid, test] = shares.map(|share| f64::from(share) / 100.0);
        let rule = SplitRule::from_text(&format!("random:{train},{valid},{test},{seed}"));
        prop_assert_eq!(rule.is_some(), total <= 100);
        let Some(rule) = rule else { return Ok(()) };
        let place = Place::new();
        let ids: String = (0..nodes).map(|node| match node % gaps {
            0 => format!("{node},1,{}\n", node % 3),
            _ => format!("{node},1,\n"),
        }).collect();
        place.write("graph/nodes.csv", format!("id,x,y\n{ids}"));
        place.write("graph/edges.csv", "src,dst\n");
        let options = ImportOptions { split: Some(rule), ..Default::default() };
        let dataset = place.import("csv", "graph", &options).unwrap();
        let found = splits(&dataset);
        let mut all = found.concat();
        all.sort_unstable();
        prop_assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(all.iter().all(|&node| (node as usize).is_multiple_of(gaps)));
        let labelled = nodes.div_ceil(gaps) as f64;
        for (split, share) in found.iter().zip([train, valid, test]) {
            prop_assert!((split.len() as f64 - labelled * share).abs() <= 1.0, "{} of {labelled}", split.len());
        }
        prop_assert_eq!(found, splits(&place.import("csv", "graph", &options).unwrap()));
    }
}

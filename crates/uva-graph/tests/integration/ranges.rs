//! Partitions in ranges: their files, the errors of opening and checking them, and refusals.

use std::fs;
use std::path::Path;

use crate::common::Small;
use crate::parts::{Draws, map_of, random};
use uva_graph::npy::{NpyArray, NpyType};
use uva_graph::part::{PartOptions, write_parts};
use uva_graph::ranges::{RangeParts, RangesSummary, verify_ranges, write_ranges};
use uva_graph::reorder::{NodeOrder, write_reordered};
use uva_graph::{Dataset, GraphError, PartitionMap, Verify};

/// A dataset, a map of it into `parts` parts, and its partition in ranges in `out`.
fn written(seed: u64, parts: usize) -> (Small, Dataset, PartitionMap, RangesSummary) {
    let small = random(seed, 60);
    // More than is sampled for a fingerprint.
    let features: Vec<f32> = (0..60 * 4000).map(|value| value as f32).collect();
    small.write("feat", NpyType::F32, &[4000], &features);
    let whole = small.open();
    let mut draws = Draws(seed + 7);
    // The last part has no node.
    let owners: Vec<u16> = (0..60).map(|_| draws.below(parts - 1) as u16).collect();
    let map = map_of(&whole, &owners, parts as u32);
    let said = write_ranges(&whole, &map, &small.directory.path().join("out"), &|_| ()).unwrap();
    (small, whole, map, said)
}

fn array(path: &Path) -> NpyArray {
    NpyArray::open(path).unwrap()
}

#[test]
fn all_parts_together_are_the_reordered_dataset_byte_for_byte() {
    for (seed, parts) in [(0, 2), (1, 4), (2, 6)] {
        let (small, whole, map, said) = written(seed, parts);
        let (out, there) = (small.directory.path().join("out"), small.directory.path().join("reordered"));
        // Part by part, and within a part in the order of original ids.
        let originals = whole.original_ids().unwrap();
        let mut first: Vec<i64> = (0..60).collect();
        first.sort_by_key(|node| {
            let id = originals[*node as usize];
            (map.of[id as usize], id)
        });
        let order = NodeOrder::from_first(60, &first).unwrap();
        write_reordered(&whole, &order, &there, &|_| ()).unwrap();
        for file in [
            "indptr",
            "indices",
            "weight",
            "edge_type",
            "label",
            "orig_id",
            "train_idx",
            "valid_idx",
            "test_idx",
        ] {
            let file = format!("{file}.npy");
            let [ours, theirs] = [&out.join("graph"), &there].map(|path| fs::read(path.join(&file)).unwrap());
            assert!(ours == theirs, "{file}");
        }
        for file in ["feat.npy", "edge_feat.npy"] {
            let wanted = array(&there.join(file));
            let mut all = Vec::new();
            for part in 0..parts {
                let own = array(&out.join(format!("part-{part}")).join(file));
                assert_eq!((own.kind(), &own.shape()[1..]), (wanted.kind(), &wanted.shape()[1..]));
                all.extend_from_slice(own.bytes());
            }
            assert!(all == wanted.bytes(), "{file}");
        }
        assert!(!out.join("graph/feat.npy").exists() && !out.join("graph/edge_feat.npy").exists());

        let reordered = Dataset::open(&there).unwrap();
        let opened = RangeParts::open(&out, &[0], Verify::Full).unwrap();
        assert_eq!(opened.written(), &said);
        assert_eq!(opened.book().boundaries(), said.boundaries);
        assert_eq!((opened.here().collect::<Vec<_>>(), opened.book().parts()), (vec![0], parts));
        let all: Vec<u32> = (0..parts as u32).collect();
        let everything = RangeParts::open(&out, &all, Verify::HeadersOnly).unwrap();
        let table = reordered.features();
        for node in 0..60 {
            let (owner, bytes) = (opened.owner(node), table.row_bytes());
            assert_eq!(usize::from(map.of[opened.graph().original_ids()[node as usize] as usize]), owner);
            let row = &table.bytes[node as usize * bytes..(node as usize + 1) * bytes];
            assert_eq!(everything.row(node), Some(row));
            assert_eq!(opened.row(node), (owner == 0).then_some(row));
        }
        let checked = verify_ranges(&out, Some(&whole)).unwrap();
        assert_eq!((checked.parts.len(), checked.absent.len(), checked.with_source), (parts, 0, true));

        // A reordered dataset is divided into the same files.
        let again = small.directory.path().join("again");
        let of_reordered = write_ranges(&reordered, &map, &again, &|_| ()).unwrap();
        assert_eq!(of_reordered, said);
        assert!(
            fs::read(again.join("part-0/feat.npy")).unwrap()
                == fs::read(out.join("part-0/feat.npy")).unwrap()
        );
    }
}

#[test]
fn a_mismatch_is_found_on_opening_and_a_changed_value_by_full_checks() {
    let (small, whole, ..) = written(3, 4);
    let out = small.directory.path().join("out");
    let description = out.join("partition.json");
    let wrong = |file: &str, change: &dyn Fn(&mut Vec<u8>), verify: bool| {
        let path = out.join(file);
        let before = fs::read(&path).unwrap();
        let mut bytes = before.clone();
        change(&mut bytes);
        assert!(bytes != before, "{file} is unchanged");
        fs::write(&path, bytes).unwrap();
        let opened = RangeParts::open(&out, &[0, 1, 2], Verify::Full).map(|_| ());
        let error = match verify {
            true => opened.and_then(|()| verify_ranges(&out, None).map(|_| ())).unwrap_err(),
            false => opened.unwrap_err(),
        };
        fs::write(&path, before).unwrap();
        assert!(error.is_bad_input(), "{error}");
        error.to_string()
    };
    let text = |from: &'static str, to: &'static str| {
        move |bytes: &mut Vec<u8>| {
            let text = String::from_utf8(std::mem::take(bytes)).unwrap();
            *bytes = text.replacen(from, to, 1).into_bytes();
        }
    };
    let message =
        wrong("partition.json", &text("\"boundaries\": [\n    0,", "\"boundaries\": [\n    1,"), false);
    assert!(message.contains("\"boundaries\" begins with 1"), "{message}");
    let message = wrong("partition.json", &text("\"layout\": \"ranges\"", "\"layout\": \"closure\""), false);
    assert!(message.contains("\"written\" has no \"nodes\" of part 0"), "{message}");
    // An edited description is not the one that the directories were written with.
    let message = wrong("partition.json", &text("\"seed\": 0", "\"seed\": 1"), false);
    assert!(message.contains("it is not the partition that"), "{message}");
    let message = wrong("graph/weight.npy", &|bytes| bytes[128] ^= 1, false);
    assert!(message.contains("\"fingerprint\" of graph is "), "{message}");
    let message = wrong("graph/edge_type.npy", &|bytes| bytes[128] ^= 1, false);
    assert!(message.contains("\"fingerprint\" of graph is "), "{message}");
    // The last word of a large table is not sampled for the fingerprint. It is a whole number, and stays finite.
    let words = array(&out.join("part-0/feat.npy")).bytes().len() / 8;
    let at = 128 + 8 * (1..words).find(|word| !word.is_multiple_of(words.div_ceil(1 << 14).max(1))).unwrap();
    let message = wrong("part-0/feat.npy", &|bytes| bytes[at] ^= 1, true);
    assert!(message.contains("\"hash\" of part-0 is "), "{message}");
    let not_a_number = |bytes: &mut Vec<u8>| bytes[at..at + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let message = wrong("part-0/feat.npy", &not_a_number, true);
    assert!(message.contains("part-0/feat.npy: row 0, column"), "{message}");

    let swapped = small.directory.path().join("swapped");
    let rename = |from: &str, to: &str| fs::rename(out.join(from), out.join(to)).unwrap();
    rename("part-0", "away");
    rename("part-1", "part-0");
    rename("away", "part-1");
    let message = RangeParts::open(&out, &[0], Verify::Stamp).unwrap_err().to_string();
    assert!(message.contains("\"part\" of part-0 is part 0, but its files have part 1"), "{message}");
    rename("part-1", "away");
    rename("part-0", "part-1");
    fs::rename(out.join("away"), &swapped).unwrap();

    // A rank has the graph and its own part.
    let checked = verify_ranges(&out, Some(&whole)).unwrap();
    assert_eq!((checked.parts, checked.absent), (vec![1, 2, 3], vec![0]));
    RangeParts::open(&out, &[2], Verify::Stamp).unwrap();
    for (part, message) in [(0, "part-0"), (4, "has the parts 0 to 3"), (u32::MAX, "has the parts 0 to 3")] {
        let error = RangeParts::open(&out, &[part], Verify::Stamp).unwrap_err();
        assert!(error.is_bad_input() && error.to_string().contains(message), "{error}");
    }
    // With another dataset of the same shape.
    small.write("label", NpyType::I64, &[], &(0..60).map(|node| node % 3).collect::<Vec<i64>>());
    let message = verify_ranges(&out, Some(&small.open())).unwrap_err().to_string();
    assert!(message.contains("partition.json: the map is of the dataset "), "{message}");
    assert!(description.is_file());
}

#[test]
fn directories_of_ranges_are_not_datasets_nor_partitions_ranges() {
    let (small, whole, map, _) = written(5, 3);
    let out = small.directory.path().join("out");
    for directory in ["graph", "part-0"] {
        let error = Dataset::open(&out.join(directory)).unwrap_err();
        assert!(
            error.is_bad_input() && error.to_string().contains("belongs to a partition in ranges"),
            "{error}"
        );
    }
    let closures = small.directory.path().join("closures");
    let owners: Vec<u16> = (0..60).map(|node| node % 2).collect();
    let two = map_of(&whole, &owners, 2);
    write_parts(&whole, &PartOptions { map: &two, hops: 1, split_eval: false }, &closures, &|_| ()).unwrap();
    let error = RangeParts::open(&closures, &[0], Verify::Stamp).unwrap_err();
    assert!(error.to_string().contains("its layout is closure"), "{error}");
    let refused = |dataset: &Dataset, map: &PartitionMap| -> GraphError {
        write_ranges(dataset, map, &small.directory.path().join("no"), &|_| ()).unwrap_err()
    };
    let part = Dataset::open(&closures.join("part-0")).unwrap();
    assert!(refused(&part, &map).to_string().contains("is a part itself"));
    let shorter = PartitionMap { of: map.of[1..].to_vec(), ..map.clone() };
    assert!(refused(&whole, &shorter).to_string().contains("59 entries"));
    assert!(write_ranges(&whole, &map, &out, &|_| ()).unwrap_err().to_string().contains("exists already"));
    assert!(!small.directory.path().join("no").exists());

    // Cut again by the map of the other layout, the result does not mention the first layout.
    let map = PartitionMap::open(&closures, &whole).unwrap();
    write_ranges(&whole, &map, &small.directory.path().join("moved"), &|_| ()).unwrap();
    let map = PartitionMap::open(&small.directory.path().join("moved"), &whole).unwrap();
    let summary = map.summary.unwrap();
    assert_eq!((summary.layout(), summary.other.get("split_eval")), (Some("ranges"), None));
}

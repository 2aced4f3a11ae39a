//! Plans as files: they are read back as written, and refused if damaged.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use uva_graph::npy::{NpyType, write_array};
use uva_plan::{CacheError, CachePlan, PlanRequest, Workload, plan};

use crate::common::{Stored, options, stored};

/// A plan in files, and the dataset it is for.
struct Written {
    stored: Stored,
    plan: CachePlan,
    path: PathBuf,
}

fn written() -> Written {
    let stored = stored(2000, 10.0, 8, 0.4, 1);
    let workload = Workload::of(&stored.dataset, options(&[5, 3]), 200);
    let plan = plan(&PlanRequest::new(&stored.dataset, workload, 60_000), None).unwrap();
    assert!(!plan.list_ids.is_empty() && !plan.row_ids.is_empty());
    let path = stored.directory.path().join("plan.json");
    plan.write(&path).unwrap();
    Written { stored, plan, path }
}

impl Written {
    /// Changes the JSON.
    fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut value: Value = serde_json::from_slice(&fs::read(&self.path).unwrap()).unwrap();
        change(&mut value);
        fs::write(&self.path, value.to_string()).unwrap();
    }

    /// Replaces the ids of the row cache with their number and checksum, as another user of this program could.
    fn forge_rows(&self, ids: &[i64]) {
        let forged = CachePlan { row_ids: ids.to_vec(), ..self.plan.clone() };
        forged.write(&self.path).unwrap();
        self.change(|plan| plan["rows"]["count"] = json!(ids.len()));
    }

    fn refusal(&self) -> String {
        let error = CachePlan::read(&self.path).unwrap_err();
        assert!(error.is_bad_input(), "{error}");
        error.to_string()
    }
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "graph")
        .collect();
    names.sort();
    names
}

#[test]
fn a_plan_is_read_back_as_it_was_written_and_can_be_written_over() {
    let written = written();
    let mut read = CachePlan::read(&written.path).unwrap();
    assert!(read.lists.ids.is_some() && read.rows.ids.is_some());
    (read.lists.ids, read.rows.ids) = (None, None);
    assert_eq!(read, written.plan);
    let files = ["plan.json", "plan.lists.npy", "plan.rows.npy"];
    assert_eq!(names(written.stored.directory.path()), files);
    let smaller = CachePlan { row_ids: vec![3], ..read };
    smaller.write(&written.path).unwrap();
    written.change(|plan| plan["rows"]["count"] = json!(1));
    assert_eq!(CachePlan::read(&written.path).unwrap().row_ids, [3]);
    assert_eq!(names(written.stored.directory.path()), files, "nothing is left over");
}

#[test]
fn a_plan_for_other_options_is_warned_of_and_for_another_seed_is_not() {
    let written = written();
    let check = |change: fn(&mut uva_sample::SamplerOptions), batch_size| {
        let mut options = options(&[5, 3]);
        change(&mut options);
        let warnings = written.plan.check(&written.stored.dataset, &options, batch_size, None).unwrap();
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(check(|_| {}, 200), [""; 0]);
    assert_eq!(check(|options| options.seed = 5, 200), [""; 0]);
    let warnings = check(|options| options.fanouts = [-1, 3].into(), 200);
    assert!(warnings[0].contains("`fanouts=5,3`, but this run has -1,3"), "{warnings:?}");
    let warnings = check(|options| (options.replace, options.batch_dependency) = (true, 4), 100);
    assert_eq!(warnings.len(), 3);
    for (warning, says) in warnings.iter().zip([
        "`batch_size=200`, but this run has 100",
        "`replace=false`",
        "`batch_dependency=1`",
    ]) {
        assert!(warning.contains(says), "{warning}");
    }
    let warnings = check(|options| options.kind = uva_sample::SamplerKind::LABOR, 200);
    assert!(warnings[0].contains("`sampler_kind=neighbor`, but this run has labor"), "{warnings:?}");
    let mut without_kind = serde_json::to_value(&written.plan).unwrap();
    without_kind["options"].as_object_mut().unwrap().remove("sampler_kind").unwrap();
    let refused = serde_json::from_value::<CachePlan>(without_kind).unwrap_err().to_string();
    assert!(refused.contains("missing field `sampler_kind`"), "{refused}");
}

#[test]
fn a_plan_for_another_dataset_is_refused_with_both_fingerprints() {
    let written = written();
    let other = stored(2000, 10.0, 8, 0.4, 2);
    let refused = written.plan.check(&other.dataset, &options(&[5, 3]), 200, None).unwrap_err();
    assert!(matches!(refused, CacheError::OtherDataset { .. }) && refused.is_bad_input());
    let text = refused.to_string();
    for fingerprint in [written.stored.dataset.fingerprint(), other.dataset.fingerprint()] {
        assert!(text.contains(&fingerprint), "{text}");
    }
}

#[test]
fn a_plan_whose_sizes_are_not_those_of_its_nodes_is_refused() {
    let written = written();
    let check = |change: fn(&mut CachePlan)| {
        let mut plan = written.plan.clone();
        change(&mut plan);
        plan.check(&written.stored.dataset, &options(&[5, 3]), 200, None).unwrap_err().to_string()
    };
    type Change = fn(&mut CachePlan);
    let cases: [(Change, &str); 10] = [
        (|plan| plan.lists.bytes += 1, "bytes of lists"),
        (|plan| plan.rows.bytes = u64::MAX, "bytes of lists"),
        (|plan| plan.row_ids.push(7), "bytes of lists"),
        (|plan| plan.row_ids[0] = 2000, "outside of the dataset's 2000"),
        (|plan| plan.list_ids[0] = -1, "outside of the dataset's 2000"),
        (|plan| plan.budget_bytes = plan.bytes() - 1, "exceed its budget"),
        (|plan| plan.rows.map_bytes = u64::MAX, "a map of"),
        (|plan| plan.lists.hit_rate = 5.0, "a hit rate of 5"),
        (|plan| plan.policy = "fifo".parse().unwrap(), "ids to cache"),
        (|plan| plan.dataset.index_bytes = u64::MAX, "neighbour ids of"),
    ];
    for (change, says) in cases {
        let refusal = check(change);
        assert!(refusal.contains(says), "{refusal}");
    }
    assert!(check(|plan| plan.dataset.nodes = 5).contains("2000"));
    assert!(check(|plan| plan.dataset.row_bytes = 5).contains("rows of 5 bytes"));
}

#[test]
fn ids_out_of_range_repeated_or_changed_are_refused_by_name_and_place() {
    let written = written();
    for (ids, says) in [
        (&[4, 2000, 5][..], "the id at 1 is 2000"),
        (&[-1], "the id at 0 is -1"),
        (&[i64::MIN, 3], "the id at 0"),
        (&[9, 3, 9], "node 9 is in it twice"),
    ] {
        written.forge_rows(ids);
        let refusal = written.refusal();
        assert!(refusal.contains("plan.rows.npy") && refusal.contains(says), "{refusal}");
    }
    written.forge_rows(&[4, 5, 6]);
    assert_eq!(CachePlan::read(&written.path).unwrap().row_ids, [4, 5, 6]);
    let file = written.path.with_file_name("plan.rows.npy");
    for ids in [&[4_i64, 6, 5][..], &[4, 5, 7]] {
        fs::remove_file(&file).unwrap();
        write_array(&file, NpyType::I64, &[], ids).unwrap();
        assert!(written.refusal().contains("checksum"));
    }
    fs::remove_file(&file).unwrap();
    write_array(&file, NpyType::I64, &[], &[4_i64, 5]).unwrap();
    assert!(written.refusal().contains("but the plan has 3 rows"));
    fs::remove_file(&file).unwrap();
    write_array(&file, NpyType::I64, &[3], &[4_i64, 5, 6]).unwrap();
    assert!(written.refusal().contains("shape [1, 3]"));
    fs::remove_file(&file).unwrap();
    write_array(&file, NpyType::I32, &[], &[4_i32, 5, 6]).unwrap();
    assert!(written.refusal().contains("int64"));
    fs::write(&file, b"\x93NUMPY\x01\x00").unwrap();
    assert!(written.refusal().contains("plan.rows.npy"));
    fs::remove_file(&file).unwrap();
    assert!(written.refusal().contains("plan.rows.npy"));
}

#[test]
fn a_file_of_ids_is_searched_for_only_in_the_folder_of_the_plan() {
    let written = written();
    for file in ["../plan.rows.npy", "/etc/passwd", "a/plan.rows.npy", "..", ".", "", "plan.rows.npy/"] {
        written.change(|plan| plan["rows"]["ids"]["file"] = json!(file));
        let refusal = written.refusal();
        assert!(refusal.contains("not a file name"), "{file}: {refusal}");
    }
    written.change(|plan| plan["rows"]["ids"] = Value::Null);
    assert!(written.refusal().contains("no file with their ids"));
}

#[test]
fn other_versions_and_other_files_are_refused() {
    let written = written();
    written.change(|plan| plan["version"] = json!(2));
    assert!(written.refusal().contains("version 2, but this program reads 1"));
    for text in
        ["", "{", "[]", "3", "{}", "null", r#"{"version":"1"}"#, r#"{"version":1}"#, r#"{"version":1e99}"#]
    {
        fs::write(&written.path, text).unwrap();
        assert!(written.refusal().contains("plan.json"), "{text}");
    }
    fs::write(&written.path, "[".repeat(100_000)).unwrap();
    assert!(written.refusal().contains("plan.json"));
    let missing = CachePlan::read(&written.path.with_file_name("none.json")).unwrap_err();
    assert!(matches!(missing, CacheError::Io { action: "read", .. }) && missing.is_bad_input());
    let endless = CachePlan::read(Path::new("/dev/zero")).unwrap_err();
    assert!(endless.is_bad_input() && endless.to_string().contains("/dev/zero"), "{endless}");
}

#[test]
fn a_plan_that_cannot_be_written_leaves_no_file() {
    let written = written();
    let missing = written.stored.directory.path().join("nowhere").join("plan.json");
    assert!(written.plan.write(&missing).is_err());
    assert!(written.plan.write(Path::new("/")).is_err());
    // A directory at the plan's path: its ids are written already, and no partial file remains.
    let taken = written.stored.directory.path().join("taken.json");
    fs::create_dir(&taken).unwrap();
    assert!(written.plan.write(&taken).is_err());
    assert!(names(written.stored.directory.path()).iter().all(|name| !name.contains("partial")));
}

#[test]
fn whatever_byte_is_changed_nothing_worse_than_an_error_happens() {
    let written = written();
    let original = fs::read(&written.path).unwrap();
    let mut runner = proptest::test_runner::TestRunner::default();
    let changes = (proptest::collection::vec((0..original.len(), any::<u8>()), 1..4), 0..original.len());
    runner
        .run(&changes, |(changes, cut)| {
            let mut bytes = original.clone();
            for (at, byte) in changes {
                bytes[at] = byte;
            }
            fs::write(&written.path, &bytes).unwrap();
            if let Ok(plan) = CachePlan::read(&written.path) {
                let _ = plan.check(&written.stored.dataset, &options(&[5, 3]), 200, None);
            }
            fs::write(&written.path, &bytes[..cut]).unwrap();
            prop_assert!(CachePlan::read(&written.path).is_err());
            Ok(())
        })
        .unwrap();
}

//! The bytes of a result do not depend on threads, memory and interruptions.

use std::path::Path;

use uva_graph::npy::NpyType;
use uva_graph::{Dataset, GraphError};
use uva_propagate::{
    Estimate, HopSet, HopType, KeptNodes, Layout, Operator, PropagateOptions, PropagateOutcome,
    PropagateProgress, PropagateWatch, RowOrder, folder_of, propagate,
};

use crate::support::{Counted, arrays, graph, made, make, options};

const OPERATORS: &str = "sym,col,ppr:0.1,3,heat:2,2";

fn asked() -> PropagateOptions {
    PropagateOptions {
        nodes: KeptNodes::Splits,
        row_order: RowOrder::Shuffled,
        element: HopType::F16,
        weighted: true,
        ..options(OPERATORS, 2)
    }
}

/// The memory that this many columns use, in each of three tables.
fn memory_of(dataset: &Dataset, options: &PropagateOptions, columns: u64) -> u64 {
    // 16 columns are the minimum.
    least_memory(dataset, options) + (columns - 16) * dataset.nodes() as u64 * 4 * 3
}

/// The memory that 16 columns use.
fn least_memory(dataset: &Dataset, options: &PropagateOptions) -> u64 {
    let tight = PropagateOptions { memory: 1, ..options.clone() };
    let error =
        propagate(dataset, Path::new("/nowhere/set"), &tight, false, &mut Counted::default()).unwrap_err();
    let message = error.to_string();
    let least: u64 = message.rsplit('(').next().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(matches!(error, GraphError::Lacking { .. }), "{message}");
    least
}

#[test]
fn a_hop_of_one_sum_takes_one_table_with_the_bytes_of_the_first_of_many() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let dataset = Dataset::open(&path).unwrap();
    let ppr = |steps| Operator::Ppr { alpha: 0.5, steps };
    for (operator, tables) in [
        (Operator::Sym, [1, 2]),
        (Operator::Col, [1, 2]),
        (ppr(1), [1, 3]),
        (ppr(2), [3, 3]),
        (Operator::Heat { time: 1.0, steps: 1 }, [3, 3]),
    ] {
        let mut made = Vec::new();
        for (hops, tables) in [1, 2].into_iter().zip(tables) {
            let wanted = PropagateOptions { hops, operators: vec![operator], ..asked() };
            let least = least_memory(&dataset, &wanted);
            let table = dataset.nodes() as u64 * 4 * 16;
            let beside =
                least_memory(&dataset, &PropagateOptions { operators: vec![ppr(2)], ..wanted.clone() })
                    - 3 * table;
            assert_eq!(least - beside, tables * table, "{operator}, {hops} hops");
            let out = temp.path().join(format!("{}-{hops}", operator.file_stem()));
            make(&path, &out, &PropagateOptions { memory: least, ..wanted });
            made.push(arrays(&out));
        }
        let [one, two] = &made[..] else { unreachable!() };
        let of_first = |hops: &[(String, Vec<u8>)]| {
            let first = hops.iter().find(|(name, _)| name.ends_with(".1.npy"));
            first
                .unwrap_or_else(|| panic!("{:?}", hops.iter().map(|(name, _)| name).collect::<Vec<_>>()))
                .1
                .clone()
        };
        assert_eq!(of_first(one), of_first(two), "{operator}");
    }
}

#[test]
fn threads_and_memory_change_no_byte() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let dataset = Dataset::open(&path).unwrap();
    for layout in Layout::ALL {
        let mut expected = None;
        for threads in [1, 2, 3] {
            let options = PropagateOptions { threads, layout, ..asked() };
            for (columns, panels) in [(16, 3), (32, 2), (39, 2), (40, 1), (1000, 1)] {
                let options =
                    PropagateOptions { memory: memory_of(&dataset, &options, columns), ..options.clone() };
                let out = temp.path().join(format!("{layout}-{threads}-{columns}"));
                let mut watch = Counted::default();
                let made = made(propagate(&dataset, &out, &options, false, &mut watch).unwrap());
                assert_eq!((made.estimate.panels, watch.panels), (panels, panels), "{columns} columns");
                assert!(made.estimate.memory_bytes <= options.memory.max(64 << 20));
                assert_eq!(made.set.bytes(), made.estimate.set_bytes, "the size differs from the estimate");
                let (done, total) = watch.last.unwrap();
                assert_eq!(done, total, "progress ends at its end");
                let found = arrays(&out);
                assert_eq!(
                    *expected.get_or_insert_with(|| found.clone()),
                    found,
                    "{threads} threads, {columns}"
                );
                assert!(!folder_of(&out).exists());
            }
        }
    }
}

#[test]
fn a_stopped_run_resumes_to_equal_bytes_with_other_memory_and_threads() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let dataset = Dataset::open(&path).unwrap();
    for layout in Layout::ALL {
        let wanted = PropagateOptions { layout, ..asked() };
        let whole = temp.path().join(format!("{layout}-whole"));
        make(&path, &whole, &wanted);
        let expected = arrays(&whole);
        let out = temp.path().join(format!("{layout}-stopped"));
        let (mut stops, mut ended) = (0, false);
        while !ended {
            let columns = [16, 16, 32][stops % 3];
            let options = PropagateOptions { threads: 1 + stops % 3, ..wanted.clone() };
            let options = PropagateOptions { memory: memory_of(&dataset, &options, columns), ..options };
            // Just far enough that a panel of any operator is finished each time.
            let mut watch = Counted { stop_at: Some(8), ..Counted::default() };
            match propagate(&dataset, &out, &options, stops > 0, &mut watch).unwrap() {
                PropagateOutcome::Made(made) => {
                    assert!(made.resumed > 0);
                    ended = true;
                }
                PropagateOutcome::Stopped => {
                    assert!(!out.exists() && folder_of(&out).is_dir());
                    stops += 1;
                    assert!(stops < 60, "it comes nowhere");
                }
            }
        }
        assert!(stops >= 4, "{stops}");
        assert_eq!(arrays(&out), expected, "{layout}");
        assert!(!folder_of(&out).exists());
        // A complete set does not change, and leftovers of a run that was killed during cleanup are removed.
        std::fs::create_dir(folder_of(&out)).unwrap();
        std::fs::write(folder_of(&out).join("lock"), "").unwrap();
        let again = made(propagate(&dataset, &out, &wanted, true, &mut Counted::default()).unwrap());
        assert!(again.was_there && !folder_of(&out).exists());
        assert_eq!(arrays(&out), expected);
    }
}

/// Changes the folder before anything is computed.
struct Meddling<'m>(&'m dyn Fn());

impl PropagateWatch for Meddling<'_> {
    fn begins(&mut self, _: &Estimate, _: u64) {
        self.0();
    }

    fn progress(&mut self, _: PropagateProgress<'_>) {}

    fn stops(&mut self) -> bool {
        false
    }
}

#[test]
fn a_folder_that_lost_its_lock_does_not_become_the_hop_set() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let dataset = Dataset::open(&path).unwrap();
    let out = temp.path().join("set");
    let lock = folder_of(&out).join("lock");
    // As if the folder were removed and created again by another process, which then holds the lock.
    let made_anew = || {
        std::fs::remove_file(&lock).unwrap();
        std::fs::write(&lock, "").unwrap();
    };
    let error = propagate(&dataset, &out, &asked(), false, &mut Meddling(&made_anew)).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, GraphError::Io { .. }) && !error.is_bad_input(), "{message}");
    assert!(message.contains("set.propagating") && message.contains("removed or replaced"), "{message}");
    assert!(!out.exists() && lock.is_file());
}

#[test]
fn a_complete_hop_set_leaves_other_processes_folders_and_needs_no_memory() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let dataset = Dataset::open(&path).unwrap();
    let out = temp.path().join("set");
    make(&path, &out, &asked());
    let lock = folder_of(&out).join("lock");
    std::fs::create_dir(folder_of(&out)).unwrap();
    let held = std::fs::File::create(&lock).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let tight = PropagateOptions { memory: 1, ..asked() };
    let again = || made(propagate(&dataset, &out, &tight, true, &mut Counted::default()).unwrap());
    assert!(again().was_there && lock.is_file());
    drop(held);
    assert!(again().was_there && !folder_of(&out).exists());
}

#[test]
fn an_interrupted_panel_is_not_reported_as_finished() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let dataset = Dataset::open(&path).unwrap();
    let out = temp.path().join("set");
    let options = options("sym,row", 3);
    let options = PropagateOptions { memory: memory_of(&dataset, &options, 16), ..options };
    let parts = || -> Vec<serde_json::Value> {
        let Ok(text) = std::fs::read(folder_of(&out).join("journal.json")) else { return Vec::new() };
        let journal: serde_json::Value = serde_json::from_slice(&text).unwrap();
        journal["parts"].as_array().unwrap().clone()
    };
    // Until the first operator has a complete panel and an incomplete one.
    let mut stop_at = 1;
    let (lost, kept) = loop {
        let mut watch = Counted { stop_at: Some(stop_at), ..Counted::default() };
        assert!(matches!(
            propagate(&dataset, &out, &options, false, &mut watch).unwrap(),
            PropagateOutcome::Stopped
        ));
        let (lost, kept): (Vec<_>, Vec<_>) =
            parts().into_iter().partition(|part| part["operator"] == 0 && part["columns"]["start"] == 16);
        if kept.len() == 4 && lost.len() == 1 {
            break (lost, kept);
        }
        std::fs::remove_dir_all(folder_of(&out)).unwrap();
        stop_at += 1;
    };
    let journal: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder_of(&out).join("journal.json")).unwrap()).unwrap();
    let files = journal["files"].as_array().unwrap();
    let survive: u64 = kept.iter().chain(files).map(|entry| entry["bytes"].as_u64().unwrap()).sum();
    assert!(lost[0]["bytes"].as_u64().unwrap() > 0);
    let mut watch = Counted::default();
    let made = made(propagate(&dataset, &out, &options, true, &mut watch).unwrap());
    assert_eq!((made.resumed, watch.finished), (survive, survive));
}

#[test]
fn a_run_stops_while_it_turns_edges_round() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let dataset = Dataset::open(&path).unwrap();
    let out = temp.path().join("set");
    let options = options("col", 1);
    // The first two checks are after the features and before the first edge.
    for (stop_at, resume) in [(1, false), (1, true)] {
        let mut watch = Counted { stop_at: Some(stop_at), ..Counted::default() };
        let ended = propagate(&dataset, &out, &options, resume, &mut watch).unwrap();
        assert!(matches!(ended, PropagateOutcome::Stopped));
        assert!(!folder_of(&out).join("transposed").exists());
        assert!(folder_of(&out).join("transposed.partial").exists());
    }
    made(propagate(&dataset, &out, &options, true, &mut Counted::default()).unwrap());
    HopSet::open(&out).unwrap().verify(&out).unwrap();
}

#[test]
fn a_link_instead_of_a_part_is_refused_and_the_journal_is_kept() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let dataset = Dataset::open(&path).unwrap();
    let out = temp.path().join("set");
    let mut watch = Counted { stop_at: Some(3), ..Counted::default() };
    assert!(matches!(
        propagate(&dataset, &out, &asked(), false, &mut watch).unwrap(),
        PropagateOutcome::Stopped
    ));
    let features = folder_of(&out).join("parts/x.0.0-40.npy");
    let aside = temp.path().join("aside");
    std::fs::rename(&features, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &features).unwrap();
    let error = propagate(&dataset, &out, &asked(), true, &mut Counted::default()).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("x.0.0-40.npy"), "{error}");
    std::fs::rename(&aside, &features).unwrap();
    let mut watch = Counted::default();
    made(propagate(&dataset, &out, &asked(), true, &mut watch).unwrap());
    assert!(watch.finished >= 253 * 80, "the features are finished still: {}", watch.finished);
}

#[test]
fn a_part_of_another_shape_is_computed_again_with_the_same_values() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let dataset = Dataset::open(&path).unwrap();
    let (whole, out) = (temp.path().join("whole"), temp.path().join("set"));
    make(&path, &whole, &asked());
    let mut watch = Counted { stop_at: Some(3), ..Counted::default() };
    assert!(matches!(
        propagate(&dataset, &out, &asked(), false, &mut watch).unwrap(),
        PropagateOutcome::Stopped
    ));
    let features = folder_of(&out).join("parts/x.0.0-40.npy");
    let mut bytes = std::fs::read(&features).unwrap();
    let at = bytes.windows(9).position(|text| text == b"(253, 40)").unwrap();
    bytes[at..at + 9].copy_from_slice(b"(506, 20)");
    std::fs::write(&features, bytes).unwrap();
    made(propagate(&dataset, &out, &asked(), true, &mut Counted::default()).unwrap());
    assert_eq!(arrays(&out), arrays(&whole));
}

#[test]
fn a_part_that_has_changed_meanwhile_is_computed_again() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let dataset = Dataset::open(&path).unwrap();
    let (whole, out) = (temp.path().join("whole"), temp.path().join("set"));
    let options = asked();
    make(&path, &whole, &options);
    let narrow = PropagateOptions { memory: memory_of(&dataset, &options, 16), ..options.clone() };
    let mut watch = Counted { stop_at: Some(11), ..Counted::default() };
    assert!(matches!(
        propagate(&dataset, &out, &narrow, false, &mut watch).unwrap(),
        PropagateOutcome::Stopped
    ));
    let parts = folder_of(&out).join("parts");
    let mut changed = 0;
    for entry in std::fs::read_dir(&parts).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        // The stopped run may not have any file yet.
        let Some(last) = bytes.last_mut() else { continue };
        *last ^= 1;
        std::fs::write(&path, bytes).unwrap();
        changed += 1;
    }
    assert!(changed >= 3, "{changed}");
    // A part during which the run was killed, before it was in the journal.
    std::fs::write(parts.join("0.1.38-40.npy"), b"x").unwrap();
    let unknown = parts.join("unknown.npy");
    std::fs::write(&unknown, b"x").unwrap();
    let error = propagate(&dataset, &out, &options, true, &mut Counted::default()).unwrap_err();
    assert!(error.is_bad_input() && error.to_string().contains("unknown.npy"), "{error}");
    std::fs::remove_file(unknown).unwrap();
    let made = made(propagate(&dataset, &out, &options, true, &mut Counted::default()).unwrap());
    // Node ids and labels are complete.
    assert!(made.resumed < 10_000, "{}", made.resumed);
    assert_eq!(arrays(&out), arrays(&whole));
}

#[test]
fn work_begun_with_other_options_is_not_continued_and_the_option_named() {
    let temp = tempfile::tempdir().unwrap();
    let path = graph(temp.path(), NpyType::F32);
    let dataset = Dataset::open(&path).unwrap();
    let out = temp.path().join("set");
    let begun = asked();
    let mut watch = Counted { stop_at: Some(3), ..Counted::default() };
    assert!(matches!(
        propagate(&dataset, &out, &begun, false, &mut watch).unwrap(),
        PropagateOutcome::Stopped
    ));
    let error = propagate(&dataset, &out, &begun, false, &mut Counted::default()).unwrap_err();
    let message = error.to_string();
    assert!(error.is_bad_input() && message.contains("`resume`") && message.contains("rm -r"), "{message}");
    let check = |option: &str, dataset: &Dataset, other: PropagateOptions, place: &str| {
        let error = propagate(dataset, &out, &other, true, &mut Counted::default()).unwrap_err();
        let message = error.to_string();
        assert!(error.is_bad_input() && message.starts_with(&format!("{option}: ")), "{message}");
        assert!(message.contains(place), "{message}");
    };
    let mut place = "set.propagating";
    for _ in 0..2 {
        check(
            "`operator`",
            &dataset,
            PropagateOptions { operators: options("sym", 1).operators, ..begun.clone() },
            place,
        );
        check("`hops`", &dataset, PropagateOptions { hops: 3, ..begun.clone() }, place);
        check("`nodes`", &dataset, PropagateOptions { nodes: KeptNodes::All, ..begun.clone() }, place);
        check("`type`", &dataset, PropagateOptions { element: HopType::Bf16, ..begun.clone() }, place);
        check("`layout`", &dataset, PropagateOptions { layout: Layout::Rows, ..begun.clone() }, place);
        check(
            "`row_order`",
            &dataset,
            PropagateOptions { row_order: RowOrder::File, ..begun.clone() },
            place,
        );
        check("`seed`", &dataset, PropagateOptions { seed: 1, ..begun.clone() }, place);
        check("`weighted`", &dataset, PropagateOptions { weighted: false, ..begun.clone() }, place);
        let norm = uva_model::FeatureNorm::Row;
        check("`feature_norm`", &dataset, PropagateOptions { feature_norm: norm, ..begun.clone() }, place);
        let other = tempfile::tempdir().unwrap();
        let other = Dataset::open(&graph(other.path(), NpyType::F16)).unwrap();
        check("DATA", &other, begun.clone(), place);
        // The same for a complete set.
        made(propagate(&dataset, &out, &begun, true, &mut Counted::default()).unwrap());
        place = "/set:";
    }
}

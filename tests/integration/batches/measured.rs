//! Choices of `auto` options on a GPU, under the stand-in for NVIDIA's driver. Its clock means nothing, so the tests
//! write their own figures into the GPU's file.

use std::path::{Path, PathBuf};

use crate::support::command::{self, recorded, run};
use crate::support::runs::{Metrics, small_graph};
use crate::support::typed::write_mag;
use crate::support::{Outcome, directory, uvatrain};
use serde_json::{Value, json};
use uva_graph::npy::{NpyType, write_array};

/// Four float32 for each paper, and seven bytes for each of a few institutions.
fn two_tables(directory: &Path) {
    write_mag(directory);
    let meta = std::fs::read(directory.join("graph/meta.json")).unwrap();
    let meta: Value = serde_json::from_slice(&meta).unwrap();
    let mut nodes = meta["nodes"].as_array().unwrap().iter();
    let institutions = nodes.find(|of| of["type"] == "institution").unwrap()["num"].as_u64().unwrap();
    let rows = vec![3_u8; institutions as usize * 7];
    write_array(&directory.join("graph/nodes/institution/feat.npy"), NpyType::U8, &[7], &rows).unwrap();
}

const STEPS: &str = "attach; pass train 0; close";

/// A run of that graph on the GPU, with its own cache folder.
fn on_gpu(directory: &Path, options: &str) -> Outcome {
    let _ = std::fs::remove_file(directory.join(command::RECORD));
    let options = format!("--samplers 2 --device cuda:0 --metrics run.jsonl {options}");
    let run = command::run_with(directory, &options, None, STEPS).simulated();
    run.env("XDG_CACHE_HOME", directory.join("cache")).env("UVATRAIN_CACHE", "").run()
}

fn in_force(directory: &Path) -> Value {
    let metrics = Metrics::read(&directory.join("run.jsonl"));
    metrics.of("start").next().expect("a start")["in_force"].clone()
}

fn file_of(directory: &Path) -> PathBuf {
    let folder = std::fs::read_dir(directory.join("cache/uvatrain/measured"));
    let mut files = folder.expect("a folder of measurements").map(|file| file.unwrap().path());
    let file = files.next().expect("a measurement");
    assert_eq!(files.next(), None, "one file a GPU");
    file
}

fn stored(directory: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file_of(directory)).unwrap()).unwrap()
}

/// A directory with a graph and a measurement of its rows, whose figures are then these: by way, pages and
/// multiprocessors.
fn measured(figures: &[(&str, &str, Option<u32>, f64)]) -> tempfile::TempDir {
    measured_on(|directory| drop(small_graph(directory)), figures)
}

fn measured_on(write: fn(&Path), figures: &[(&str, &str, Option<u32>, f64)]) -> tempfile::TempDir {
    let temp = directory();
    write(temp.path());
    let told = on_gpu(temp.path(), "--partition none --remeasure").succeeds();
    assert!(told.stderr.contains("measured now in "), "{told}");
    let mut content = stored(temp.path());
    for case in content["measured"][0]["cases"].as_array_mut().unwrap() {
        let figure = figures.iter().find(|(gather, pages, multiprocessors, _)| {
            case["gather"] == *gather
                && case["pages"] == *pages
                && case["multiprocessors"] == json!(multiprocessors)
        });
        case["gb_per_second"] = json!(figure.map(|figure| figure.3));
    }
    std::fs::write(file_of(temp.path()), content.to_string()).unwrap();
    temp
}

const ZERO_COPY: (&str, &str, Option<u32>, f64) = ("zero-copy", "in-place", None, 35.0);
const DMA: (&str, &str, Option<u32>, f64) = ("dma", "in-place", None, 55.0);

#[test]
fn a_measurement_is_kept_by_gpu_and_the_simulators_only_on_request() {
    let temp = directory();
    small_graph(temp.path());
    let told = on_gpu(temp.path(), "--partition none").succeeds();
    assert!(
        !told.stderr.contains("measured") && !temp.path().join("cache/uvatrain/measured").exists(),
        "{told}"
    );
    assert_eq!(in_force(temp.path())["gather"], "zero-copy");
    let first = on_gpu(temp.path(), "--partition none --remeasure").succeeds();
    let line = first.stderr.lines().find(|line| line.contains("measured now in")).expect("a line of it");
    for part in ["gather ", "GB/s", "zero-copy", "dma", "split", "kept in"] {
        assert!(line.contains(part), "`{part}` is missing in: {line}");
    }
    let content = stored(temp.path());
    assert_eq!((&content["format"], &content["measured"][0]["row_bytes"]), (&json!(2), &json!(96)));
    let cases = content["measured"][0]["cases"].as_array().unwrap();
    assert!(cases[0]["gb_per_second"].as_f64() > Some(0.0), "{cases:?}");
    // The next run uses it unchanged; a run with other rows does not.
    let second = on_gpu(temp.path(), "--partition none").succeeds();
    assert!(second.stderr.contains("stored in "), "{second}");
    assert_eq!(stored(temp.path()), content);
    let doctor = uvatrain(temp.path(), ["doctor"]).simulated();
    let doctor = doctor.env("XDG_CACHE_HOME", temp.path().join("cache")).env("UVATRAIN_CACHE", "");
    let told = doctor.run().succeeds();
    for part in
        ["measured gathers", "rows of 96 bytes in tables of up to 512 KiB: gather ", "wide, 1 gather threads"]
    {
        assert!(told.stdout.contains(part), "`{part}` is missing in: {told}");
    }
}

#[test]
#[ignore = "6 s of a core: scripts/measure/long_tests.sh"]
fn the_fastest_way_is_taken_and_the_batches_stay_those_of_the_cpu() {
    let copy = ("zero-copy", "hostalloc", None, 50.0);
    let few = [4, 8, 16].map(|few| ("zero-copy", "in-place", Some(few), 30.0 + f64::from(few.min(8))));
    let split = ("split", "in-place", None, 60.0);
    let temp = measured(&[ZERO_COPY, DMA, split, copy, few[0], few[1], few[2]]);
    let _ = std::fs::remove_file(temp.path().join(command::RECORD));
    run(temp.path(), "--device cpu", None, STEPS).run().succeeds();
    let expected = recorded(temp.path());
    let told = on_gpu(temp.path(), "--partition grid").succeeds();
    assert_eq!(recorded(temp.path()), expected);
    let force = in_force(temp.path());
    let cuda = &force["backend"]["cuda"];
    assert_eq!((&force["gather"], &cuda["table_pages"]), (&json!("split"), &json!("hostalloc")), "{force}");
    // 8 of 132 multiprocessors: 7 %.
    assert_eq!(cuda["partition"], json!({"grid": {"multiprocessors": 9, "sampler": null}}), "{force}");
    assert!(told.stderr.contains("gather split (measured 60.0 GB/s; zero-copy 35.0, dma 55.0)"), "{told}");
    assert!(told.stderr.contains("pages of the driver's"), "{told}");
    // Named options win, and so does what caches of rows need.
    let named = "--partition none --gather zero-copy --table-pages in-place --mps-percentage 10";
    let told = on_gpu(temp.path(), named).succeeds();
    assert!(!told.stderr.contains("measured"), "{told}");
    let told = on_gpu(temp.path(), "--partition none --gather dma").succeeds();
    assert_eq!(
        (&in_force(temp.path())["gather"], recorded(temp.path())),
        (&json!("dma"), expected.clone()),
        "{told}"
    );
    let told = on_gpu(temp.path(), "--partition none --sampler cpu --gpu-cache 250KiB").succeeds();
    assert!(told.stderr.contains("gather zero-copy, since rows are cached"), "{told}");
    assert_eq!(recorded(temp.path()), expected);
}

#[test]
#[ignore = "7 s of a core: scripts/measure/long_tests.sh"]
fn a_measurement_of_another_machine_or_format_is_ignored_and_replaced() {
    let temp = measured(&[ZERO_COPY, DMA]);
    let good = stored(temp.path());
    // Stored figures determine a dry run as well: copies need no pinned table.
    let dry = command::run_with(temp.path(), "--device cuda:0 --dry-run", None, STEPS).simulated();
    let dry = dry.env("XDG_CACHE_HOME", temp.path().join("cache")).env("UVATRAIN_CACHE", "").run().succeeds();
    assert!(!dry.stdout.contains("feature table"), "{dry}");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut content = good.clone();
        change(&mut content);
        content.to_string()
    };
    for (content, part) in [
        (
            with(&|content| content["machine"]["driver"] = json!("570.1, CUDA 12.8")),
            "its driver is 570.1, CUDA 12.8",
        ),
        (with(&|content| content["machine"]["name"] = json!("GPU of old")), "its GPU is GPU of old"),
        (with(&|content| content["machine"]["link"] = json!("8.0 GT/s PCIe x8")), "its link is 8.0 GT/s"),
        (with(&|content| content["format"] = json!(9)), "its format is 9"),
        (good.to_string()[..200].to_owned(), "it is damaged"),
    ] {
        std::fs::write(file_of(temp.path()), content).unwrap();
        let told = on_gpu(temp.path(), "--partition none").succeeds();
        let lines: Vec<_> = told.stderr.lines().filter(|line| line.contains("is ignored: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains(part), "{told}");
        assert_eq!(in_force(temp.path())["gather"], "zero-copy");
        let told = uvatrain(temp.path(), ["doctor"]).simulated();
        let told =
            told.env("XDG_CACHE_HOME", temp.path().join("cache")).env("UVATRAIN_CACHE", "").run().succeeds();
        assert!(told.stdout.contains(part), "{told}");
    }
    let told = on_gpu(temp.path(), "--partition none --remeasure").succeeds();
    assert!(!told.stderr.contains("ignored"), "{told}");
    assert_eq!(stored(temp.path())["machine"], good["machine"]);
}

#[test]
fn the_way_of_several_tables_is_that_of_the_largest() {
    let split = ("split", "in-place", None, 90.0);
    let temp = measured_on(two_tables, &[ZERO_COPY, DMA, split]);
    assert_eq!(stored(temp.path())["measured"][0]["row_bytes"], 16);
    let told = on_gpu(temp.path(), "--partition none").succeeds();
    assert!(told.stderr.contains("gather dma, by the rows of the largest table (measured 55"), "{told}");
    assert_eq!(in_force(temp.path())["gather"], "dma");
}

#[test]
fn a_measurement_that_fails_changes_nothing_and_says_why() {
    let temp = directory();
    small_graph(temp.path());
    let options = "--samplers 2 --device cuda:0 --partition none --metrics run.jsonl --remeasure";
    let run = command::run_with(temp.path(), options, None, STEPS).simulated();
    let run = run.env("XDG_CACHE_HOME", temp.path().join("cache")).env("UVATRAIN_CACHE", "");
    let told = run.env("CUDA_SIM_FAIL", "planner:cuLaunchKernel:2=719").run().succeeds();
    for part in ["gather zero-copy, producer's share 10 %", "not measured (", "CUDA_ERROR_LAUNCH_FAILED"] {
        assert!(told.stderr.contains(part), "`{part}` is missing in: {told}");
    }
    assert!(!temp.path().join("cache/uvatrain/measured").exists());
    assert_eq!(in_force(temp.path())["gather"], "zero-copy");
}

#[test]
fn named_table_pages_are_used_or_refused_and_change_no_batch() {
    let temp = directory();
    small_graph(temp.path());
    let _ = std::fs::remove_file(temp.path().join(command::RECORD));
    run(temp.path(), "--device cpu", None, STEPS).run().succeeds();
    let expected = recorded(temp.path());
    for (pages, part) in
        [("in-place", "on pages of the page cache"), ("hostalloc", "on pages of the driver's")]
    {
        let told = on_gpu(temp.path(), &format!("--partition none --table-pages {pages}")).succeeds();
        assert!(told.stderr.contains(part), "{pages}: {told}");
        assert_eq!(recorded(temp.path()), expected, "{pages}");
    }
    // The reserved pages may suffice or not: if not, the run ends with the command that reserves more.
    let told = on_gpu(temp.path(), "--partition none --table-pages hugetlb");
    if !told.stderr.contains("hugetlb pages") {
        let told = told.ends_with(3);
        for part in ["--table-pages hugetlb", "nr_hugepages", "--table-pages in-place"] {
            assert!(told.stderr.contains(part), "`{part}` is missing in: {told}");
        }
    }
}

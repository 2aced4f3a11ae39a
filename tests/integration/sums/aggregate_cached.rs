//! Sums that the CPU begins and a kernel continues with the rows of a cache on the GPU, under the stand-in for NVIDIA's
//! driver: the batches of whole rows, losses equal up to rounding, and the recomputed number of bytes over the link.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use uva_plan::{CachePlan, SumCounts};
use uva_runtime::{LoaderOptions, Runtime};

use crate::support::arrays::header;
use crate::support::runs::{Metrics, small_graph, train};
use crate::support::{Uvatrain, directory, uvatrain};

/// Rows of 24 values.
const WIDTH: u64 = 24;

const CACHED: &str = "--gather dma --sampler cpu --aggregate host --plan plan.json";

fn on_gpu(directory: &Path, metrics: &str, options: &str) -> Uvatrain {
    // Enqueued work is delayed by a little, by a varying time: an order that holds by chance does not hold then.
    let options = format!("--device cuda:0 {options}");
    train(directory, metrics, &options).simulated().env("CUDA_SIM_DELAY_US", "200")
}

fn metrics_of(directory: &Path, name: &str, options: &str) -> Metrics {
    on_gpu(directory, name, options).run().succeeds();
    Metrics::read(&directory.join(name))
}

/// Plans a cache of rows only, and returns their ids.
fn planned(directory: &Path) -> HashSet<i64> {
    let plan = "plan graph --fanouts 5,4 --batch-size 100 --device cuda:0 --partition none --sampler cpu --gpu-cache 90KB \
                --cache-policy degree --out plan.json";
    uvatrain(directory, plan.split_whitespace()).simulated().run().succeeds();
    let plan = CachePlan::read(&directory.join("plan.json")).unwrap();
    assert!(plan.row_ids.len() > 100 && plan.list_ids.is_empty(), "{} rows", plan.row_ids.len());
    plan.row_ids.into_iter().collect()
}

/// The counts of each training batch of this many epochs, from its ids and blocks and the cached ids.
fn recounted(directory: &Path, epochs: u32, cached: &HashSet<i64>) -> Vec<SumCounts> {
    let options =
        LoaderOptions { fanouts: [5, 4].into(), batch_size: 100, seed: 3, ..LoaderOptions::default() };
    let builder = Runtime::builder(directory.join("graph")).options(options).epochs(epochs);
    let mut runtime = builder.build().unwrap();
    let mut all = Vec::new();
    while let Some(batch) = runtime.next_batch().unwrap() {
        let block = batch.block(batch.layers() - 1);
        let is_cached = |id| cached.contains(&id);
        all.push(SumCounts::of(batch.input_nodes(), block.indptr, block.indices, is_cached));
    }
    all
}

/// Asserts that hashes are equal, and losses up to rounding. Returns how many losses differ.
fn close(one: &Metrics, other: &Metrics, what: &str) -> usize {
    let (one, other) = (one.trained(), other.trained());
    assert_eq!(one.len(), other.len(), "{what}");
    let number = |text: &str| text.parse::<f64>().unwrap();
    let mut apart = 0;
    for (one, other) in one.iter().zip(&other) {
        assert_eq!((one.0, one.1, &one.2), (other.0, other.1, &other.2), "{what}");
        let (one, other) = (number(&one.3), number(&other.3));
        assert!((one - other).abs() <= 1e-3 * one.abs(), "{what}: losses {one} and {other}");
        apart += usize::from(one != other);
    }
    apart
}

fn count(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("{name} in {of}"))
}

#[test]
fn batches_equal_whole_rows_losses_are_close_and_link_bytes_as_recounted() {
    let temp = directory();
    small_graph(temp.path());
    let cached = planned(temp.path());
    let recounted = recounted(temp.path(), 2, &cached);
    for (model, ways) in [
        ("sage", &["--partition none", "--partition green --slots 1 --samplers 2 --edge-ids"][..]),
        ("gcn", &["--in-process --slots 3", "--partition grid --ipc-signals stamps"]),
    ] {
        let options = format!("--epochs 2 --seed 3 --model {model}");
        let off = metrics_of(
            temp.path(),
            "off.jsonl",
            &format!(
                "{options} --partition none --aggregate off --gather zero-copy --sampler cpu --plan plan.json"
            ),
        );
        let mut first = None;
        for way in ways {
            let run = metrics_of(temp.path(), "run.jsonl", &format!("{options} {CACHED} {way}"));
            let apart = close(&off, &run, &format!("{model} {way}"));
            assert!(apart > 0, "{model} {way}: sums in another order have the same digits");
            // The order does not depend on where roles run.
            let learned = first.get_or_insert_with(|| run.trained());
            assert_eq!(*learned, run.trained(), "{model} {way}");
            let in_force = &run.of("start").next().expect("a start")["in_force"]["aggregate"];
            assert_eq!(in_force["way"], "host+cache", "{in_force}");
            let (events, raw): (Vec<_>, Vec<_>) = (run.of("batch").collect(), off.of("batch").collect());
            assert_eq!(events.len(), recounted.len());
            let mut crossed = 0;
            for ((event, raw), counts) in events.iter().zip(raw).zip(&recounted) {
                let (sums, row_bytes) = (&event["aggregate"], 4 * WIDTH);
                assert_eq!(sums["way"], "host+cache");
                let bytes = match model {
                    "sage" => counts.mean_bytes(row_bytes, row_bytes),
                    _ => counts.gcn_bytes(row_bytes),
                };
                assert_eq!(count(sums, "link_bytes"), bytes, "{model} {way}: {event}");
                assert_eq!(count(sums, "raw_link_bytes"), counts.raw_bytes(row_bytes), "{event}");
                assert_eq!(count(sums, "rows_read"), counts.entries + counts.destinations, "{event}");
                // Each row counts once, as with gathered rows.
                assert_eq!(event["cache"], raw["cache"], "{event}");
                assert_eq!(count(&event["cache"], "row_hits"), counts.sources - counts.misses, "{event}");
                assert!(bytes > 0 && bytes < count(sums, "slot_bytes"), "{event}");
                crossed += bytes;
            }
            let end = run.of("end").next().expect("an end");
            assert_eq!(end["aggregate"]["batches"]["host+cache"], events.len(), "{end}");
            assert_eq!(count(&end["aggregate"], "link_bytes"), crossed);
        }
    }
}

#[test]
#[ignore = "12 s of a core: scripts/measure/long_tests.sh"]
fn narrow_rows_edge_weights_padding_and_run_ahead_match_aggregate_off() {
    let temp = directory();
    let graph = small_graph(temp.path());
    planned(temp.path());
    let check = |options: &str| {
        let options = format!("--epochs 1 --seed 3 --partition none {options}");
        let run = |name: &str, more: &str| {
            let run = on_gpu(temp.path(), name, &format!("{options} {more}"));
            let run =
                if options.contains("--dropout 0") { run.env("CUDA_SIM_DROPOUT", "device") } else { run };
            run.run().succeeds();
            Metrics::read(&temp.path().join(name))
        };
        let (off, summed) = (run("off.jsonl", "--aggregate off"), run("summed.jsonl", CACHED));
        close(&off, &summed, &options);
        let crossed = |event: &Value| count(&event["aggregate"], "link_bytes");
        assert!(summed.of("batch").all(|event| crossed(event) > 0), "{options}");
        assert!(summed.of("batch").all(|event| count(&event["cache"], "row_hits") > 0), "{options}");
    };
    check("--model gcn --sampler-kind labor");
    check("--model sage --dropout 0 --pad auto");
    let mut meta: Value = serde_json::from_slice(&fs::read(graph.join("meta.json")).unwrap()).unwrap();
    meta["feat_dtype"] = "f16".into();
    fs::write(graph.join("meta.json"), meta.to_string()).unwrap();
    // Any bits of values around one.
    let noise = |i: u32| (0x3800 + (i.wrapping_mul(2_654_435_761) >> 22) as u16).to_le_bytes();
    let values = (0..4000 * WIDTH as u32).flat_map(noise);
    let bytes = [header("<f2", &[4000, WIDTH], false), values.collect()].concat();
    fs::write(graph.join("feat.npy"), bytes).unwrap();
    planned(temp.path());
    check("--model sage");
}

#[test]
fn what_cannot_be_continued_is_refused_by_name_and_its_memory_is_listed() {
    let temp = directory();
    small_graph(temp.path());
    let options = "--epochs 1 --partition none --gather dma --sampler cpu --gpu-cache 90KB";
    for policy in ["fifo", "sieve"] {
        on_gpu(temp.path(), "x.jsonl", &format!("{options} --aggregate host --cache-policy {policy}"))
            .run()
            .refuses(2, &["--cache-policy", policy, "--cache-policy presample", "--gather zero-copy"]);
    }
    let split = options.replace("dma", "split");
    on_gpu(temp.path(), "x.jsonl", &format!("{split} --aggregate off"))
        .run()
        .refuses(2, &["--gpu-cache", "--gather split", "--gather zero-copy"]);
    let dry = |options: &str| {
        let options = format!(
            "train graph --device cuda:0 --partition none --gpu-slots largest --fanouts 10 --batch-size 200 --gather dma \
             --sampler cpu --aggregate host --gpu-cache 90KB --dry-run --json {options}"
        );
        uvatrain(temp.path(), options.split_whitespace()).simulated().run().succeeds().json()
    };
    for (model, row, numbers) in [("sage", 96 + 96, 2), ("gcn", 96, 1)] {
        let dry = dry(&format!("--model {model}"));
        let line = |item: &str| {
            let line = dry["memory"].as_array().unwrap().iter().find(|line| line["item"] == item);
            line.unwrap_or_else(|| panic!("{item} in {dry}"))
        };
        // In each of two slots: 200 destinations' sums and own rows, and their positions, each on separate cache lines.
        let room = 2 * (200 * row + numbers * 832_u64);
        for (item, kind) in [("begun sums", "device"), ("staging of sums", "pinned")] {
            assert_eq!(
                (&line(item)["kind"], line(item)["bytes"].as_u64()),
                (&kind.into(), Some(room)),
                "{model}"
            );
        }
    }
}

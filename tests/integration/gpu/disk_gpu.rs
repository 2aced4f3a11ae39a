//! Feature rows read from disk for slots on a GPU, under the stand-in for NVIDIA's driver: the batches and losses of
//! rows in memory, with rows kept in host memory and read ahead, and the metrics of the reads.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::support::extent::some_of;
use crate::support::runs::{Metrics, SMALLER_NODES, smaller_graph, train, wait_for_batches};
use crate::support::{Uvatrain, directory};

/// Bytes of a row of the graph: 24 float32.
const ROW_BYTES: u64 = 96;

fn on_gpu(directory: &Path, options: &str) -> Uvatrain {
    // Enqueued work is delayed by a little, by a varying time: an order that holds by chance does not hold then.
    let options = format!("--device cuda:0 {options}");
    train(directory, "gpu.jsonl", &options).simulated().env("CUDA_SIM_DELAY_US", "200")
}

/// Hashes and losses of all batches, and the validation of each epoch.
type Learned = (Vec<(u64, u64, String, String)>, Vec<String>);

fn learned(directory: &Path, name: &str, run: Uvatrain) -> (Learned, Metrics) {
    run.run().succeeds();
    let metrics = Metrics::read(&directory.join(name));
    let valid = metrics.of("epoch").map(|epoch| epoch["valid_accuracy"].to_string()).collect();
    ((metrics.trained(), valid), metrics)
}

fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_else(|| panic!("no {name}: {of}"))
}

#[test]
#[ignore = "8 s of a core: scripts/measure/long_tests.sh"]
fn rows_from_disk_on_a_gpu_give_the_losses_of_memory_and_count_once() {
    let temp = directory();
    smaller_graph(temp.path());
    // Half of it for the most-read rows. The second is smaller than a batch.
    let cached = "--gpu-cache 48KiB";
    let (kept, little) = (format!("--host-cache {}", SMALLER_NODES * 50), "--host-cache 20KiB".to_owned());
    for (model, ways) in [
        (
            "sage --aggregate off",
            &[
                // By copies, the default.
                "--partition none".to_owned(),
                format!("--partition none --slots 1 --look-ahead 0 {kept}"),
                format!("--partition green --gather dma --ipc-signals stamps --look-ahead 1 {little}"),
                format!("--in-process --samplers 2 --edge-ids {kept}"),
                format!("--partition none --slots 1 --features memory --gather dma --sampler cpu {cached}"),
                "--partition grid --slot-bytes 200KiB --reader pread".to_owned(),
                format!("--partition none {cached}"),
                format!("--partition green --slots 3 --look-ahead 0 --samplers 2 {cached}"),
                format!("--in-process --look-ahead 3 --edge-ids --ipc-signals stamps {cached}"),
                "--gather cpu".to_owned(),
            ][..],
        ),
        (
            "sage --aggregate host",
            &[
                "--partition none".to_owned(),
                format!("--partition none --look-ahead 3 {kept}"),
                format!("--partition green --slots 3 {little}"),
                "--in-process --look-ahead 0".to_owned(),
                "--in-process --reader mmap".to_owned(),
                "--partition grid --samplers 2".to_owned(),
            ],
        ),
    ] {
        let options = format!("--epochs 2 --seed 3 --model {model}");
        let cpu = train(temp.path(), "cpu.jsonl", &format!("{options} --device cpu --features memory"));
        let (expected, _) = learned(temp.path(), "cpu.jsonl", cpu);
        for way in some_of(&ways.iter().collect::<Vec<_>>()) {
            let from_disk = !way.contains("--features memory");
            let features = if from_disk { "--features disk" } else { "" };
            let options = format!("{options} {way} {features}");
            let (found, metrics) = learned(temp.path(), "gpu.jsonl", on_gpu(temp.path(), &options));
            assert_eq!(found, expected, "{options}");
            let start = metrics.of("start").next().expect("a start");
            let from = if from_disk { "disk" } else { "memory" };
            assert_eq!(start["in_force"]["features"]["from"], from, "{start}");
            let end = metrics.of("end").last().expect("an end");
            assert!(!way.contains("cache") || number(&end["cache"], "row_hits") > 0, "{options}: {end}");
            if !from_disk {
                continue;
            }
            for batch in metrics.of("batch") {
                let disk = &batch["disk"];
                let of_rows = ["cached_rows", "kept_rows", "ahead_rows", "demanded_rows"];
                let rows: u64 = of_rows.iter().map(|name| number(disk, name)).sum();
                assert_eq!(rows, number(batch, "input_nodes"), "{options}: {batch}");
                if let Some(cache) = batch.get("cache") {
                    assert_eq!(number(cache, "row_hits"), number(disk, "cached_rows"), "{options}: {batch}");
                }
            }
            assert!(number(&end["disk"], "bytes_asked").is_multiple_of(ROW_BYTES), "{end}");
        }
    }
}

#[test]
#[ignore = "5 s of a core: scripts/measure/long_tests.sh"]
fn a_table_written_to_under_a_run_on_a_gpu_ends_it_by_name() {
    for way in [
        "--aggregate off",
        "--aggregate host",
        "--aggregate off --gpu-cache 48KiB",
        "--aggregate off --in-process",
    ] {
        let temp = directory();
        let table = smaller_graph(temp.path()).join("feat.npy");
        let line = format!("--epochs 100000 --partition none --features disk {way}");
        let mut run = on_gpu(temp.path(), &line).limit(Duration::from_secs(60)).start();
        wait_for_batches(&mut run, &temp.path().join("gpu.jsonl"), 3);
        File::options().write(true).open(&table).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let told = run.wait().ends_with(1).stderr;
        for what in ["graph/feat.npy: it changed while it was read", "it was written to"] {
            assert!(told.contains(what), "{line}: {told}");
        }
    }
}

//! Sums made on a GPU, under the stand-in for NVIDIA's driver: the losses of whole rows and of the CPU's sums, bit for
//! bit, for every source of the rows and every division of the GPU.

use std::fs;
use std::path::Path;

use crate::support::arrays::header;
use crate::support::extent::some_of;
use crate::support::mps::Machine;
use crate::support::runs::{Metrics, SMALLER_NODES, small_graph, smaller_graph, train};
use crate::support::{Uvatrain, directory, uvatrain};

/// Results that must not depend on the place of aggregation: hashes and losses of all batches, and the validation of
/// each epoch.
type Learned = (Vec<(u64, u64, String, String)>, Vec<String>);

fn learned(metrics: &Metrics) -> Learned {
    (metrics.trained(), metrics.of("epoch").map(|epoch| epoch["valid_accuracy"].to_string()).collect())
}

fn on_gpu(directory: &Path, metrics: &str, options: &str) -> Uvatrain {
    // Enqueued work is delayed by a little, by a varying time: an order that holds by chance does not hold then.
    let options = format!("--device cuda:0 {options}");
    train(directory, metrics, &options).simulated().env("CUDA_SIM_DELAY_US", "200")
}

/// The metrics of a successful run.
fn metrics_of(directory: &Path, name: &str, run: Uvatrain) -> Metrics {
    run.run().succeeds();
    Metrics::read(&directory.join(name))
}

fn way(metrics: &Metrics) -> String {
    metrics.of("start").next().expect("a start")["in_force"]["aggregate"]["way"].to_string()
}

#[test]
fn losses_and_hashes_equal_the_cpus_for_every_gather_and_partition() {
    // A run takes seconds of two processes that load libtorch, so each run here covers a case of its own.
    let temp = directory();
    smaller_graph(temp.path());
    for (model, ways) in [
        (
            "sage",
            &[
                "--partition none",
                "--partition none --gather dma --slots 1",
                "--partition none --gather split --ipc-signals stamps",
                "--partition none --gather device --slots 3",
                "--partition green --sampler gpu --samplers 1 --edge-ids",
                "--partition grid --samplers 2 --kernel shift",
                "--in-process",
                "--partition none --gather dma --slots 1 --ipc-signals stamps --aggregate host",
                "--partition green --gather dma --edge-ids --samplers 2 --aggregate host",
                "--in-process --gather dma --slots 3 --aggregate host",
            ][..],
        ),
        (
            "gcn",
            &[
                "--partition grid --sampler gpu --samplers 1",
                "--in-process --gather dma",
                "--in-process --gather dma --aggregate host",
            ],
        ),
    ] {
        let options = format!("--epochs 1 --seed 3 --model {model}");
        let cpu = train(temp.path(), "cpu.jsonl", &format!("{options} --device cpu --aggregate host"));
        let expected = learned(&metrics_of(temp.path(), "cpu.jsonl", cpu));
        let off = on_gpu(temp.path(), "off.jsonl", &format!("{options} --partition none --aggregate off"));
        assert_eq!(learned(&metrics_of(temp.path(), "off.jsonl", off)), expected, "{model}");
        for partition in some_of(ways) {
            let by_host = partition.contains("--aggregate host");
            let asked = if by_host { "" } else { "--aggregate device" };
            let run = on_gpu(temp.path(), "gpu.jsonl", &format!("{options} {asked} {partition}"));
            let metrics = metrics_of(temp.path(), "gpu.jsonl", run);
            assert_eq!(learned(&metrics), expected, "{model} {partition}");
            let name = if by_host { "host" } else { "device" };
            assert_eq!(way(&metrics), format!("\"{name}\""));
            for batch in metrics.of("batch") {
                let counts = &batch["aggregate"];
                let number = |name: &str| counts[name].as_u64().unwrap();
                assert_eq!(counts["way"], name);
                // Rows of 24 float32.
                let own = if model == "sage" { number("sum_rows") } else { 0 };
                assert_eq!(number("own_rows"), own, "{batch}");
                assert_eq!(number("slot_bytes"), (own + number("sum_rows")) * 96, "{batch}");
                let crossed = [number("link_bytes"), number("raw_link_bytes")];
                let expected = match partition {
                    // Rows of a table on the GPU do not cross the link.
                    _ if partition.contains("--gather device") => [0; 2],
                    _ if by_host => [number("slot_bytes"), number("raw_slot_bytes")],
                    _ => [number("raw_slot_bytes"); 2],
                };
                assert_eq!(crossed, expected, "{partition}: {batch}");
                if by_host {
                    assert!(batch["gather_us"].as_u64().unwrap() > 0, "the CPU's time is missing: {batch}");
                }
            }
        }
    }
}

#[test]
#[ignore = "8 s of a core: scripts/measure/long_tests.sh"]
fn weighted_and_layer_samplers_and_padding_give_the_losses_of_the_cpu() {
    let temp = directory();
    smaller_graph(temp.path());
    for (model, options) in some_of(&[
        ("sage", "--sampler-kind labor"),
        ("gcn", "--sampler-kind ladies"),
        ("sage", "--sampler-kind walk"),
        ("gcn", "--dropout 0 --pad auto"),
        ("sage", "--dropout 0 --pad auto"),
    ]) {
        let options = format!("--epochs 1 --in-process --samplers 1 --model {model} {options}");
        let cpu = train(temp.path(), "cpu.jsonl", &format!("{options} --device cpu --aggregate host"));
        let expected = learned(&metrics_of(temp.path(), "cpu.jsonl", cpu));
        for sums in ["--aggregate device", "--gather dma --aggregate host"] {
            let run = on_gpu(temp.path(), "gpu.jsonl", &format!("{options} {sums}"));
            assert_eq!(
                learned(&metrics_of(temp.path(), "gpu.jsonl", run)),
                expected,
                "{model} {options} {sums}"
            );
        }
    }
}

/// The stand-in's mode of training as on a GPU: batches stay in place, and libtorch's operations replace the loops of
/// `uva-train`. So losses are equal up to rounding.
#[test]
fn a_consumer_that_takes_batches_in_place_has_the_losses_of_whole_rows() {
    let temp = directory();
    smaller_graph(temp.path());
    for model in ["sage", "gcn"] {
        let run = |way: &str, more: &str| {
            let options =
                format!("--epochs 2 --dropout 0 --partition none --model {model} --aggregate {way} {more}");
            let name = format!("{way}.jsonl");
            let run = on_gpu(temp.path(), &name, &options).env("CUDA_SIM_DROPOUT", "device");
            metrics_of(temp.path(), &name, run)
        };
        let off = run("off", "");
        let number = |text: &str| text.parse::<f64>().unwrap();
        for (name, more) in [("device", ""), ("host", "--gather dma")] {
            let summed = run(name, more);
            assert_eq!(way(&summed), format!("\"{name}\""));
            for (one, other) in off.trained().iter().zip(summed.trained()) {
                assert_eq!((one.0, one.1, &one.2), (other.0, other.1, &other.2), "{model} {name}");
                let (one, other) = (number(&one.3), number(&other.3));
                assert!((one - other).abs() <= 1e-3 * one.abs(), "{model} {name}: losses {one} and {other}");
            }
        }
    }
}

/// Asserts that exactly the rows missing from all caches have crossed the link.
fn check_crossed(metrics: &Metrics) {
    let mut hits = 0;
    for batch in metrics.of("batch") {
        let (cache, sums) = (&batch["cache"], &batch["aggregate"]);
        let number = |value: &serde_json::Value| value.as_u64().unwrap();
        let (rows, cached) = (number(&cache["rows"]), number(&cache["row_hits"]));
        let row_bytes = number(&sums["raw_slot_bytes"]) / rows;
        assert_eq!(sums["link_bytes"], (rows - cached) * row_bytes, "{batch}");
        assert_eq!(sums["raw_link_bytes"], sums["link_bytes"], "{batch}");
        hits += cached;
    }
    assert!(hits > 0);
}

#[test]
#[ignore = "14 s of a core: scripts/measure/long_tests.sh"]
fn a_row_cache_on_the_gpu_has_the_hits_of_whole_rows_and_changes_no_loss() {
    let temp = directory();
    smaller_graph(temp.path());
    for model in ["sage", "gcn"] {
        for policy in ["degree", "fifo"] {
            let run = |way: &str| {
                let options = format!(
                    "--epochs 1 --partition none --model {model} --gpu-cache 30KB --cache-policy {policy} --aggregate \
                     {way}"
                );
                let name = format!("{way}.jsonl");
                metrics_of(temp.path(), &name, on_gpu(temp.path(), &name, &options))
            };
            let (off, device) = (run("off"), run("device"));
            assert_eq!(learned(&device), learned(&off), "{model} {policy}");
            let hits = |metrics: &Metrics| {
                let of = |batch: &serde_json::Value| batch["cache"]["row_hits"].as_u64().unwrap();
                metrics.of("batch").map(of).collect::<Vec<_>>()
            };
            assert_eq!(hits(&device), hits(&off), "{model} {policy}");
            assert!(hits(&device).iter().sum::<u64>() > 0, "{model} {policy}");
            check_crossed(&device);
            // If the consumer runs ahead, hits are known only after the batch.
            let options = format!(
                "--epochs 1 --dropout 0 --partition none --model {model} --gpu-cache 30KB --cache-policy {policy} \
                 --aggregate device"
            );
            let ahead = on_gpu(temp.path(), "ahead.jsonl", &options).env("CUDA_SIM_DROPOUT", "device");
            check_crossed(&metrics_of(temp.path(), "ahead.jsonl", ahead));
        }
    }
}

#[test]
fn under_mps_the_producer_sums_within_its_share() {
    let machine = Machine::new();
    let folder = machine.folder.path();
    smaller_graph(folder);
    let cpu = train(folder, "cpu.jsonl", "--device cpu --epochs 1 --aggregate host");
    let expected = learned(&metrics_of(folder, "cpu.jsonl", cpu));
    let options = "--device cuda:0 --epochs 1 --mps require --mps-percentage 20 --aggregate device";
    let run =
        machine.with(train(folder, "mps.jsonl", options).simulated()).env("CUDA_MPS_PIPE_DIRECTORY", "");
    let metrics = metrics_of(folder, "mps.jsonl", run);
    assert_eq!(learned(&metrics), expected);
    assert_eq!(way(&metrics), "\"device\"");
    machine.assert_clean();
}

#[test]
#[ignore = "7 s of a core: scripts/measure/long_tests.sh"]
fn narrow_tables_give_the_losses_of_the_cpu() {
    let temp = directory();
    let graph = smaller_graph(temp.path());
    let mut meta: serde_json::Value =
        serde_json::from_slice(&fs::read(graph.join("meta.json")).unwrap()).unwrap();
    for (dtype, npy_dtype) in some_of(&[("f16", "<f2"), ("bf16", "<u2"), ("e4m3", "|u1")]) {
        meta["feat_dtype"] = dtype.into();
        fs::write(graph.join("meta.json"), meta.to_string()).unwrap();
        // Any bits of values around one.
        let values = (0..SMALLER_NODES * 24).flat_map(|i| {
            let noise = (i.wrapping_mul(2_654_435_761) >> 22) as u16;
            match dtype {
                "f16" => (0x3800 + noise).to_le_bytes().to_vec(),
                "bf16" => (0x3f00 + (noise & 0xff)).to_le_bytes().to_vec(),
                _ => vec![0x30 + (noise & 0xf) as u8],
            }
        });
        let bytes = [header(npy_dtype, &[u64::from(SMALLER_NODES), 24], false), values.collect()].concat();
        fs::write(graph.join("feat.npy"), bytes).unwrap();
        for model in ["sage", "gcn"] {
            let options = format!("--epochs 1 --in-process --samplers 1 --model {model}");
            let cpu = train(temp.path(), "cpu.jsonl", &format!("{options} --device cpu --aggregate off"));
            let expected = learned(&metrics_of(temp.path(), "cpu.jsonl", cpu));
            for sums in ["--aggregate device", "--gather dma --aggregate host"] {
                let run = on_gpu(temp.path(), "gpu.jsonl", &format!("{options} {sums}"));
                let learned = learned(&metrics_of(temp.path(), "gpu.jsonl", run));
                assert_eq!(learned, expected, "{dtype} {model} {sums}");
            }
        }
    }
}

#[test]
fn slots_of_sums_are_smaller_and_their_rows_are_shown_and_bounded() {
    let temp = directory();
    small_graph(temp.path());
    let dry = |options: &str| {
        // Slots with room for the largest batch, so that their memory is known in advance.
        let args = format!(
            "train graph --device cuda:0 --partition none --gpu-slots largest --dry-run --json {options}"
        );
        uvatrain(temp.path(), args.split_whitespace()).simulated().run().succeeds().json()
    };
    let bytes = |dry: &serde_json::Value, item: &str| {
        let lines = dry["memory"].as_array().unwrap();
        let line = lines.iter().find(|line| line["item"] == item)?;
        assert_eq!(line["kind"], "device");
        line["bytes"].as_u64()
    };
    let off = dry("--fanouts 10 --batch-size 200 --aggregate off");
    assert_eq!(bytes(&off, "rows that are summed"), None);
    for (model, share) in [("sage", 0.55), ("gcn", 0.3)] {
        let summed = dry(&format!("--fanouts 10 --batch-size 200 --model {model} --aggregate device"));
        let slots = |dry| bytes(dry, "feature slots").unwrap() as f64;
        assert!(slots(&summed) <= share * slots(&off), "{model}: {summed}");
        // 200 seeds with ten neighbours each, of 24 float32.
        assert_eq!(bytes(&summed, "rows that are summed"), Some(2200 * 96), "{model}");
    }
    // Sums of the CPU wait in page-locked memory, as large as two slots, for their copies.
    let by_host = dry("--fanouts 10 --batch-size 200 --gather dma --aggregate host");
    let line = |item| by_host["memory"].as_array().unwrap().iter().find(|line| line["item"] == item);
    let staging = line("staging of sums").unwrap();
    assert_eq!((&staging["kind"], staging["bytes"].as_u64()), (&"pinned".into(), Some(2 * 200 * (96 + 96))));
    assert_eq!(line("rows that are summed"), None);
    // The bound of the rows in slots also applies to those next to the slots.
    let bounded = dry("--fanouts 10 --batch-size 200 --aggregate device --slot-bytes 90000");
    assert_eq!(bytes(&bounded, "rows that are summed"), Some(90_000 / 96 * 96));
    // A GPU of the stand-in with memory only for the slots.
    let (slots, rows) = {
        let summed = dry("--fanouts 5,4 --batch-size 100 --aggregate device");
        (bytes(&summed, "feature slots").unwrap(), bytes(&summed, "rows that are summed").unwrap())
    };
    // Shared memory is allocated in pieces of 2 MiB; the slots are followed by their signals.
    let room = (slots + 4096).next_multiple_of(2 << 20) + rows / 2;
    let options = "--epochs 1 --partition none --gpu-slots largest --aggregate device";
    let small = on_gpu(temp.path(), "a.jsonl", options);
    small
        .env("CUDA_SIM_MEMORY", room.to_string())
        .run()
        .refuses(1, &["summed", "--aggregate off", "--slot-bytes"]);
}

#[test]
fn sums_away_from_the_slots_are_refused_and_auto_keeps_them_on_a_gpu() {
    let temp = directory();
    smaller_graph(temp.path());
    train(temp.path(), "x.jsonl", "--device cpu --epochs 1 --aggregate device")
        .run()
        .refuses(2, &["--aggregate device", "host memory", "--aggregate host"]);
    on_gpu(temp.path(), "x.jsonl", "--gather cpu --epochs 1 --aggregate device")
        .run()
        .refuses(2, &["--aggregate device", "--gather cpu", "--aggregate host"]);
    on_gpu(temp.path(), "x.jsonl", "--partition none --epochs 1 --aggregate host")
        .run()
        .refuses(2, &["--aggregate host", "on a GPU", "--gather dma", "--gather cpu"]);
    on_gpu(
        temp.path(),
        "x.jsonl",
        "--partition none --epochs 1 --gather dma --sampler gpu --samplers 1 --aggregate host",
    )
    .run()
    .refuses(2, &["--aggregate host", "--sampler gpu", "--sampler cpu"]);
    on_gpu(temp.path(), "x.jsonl", "--partition none --epochs 1 --aggregate device --model gat")
        .run()
        .refuses(2, &["--aggregate device", "model gat", "--model sage"]);
    let auto = on_gpu(temp.path(), "auto.jsonl", "--partition none --epochs 1");
    let metrics = metrics_of(temp.path(), "auto.jsonl", auto);
    let aggregate = &metrics.of("start").next().unwrap()["in_force"]["aggregate"];
    assert_eq!(aggregate["way"], "off");
    assert!(aggregate["reason"].to_string().contains("`aggregate=device`"), "{aggregate}");
}

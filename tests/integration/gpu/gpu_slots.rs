//! Feature slots on a GPU sized for usual batches, under the stand-in for NVIDIA's driver: a larger batch takes another
//! path, with the same hash and loss.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::arrays::npy;
use crate::support::command::{NAME, STEPS};
use crate::support::extent::some_of;
use crate::support::mps::Machine;
use crate::support::runs::Metrics;
use crate::support::{Uvatrain, directory, uvatrain};

/// Nodes of the graph. The first is the hub.
const NODES: usize = 4000;

/// In-neighbours of the hub; every other node has three.
const HUB: usize = 600;

/// Options of all runs: a batch takes all in-neighbours of its seeds, so that the hub's is ten times as large as the
/// others.
const BATCHES: &str = "--fanouts 600,2 --batch-size 20 --gather-threads 1";

/// A graph in which the one batch of each epoch that has the hub among its seeds is far larger than the others. With
/// the default seed it is not among those that are sampled beforehand in the first epoch.
fn hub_graph(directory: &Path) {
    let graph = directory.join("graph");
    fs::create_dir(&graph).unwrap();
    let write = |name: &str, bytes: Vec<u8>| fs::write(graph.join(name), bytes).unwrap();
    let (mut indptr, mut indices) = (vec![0_i64], Vec::new());
    for node in 0..NODES {
        let degree = if node == 0 { HUB } else { 3 };
        // Never the hub.
        indices.extend((0..degree).map(|pick| (1 + (node * 31 + pick * 613 + 7) % (NODES - 1)) as i32));
        indptr.push(indices.len() as i64);
    }
    write("indptr.npy", npy::<i64>(&[NODES as u64 + 1], false, &indptr));
    write("indices.npy", npy::<i32>(&[indices.len() as u64], false, &indices));
    let features: Vec<f32> = (0..NODES * 24).map(|value| ((value * 37) % 101) as f32 / 101.0).collect();
    write("feat.npy", npy(&[NODES as u64, 24], false, &features));
    let labels: Vec<i64> = (0..NODES as i64).map(|node| node % 4).collect();
    write("label.npy", npy::<i64>(&[NODES as u64], false, &labels));
    for (name, nodes) in [("train", 0..900), ("valid", 1000..1100), ("test", 1100..1200)] {
        let nodes: Vec<i64> = nodes.collect();
        write(&format!("{name}_idx.npy"), npy::<i64>(&[nodes.len() as u64], false, &nodes));
    }
}

fn train(directory: &Path, options: &str) -> Uvatrain {
    let line = format!("train graph {BATCHES} --hidden 16 --train-threads 1 --metrics run.jsonl {options}");
    uvatrain(directory, line.split_whitespace())
}

/// The metrics of a successful run, and its messages.
fn metrics_of(directory: &Path, run: Uvatrain) -> (Metrics, String) {
    let said = run.run().succeeds().said();
    (Metrics::read(&directory.join("run.jsonl")), said)
}

fn on_gpu(directory: &Path, options: &str) -> (Metrics, String) {
    // Enqueued work is delayed by a little, by a varying time: an order that holds by chance does not hold then.
    let run = train(directory, &format!("--device cuda:0 {options}")).simulated();
    metrics_of(directory, run.env("CUDA_SIM_DELAY_US", "200"))
}

/// Results that must not depend on slots: hashes and losses of all batches, and the evaluations.
type Learned = (Vec<(u64, u64, String, String)>, Vec<String>, String);

fn learned(metrics: &Metrics) -> Learned {
    let validations = metrics.of("epoch").map(|epoch| epoch["valid_accuracy"].to_string()).collect();
    (metrics.trained(), validations, end(metrics)["test_accuracy"].to_string())
}

fn end(metrics: &Metrics) -> &Value {
    metrics.of("end").next().expect("an end")
}

fn in_force(metrics: &Metrics) -> &Value {
    &metrics.of("start").next().expect("a start")["in_force"]
}

/// The epoch and number of each oversized batch.
fn oversized(metrics: &Metrics) -> Vec<(u64, u64)> {
    let number = |batch: &Value, name: &str| batch[name].as_u64().expect("a number");
    let of = metrics.of("batch").filter(|batch| batch["oversized"] == true);
    of.map(|batch| (number(batch, "epoch"), number(batch, "batch"))).collect()
}

/// Checks that the batch with the hub, one in each of two epochs, did not fit, and that this is reported.
fn check_told(metrics: &Metrics, said: &str, what: &str) {
    let found = oversized(metrics);
    assert_eq!(found.iter().map(|(epoch, _)| *epoch).collect::<Vec<_>>(), [0, 1], "{what}");
    for (epoch, number) in found {
        let batch = metrics.of("batch").find(|batch| batch["epoch"] == epoch && batch["batch"] == number);
        assert!(batch.expect("the batch")["input_nodes"].as_u64() > Some(HUB as u64), "{what}: {batch:?}");
    }
    assert_eq!(end(metrics)["oversized"], 2, "{what}");
    assert!(said.contains("oversized") && said.contains("2 of the batches"), "{what}: {said}");
    let slots = &in_force(metrics)["gpu_slots"];
    assert!(slots["bytes"].as_u64() < slots["largest_bytes"].as_u64(), "{what}: {slots}");
    assert_eq!(in_force(metrics)["feature_slot_bytes"], slots["bytes"], "{what}");
}

#[test]
#[ignore = "28 s of a core: scripts/measure/long_tests.sh"]
fn a_batch_larger_than_its_slot_has_the_hash_and_loss_of_a_larger_slots() {
    let temp = directory();
    hub_graph(temp.path());
    for (model, ways) in [
        (
            "--model sage",
            &[
                "--partition none",
                "--partition none --gather dma --slots 1 --ipc legacy",
                "--partition none --gather split --ipc-signals stamps",
                "--partition none --gather device --slots 3 --ipc vmm --ipc-signals stamps",
                "--partition none --ipc legacy --ipc-signals stamps",
                "--partition none --sampler gpu --samplers 1 --edge-ids",
                "--partition green",
                "--partition green --sampler gpu --samplers 1",
                "--partition green --ipc-signals stamps --slots 1",
                "--partition grid --samplers 2 --kernel shift",
                "--in-process",
                "--partition none --aggregate device",
                "--partition none --gather dma --aggregate host",
                "--partition none --features disk --slots 1",
                "--partition none --features disk --gpu-cache 100KiB --look-ahead 3",
                "--partition none --features disk --aggregate host",
                "--partition none --gather dma --gpu-cache 100KiB --sampler cpu",
                "--partition none --gpu-cache 100KiB --cache-policy fifo --sampler cpu",
                "--partition none --gpu-cache 100KiB --sampler gpu --samplers 1",
            ][..],
        ),
        (
            "--model gcn",
            &[
                "--partition grid --aggregate device --sampler gpu --samplers 1",
                "--in-process --gather dma --aggregate host",
            ],
        ),
    ] {
        let options = format!("--epochs 2 {model}");
        let (cpu, _) = metrics_of(temp.path(), train(temp.path(), &format!("{options} --device cpu")));
        assert_eq!((end(&cpu)["oversized"].clone(), in_force(&cpu)["gpu_slots"].clone()), Default::default());
        for way in some_of(ways) {
            let (found, said) = on_gpu(temp.path(), &format!("{options} {way}"));
            assert_eq!(learned(&found), learned(&cpu), "{model} {way}");
            check_told(&found, &said, way);
        }
        // Not with slots for the largest batch, as requested, or with slots on the host.
        for (way, reason) in [
            ("--partition none --gpu-slots largest", "requested"),
            ("--partition none --slot-bytes 4MiB", "--slot-bytes 4MiB"),
            ("--gather cpu", ""),
        ] {
            let (found, said) = on_gpu(temp.path(), &format!("{options} {way}"));
            assert_eq!(learned(&found), learned(&cpu), "{model} {way}");
            assert_eq!((oversized(&found), &end(&found)["oversized"]), (vec![], &Value::Null), "{way}");
            assert!(!said.contains("oversized"), "{way}: {said}");
            let slots = &in_force(&found)["gpu_slots"];
            assert_eq!(slots["bytes"], slots["largest_bytes"], "{way}");
            assert!(slots["reason"].as_str().unwrap_or_default().contains(reason), "{way}: {slots}");
        }
    }
}

/// The stand-in's mode of training as on a GPU: batches stay in place, the consumer enqueues its work and reads results
/// later.
/// results later.
#[test]
fn a_consumer_that_runs_ahead_trains_on_a_larger_batch_from_its_copy() {
    let temp = directory();
    hub_graph(temp.path());
    let run = |options: &str| {
        let options = format!("--device cuda:0 --epochs 2 --dropout 0 {options}");
        let run = train(temp.path(), &options).simulated().env("CUDA_SIM_DROPOUT", "device");
        metrics_of(temp.path(), run)
    };
    for way in
        ["--partition none", "--partition green --ipc-signals stamps", "--partition none --aggregate device"]
    {
        let (expected, _) = run(&format!("{way} --gpu-slots largest"));
        let (found, said) = run(way);
        assert_eq!(learned(&found), learned(&expected), "{way}");
        check_told(&found, &said, way);
    }
}

#[test]
fn under_mps_a_larger_batch_changes_nothing() {
    let machine = Machine::new();
    let folder = machine.folder.path();
    hub_graph(folder);
    let (cpu, _) = metrics_of(folder, train(folder, "--epochs 2 --device cpu"));
    let run = train(folder, "--epochs 2 --device cuda:0 --mps require --mps-percentage 20").simulated();
    let (found, said) = metrics_of(folder, machine.with(run).env("CUDA_MPS_PIPE_DIRECTORY", ""));
    assert_eq!(learned(&found), learned(&cpu));
    check_told(&found, &said, "mps");
    machine.assert_clean();
}

#[test]
#[ignore = "7 s of a core: scripts/measure/long_tests.sh"]
fn padded_batches_fit_and_one_beyond_the_shapes_is_sent_unpadded() {
    let temp = directory();
    hub_graph(temp.path());
    for way in ["--partition none", "--in-process --samplers 1"] {
        let options = format!("--epochs 2 --dropout 0 --pad auto {way}");
        let (expected, _) = on_gpu(temp.path(), &format!("{options} --gpu-slots largest"));
        let (found, said) = on_gpu(temp.path(), &options);
        assert_eq!(learned(&found), learned(&expected), "{way}");
        check_told(&found, &said, way);
        assert_eq!(end(&found)["unpadded"], 2, "{way}");
        let reason = in_force(&found)["gpu_slots"]["reason"].to_string();
        assert!(reason.contains("static shapes"), "{reason}");
    }
}

#[test]
fn a_command_that_attached_has_the_bytes_of_every_batch_and_the_count() {
    let temp = directory();
    hub_graph(temp.path());
    let own = std::env::current_exe().unwrap();
    let run = |options: &str| {
        let line = format!("run graph {BATCHES} --metrics run.jsonl {options} --");
        let words = line.split_whitespace().map(std::ffi::OsString::from).chain([own.clone().into()]);
        let words = words.chain([NAME, "--exact", "--nocapture", "--test-threads=1"].map(Into::into));
        let run =
            uvatrain(temp.path(), words).simulated().env(STEPS, "attach; contents; pass valid 0; close");
        let told = run.run().succeeds();
        let lines = told.stdout.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        (lines, Metrics::read(&temp.path().join("run.jsonl")), told.stderr)
    };
    let (expected, cpu, _) = run("--device cpu");
    assert!(expected.len() > 40 && end(&cpu)["oversized"].is_null(), "{expected:?}");
    for way in [
        "--partition none",
        "--partition none --ipc legacy --gather dma --aggregate mean",
        "--partition green --gather split",
        "--partition grid --sampler gpu --samplers 1",
    ] {
        let (found, metrics, said) = run(&format!("--device cuda:0 {way}"));
        if way.contains("mean") {
            assert_eq!(found, run("--device cpu --aggregate mean").0, "{way}");
        } else {
            assert_eq!(found, expected, "{way}");
        }
        assert_eq!((end(&metrics)["oversized"].as_u64(), oversized(&metrics).len()), (Some(1), 1), "{way}");
        assert!(said.contains("1 of the batches"), "{way}: {said}");
    }
}

#[test]
#[ignore = "10 s of a core: scripts/measure/long_tests.sh"]
fn savings_of_smaller_slots_are_shown_first_and_used_by_the_caches() {
    let temp = directory();
    // Batches of few seeds with a wide fanout: the upper bound of a batch is most of the graph, and its usual size a
    // small part.
    let args = "generate graph --nodes 6000 --avg-degree 8 --feat-dim 1000 --classes 4 --seed 7";
    uvatrain(temp.path(), args.split(' ')).run().succeeds();
    let options = "train graph --fanouts 600 --batch-size 8 --hidden 4 --train-threads 1 --gather-threads 1 --epochs 1 \
                   --device cuda:0 --sampler cpu";
    let dry = |more: &str| {
        let line = format!("{options} --partition none {more} --dry-run");
        let told = uvatrain(temp.path(), line.split_whitespace()).simulated().run().succeeds().stdout;
        let line = format!("{line} --json");
        (uvatrain(temp.path(), line.split_whitespace()).simulated().run().succeeds().json(), told)
    };
    let device = |dry: &Value, item: &str| {
        let line = dry["memory"].as_array().unwrap().iter().find(|line| line["item"] == item).unwrap();
        assert_eq!(line["kind"], "device");
        line["bytes"].as_u64().unwrap()
    };
    let ((sampled, told), (largest, _)) = (dry(""), dry("--gpu-slots largest"));
    let slots = |dry: &Value| device(dry, "feature slots");
    assert!(slots(&sampled) * 2 < slots(&largest), "{sampled} {largest}");
    assert_eq!(slots(&sampled), 2 * sampled["gpu_slots"]["bytes"].as_u64().unwrap());
    assert_eq!(slots(&largest), 2 * sampled["gpu_slots"]["largest_bytes"].as_u64().unwrap());
    for part in ["feature slots on the GPU", "five standard deviations", "20 sampled batches"] {
        assert!(told.contains(part), "{part} in {told}");
    }
    // Rows that a kernel sums are stored next to the slots, and have the same bound.
    let rows = |more: &str| device(&dry(&format!("--aggregate device {more}")).0, "rows that are summed");
    assert!(rows("") * 2 < rows("--gpu-slots largest"));
    // If slots are in host memory, pages are allocated on use, and nothing is sampled.
    let (on_host, told) = dry("--gather cpu");
    assert!(on_host["gpu_slots"].is_null() && !told.contains("feature slots on the GPU"), "{told}");

    let budget = |more: &str| {
        // The stand-in counts a process's own memory: here the slots belong to the consumer, which queries the free
        // memory.
        let line =
            format!("{options} --partition green --eval full --gpu-cache auto --metrics run.jsonl {more}");
        let run = uvatrain(temp.path(), line.split_whitespace()).simulated();
        let (metrics, _) = metrics_of(temp.path(), run.env("CUDA_SIM_MEMORY", (1_u64 << 30).to_string()));
        in_force(&metrics)["caches"]["budget_bytes"].as_u64().unwrap()
    };
    let (more, less) = (budget(""), budget("--gpu-slots largest"));
    let saved = slots(&largest) - slots(&sampled);
    // Memory is allocated in pieces of 2 MiB.
    assert!(more > less && (more - less).abs_diff(saved) <= 4 << 20, "{more} {less}: {saved} saved");
}

//! `uvatrain run` over typed graphs on a GPU, under the stand-in for NVIDIA's driver: the batches are those of the CPU.

use std::path::Path;

use serde_json::Value;
use uva_graph::npy::{NpyType, write_array};

use crate::support::command::{self, NAME, RECORD, STEPS, recorded};
use crate::support::mps::Machine;
use crate::support::runs::Metrics;
use crate::support::typed::{case_of, dataset_of, write_mag};
use crate::support::{Uvatrain, directory, uvatrain};

const PASSES: &str = "attach; pass train 0; pass valid 0; pass test 0; close";

const CONTENTS: &str = "attach; contents; close";

fn run(directory: &Path, options: &str, steps: &str) -> Uvatrain {
    let options = format!("--samplers 2 {options}");
    command::run_with(directory, &options, None, steps).simulated().env("CUDA_SIM_DELAY_US", "200")
}

/// The sizes and a hash of all columns of each training batch.
fn contents(directory: &Path, options: &str) -> Vec<String> {
    let said = run(directory, options, CONTENTS).run().succeeds();
    contents_of(&said.stdout)
}

fn contents_of(stdout: &str) -> Vec<String> {
    let lines = stdout.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    lines.map(str::to_owned).collect()
}

#[test]
fn typed_batches_on_a_gpu_are_those_of_the_cpu_by_every_way() {
    let temp = directory();
    write_mag(temp.path());
    let graph = temp.path().join("graph");
    // Rows of an odd size for institutions, next to those of the others.
    let institutions = std::fs::read(graph.join("meta.json")).unwrap();
    let meta: Value = serde_json::from_slice(&institutions).unwrap();
    let nodes = meta["nodes"].as_array().unwrap();
    let of = nodes.iter().find(|of| of["type"] == "institution").unwrap();
    let rows: Vec<u8> = (0..of["num"].as_u64().unwrap() * 7).map(|at| (at * 5) as u8).collect();
    write_array(&graph.join("nodes/institution/feat.npy"), NpyType::U8, &[7], &rows).unwrap();
    let expected = contents(temp.path(), "--device cpu");
    assert!(expected.len() > 5, "{expected:?}");
    for options in [
        "--partition none",
        "--partition none --gather dma --ipc legacy",
        "--partition none --gather device --ipc-signals stamps",
        "--partition green --kernel naive --gpu-slots largest",
        "--partition grid --table-pages hostalloc",
        "--gather cpu",
    ] {
        let found = contents(temp.path(), &format!("--device cuda:0 {options}"));
        assert_eq!(found, expected, "{options}");
    }
    // Without an option, the GPU is found.
    let said = run(temp.path(), "--sampler auto --metrics run.jsonl", PASSES).run().succeeds();
    let note = "--sampler auto: the CPU samples, since the GPU does not sample typed graphs yet";
    assert!(said.stderr.contains(note), "{said}");
    let start = Metrics::read(&temp.path().join("run.jsonl")).of("start").next().expect("a start").clone();
    assert_eq!(
        (&start["in_force"]["device"], &start["in_force"]["sampler"]),
        (&"cuda:0".into(), &"cpu".into())
    );
}

#[test]
fn typed_batches_are_the_same_where_mps_divides_the_gpu() {
    let machine = Machine::new();
    let folder = machine.folder.path();
    write_mag(folder);
    let expected = contents(folder, "--device cpu");
    let options = "--device cuda:0 --mps require --mps-percentage 20";
    let command = machine.with(run(folder, options, CONTENTS)).env("CUDA_MPS_PIPE_DIRECTORY", "");
    let said = command.run().succeeds();
    assert_eq!(contents_of(&said.stdout), expected, "{said}");
    assert!(said.stderr.contains("divided by MPS: producer 20 %"), "{said}");
    machine.assert_clean();
}

#[test]
fn metrics_of_typed_batches_on_a_gpu_count_what_those_of_the_cpu_count() {
    let temp = directory();
    write_mag(temp.path());
    let lines = |device: &str| {
        let options = format!("--device {device} --metrics {device}.jsonl");
        run(temp.path(), &options, PASSES).run().succeeds();
        let metrics = Metrics::read(&temp.path().join(format!("{device}.jsonl")));
        let counts = |line: &Value| {
            ["batch", "hash", "nodes_by_type", "rows_by_type", "edges_by_relation"]
                .map(|name| line[name].clone())
        };
        metrics.of("batch").map(counts).collect::<Vec<_>>()
    };
    let expected = lines("cpu");
    assert!(!expected.is_empty() && expected.iter().all(|line| line[3]["paper"].as_u64() > Some(0)));
    assert_eq!(lines("cuda:0"), expected);
}

#[test]
fn device_slots_have_the_batches_of_the_second_implementation() {
    for (name, options) in [
        ("library", "--fanouts 2,1"),
        ("only new nodes", "--fanouts 2,2 --expand new"),
        ("every type reordered", "--fanouts 2,1"),
    ] {
        let temp = directory();
        let case = case_of(name);
        dataset_of(name, &temp.path().join("data"));
        let features: Vec<f32> = (0..18_u8).map(f32::from).collect();
        for (of, width) in [("paper", 3), ("topic", 2)] {
            let rows = if of == "paper" { 6 } else { 3 };
            let file = temp.path().join(format!("data/nodes/{of}/feat.npy"));
            write_array(&file, NpyType::F32, &[width], &features[..rows * width]).unwrap();
        }
        let own = std::env::current_exe().expect("this executable");
        let words = format!(
            "run data {options} --seed 42 --batch-size 4 --samplers 2 --gather-threads 1 --device cuda:0 -- {} {NAME} \
             --exact --nocapture --test-threads=1",
            own.display()
        );
        let steps = "attach; pass train 0; pass train 1; close";
        uvatrain(temp.path(), words.split_whitespace()).simulated().env(STEPS, steps).run().succeeds();
        let hashes: Vec<Value> = recorded(temp.path()).into_iter().map(|(.., hash)| hash.into()).collect();
        let batches = case["batches"].as_array().unwrap();
        assert!(hashes.iter().eq(batches.iter().map(|batch| &batch["hash"])), "{name}: {hashes:?}");
        std::fs::remove_file(temp.path().join(RECORD)).unwrap();
    }
}

#[test]
fn what_a_gpu_cannot_do_with_typed_graphs_is_refused_with_the_reason() {
    let temp = directory();
    write_mag(temp.path());
    for (options, reason) in [
        (
            "--sampler gpu --samplers 1",
            "--sampler gpu: not supported for typed graphs yet; give --sampler cpu",
        ),
        ("--gather split", "--gather split: not supported for typed graphs: give --gather zero-copy"),
        ("--gpu-cache 1MiB", "--gpu-cache: not supported for typed graphs yet"),
    ] {
        let words = format!("--device cuda:0 --partition none {options}");
        let words = if options.contains("--samplers") { words } else { format!("--samplers 2 {words}") };
        let run = command::run_with(temp.path(), &words, None, "file started").simulated();
        run.run().refuses(2, &[reason]);
        assert!(!temp.path().join("started").exists());
    }
}

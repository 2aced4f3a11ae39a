//! `uvatrain run` on a GPU, under the stand-in for NVIDIA's driver, and with caches: the batches are those of the CPU
//! on every path.

use std::path::Path;

use crate::support::command::{self, recorded, run};
use crate::support::mps::Machine;
use crate::support::runs::{Metrics, role_of, small_graph, wait_until};
use crate::support::{self, Uvatrain, directory};
use rustix::process::{Pid, Signal, kill_process};

const STEPS: &str = "attach; pass train 0; pass valid 0; pass test 0; close";

type Batches = Vec<(String, u64, u64, String)>;

fn batches_of(directory: &Path, run: Uvatrain) -> Batches {
    let _ = std::fs::remove_file(directory.join(command::RECORD));
    run.run().succeeds();
    recorded(directory)
}

fn on_gpu(directory: &Path, options: &str, steps: &str) -> Uvatrain {
    let samplers = if options.contains("--sampler gpu") { 1 } else { 2 };
    let options = format!("--samplers {samplers} --device cuda:0 {options}");
    command::run_with(directory, &options, None, steps).simulated().env("CUDA_SIM_DELAY_US", "200")
}

fn in_force(path: &Path) -> serde_json::Value {
    Metrics::read(path).of("start").next().expect("a start")["in_force"].clone()
}

#[test]
fn batches_are_those_of_the_cpu_wherever_the_producer_runs() {
    let temp = directory();
    small_graph(temp.path());
    let expected = batches_of(temp.path(), run(temp.path(), "--device cpu", None, STEPS));
    assert!(expected.len() >= 20);
    for (options, partition) in [
        ("--partition none", "none"),
        ("--partition none --ipc legacy --gather dma", "none"),
        ("--partition none --ipc-signals stamps", "none"),
        ("--partition green", "green"),
        ("--partition grid --gather split", "grid"),
        ("--partition green --sampler gpu", "green"),
        ("--partition none --sampler gpu", "none"),
        ("--gather cpu", "none"),
    ] {
        let gpu = on_gpu(temp.path(), &format!("{options} --metrics run.jsonl"), STEPS);
        assert_eq!(expected, batches_of(temp.path(), gpu), "{options}");
        let force = in_force(&temp.path().join("run.jsonl"));
        let told = force["backend"]["cuda"]["partition"].to_string();
        assert!(told.contains(partition), "{options}: {told}");
    }
}

#[test]
fn rows_are_sent_to_a_gpu_in_the_tables_type_and_others_are_refused() {
    for kind in ["f16", "e4m3"] {
        let temp = directory();
        let args = "generate graph --nodes 4000 --avg-degree 12 --feat-dim 24 --classes 4 --seed 7";
        support::uvatrain(temp.path(), args.split(' ').chain(["--feat-dtype", kind])).run().succeeds();
        let asked = "--partition none --feature-type float32";
        let parts = ["--feature-type float32", "Omit --feature-type", "batch.x.float()"];
        on_gpu(temp.path(), asked, "file started").run().refuses(2, &parts);
        assert!(!temp.path().join("started").exists());
        // Under the stand-in driver, arrays on the GPU are lent as host memory.
        let told = on_gpu(temp.path(), "--partition none", "attach; features").run().succeeds();
        assert!(told.stdout.contains(&format!("{kind} ")), "{told}");
        // With the slots in host memory the CPU gathers, and widens the values.
        let told = on_gpu(temp.path(), &format!("{asked} --gather cpu"), "attach; features").run().succeeds();
        assert!(told.stdout.contains("f32 "), "{told}");
    }
}

#[test]
fn aggregated_rows_are_copied_to_a_gpu_and_equal_those_in_host_memory() {
    let temp = directory();
    small_graph(temp.path());
    let steps = "attach; contents; close";
    let contents = |run: Uvatrain| -> Vec<String> {
        let told = run.run().succeeds();
        let lines = told.stdout.lines().filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
        lines.map(str::to_owned).collect()
    };
    for how in ["mean", "sum", "max", "gcn"] {
        let asked = format!("--aggregate {how}");
        let expected = contents(run(temp.path(), &format!("--device cpu {asked}"), None, steps));
        assert!(expected.len() > 5, "{expected:?}");
        for gather in ["dma", "cpu"] {
            let gpu = on_gpu(temp.path(), &format!("--partition none {asked} --gather {gather}"), steps);
            assert_eq!(contents(gpu), expected, "{how} {gather}");
        }
        let parts =
            ["with --gather zero-copy", "Omit --aggregate", "--gather dma", "--gather cpu", asked.as_str()];
        let refused = on_gpu(temp.path(), &format!("--partition none {asked}"), "file started");
        refused.run().refuses(2, &parts);
        let on_gpu_sampler = format!("--partition none {asked} --gather dma --sampler gpu");
        let refused = on_gpu(temp.path(), &on_gpu_sampler, "file started");
        refused.run().refuses(2, &["with --sampler gpu", "Omit --aggregate", "--sampler cpu"]);
        assert!(!temp.path().join("started").exists());
    }
}

#[test]
fn caches_change_no_batch_and_say_what_they_hit() {
    let temp = directory();
    small_graph(temp.path());
    let expected = batches_of(temp.path(), run(temp.path(), "--device cpu", None, STEPS));
    let cached = |run: Uvatrain, options: &str| {
        assert_eq!(expected, batches_of(temp.path(), run), "{options}");
        let metrics = Metrics::read(&temp.path().join("run.jsonl"));
        let (mut rows, mut hits, mut beforehand) = (0, 0, 0);
        for line in metrics.of("batch") {
            rows += line["cache"]["rows"].as_u64().expect("rows");
            let hit = line["cache"]["row_hits"].as_u64().expect("hits");
            hits += hit;
            // The two epochs that the caches were chosen by.
            beforehand += if line["epoch"].as_u64() < Some(2) { hit } else { 0 };
        }
        let end = metrics.of("end").next().expect("an end")["cache"].clone();
        assert_eq!((&end["rows"], &end["row_hits"]), (&rows.into(), &hits.into()), "{options}: {end}");
        assert_eq!(end["counted_beforehand"]["row_hits"], beforehand, "{options}: {end}");
        assert!(hits > 0 && end["expected_row_hit_rate"].as_f64() > Some(0.0), "{options}: {end}");
    };
    let cpu = "--device cpu --gpu-cache 250KiB --metrics run.jsonl";
    cached(run(temp.path(), cpu, None, STEPS), cpu);
    let gpu = "--partition none --sampler cpu --gpu-cache 250KiB --metrics run.jsonl";
    cached(on_gpu(temp.path(), gpu, STEPS), gpu);
    let auto = on_gpu(temp.path(), "--partition none --sampler cpu --gpu-cache auto", STEPS);
    auto.run().refuses(2, &["--gpu-cache auto", "give a size"]);
}

fn under_mps(machine: &Machine, options: &str, steps: &str) -> Uvatrain {
    let options = format!("--mps require --mps-percentage 20 {options}");
    machine.with(on_gpu(machine.folder.path(), &options, steps)).env("CUDA_MPS_PIPE_DIRECTORY", "")
}

#[test]
fn under_mps_the_command_is_a_client_with_what_the_producer_leaves() {
    let machine = Machine::new();
    let folder = machine.folder.path();
    small_graph(folder);
    let expected = batches_of(folder, run(folder, "--device cpu", None, STEPS));
    assert_eq!(expected, batches_of(folder, under_mps(&machine, "--metrics mps.jsonl", STEPS)));
    let mps = in_force(&folder.join("mps.jsonl"))["backend"]["cuda"]["partition"]["mps"].clone();
    assert_eq!((&mps["consumer_percentage"], &mps["consumer_multiprocessors"]), (&80.into(), &105.into()));
    machine.assert_clean();
}

#[test]
fn a_death_under_mps_leaves_no_daemon_and_attached_clients_leave_first() {
    for victim in ["launcher", "producer", "command"] {
        let machine = Machine::new();
        let folder = machine.folder.path();
        small_graph(folder);
        let steps =
            if victim == "command" { "attach; take 5; kill" } else { "attach; file there; take 5; linger" };
        let run = under_mps(&machine, "", steps).start();
        let code = match victim {
            "command" => 1,
            other => {
                wait_until("it takes batches", || recorded(folder).len() >= 5);
                match other {
                    "launcher" => {
                        kill_process(Pid::from_child(&run.child), Signal::KILL).unwrap();
                        128 + 9
                    }
                    role => {
                        role_of(&run, role).signal(Signal::KILL);
                        1
                    }
                }
            }
        };
        let outcome = run.wait().ends_with(code);
        assert!(!outcome.stderr.contains("panicked"), "{victim}: {outcome}");
        if victim == "producer" {
            let told: Vec<String> = machine.recorded().iter().map(ToString::to_string).collect();
            assert!(told.iter().any(|line| line.contains("terminate_client")), "{told:?}");
        }
        machine.assert_clean();
    }
}

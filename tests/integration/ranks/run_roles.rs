//! `uvatrain run --roles S:T`: samplers that all ranks share, on the CPU and on separate GPUs. A shell replaces
//! torchrun, and `cuda-sim` a machine with four GPUs.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use uva_runtime::options::part::Part;

use crate::support::command::{self, recorded};
use crate::support::extent::some_of;
use crate::support::ranks::{
    self, ALL_SPLITS, expected, in_force, nothing_is_left, on_four_gpus, process_of, run, traces, with_times,
};
use crate::support::runs::{Metrics, role_of, samplers_of, small_graph, wait_until};
use crate::support::{self, directory};

/// Asserts that every rank received the batches of a loader of that rank, and removes the records.
fn each_rank_has_its_batches(directory: &Path, ranks: u32, what: &str) {
    for index in 0..ranks {
        let folder = directory.join(format!("r{index}"));
        let all = expected(directory, 2, Part { index, of: ranks }, false);
        assert!(!all.is_empty());
        assert_eq!(recorded(&folder), all, "rank {index}, {what}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn samplers_that_ranks_share_make_the_batches_of_each_ranks_own_samplers() {
    let temp = directory();
    small_graph(temp.path());
    for (samplers, count) in [(1, 1), (1, 2), (2, 2), (3, 2), (2, 3), (1, 4)] {
        let options = format!("--roles {samplers}:{count} --device cpu --metrics run.jsonl");
        run(temp.path(), count, &options, ALL_SPLITS).run().succeeds();
        each_rank_has_its_batches(temp.path(), count, &options);
        for rank in 0..count {
            let force = in_force(temp.path(), rank, count);
            let shared = serde_json::json!({ "count": samplers, "devices": [] });
            assert_eq!((&force["shared_samplers"], &force["samplers"]), (&shared, &samplers.into()));
        }
    }
}

#[test]
fn shared_samplers_make_what_own_samplers_make_with_every_option() {
    let temp = directory();
    small_graph(temp.path());
    let ids: String = (0..1200).map(|id| format!("{}\n", id * 3)).collect();
    std::fs::write(temp.path().join("ids.txt"), ids).unwrap();
    let batches = |options: &str| {
        let (folder, all) = (temp.path(), "attach; pass train 0; pass train 1; pass valid 0; close");
        run(folder, 2, &format!("{options} --device cpu"), all).run().succeeds();
        ["r0", "r1"].map(|rank| {
            let found = recorded(&folder.join(rank));
            std::fs::remove_dir_all(folder.join(rank)).unwrap();
            assert!(found.len() > 8, "{options}");
            found
        })
    };
    for options in [
        "--pad auto",
        "--seed-order segments:4",
        "--input-nodes ids.txt",
        "--features disk",
        "--sampler-kind labor",
        "--pin-samplers",
        "--drop-last --replace",
    ] {
        assert_eq!(
            batches(&format!("--roles 2:2 {options}")),
            batches(&format!("--ranks 2 --samplers 2 {options}")),
            "{options}"
        );
    }
}

#[test]
fn a_shared_sampler_that_fails_at_a_batch_names_its_rank_and_ends_the_run() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    let options = "--roles 1:2 --device cpu --slot-bytes 20000";
    let failing = run(temp.path(), 2, options, "attach; take").env("TMPDIR", temp.path().join("tmp")).start();
    let launcher = failing.child.id();
    let outcome = failing.wait().ends_with(2);
    for part in ["the sampler failed: a batch of rank ", "train batch ", "--slot-bytes"] {
        assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
    }
    nothing_is_left(temp.path(), launcher, &[], &before);
}

#[test]
fn an_interrupt_ends_ranks_that_share_samplers() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    for again in [false, true] {
        for rank in ["r0", "r1"] {
            let _ = std::fs::remove_dir_all(temp.path().join(rank));
        }
        // A rank that ignores the signal is ended by the second signal.
        let steps = if again { "attach; ignore; take 5; linger" } else { "attach; take" };
        let run = run(temp.path(), 2, "--roles 2:2 --device cpu", steps);
        let run = run.env("TMPDIR", temp.path().join("tmp")).start();
        wait_until("both ranks take batches", || {
            ["r0", "r1"].iter().all(|rank| recorded(&temp.path().join(rank)).len() >= 5)
        });
        let processes = samplers_of(&run, 2);
        let (launcher, number) = (Pid::from_child(&run.child), run.child.id());
        // Signals of one kind may merge into one before they are handled.
        let signals = if again { &[Signal::INT, Signal::TERM][..] } else { &[Signal::INT] };
        signals.iter().for_each(|signal| kill_process(launcher, *signal).unwrap());
        let outcome = run.wait();
        assert!([130, 143].contains(&outcome.code()), "{outcome}");
        nothing_is_left(temp.path(), number, &processes, &before);
    }
}

#[test]
fn every_split_of_four_gpus_into_samplers_and_trainers_equals_the_cpu() {
    let temp = directory();
    small_graph(temp.path());
    for (options, samplers, devices) in some_of::<(_, &[usize], &[usize])>(&[
        ("--roles 1:1", &[0], &[1]),
        ("--roles 1:2", &[0], &[1, 2]),
        ("--roles 2:1", &[0, 1], &[2]),
        ("--roles 1:3", &[0], &[1, 2, 3]),
        ("--roles 2:2", &[0, 1], &[2, 3]),
        ("--roles 3:1 --partition none", &[0, 1, 2], &[3]),
        ("--sampler-devices cuda:3,cuda:1 --devices cuda:2,cuda:0 --partition grid", &[3, 1], &[2, 0]),
        ("--sampler-devices cuda:1 --ranks 2 --gather dma", &[1], &[0, 2]),
        ("--devices cuda:1-2 --samplers 2 --partition none", &[], &[1, 2]),
        ("--devices cuda:3,cuda:1 --samplers 1 --sampler gpu", &[], &[3, 1]),
    ]) {
        let count = devices.len() as u32;
        let options = format!("{options} --metrics run.jsonl");
        let run = on_four_gpus(temp.path(), count, &options, ALL_SPLITS).env("UVATRAIN_LOG", "info");
        let outcome = run.run().succeeds();
        each_rank_has_its_batches(temp.path(), count, &options);
        let ready = |line: &&str| line.contains("ready to sample") && line.contains("on_gpu=true");
        let on_gpu = outcome.stderr.lines().filter(ready).count();
        assert_eq!(on_gpu, samplers.len(), "{options}\n{outcome}");
        for (rank, device) in devices.iter().enumerate() {
            let force = in_force(temp.path(), rank as u32, count);
            assert_eq!(force["device"], format!("cuda:{device}"), "{options}: {force}");
            match samplers.len() {
                0 => assert_eq!(force["shared_samplers"], serde_json::Value::Null, "{options}: {force}"),
                several => {
                    let shared = serde_json::json!({ "count": several, "devices": samplers });
                    assert_eq!(force["shared_samplers"], shared, "{options}: {force}");
                }
            }
        }
    }
}

#[test]
#[ignore = "14 s of a core: scripts/measure/long_tests.sh"]
fn a_cache_has_its_rows_on_training_gpus_and_its_lists_on_sampling_ones() {
    let temp = directory();
    small_graph(temp.path());
    for (options, lists, rows) in some_of(&[
        ("--roles 2:2 --gpu-cache 250KiB", true, true),
        ("--roles 1:2 --gpu-cache 250KiB --gather dma", true, true),
        ("--roles 1:2 --gpu-cache 250KiB --cache-policy fifo", false, true),
        ("--roles 1:2 --gpu-cache 250KiB --gather split", true, false),
        ("--devices cuda:1-2 --samplers 1 --gpu-cache 250KiB", false, true),
    ]) {
        let options = format!("{options} --metrics run.jsonl");
        let outcome = on_four_gpus(temp.path(), 2, &options, ALL_SPLITS).run().succeeds();
        each_rank_has_its_batches(temp.path(), 2, &options);
        for rank in 0..2 {
            let metrics = Metrics::read(&temp.path().join(format!("run.{rank}.jsonl")));
            let end = metrics.of("end").next().expect("an end")["cache"].clone();
            let hits = |name: &str| end[name].as_u64().unwrap_or_else(|| panic!("{options}: {end}"));
            assert_eq!(hits("row_hits") > 0, rows, "{options}: {end}");
            assert_eq!(hits("list_hits") > 0, lists, "{options}: {end}\n{outcome}");
        }
    }
    for options in ["--roles 1:2", "--roles 1:2 --gather cpu", "--devices cuda:0-1 --gather cpu"] {
        let args = format!("run graph --fanouts 5,4 {options} --gpu-cache 1MiB -- touch started");
        let run = support::uvatrain(temp.path(), args.split(' '));
        let run = if options == "--roles 1:2" { run } else { run.simulated().env("CUDA_SIM_DEVICES", "4") };
        run.run().refuses(2, &["2 ranks", "--gpu-cache", "host memory"]);
    }
    assert!(!temp.path().join("started").exists());
}

#[test]
fn a_rank_that_takes_no_batches_does_not_block_one_that_shares_samplers() {
    let temp = directory();
    small_graph(temp.path());
    // Rank 1 begins when rank 0 has ended, whose batches are many times what slots hold.
    let waits = r#"test $rank = 0 || export UVATRAIN_TEST_STEPS="attach; await ../r0/out; pass train 0; close"; cd r$rank"#;
    let shell = ranks::of(2).replace("cd r$rank", waits);
    let steps = "attach; take 200; pass valid 0; close; file out";
    let outcome = command::run_with(temp.path(), "--roles 2:2 --device cpu", Some(&shell), steps);
    outcome.run().succeeds();
    assert!(recorded(&temp.path().join("r0")).len() > 200);
    let mut of_train = expected(temp.path(), 1, Part { index: 1, of: 2 }, false);
    of_train.retain(|(split, ..)| split == "train");
    assert_eq!(recorded(&temp.path().join("r1")), of_train);
}

#[test]
fn a_shared_sampler_that_is_killed_is_named_and_ends_every_rank() {
    let temp = directory();
    small_graph(temp.path());
    for (options, on_gpus, name) in [
        ("--roles 2:2 --device cpu", false, "the sampler 1 was killed by SIGKILL"),
        ("--roles 1:2", true, "the sampler was killed by SIGKILL"),
    ] {
        let before = traces(temp.path());
        for rank in ["r0", "r1"] {
            let _ = std::fs::remove_dir_all(temp.path().join(rank));
        }
        let run = match on_gpus {
            true => on_four_gpus(temp.path(), 2, options, "attach; take"),
            false => run(temp.path(), 2, options, "attach; take"),
        };
        let run = run.env("TMPDIR", temp.path().join("tmp")).start();
        wait_until("both ranks take batches", || {
            ["r0", "r1"].iter().all(|rank| recorded(&temp.path().join(rank)).len() >= 5)
        });
        let samplers = if on_gpus { 1 } else { 2 };
        let mut processes = samplers_of(&run, samplers);
        processes.push(role_of(&run, "janitor"));
        let launcher = run.child.id();
        let of_last = |process: &&crate::support::runs::Process| {
            let words = std::fs::read_to_string(format!("/proc/{}/cmdline", process.pid)).unwrap();
            words.contains(&format!("--index={}", samplers - 1))
        };
        processes.iter().find(of_last).expect("the last sampler").signal(Signal::KILL);
        let outcome = run.wait().ends_with(1);
        assert!(outcome.stderr.contains(name), "{name}\n{outcome}");
        assert_eq!(outcome.stderr.matches("command: ").count(), 2, "{outcome}");
        nothing_is_left(temp.path(), launcher, &processes, &before);
    }
}

#[test]
fn a_rank_killed_next_to_shared_samplers_is_named_and_leaves_nothing() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    let run = run(temp.path(), 2, "--roles 1:2 --device cpu", "attach; pid pid; take");
    let run = run.env("TMPDIR", temp.path().join("tmp")).start();
    wait_until("both ranks take batches", || {
        ["r0", "r1"].iter().all(|rank| recorded(&temp.path().join(rank)).len() >= 5)
    });
    let mut processes = samplers_of(&run, 1);
    processes.extend(["producer", "janitor"].map(|role| role_of(&run, role)));
    let launcher = run.child.id();
    kill_process(process_of(temp.path(), 1), Signal::KILL).unwrap();
    let outcome = run.wait().ends_with(1);
    for part in ["uvatrain: rank 1 (process ", "ended without a message", "command: "] {
        assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
    }
    nothing_is_left(temp.path(), launcher, &processes, &before);
}

#[test]
fn contradicting_places_are_refused_and_too_few_gpus_are_reported() {
    let temp = directory();
    small_graph(temp.path());
    let four = |options: &str| {
        let args = format!("run graph --fanouts 5,4 {options} -- touch started");
        support::uvatrain(temp.path(), args.split(' ')).simulated().env("CUDA_SIM_DEVICES", "4").run()
    };
    for (options, parts) in [
        ("--devices cuda:1,cuda:1", ["cuda:1", "twice"]),
        ("--sampler-devices cuda:0-1,cuda:1 --ranks 2", ["cuda:1", "twice"]),
        ("--sampler-devices cuda:0 --devices cuda:0-1", ["cuda:0", "samples or trains"]),
        ("--sampler-devices gpu0 --ranks 2", ["gpu0", "cuda:0-3"]),
        ("--devices cuda:3-1", ["cuda:3-1", "cuda:0-3"]),
        ("--devices cuda:0-1 --ranks 3", ["--devices cuda:0,cuda:1", "--ranks 3"]),
        ("--devices auto", ["--devices auto", "--ranks N"]),
        ("--sampler-devices cuda:0", ["--ranks N", "--devices"]),
        ("--roles 1:2 --devices cuda:1-2", ["--roles 1:2", "--devices"]),
        ("--roles 1:2 --ranks 3", ["--roles 1:2", "--ranks 3"]),
        ("--roles 1:2 --samplers 2", ["--roles", "--samplers"]),
        ("--roles 1:2 --sampler cpu", ["--roles", "--sampler:"]),
        ("--roles 1:1 --device cuda:3", ["--device cuda:3", "--sampler-devices"]),
        ("--roles 1:2 --device cpu --prepare whole", ["--roles", "--prepare whole"]),
        ("--roles 0:2", ["--roles", "1:3"]),
        ("--roles 12", ["--roles", "1:3"]),
        ("--devices cuda:0-1 --device cpu", ["--devices", "--device cpu"]),
        ("--devices cuda:0-1 --mps require", ["--mps require", "no processes to divide"]),
        ("--roles 1:2 --partition mps", ["--partition mps", "no processes to divide"]),
        ("--ranks 2", ["--ranks 2", "--devices"]),
        ("--roles 1:2 --metrics-listen 0", ["--roles 1:2", "--metrics-listen"]),
        ("--devices cuda:0-1 --host-cache 1MiB", ["--devices cuda:0,cuda:1", "--host-cache"]),
    ] {
        four(options).refuses(2, &parts);
    }
    for (options, parts) in [
        ("--roles 2:3", ["--roles 2:3 requires 5 GPUs", "sees 4"]),
        ("--devices cuda:3-4", ["cuda:4", "sees 4"]),
        ("--sampler-devices cuda:4 --ranks 2", ["cuda:4", "sees 4"]),
        ("--sampler-devices cuda:0-1 --ranks 3", ["3 GPUs in addition to cuda:0,cuda:1", "sees 4"]),
    ] {
        four(options).refuses(3, &parts);
    }
    // Without a GPU, roles of processes are available and named GPUs are lacking.
    let none = |options: &str| {
        let args = format!("run graph --fanouts 5,4 {options} -- touch started");
        support::uvatrain(temp.path(), args.split(' ')).run()
    };
    none("--devices cuda:0-1").refuses(3, &["cuda:0,cuda:1", "sees 0"]);
    assert!(!temp.path().join("started").exists());
}

#[test]
#[ignore = "7 s of a core: scripts/measure/long_tests.sh"]
fn roles_are_chosen_by_the_stage_times_of_a_run_for_its_number_of_ranks() {
    let temp = directory();
    small_graph(temp.path());
    let first =
        run(temp.path(), 2, "--roles 1:2 --device cpu --metrics run.jsonl", "attach; pass train 0; close");
    first.run().succeeds();
    with_times(temp.path(), "run.0.jsonl", "slow.jsonl", [3000, 100, 1000]);
    with_times(temp.path(), "run.0.jsonl", "quick.jsonl", [100, 100, 3000]);
    for (name, count) in [("slow.jsonl", 1), ("quick.jsonl", 3)] {
        for rank in 0..2 {
            let _ = std::fs::remove_dir_all(temp.path().join(format!("r{rank}")));
        }
        let shell = ranks::of(count as usize) + "\ntest $UVATRAIN_RANKS = " + &count.to_string();
        let shell = shell.replace("; exit $code", r#"; test $code = 0 || exit $code"#);
        let options = format!("--roles auto --role-times {name}");
        let run = command::run_with(temp.path(), &options, Some(&shell), ALL_SPLITS);
        let outcome = run.simulated().env("CUDA_SIM_DEVICES", "4").run().succeeds();
        let told = format!("{} of 4 GPUs sample and {count} train", 4 - count);
        assert!(outcome.stderr.contains(&told), "{told}\n{outcome}");
        each_rank_has_its_batches(temp.path(), count, &options);
    }
    for (options, code, parts) in [
        ("--roles auto", 2, ["--role-times FILE", "--metrics"]),
        ("--roles 1:2 --role-times slow.jsonl", 2, ["--role-times", "only valid with --roles auto"]),
        ("--roles auto --role-times slow.jsonl --ranks 2", 2, ["--roles auto", "--ranks"]),
        ("--roles auto --role-times slow.jsonl --device cpu", 2, ["--roles auto", "--device"]),
        ("--roles auto --role-times none.jsonl", 2, ["--role-times none.jsonl", "No such file"]),
        ("--roles auto --role-times slow.jsonl", 3, ["sees 0", "--roles 1:2"]),
    ] {
        let args = format!("run graph --fanouts 5,4 {options} -- touch started");
        support::uvatrain(temp.path(), args.split(' ')).run().refuses(code, &parts);
    }
    for (option, parts) in
        [("--metrics-listen 0", ["--roles 1:3", "--metrics-listen"]), ("--plan p", ["--roles 1:3", "--plan"])]
    {
        let args = format!(
            "run graph --fanouts 5,4 --batch-size 100 --roles auto --role-times quick.jsonl {option} -- touch started"
        );
        let run = support::uvatrain(temp.path(), args.split(' ')).simulated().env("CUDA_SIM_DEVICES", "4");
        run.run().refuses(2, &parts);
    }
    assert!(!temp.path().join("started").exists());
}

#[test]
fn a_dry_run_shows_shared_samplers_once_and_the_gpu_of_every_stage() {
    let temp = directory();
    small_graph(temp.path());
    let args = "run graph --fanouts 4,3 --roles 2:2 --gpu-cache 1MiB --dry-run --json -- true";
    let dry = support::uvatrain(temp.path(), args.split(' ')).simulated().env("CUDA_SIM_DEVICES", "4");
    let dry = dry.run().succeeds().json();
    let shown = |line: &serde_json::Value| {
        ["stage", "runs", "device"].map(|column| line[column].as_str().unwrap().to_owned()).join(", ")
    };
    let stages: Vec<String> = dry["stages"].as_array().unwrap().iter().map(shown).collect();
    let expected = [
        "sampler 0 of all ranks, process 1, cuda:0",
        "sampler 1 of all ranks, process 2, cuda:1",
        "producer of rank 0, process 3, cuda:2",
        "consumer of rank 0, process 3, cuda:2",
        "producer of rank 1, process 4, cuda:3",
        "consumer of rank 1, process 4, cuda:3",
    ];
    assert_eq!(stages, expected);
    assert_eq!(dry["ranks"], 2);
    let bytes = |item: &str| {
        let lines = dry["memory"].as_array().unwrap().iter();
        let found: Vec<_> = lines.filter(|line| line["item"] == item).collect();
        assert_eq!(found.len(), 1, "{item} in {dry}");
        found[0]["bytes"].as_u64().unwrap()
    };
    // Pages of files exist once, and a cache on each GPU.
    let table = std::fs::metadata(temp.path().join("graph/feat.npy")).unwrap().len();
    assert!((table - 256..table).contains(&bytes("feature table")));
    let graph = std::fs::metadata(temp.path().join("graph/indices.npy")).unwrap().len();
    assert!((graph / 4..4 * graph).contains(&bytes("graph")));
    assert_eq!(bytes("caches, at most, of 4 GPUs"), 4 << 20);
}

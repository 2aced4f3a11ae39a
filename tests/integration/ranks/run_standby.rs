//! `uvatrain run --roles S:T --switch BATCH`: standby ranks that share the samplers' GPUs, and train from a batch of
//! each epoch on. A shell replaces torchrun, and `cuda-sim` a machine with four GPUs.

use std::path::Path;

use rustix::process::{Signal, kill_process};
use uva_runtime::options::part::Part;

use crate::support::command::{self, recorded};
use crate::support::ranks::{
    self, ALL_SPLITS, expected, in_force, nothing_is_left, on_four_gpus, process_of, run, traces, with_times,
};
use crate::support::runs::{Metrics, role_of, samplers_of, small_graph, wait_until};
use crate::support::{self, directory};

/// The training batches of each rank, step by step: `trainers` ranks until the batch `from`, then all as long as there
/// is a batch for each, and at the end again only the first ones.
fn steps_of(trainers: usize, standby: usize, from: u64, all: u64) -> Vec<Vec<u64>> {
    let mut of_rank = vec![Vec::new(); trainers + standby];
    let mut next = 0;
    loop {
        let ranks = match next >= from && all - next >= of_rank.len() as u64 {
            true => of_rank.len(),
            false => trainers,
        };
        if all - next < ranks as u64 {
            return of_rank;
        }
        of_rank[..ranks].iter_mut().zip(next..).for_each(|(of_rank, batch)| of_rank.push(batch));
        next += ranks as u64;
    }
}

/// Asserts that every rank received its batches of two epochs, those of other splits without the standby ranks, and
/// that each equals that of one process.
fn ranks_that_stand_by_join(directory: &Path, trainers: u32, standby: u32, from: u64, what: &str) {
    let alone = expected(directory, 2, Part { index: 0, of: 1 }, false);
    let in_epoch =
        alone.iter().filter(|(split, epoch, ..)| (split.as_str(), *epoch) == ("train", 0)).count() as u64;
    let train = steps_of(trainers as usize, standby as usize, from, in_epoch);
    for rank in 0..trainers + standby {
        let is_its = |(split, _, index, _): &&(String, u64, u64, String)| match split.as_str() {
            "train" => train[rank as usize].contains(index),
            _ => rank < trainers && index % u64::from(trainers) == u64::from(rank),
        };
        let all: Vec<_> = alone.iter().filter(is_its).cloned().collect();
        let folder = directory.join(format!("r{rank}"));
        assert_eq!(recorded(&folder), all, "rank {rank}, {what}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn standby_ranks_join_at_a_batch_and_every_batch_is_trained_once() {
    let temp = directory();
    small_graph(temp.path());
    for (samplers, trainers, from) in [(1, 2, 0), (1, 2, 5), (2, 1, 3), (1, 1, 9), (3, 2, 7)] {
        let options =
            format!("--roles {samplers}:{trainers} --switch {from} --device cpu --metrics run.jsonl");
        let outcome = run(temp.path(), samplers + trainers, &options, ALL_SPLITS).run().succeeds();
        ranks_that_stand_by_join(temp.path(), trainers, samplers, from, &options);
        assert!(outcome.stderr.contains(&format!("at batch {from} of each epoch")), "{outcome}");
        let force = in_force(temp.path(), 0, samplers + trainers);
        assert_eq!(force["standby"], serde_json::json!({ "ranks": samplers, "from": from }), "{force}");
    }
}

#[test]
#[ignore = "22 s of a core: scripts/measure/long_tests.sh"]
fn gpus_that_sample_join_training_at_a_batch() {
    let temp = directory();
    small_graph(temp.path());
    for (options, devices, samplers, from) in [
        ("--roles 1:3 --switch 4", vec![1, 2, 3, 0], 1, 4),
        ("--roles 2:2 --switch 6 --gather dma", vec![2, 3, 0, 1], 2, 6),
        ("--roles 1:1 --switch 2 --partition none --gpu-cache 250KiB", vec![1, 0], 1, 2),
        ("--roles 2:1 --switch 2 --gpu-cache 250KiB --cache-policy fifo", vec![2, 0, 1], 2, 2),
        ("--sampler-devices cuda:3 --devices cuda:0,cuda:2 --switch 0", vec![0, 2, 3], 1, 0),
    ] {
        let (count, options) = (devices.len() as u32, format!("{options} --metrics run.jsonl"));
        let outcome = on_four_gpus(temp.path(), count, &options, ALL_SPLITS).run().succeeds();
        ranks_that_stand_by_join(temp.path(), count - samplers, samplers, from, &options);
        for (rank, device) in devices.iter().enumerate() {
            let force = in_force(temp.path(), rank as u32, count);
            assert_eq!(force["device"], format!("cuda:{device}"), "{options}: {force}\n{outcome}");
        }
    }
}

#[test]
#[ignore = "31 s of a core: scripts/measure/long_tests.sh"]
fn a_standby_rank_holds_as_many_cached_rows_as_have_room_there() {
    let temp = directory();
    small_graph(temp.path());
    let hit_rates = |options: &str| {
        let options = format!("--roles 1:2 --switch 0 --gpu-cache 250KiB {options} --metrics run.jsonl");
        on_four_gpus(temp.path(), 3, &options, ALL_SPLITS).run().succeeds();
        ranks_that_stand_by_join(temp.path(), 2, 1, 0, &options);
        [0, 1, 2].map(|rank| {
            let metrics = Metrics::read(&temp.path().join(format!("run.{rank}.jsonl")));
            let end = metrics.of("end").next().expect("an end")["cache"].clone();
            let number = |name: &str| end[name].as_f64().unwrap_or_else(|| panic!("{options}: {end}"));
            number("row_hits") / number("rows")
        })
    };
    let [trainer, _, none] = hit_rates("");
    assert!(trainer > 0.0 && none == 0.0, "{trainer}, {none}");
    let [trainer, _, some] = hit_rates("--standby-cache 100KiB");
    assert!(0.0 < some && some < trainer, "{some}, {trainer}");
    let [trainer, _, all] = hit_rates("--standby-cache 1MiB");
    // Of other batches.
    assert!((all - trainer).abs() < 0.05, "{all}, {trainer}");
    let [_, _, evicting] = hit_rates("--standby-cache 100KiB --cache-policy fifo");
    assert!(evicting > 0.0);
}

#[test]
fn a_standby_rank_that_is_killed_is_named_and_nothing_is_left() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    let options = "--roles 1:1 --switch 3 --device cpu";
    let run =
        run(temp.path(), 2, options, "attach; pid pid; take").env("TMPDIR", temp.path().join("tmp")).start();
    wait_until("both ranks take batches", || {
        ["r0", "r1"].iter().all(|rank| recorded(&temp.path().join(rank)).len() >= 5)
    });
    let mut processes = samplers_of(&run, 1);
    processes.push(role_of(&run, "janitor"));
    let launcher = run.child.id();
    kill_process(process_of(temp.path(), 1), Signal::KILL).unwrap();
    let outcome = run.wait().ends_with(1);
    for part in ["uvatrain: rank 1 (process ", "ended without a message"] {
        assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
    }
    nothing_is_left(temp.path(), launcher, &processes, &before);
}

#[test]
fn the_batch_at_which_they_join_is_chosen_by_the_stage_times_of_a_run() {
    let temp = directory();
    small_graph(temp.path());
    let first =
        run(temp.path(), 2, "--roles 1:2 --device cpu --metrics run.jsonl", "attach; pass train 0; close");
    first.run().succeeds();
    // Training takes longest, and a queue of many batches is full early.
    with_times(temp.path(), "run.0.jsonl", "training.jsonl", [100, 100, 9000]);
    with_times(temp.path(), "run.0.jsonl", "sampling.jsonl", [9000, 100, 100]);
    for (roles, times, trainers, standby) in [
        ("--roles 1:2 --device cpu", "training.jsonl", 2, 1),
        ("--roles 1:2 --device cpu", "sampling.jsonl", 2, 0),
        ("--roles auto", "training.jsonl", 3, 1),
    ] {
        let ranks = trainers + standby;
        for rank in 0..ranks {
            let _ = std::fs::remove_dir_all(temp.path().join(format!("r{rank}")));
        }
        let options =
            format!("{roles} --switch auto --role-times {times} --batch-slots 20 --metrics auto.jsonl");
        let shell = format!("test $UVATRAIN_RANKS = {ranks} || exit 9\n") + &ranks::of(ranks as usize);
        let run = command::run_with(temp.path(), &options, Some(&shell), ALL_SPLITS);
        let run = if roles == "--roles auto" { run.simulated().env("CUDA_SIM_DEVICES", "4") } else { run };
        let outcome = run.run().succeeds();
        let told = if standby > 0 { "ranks that stand by join at batch " } else { "no rank stands by" };
        assert!(outcome.stderr.contains("--switch auto: ") && outcome.stderr.contains(told), "{outcome}");
        let metrics = Metrics::read(&temp.path().join("auto.0.jsonl"));
        let start = metrics.of("start").next().expect("a start")["in_force"].clone();
        if standby == 0 {
            assert_eq!(start["standby"], serde_json::Value::Null, "{start}");
            continue;
        }
        let from = start["standby"]["from"].as_u64().unwrap_or_else(|| panic!("{start}"));
        ranks_that_stand_by_join(temp.path(), trainers, standby, from, &options);
    }
}

#[test]
fn a_dry_run_has_two_ranks_on_a_gpu_that_samples_and_trains() {
    let temp = directory();
    small_graph(temp.path());
    let args = "run graph --fanouts 4,3 --batch-size 50 --roles 2:2 --switch 5 --gpu-cache 1MiB --standby-cache 1KiB --dry-run --json -- true";
    let dry = support::uvatrain(temp.path(), args.split(' ')).simulated().env("CUDA_SIM_DEVICES", "4");
    let dry = dry.run().succeeds().json();
    assert_eq!(dry["ranks"], 4);
    let of = |line: &serde_json::Value| {
        ["stage", "runs", "device"].map(|column| line[column].as_str().unwrap().to_owned()).join(", ")
    };
    let stages = dry["stages"].as_array().unwrap();
    assert_eq!(of(&stages[0]), "sampler 0 of all ranks, process 1, cuda:0");
    assert_eq!(of(stages.last().unwrap()), "consumer of rank 3, from batch 5 on, process 6, cuda:1");
    let bytes = |item: &str| {
        let found = dry["memory"].as_array().unwrap().iter().find(|line| line["item"] == item);
        found.unwrap_or_else(|| panic!("{item} in {dry}"))["bytes"].as_u64().unwrap()
    };
    assert_eq!(bytes("caches, at most, of 4 GPUs"), 4 << 20);
    assert_eq!(bytes("rows cached for standby ranks, at most"), 2 << 10);
}

#[test]
fn ranks_that_cannot_stand_by_are_refused() {
    let temp = directory();
    small_graph(temp.path());
    for (options, parts) in [
        ("--ranks 2 --switch 5", ["--switch", "--roles S:T"]),
        ("--devices cuda:0-1 --switch 5", ["--switch", "--sampler-devices"]),
        ("--roles 1:2 --switch 5 --standby-cache 1MiB", ["--standby-cache", "--gpu-cache"]),
        ("--roles 1:2 --gpu-cache 1MiB --standby-cache 1MiB", ["--standby-cache", "--switch"]),
        ("--roles 1:2 --switch 9999", ["--switch 9999", "a smaller number"]),
        ("--roles 1:2 --switch soon", ["--switch", "auto"]),
        ("--roles 1:2 --switch auto", ["--switch auto", "--role-times FILE"]),
        ("--roles 32:33 --switch 5", ["--switch", "65 ranks"]),
        ("--roles 1:1 --switch 5 --metrics-listen 0", ["--roles 1:1 --switch 5", "--metrics-listen"]),
        (
            "--sampler-devices cuda:0 --devices cuda:1-2 --switch auto --role-times run.jsonl",
            ["--switch auto", "--roles S:T"],
        ),
    ] {
        let args = format!("run graph --fanouts 5,4 {options} -- touch started");
        let run = support::uvatrain(temp.path(), args.split(' ')).simulated().env("CUDA_SIM_DEVICES", "4");
        run.run().refuses(2, &parts);
    }
    assert!(!temp.path().join("started").exists());
}

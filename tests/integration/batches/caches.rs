//! Caches in the whole program: the real binary plans, rewrites, trains with and without caches, on the CPU and under
//! the stand-in for NVIDIA's driver. With any caches, batches, losses and accuracies equal those of a run without.

use std::path::Path;

use crate::support::arrays::{npy, write_weights};
use crate::support::extent::some_of;
use crate::support::runs::{Metrics, role_of, small_graph, smaller_graph, train, wait_until};
use crate::support::{self, Uvatrain, directory, uvatrain};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// All results in a run's metrics: batches (epoch, number, hash, loss), then losses and accuracies of the epochs and
/// the test.
type Computed = (Vec<(u64, u64, String, String)>, Vec<String>);

fn computed(path: &Path) -> Computed {
    let metrics = Metrics::read(path);
    let words = |event: &Value| format!("{} {}", event["train_loss"], event["valid_accuracy"]);
    let accuracies = metrics.of("epoch").map(words);
    let tests = metrics.of("end").map(|end| end["test_accuracy"].to_string());
    (metrics.trained(), accuracies.chain(tests).collect())
}

fn one<'a>(metrics: &'a Metrics, event: &'a str) -> &'a Value {
    metrics.of(event).next().unwrap_or_else(|| panic!("no {event} event"))
}

fn plan(directory: &Path, extra: &str) -> Uvatrain {
    let line = format!("plan graph --fanouts 5,4 --batch-size 100 --device cpu {extra}");
    uvatrain(directory, line.split_whitespace())
}

/// The cache totals of a run with caches, with the counts checked against each other.
fn hits(path: &Path) -> Value {
    let metrics = Metrics::read(path);
    let cache = one(&metrics, "end")["cache"].clone();
    let sum = |name: &str| -> u64 {
        metrics.of("batch").map(|batch| batch["cache"][name].as_u64().expect("a count")).sum()
    };
    for name in ["list_reads", "list_hits", "rows", "row_hits"] {
        assert_eq!(cache[name], sum(name), "{name}");
    }
    let nodes: u64 = metrics.of("batch").map(|batch| batch["input_nodes"].as_u64().expect("a count")).sum();
    assert_eq!(cache["rows"], nodes);
    cache
}

/// A rate in the end's `cache`: of the epochs that were not counted beforehand, or of all epochs if the run had no
/// others.
fn rate_of(cache: &Value, name: &str) -> f64 {
    let rate = if cache[name].is_null() { &cache["counted_beforehand"][name] } else { &cache[name] };
    rate.as_f64().expect("a rate")
}

#[test]
#[ignore = "6 s of a core: scripts/measure/long_tests.sh"]
fn a_run_with_caches_computes_what_one_without_does() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "plain.jsonl", "--device cpu --epochs 2 --seed 3").run().succeeds();
    let expected = computed(&temp.path().join("plain.jsonl"));
    assert!(expected.0.len() >= 20);
    for (number, options) in [
        "--gpu-cache 100KiB",
        "--gpu-cache 250KiB --samplers 2 --slots 3",
        "--gpu-cache 100KiB --cache-policy degree --in-process",
        "--gpu-cache 100KiB --cache-policy analytic --timed-by random",
        "--gpu-cache 100KiB --cache-policy random",
        "--gpu-cache 100KiB --cache-policy optimal",
        "--gpu-cache 100KiB --cache-policy fifo",
        "--gpu-cache auto",
        "--gpu-cache 1KiB",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("{number}.jsonl");
        let outcome = train(temp.path(), &name, &format!("--device cpu --epochs 2 --seed 3 {options}"))
            .run()
            .succeeds();
        let path = temp.path().join(name);
        assert_eq!(expected, computed(&path), "{options}\n{outcome}");
        if options.ends_with("1KiB") {
            assert!(outcome.stderr.contains("nothing is cached"), "{outcome}");
            continue;
        }
        let cache = hits(&path);
        let rate = |name: &str| rate_of(&cache, name);
        assert!(rate("row_hit_rate") + rate("list_hit_rate") > 0.05, "{options}: {cache}");
        if options.contains("fifo") {
            // A FIFO cache of some rows: the simulation of half an epoch approximates the rate of a run.
            assert!((rate("row_hit_rate") - rate("expected_row_hit_rate")).abs() < 0.1, "{cache}");
            assert_eq!(cache["list_hits"], 0);
        } else {
            // Expected rates are from batches that were not counted; the same graph, seeds and fanouts give nearly the
            // same.
            for kind in ["row", "list"] {
                let (got, expected) =
                    (rate(&format!("{kind}_hit_rate")), rate(&format!("expected_{kind}_hit_rate")));
                assert!((got - expected).abs() < 0.05, "{options}: {kind} {got} {expected}");
            }
        }
        if options.ends_with("auto") {
            // A quarter of the machine's memory holds all of this graph.
            assert!(rate("row_hit_rate") == 1.0 && rate("list_hit_rate") > 0.9, "{cache}");
        }
    }
}

#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn hits_in_the_epochs_that_the_choice_was_made_by_are_separate() {
    let temp = directory();
    small_graph(temp.path());
    let rates = |cache: &Value, name: &str| {
        let read = |of: &str| cache[of].as_u64().expect("a count") as f64;
        let counts = [("list_hit_rate", "list_hits", "list_reads"), ("row_hit_rate", "row_hits", "rows")];
        for (rate, hits, reads) in counts {
            assert_eq!(cache[rate].as_f64(), Some(read(hits) / read(reads)), "{rate} {name}: {cache}");
        }
    };
    // Sums over the batches of some epochs, as the end reports them.
    let summed = |metrics: &Metrics, epochs: std::ops::Range<u64>| {
        let mut sums = serde_json::json!({});
        for name in ["list_reads", "list_hits", "rows", "row_hits"] {
            let within =
                metrics.of("batch").filter(|batch| epochs.contains(&batch["epoch"].as_u64().unwrap()));
            let sum: u64 = within.map(|batch| batch["cache"][name].as_u64().unwrap()).sum();
            sums[name] = sum.into();
        }
        sums
    };
    let options = "--device cpu --epochs 4 --gpu-cache 40KiB";
    for mode in ["", "--in-process"] {
        let outcome = train(temp.path(), "run.jsonl", &format!("{options} {mode}")).run().succeeds();
        let path = temp.path().join("run.jsonl");
        let cache = hits(&path);
        let metrics = Metrics::read(&path);
        assert_eq!(one(&metrics, "start")["in_force"]["caches"]["counted_epochs"], 2);
        let counted = &cache["counted_beforehand"];
        assert_eq!(counted["epochs"], 2, "{cache}");
        let (of_counted, of_others) = (summed(&metrics, 0..2), summed(&metrics, 2..4));
        for name in ["list_reads", "list_hits", "rows", "row_hits"] {
            assert_eq!(counted[name], of_counted[name], "{name}: {cache}");
        }
        rates(counted, "of the epochs counted");
        let mut others = of_others.clone();
        (others["list_hit_rate"], others["row_hit_rate"]) =
            (cache["list_hit_rate"].clone(), cache["row_hit_rate"].clone());
        rates(&others, "of the others");
        // A choice made from these batches fits them better than any others.
        let rate = |of: &Value| of["row_hit_rate"].as_f64().unwrap();
        assert!(rate(counted) > rate(&cache), "{cache}");
        let percent = |of: &Value| format!("{:.1} %", 100.0 * rate(of));
        let line = |name: &str| {
            let said = outcome.said();
            let line = said.lines().find(|line| line.starts_with(name));
            line.unwrap_or_else(|| panic!("no {name}\n{outcome}")).to_owned()
        };
        assert!(line("cached rows").contains(&percent(&cache)), "{outcome}");
        assert!(line("cached lists").contains("visits and picks"), "{outcome}");
        let apart = line("counted beforehand");
        assert!(apart.contains(&percent(counted)) && apart.contains("epochs 1 to 2"), "{outcome}");
    }
    uvatrain(temp.path(), ["report", "run.jsonl", "--out", "page.html"]).run().succeeds();
    let page = std::fs::read_to_string(temp.path().join("page.html")).unwrap();
    assert!(page.contains("epochs 1 to 2, counted beforehand"), "{page}");

    // A run with only those epochs has no others to report.
    train(temp.path(), "short.jsonl", "--device cpu --epochs 2 --gpu-cache 40KiB").run().succeeds();
    let cache = hits(&temp.path().join("short.jsonl"));
    assert!(cache["row_hit_rate"].is_null() && cache["list_hit_rate"].is_null(), "{cache}");
    rates(&cache["counted_beforehand"], "of a short run");
    // A choice by degree, or from other batches, was not made from these batches.
    plan(temp.path(), "--gpu-cache 40KiB --seed 9 --out plan.json").run().succeeds();
    for options in ["--gpu-cache 40KiB --cache-policy degree", "--plan plan.json"] {
        train(temp.path(), "other.jsonl", &format!("--device cpu --epochs 1 {options}")).run().succeeds();
        let cache = hits(&temp.path().join("other.jsonl"));
        assert!(cache.get("counted_beforehand").is_none(), "{options}: {cache}");
        rates(&cache, options);
    }
    // The plan of the same batches was made from them.
    plan(temp.path(), "--gpu-cache 40KiB --out same.json").run().succeeds();
    train(temp.path(), "same.jsonl", "--device cpu --epochs 1 --plan same.json").run().succeeds();
    assert_eq!(hits(&temp.path().join("same.jsonl"))["counted_beforehand"]["epochs"], 2);
}

#[test]
fn picks_that_stay_for_several_batches_hit_more_and_make_other_batches() {
    let temp = directory();
    small_graph(temp.path());
    let rate = |kappa: u32| {
        let name = format!("{kappa}.jsonl");
        let options = format!("--epochs 1 --gpu-cache 100KiB --cache-policy fifo --batch-dependency {kappa}");
        train(temp.path(), &name, &options).run().succeeds();
        let path = temp.path().join(name);
        (hits(&path)["row_hit_rate"].as_f64().unwrap(), Metrics::read(&path).trained())
    };
    let ((ordinary, batches), (kept, others)) = (rate(1), rate(16));
    assert!(kept > ordinary, "hit rates {ordinary} and {kept}");
    assert_ne!(batches, others);
}

#[test]
fn a_plan_is_written_once_and_used_by_runs() {
    let temp = directory();
    small_graph(temp.path());
    let outcome =
        plan(temp.path(), "--gpu-cache 250KiB --timed-by random --out plan.json --svg plan.svg --json")
            .run()
            .succeeds();
    let printed: Value = serde_json::from_str(&outcome.stdout).expect("one JSON object");
    let ways = printed["fits"].as_array().unwrap().iter().map(|fit| fit["by"].as_str());
    assert_eq!(ways.collect::<Vec<_>>(), [Some("random"), Some("rank")]);
    assert_eq!(printed["timed_by"], "random");
    let written: Value =
        serde_json::from_slice(&std::fs::read(temp.path().join("plan.json")).unwrap()).unwrap();
    for field in
        ["version", "dataset", "options", "policy", "budget_bytes", "model", "predictions", "curves", "fits"]
    {
        assert_eq!(printed[field], written[field], "{field}");
    }
    let used = ["lists", "rows"].map(|kind| {
        let share = &written[kind];
        assert!(temp.path().join(share["ids"]["file"].as_str().expect("a file")).is_file());
        share["bytes"].as_u64().unwrap() + share["map_bytes"].as_u64().unwrap()
    });
    assert!(used.iter().sum::<u64>() <= 250 << 10);
    assert!(std::fs::read_to_string(temp.path().join("plan.svg")).unwrap().starts_with("<svg"));

    train(temp.path(), "plain.jsonl", "--device cpu --epochs 1").run().succeeds();
    train(temp.path(), "planned.jsonl", "--device cpu --epochs 1 --plan plan.json").run().succeeds();
    let path = temp.path().join("planned.jsonl");
    assert_eq!(computed(&temp.path().join("plain.jsonl")), computed(&path));
    let cache = hits(&path);
    assert_eq!(cache["expected_row_hit_rate"], written["rows"]["hit_rate"]);
    let metrics = Metrics::read(&path);
    let in_force = &one(&metrics, "start")["in_force"]["caches"];
    assert_eq!(in_force["budget_bytes"], written["budget_bytes"]);

    let text = plan(temp.path(), "--gpu-cache 250KiB").run().succeeds().stdout;
    for part in ["hit rate by bytes", "lists only", "rows only", "both, as planned", "budget"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn a_dataset_in_the_order_of_its_lists_gives_the_same_batches_and_losses() {
    let temp = directory();
    small_graph(temp.path());
    plan(temp.path(), "--gpu-cache 250KiB --write-reordered reordered").run().succeeds();
    uvatrain(temp.path(), ["info", "reordered", "--verify"]).run().succeeds();
    train(temp.path(), "plain.jsonl", "--device cpu --epochs 2").run().succeeds();
    let expected = computed(&temp.path().join("plain.jsonl"));
    let common =
        "--fanouts 5,4 --batch-size 100 --hidden 16 --train-threads 1 --gather-threads 1 --device cpu";
    for (name, extra) in [
        ("moved.jsonl", ""),
        // The plan that was written with it: its lists are the first nodes, so the run does not reorder.
        ("moved-planned.jsonl", "--plan reordered/plan.json"),
        ("moved-again.jsonl", "--gpu-cache 100KiB --cache-policy degree"),
    ] {
        let line = format!("train reordered {common} --epochs 2 --metrics {name} {extra}");
        uvatrain(temp.path(), line.split_whitespace()).run().succeeds();
        assert_eq!(expected, computed(&temp.path().join(name)), "{name}");
    }
    let planned = hits(&temp.path().join("moved-planned.jsonl"));
    assert!(rate_of(&planned, "row_hit_rate") > 0.1, "{planned}");
}

#[test]
fn what_cannot_be_cached_is_refused_with_the_numbers() {
    let temp = directory();
    small_graph(temp.path());
    let run = |extra: &str| train(temp.path(), "x.jsonl", &format!("--device cpu --epochs 1 {extra}"));
    run("--gpu-cache 900TiB").run().refuses(3, &["900TiB", "are available", "auto"]);
    run("--gpu-cache 6G").run().refuses(2, &["--gpu-cache"]);
    run("--plan none.json").run().refuses(2, &["none.json"]);
    run("--plan plan.json --gpu-cache 1MiB").run().refuses(2, &["--plan", "--gpu-cache"]);
    run("--sampler gpu").run().refuses(2, &["--sampler gpu", "--device cpu"]);

    plan(temp.path(), "--gpu-cache 250KiB --out plan.json").run().succeeds();
    let other = "generate other --nodes 4000 --avg-degree 12 --feat-dim 24 --classes 4 --seed 8";
    uvatrain(temp.path(), other.split(' ')).run().succeeds();
    let line = "train other --fanouts 5,4 --batch-size 100 --epochs 1 --device cpu --plan plan.json";
    uvatrain(temp.path(), line.split(' ')).run().refuses(2, &["plan", "graph", "other"]);

    // A plan for other fanouts is accepted with a warning.
    let line =
        "train graph --fanouts 3,3 --batch-size 100 --hidden 16 --epochs 1 --device cpu --plan plan.json";
    let warned = uvatrain(temp.path(), line.split(' ')).run().succeeds();
    assert!(warned.stderr.contains("--fanouts 5,4") && warned.stderr.contains("3,3"), "{warned}");

    let path = temp.path().join("plan.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, &text[..text.len() / 2]).unwrap();
    run("--plan plan.json").run().refuses(2, &["plan.json"]);
}

#[test]
fn a_train_set_that_reads_nothing_is_nothing_to_plan_for() {
    let temp = directory();
    // Two nodes without an edge between them, one of them to train on.
    let alone = temp.path().join("alone");
    std::fs::create_dir(&alone).unwrap();
    let write = |name: &str, bytes: Vec<u8>| std::fs::write(alone.join(name), bytes).unwrap();
    write("indptr.npy", npy::<i64>(&[3], false, &[0, 0, 0]));
    write("indices.npy", npy::<i32>(&[0], false, &[]));
    write("feat.npy", npy::<f32>(&[2, 2], false, &[0.0, 1.0, 2.0, 3.0]));
    write("label.npy", npy::<i64>(&[2], false, &[0, 1]));
    write("train_idx.npy", npy::<i64>(&[1], false, &[0]));
    write("valid_idx.npy", npy::<i64>(&[1], false, &[1]));
    write("test_idx.npy", npy::<i64>(&[0], false, &[]));
    let line = "plan alone --gpu-cache 1MiB --fanouts 2 --batch-size 1 --device cpu";
    uvatrain(temp.path(), line.split(' ')).run().refuses(2, &["train"]);
}

fn on_gpu(directory: &Path, metrics: &str, extra: &str) -> Uvatrain {
    let options = format!("--device cuda:0 {extra}");
    // Enqueued work is delayed by a little, by a varying time: an order that holds by chance does not hold then.
    train(directory, metrics, &options).simulated().env("CUDA_SIM_DELAY_US", "100")
}

#[test]
fn on_a_gpu_caches_and_the_gpu_sampler_do_not_change_results() {
    let temp = directory();
    smaller_graph(temp.path());
    train(temp.path(), "cpu.jsonl", "--device cpu --epochs 1 --seed 3").run().succeeds();
    let expected = computed(&temp.path().join("cpu.jsonl"));
    for (number, (options, samples_on_gpu)) in some_of(&[
        ("--partition none --sampler gpu", true),
        ("--partition none --sampler gpu --gpu-cache 75KiB", true),
        ("--partition grid --sampler gpu --gpu-cache 30KiB", true),
        ("--partition green --sampler gpu --gpu-cache 75KiB --cache-policy degree", true),
        ("--partition none --sampler cpu --gpu-cache 30KiB", false),
        ("--partition none --sampler cpu --gpu-cache 30KiB --cache-policy fifo --kernel shift", false),
        ("--in-process --sampler gpu --gpu-cache 30KiB", true),
        ("--partition none --sampler gpu --gather dma --gpu-cache 75KiB", true),
    ])
    .enumerate()
    {
        let name = format!("{number}.jsonl");
        let outcome = on_gpu(temp.path(), &name, &format!("--epochs 1 --seed 3 {options}")).run().succeeds();
        let path = temp.path().join(name);
        assert_eq!(expected, computed(&path), "{options}\n{outcome}");
        let metrics = Metrics::read(&path);
        let sampler = &one(&metrics, "start")["in_force"]["sampler"];
        assert_eq!(sampler, if samples_on_gpu { "gpu" } else { "cpu" }, "{options}");
        if options.contains("--gpu-cache") {
            let cache = hits(&path);
            let rate = |name: &str| rate_of(&cache, name);
            assert!(rate("row_hit_rate") + rate("list_hit_rate") > 0.05, "{options}: {cache}\n{outcome}");
            // Lists on the GPU are for a sampler there, rows for the zero-copy gather.
            assert!(samples_on_gpu || cache["list_hits"] == 0, "{options}: {cache}");
            assert!(!options.contains("dma") || cache["row_hits"] == 0, "{options}: {cache}");
        }
    }
}

#[test]
#[ignore = "21 s of a core: scripts/measure/long_tests.sh"]
fn on_a_gpu_every_sampler_trains_as_on_the_cpu_wherever_it_samples() {
    let temp = directory();
    let graph = smaller_graph(temp.path());
    let info = uvatrain(temp.path(), ["info", "graph", "--json"]).run().succeeds().json();
    write_weights(&graph, info["edges"].as_u64().expect("a count"));
    for (number, (kind, on_the_gpu)) in [
        ("--sampler-kind labor --batch-dependency 3", "--sampler gpu --gpu-cache 75KiB"),
        ("--sampler-kind weighted", "--sampler gpu --gpu-cache 75KiB --edge-ids"),
        ("--sampler-kind weighted --replace", "--sampler gpu --in-process"),
        ("--sampler-kind walk --walk-length 3", "--sampler cpu --gpu-cache 75KiB"),
        ("--sampler-kind ladies --slot-bytes 1MiB", "--sampler cpu --in-process"),
    ]
    .into_iter()
    .enumerate()
    {
        let [cpu, gpu] = ["cpu", "gpu"].map(|place| format!("{place}-{number}.jsonl"));
        let options = format!("--epochs 1 --seed 3 {kind}");
        train(temp.path(), &cpu, &format!("--device cpu {options}")).run().succeeds();
        let line = format!("{options} {on_the_gpu}");
        let partition = if line.contains("--in-process") { "" } else { "--partition none" };
        let outcome = on_gpu(temp.path(), &gpu, &format!("{line} {partition}")).run().succeeds();
        let [expected, found] = [cpu, gpu].map(|name| computed(&temp.path().join(name)));
        assert_eq!(expected, found, "{line}\n{outcome}");
    }
}

#[test]
#[ignore = "8 s of a core: scripts/measure/long_tests.sh"]
fn auto_says_which_sampler_is_faster_and_what_is_left_to_the_caches() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "cpu.jsonl", "--device cpu --epochs 1").run().succeeds();
    let options = "--epochs 1 --partition none --gpu-cache auto --samplers 2";
    let outcome = on_gpu(temp.path(), "auto.jsonl", options).run().succeeds();
    for part in ["--sampler auto: the ", "one training batch left", "in reserve"] {
        assert!(outcome.stderr.contains(part), "{part} is missing in\n{outcome}");
    }
    let path = temp.path().join("auto.jsonl");
    assert_eq!(computed(&temp.path().join("cpu.jsonl")), computed(&path));
    assert_eq!(rate_of(&hits(&path), "row_hit_rate"), 1.0, "the stand-in's memory holds all rows");
}

#[test]
fn more_than_the_gpu_has_free_is_refused_with_both_numbers() {
    let temp = directory();
    small_graph(temp.path());
    let run = on_gpu(temp.path(), "x.jsonl", "--epochs 1 --partition none --gpu-cache 900GiB");
    run.run().refuses(3, &["900GiB", "8 GiB of the 8 GiB", "free", "cuda:0"]);
    let two = on_gpu(temp.path(), "y.jsonl", "--epochs 1 --partition none --sampler gpu --samplers 2");
    two.run().refuses(2, &["--sampler gpu", "--samplers 2"]);
}

/// A run whose planner is busy for a while: twenty epochs of many small batches.
fn planning(directory: &Path) -> support::Running {
    let line = "train graph --fanouts 15,10,5 --batch-size 1 --epochs 1 --device cpu --gpu-cache 100KiB \
                --cache-policy optimal --hidden 16";
    uvatrain(directory, line.split_whitespace()).start()
}

#[test]
fn an_interrupt_or_a_kill_ends_the_planning_and_leaves_nothing() {
    let temp = directory();
    small_graph(temp.path());
    let run = planning(temp.path());
    let planner = role_of(&run, "planner");
    kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
    run.wait().refuses(130, &["SIGINT"]);
    assert!(planner.has_ended());

    let run = planning(temp.path());
    let planner = role_of(&run, "planner");
    planner.signal(Signal::KILL);
    run.wait().refuses(1, &["the planner was killed by SIGKILL"]);

    let mut run = planning(temp.path());
    let planner = role_of(&run, "planner");
    kill_process(Pid::from_child(&run.child), Signal::KILL).unwrap();
    run.child.wait().unwrap();
    wait_until("the planner ends with its launcher", || planner.has_ended());
}

#[test]
fn a_plan_that_could_not_be_written_or_used_is_refused_before_the_work() {
    let temp = directory();
    small_graph(temp.path());
    plan(temp.path(), "--gpu-cache 1MiB --out none/plan.json").run().refuses(2, &["--out", "none"]);
    plan(temp.path(), "--gpu-cache 1MiB --write-reordered graph")
        .run()
        .refuses(2, &["--write-reordered graph"]);
    plan(temp.path(), "--gpu-cache 1MiB --cache-policy fifo --write-reordered new")
        .run()
        .refuses(2, &["fifo"]);
    plan(temp.path(), "--gpu-cache 0").run().refuses(2, &["--gpu-cache"]);
    let run = |extra: &str| train(temp.path(), "x.jsonl", &format!("--epochs 1 {extra}"));
    run("--device cpu --cache-policy degree").run().refuses(2, &["--gpu-cache"]);
    let unread = on_gpu(
        temp.path(),
        "y.jsonl",
        "--epochs 1 --gpu-cache 1MiB --gather split --sampler cpu --partition none",
    );
    unread.run().refuses(2, &["--sampler gpu", "--gather zero-copy"]);
}

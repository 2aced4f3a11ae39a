//! `--dry-run` of `train`, `run` and `bench pipeline`: it reports what a run would start and use, and starts nothing.

use std::fs;
use std::path::Path;

use crate::support::arrays::write_weights;
use crate::support::extent::some_of;
use crate::support::runs::small_graph;
use crate::support::{Outcome, assert_same_contents, contents, directory, uvatrain};

fn dry(directory: &Path, args: &str) -> crate::support::Uvatrain {
    uvatrain(directory, args.split(' ').chain(["--dry-run"]))
}

fn column(dry: &serde_json::Value, list: &str, name: &str) -> Vec<String> {
    let lines = dry[list].as_array().unwrap_or_else(|| panic!("no {list} in {dry}"));
    lines.iter().map(|line| line[name].as_str().unwrap_or_default().to_owned()).collect()
}

/// The bytes of an item of memory, and its kind.
fn item<'a>(dry: &'a serde_json::Value, item: &str) -> (&'a str, u64) {
    let line = dry["memory"].as_array().and_then(|lines| lines.iter().find(|line| line["item"] == item));
    let line = line.unwrap_or_else(|| panic!("no {item} in {dry}"));
    (line["kind"].as_str().unwrap_or_default(), line["bytes"].as_u64().unwrap_or_default())
}

#[test]
fn a_dry_run_names_stages_rings_and_memory_and_writes_nothing() {
    let temp = directory();
    small_graph(temp.path());
    // The stamp of the checked dataset is written by its first reader.
    uvatrain(temp.path(), ["info", "graph"]).run().succeeds();
    let before = contents(temp.path());
    for args in [
        "train graph --fanouts 4,3 --samplers 2 --checkpoint kept --metrics run.jsonl --trace trace.json",
        "bench pipeline graph --fanouts 4,3 --samplers 2",
    ] {
        let told: Outcome = dry(temp.path(), args).run().succeeds();
        for part in
            ["sampler 0", "sampler 1", "producer", "consumer", "batch ring", "feature ring", "in all, about"]
        {
            assert!(told.stdout.contains(part), "{part} of {args} in\n{}", told.stdout);
        }
    }
    let run = ["run", "graph", "--fanouts", "4,3", "--dry-run", "--", "sh", "-c", "touch started"];
    let told = uvatrain(temp.path(), run).run().succeeds();
    assert!(told.stdout.contains("process 3"), "{}", told.stdout);
    assert_same_contents(&before, &contents(temp.path()));
}

/// Bytes of the process and its descendants. Shared pages are divided between the processes.
fn proportional_set_size(process: u32) -> u64 {
    let directory = format!("/proc/{process}");
    let rollup = fs::read_to_string(format!("{directory}/smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let own = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10;
    let threads = fs::read_dir(format!("{directory}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    let children: Vec<u32> =
        lists.flat_map(|list| list.split_whitespace().flat_map(str::parse).collect::<Vec<_>>()).collect();
    own + children.into_iter().map(proportional_set_size).sum::<u64>()
}

#[test]
#[ignore = "9 s of a core: scripts/measure/long_tests.sh"]
fn the_memory_of_a_dry_run_is_near_what_the_run_takes() {
    let temp = directory();
    let generate = "generate graph --nodes 200000 --avg-degree 20 --feat-dim 100 --classes 12";
    uvatrain(temp.path(), generate.split(' ')).run().succeeds();
    let train = "train graph --fanouts 10,5 --batch-size 1024 --train-threads 1 --epochs 1";
    for mode in some_of(&["", " --in-process"]) {
        let told = dry(temp.path(), &format!("{train}{mode} --json")).run().succeeds().json();
        let lines = told["memory"].as_array().unwrap().iter();
        let told: u64 = lines.map(|line| line["bytes"].as_u64().unwrap()).sum();
        let mut run = uvatrain(temp.path(), format!("{train}{mode}").split(' ')).start();
        let mut peak = 0;
        while run.child.try_wait().unwrap().is_none() {
            peak = peak.max(proportional_set_size(run.child.id()));
            std::thread::park_timeout(std::time::Duration::from_millis(5));
        }
        run.wait().succeeds();
        let share = told as f64 / peak as f64;
        assert!((0.6..1.7).contains(&share), "{mode}: {told} bytes said, {peak} taken");
    }
}

#[test]
fn the_topology_says_which_stages_share_a_process() {
    let temp = directory();
    small_graph(temp.path());
    let json = |args: &str| dry(temp.path(), &format!("{args} --json")).run().succeeds().json();
    let apart = json("train graph --fanouts 4,3 --samplers 2");
    assert_eq!(column(&apart, "stages", "stage"), ["sampler 0", "sampler 1", "producer", "consumer"]);
    assert_eq!(column(&apart, "stages", "runs"), ["process 1", "process 2", "process 3", "process 4"]);
    assert_eq!(column(&apart, "stages", "device"), ["cpu"; 4]);
    assert_eq!(column(&apart, "stages", "reads"), ["", "", "batch", "feature"]);
    assert_eq!(column(&apart, "stages", "writes"), ["batch", "batch", "feature", ""]);
    let threads = json("bench pipeline graph --fanouts 4,3 --samplers 2");
    assert_eq!(column(&threads, "stages", "runs"), ["thread"; 4]);
    let (kind, bytes) = item(&apart, "batch ring");
    let ring = &apart["rings"][0];
    let payload = ring["slots"].as_u64().unwrap() * ring["slot_bytes"].as_u64().unwrap();
    assert_eq!(kind, "host");
    assert!((payload..payload + (1 << 20)).contains(&bytes), "{bytes} for {payload}");
}

#[test]
fn on_a_gpu_its_stages_share_a_process_unless_it_is_divided() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let json = |options: &str| {
        let args = format!(
            "run graph --fanouts 4,3 --samplers 1 --device cuda:0 {options} --dry-run --json -- true"
        );
        uvatrain(temp.path(), args.split(' ')).simulated().run().succeeds().json()
    };
    let runs = |dry: &serde_json::Value| column(dry, "stages", "runs");
    let apart = json("--partition none");
    assert_eq!(runs(&apart), ["process 1", "process 2", "process 3"]);
    assert_eq!(column(&apart, "stages", "device"), ["cpu", "cuda:0", "cuda:0"]);
    assert_eq!(runs(&json("--partition grid")), ["process 1", "process 2", "process 2"]);
    let all = json("--partition grid --sampler gpu --gpu-cache 1MiB");
    assert_eq!(runs(&all), ["process 1"; 3]);
    assert_eq!(item(&all, "graph").0, "pinned");
    assert_eq!(item(&all, "caches, at most"), ("device", 1 << 20));
    assert_eq!(item(&apart, "feature table").0, "pinned");
    let (kind, bytes) = item(&apart, "feature slots");
    let ring = &apart["rings"][1];
    assert_eq!(kind, "device");
    assert_eq!(bytes, ring["slots"].as_u64().unwrap() * ring["device_slot_bytes"].as_u64().unwrap());

    // Cached lists take the weights and the places that lead to edge ids, as the plan counts them.
    let info = uvatrain(temp.path(), ["info", "graph", "--json"]).run().succeeds().json();
    let edges = info["edges"].as_u64().unwrap();
    write_weights(&graph, edges);
    let kind = "--sampler-kind weighted --edge-ids";
    let line =
        format!("plan graph --fanouts 4,3 {kind} --gpu-cache 250KiB --device cpu --out plan.json --json");
    let plan = uvatrain(temp.path(), line.split(' ')).run().succeeds().json();
    let arrays = ["weight_bytes", "home_bytes"].map(|array| plan["dataset"][array].as_u64());
    assert_eq!(arrays, [Some(4), Some(8)]);
    let taken = ["lists", "rows"]
        .map(|cache| plan[cache]["bytes"].as_u64().unwrap() + plan[cache]["map_bytes"].as_u64().unwrap());
    let planned = json(&format!("--partition grid --sampler gpu {kind} --plan plan.json"));
    assert_eq!(item(&planned, "caches of the plan"), ("device", taken.iter().sum()));
    assert_eq!(item(&planned, "weights of the edges"), ("pinned", 4 * edges));
}

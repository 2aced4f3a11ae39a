//! The GPU in the whole program, under the stand-in for NVIDIA's driver: the real binary, its processes, the real
//! kernels run on the host. Device memory is host memory there, and the model trains on the CPU, so batches *and*
//! losses must equal those of a run without a GPU, bit for bit.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::extent::some_of;
use crate::support::mps::Machine;
use crate::support::runs::{Metrics, TRAIN, role_of, small_graph, train, wait_for_batches};
use crate::support::{Uvatrain, directory, uvatrain, uvatrain_behind};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// All results in a run's metrics.
#[derive(Debug, PartialEq)]
struct Computed {
    /// Epoch, batch, hash and loss.
    batches: Vec<(u64, u64, String, String)>,
    epochs: Vec<String>,
    accuracy: Option<String>,
}

fn computed(path: &Path) -> Computed {
    let metrics = Metrics::read(path);
    Computed {
        batches: metrics.trained(),
        epochs: metrics
            .of("epoch")
            .map(|epoch| format!("{} {}", epoch["train_loss"], epoch["valid_accuracy"]))
            .collect(),
        accuracy: metrics.of("end").next().map(|end| end["test_accuracy"].to_string()),
    }
}

fn on_gpu(directory: &Path, metrics: &str, extra: &str) -> Uvatrain {
    let options = format!("--device cuda:0 {extra}");
    // Enqueued work is delayed by a little, by a varying time: an order that holds by chance does not hold then.
    train(directory, metrics, &options).simulated().env("CUDA_SIM_DELAY_US", "200")
}

#[test]
fn batches_and_losses_are_those_of_the_cpu_whichever_way_the_rows_take() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "cpu.jsonl", "--device cpu --epochs 2 --seed 3").run().succeeds();
    let expected = computed(&temp.path().join("cpu.jsonl"));
    assert!(expected.batches.len() >= 20 && expected.accuracy.is_some());
    for (number, (options, partition)) in some_of(&[
        ("--partition none", "none"),
        ("--partition none --kernel naive --ipc legacy --slots 1", "none"),
        ("--partition none --kernel shift --ipc vmm --slots 3 --samplers 2", "none"),
        ("--partition none --gather dma", "none"),
        ("--partition none --gather split", "none"),
        ("--partition none --ipc vmm --ipc-signals events", "none"),
        ("--partition none --ipc vmm --ipc-signals stamps", "none"),
        ("--partition none --ipc legacy --ipc-signals stamps --slots 3", "none"),
        ("--partition green", "green"),
        ("--partition green --ipc-signals stamps", "green"),
        ("--partition green --sampler gpu --samplers 1", "green"),
        ("--partition grid --samplers 2", "grid"),
        ("--mps off", "green"),
        ("--gather cpu", "none"),
        ("--in-process", "green"),
    ])
    .enumerate()
    {
        let metrics = format!("{number}.jsonl");
        let outcome =
            on_gpu(temp.path(), &metrics, &format!("--epochs 2 --seed 3 {options}")).run().succeeds();
        let path = temp.path().join(metrics);
        assert_eq!(expected, computed(&path), "{options}\n{outcome}");
        let read = Metrics::read(&path);
        let force = &read.of("start").next().expect("a start")["in_force"];
        assert_eq!(force["device"], "cuda:0", "{options}");
        let partition_in_force = &force["backend"]["cuda"]["partition"];
        let name = partition_in_force
            .as_str()
            .map(str::to_owned)
            .or_else(|| partition_in_force.as_object().and_then(|object| object.keys().next().cloned()));
        assert_eq!(name.as_deref(), Some(partition), "{options}: {partition_in_force}");
    }
}

#[test]
#[ignore = "8 s of a core: scripts/measure/long_tests.sh"]
fn a_first_contact_that_fails_is_reported_in_one_line_with_a_fallback() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "cpu.jsonl", "--device cpu --epochs 1").run().succeeds();
    let expected = computed(&temp.path().join("cpu.jsonl"));
    for (options, by_name, fault, in_force, parts) in [
        (
            "--mps off",
            "--partition green",
            "consumer:cuEventRecord:1=CUDA_ERROR_INVALID_HANDLE",
            Some("grid"),
            [
                "the consumer cannot use green contexts: cuEventRecord failed",
                "INVALID_HANDLE (400)",
                "--partition grid",
            ],
        ),
        (
            "--partition none",
            "--partition none --ipc vmm",
            "consumer:cuMemImportFromShareableHandle:*=CUDA_ERROR_NOT_PERMITTED",
            None,
            ["the consumer cannot open GPU memory", "NOT_PERMITTED (800)", "--ipc legacy"],
        ),
        (
            "--partition none",
            "--partition none --ipc-signals events",
            "consumer:cuIpcOpenEventHandle:*=CUDA_ERROR_MAP_FAILED",
            None,
            ["the consumer cannot open events", "MAP_FAILED (205)", "--ipc-signals stamps"],
        ),
    ] {
        let run = |options: &str| {
            let options = format!("--epochs 1 {options}");
            on_gpu(temp.path(), "gpu.jsonl", &options).env("CUDA_SIM_FAIL", fault).run()
        };
        let told = run(options).succeeds();
        assert_eq!(expected, computed(&temp.path().join("gpu.jsonl")), "{options}");
        let path = temp.path().join("gpu.jsonl");
        let metrics = Metrics::read(&path);
        let changes: Vec<&Value> = metrics.of("in_force").map(|event| &event["in_force"]).collect();
        let partitions: Vec<&str> =
            changes.iter().map(|change| change["partition"].as_str().unwrap()).collect();
        assert_eq!(partitions, Vec::from_iter(in_force), "{options}");
        for change in changes {
            let divided = &change["backend"]["cuda"]["partition"];
            assert!(divided["grid"]["multiprocessors"].as_u64() > Some(0), "{change}");
            // The report shows the values in force, and not those of the start.
            let report = temp.path().join("report.html");
            uvatrain(temp.path(), ["report", "gpu.jsonl", "--out", "report.html"]).run().succeeds();
            let page = std::fs::read_to_string(&report).unwrap();
            assert!(page.contains("partition grid") && !page.contains("partition green"), "in the report");
        }
        let lines: Vec<&str> = told.stderr.lines().filter(|line| line.contains(" instead")).collect();
        let [line] = lines[..] else { panic!("{options}: {told}") };
        parts.iter().for_each(|part| assert!(line.contains(part), "no {part} in {line}"));
        let told = run(by_name);
        assert!(told.stderr.contains("the consumer failed") && !told.stderr.contains(" instead"), "{told}");
        assert!(told.stderr.contains(by_name.rsplit("--").next().unwrap()), "{told}");
    }
}

/// Number of calls of each driver function in the consumer, and number of batches that it trains on.
fn calls_of_the_consumer(directory: &Path, epochs: u32) -> (BTreeMap<String, u64>, u64) {
    let counts = crate::support::directory();
    let name = format!("{epochs}.jsonl");
    // Only training: validation reads each batch's result at once.
    let options = format!("--epochs {epochs} --eval full --partition none --keep last");
    on_gpu(directory, &name, &options)
        .env("CUDA_SIM_DROPOUT", "device")
        .env("CUDA_SIM_COUNTS", counts.path())
        .run()
        .succeeds();
    let mut calls = BTreeMap::new();
    for entry in std::fs::read_dir(counts.path()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("consumer-") {
            for line in std::fs::read_to_string(entry.path()).unwrap().lines() {
                let (function, count) = line.split_once(' ').unwrap();
                calls.insert(function.to_owned(), count.trim().parse().unwrap());
            }
        }
    }
    (calls, Metrics::read(&directory.join(name)).of("batch").count() as u64)
}

#[test]
#[ignore = "6 s of a core: scripts/measure/long_tests.sh"]
fn a_training_step_on_a_gpu_does_not_wait_and_makes_few_calls() {
    let temp = directory();
    small_graph(temp.path());
    let (few, many) = (calls_of_the_consumer(temp.path(), 1), calls_of_the_consumer(temp.path(), 5));
    let (batches, epochs) = (many.1 - few.1, 4);
    assert!(batches >= 8 * epochs, "{batches}");
    // The cost of the additional batches. At the end of an epoch the host waits for its last results.
    let more = |function: &str| {
        let count = |calls: &BTreeMap<String, u64>| calls.get(function).copied().unwrap_or(0);
        count(&many.0) - count(&few.0)
    };
    for function in ["cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize"] {
        // One more if the single epoch's results had arrived when the host checked.
        assert!(more(function) <= epochs + 1, "{function}: {} in {batches} batches", more(function));
    }
    for function in ["cuMemHostAlloc", "cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuEventCreate"] {
        assert_eq!(more(function), 0, "{function}");
    }
    // The verdict, which writes the results where the host reads them; under the stand-in libtorch prepares the blocks.
    // The report; around the wait, around the step, and the slot's release.
    for (function, each) in [
        ("cuLaunchKernel", 1),
        ("cuMemcpyDtoHAsync_v2", 1),
        ("cuStreamWaitEvent", 1),
        ("cuEventRecord", 5),
        ("cuEventElapsedTime_v2", 2),
    ] {
        assert_eq!(more(function), each * batches, "{function}");
    }
}

/// NVIDIA's driver pins memory regardless of the limit, so a low limit is not a refusal; if a system enforces it, it is
/// the cause.
#[test]
fn a_limit_on_locked_memory_only_matters_where_pinning_is_required() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "cpu.jsonl", "--device cpu --epochs 1").run().succeeds();
    // Privileges of root beyond the limit are dropped first.
    let line =
        "ulimit -l 16\n[ \"$(id -u)\" != 0 ] || exec setpriv --bounding-set=-ipc_lock -- \"$@\"\nexec \"$@\"";
    let limited = || {
        let args = format!("{TRAIN} --metrics gpu.jsonl --device cuda:0 --epochs 1 --partition none");
        uvatrain_behind(temp.path(), line, args.split_whitespace()).simulated()
    };
    limited().run().succeeds();
    assert_eq!(computed(&temp.path().join("cpu.jsonl")), computed(&temp.path().join("gpu.jsonl")));
    let refused =
        limited().env("CUDA_SIM_FAIL", "producer:cuMemHostRegister:*=CUDA_ERROR_OUT_OF_MEMORY").run();
    refused.refuses(1, &["feat.npy", "RLIMIT_MEMLOCK is 16.0 KiB, less than the ", "ulimit -l unlimited"]);
}

#[test]
#[ignore = "4 s of a core: scripts/measure/long_tests.sh"]
fn predictions_on_a_gpu_are_those_of_the_cpu() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "cpu.jsonl", "--device cpu --model gcn --epochs 1 --checkpoint kept").run().succeeds();
    let predict = |device: &str, file: &str| {
        let line = format!(
            "predict graph --checkpoint kept --eval sampled --device {device} --output c-{file} --embeddings e-{file}"
        );
        uvatrain(temp.path(), line.split(' '))
    };
    predict("cpu", "cpu.npy").run().succeeds();
    predict("cuda:0", "gpu.npy").simulated().env("CUDA_SIM_DELAY_US", "200").run().succeeds();
    let read = |name: &str| std::fs::read(temp.path().join(name)).unwrap();
    assert!(read("c-cpu.npy") == read("c-gpu.npy") && read("e-cpu.npy") == read("e-gpu.npy"));
    predict("cuda:0", "none.npy").run().refuses(3, &["--device cuda:0"]);
}

#[test]
fn gcn_gets_its_degrees_over_the_same_way() {
    let temp = directory();
    small_graph(temp.path());
    train(temp.path(), "cpu.jsonl", "--device cpu --model gcn --epochs 1").run().succeeds();
    on_gpu(temp.path(), "gpu.jsonl", "--model gcn --epochs 1 --partition none").run().succeeds();
    assert_eq!(computed(&temp.path().join("cpu.jsonl")), computed(&temp.path().join("gpu.jsonl")));
}

#[test]
fn a_missing_gpu_is_an_error_and_auto_works_without_one() {
    let temp = directory();
    small_graph(temp.path());
    let lacking = train(temp.path(), "a.jsonl", "--device cuda:0 --epochs 1");
    lacking.run().refuses(3, &["--device cuda:0", "--device cpu"]);
    let none = train(temp.path(), "b.jsonl", "--device cuda:0 --epochs 1").simulated();
    none.env("CUDA_SIM_DEVICES", "0").run().refuses(3, &["--device cuda:0"]);
    let second = train(temp.path(), "c.jsonl", "--device cuda:1 --epochs 1").simulated();
    second.run().refuses(3, &["--device cuda:1: there is one GPU only, cuda:0"]);
    let old = train(temp.path(), "d.jsonl", "--device cuda:0 --epochs 1").simulated();
    old.env("CUDA_SIM_DRIVER_VERSION", "12020").run().refuses(3, &["--device cuda:0", "12.2"]);
    let auto = train(temp.path(), "e.jsonl", "--epochs 1").simulated().env("CUDA_SIM_DEVICES", "0");
    auto.run().succeeds();
    let read = Metrics::read(&temp.path().join("e.jsonl"));
    assert_eq!(read.of("start").next().expect("a start")["in_force"]["device"], "cpu");
}

#[test]
fn an_interrupt_finishes_the_batch_and_ends_all_processes_of_the_producer() {
    let temp = directory();
    small_graph(temp.path());
    for (name, options) in some_of(&[
        ("green", "--partition green"),
        ("grid", "--partition grid"),
        ("none", "--partition none"),
        ("threads", "--in-process"),
    ]) {
        let metrics = format!("{name}.jsonl");
        let path = temp.path().join(&metrics);
        let options = format!("--checkpoint {name} {options}");
        let mut run = on_gpu(temp.path(), &metrics, &format!("--epochs 100000 {options}")).start();
        wait_for_batches(&mut run, &path, 8);
        kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
        run.wait().refuses(130, &["SIGINT"]);
        let before = Metrics::read(&path).trained();
        let epochs = before.last().expect("a batch").0 + 1;
        let resumed = on_gpu(temp.path(), &metrics, &format!("--epochs {epochs} {options} --resume"));
        assert!(resumed.run().succeeds().stderr.contains("resumed at batch"), "{name}");
        let whole = format!("{name}-whole.jsonl");
        train(temp.path(), &whole, &format!("--device cpu --epochs {epochs}")).run().succeeds();
        assert_eq!(
            Metrics::read(&path).trained(),
            Metrics::read(&temp.path().join(whole)).trained(),
            "{name}"
        );
    }
}

/// A run under MPS on this machine.
fn under_mps(machine: &Machine, metrics: &str, extra: &str) -> Uvatrain {
    let run = train(machine.folder.path(), metrics, &format!("--device cuda:0 {extra}")).simulated();
    machine.with(run).env("CUDA_MPS_PIPE_DIRECTORY", "")
}

fn in_force(path: &Path) -> Value {
    Metrics::read(path).of("start").next().expect("a start")["in_force"].clone()
}

#[test]
fn mps_divides_the_gpu_as_asked_and_its_daemon_ends_with_the_run() {
    let machine = Machine::new();
    let folder = machine.folder.path();
    small_graph(folder);
    train(folder, "cpu.jsonl", "--device cpu --epochs 1").run().succeeds();
    let outcome =
        under_mps(&machine, "mps.jsonl", "--epochs 1 --mps require --mps-percentage 20").run().succeeds();
    assert_eq!(computed(&folder.join("cpu.jsonl")), computed(&folder.join("mps.jsonl")));
    // 132 multiprocessors; MPS rounds down.
    let mps = in_force(&folder.join("mps.jsonl"))["backend"]["cuda"]["partition"]["mps"].clone();
    for (field, value) in [
        ("producer_percentage", 20),
        ("consumer_percentage", 80),
        ("producer_multiprocessors", 26),
        ("consumer_multiprocessors", 105),
    ] {
        assert_eq!(mps[field], value, "{field} in {mps}");
    }
    assert!(outcome.stderr.contains("divided by MPS: producer 20 % (26 multiprocessors)"), "{outcome}");
    let told: Vec<String> = machine.recorded().iter().map(|line| line.to_string()).collect();
    assert!(told.iter().any(|line| line.contains("-d")), "no daemon was started: {told:?}");
    assert!(told.iter().any(|line| line.contains("quit")), "it received no quit: {told:?}");
    machine.assert_clean();
}

#[test]
#[ignore = "9 s of a core: scripts/measure/long_tests.sh"]
fn a_sampler_on_the_gpu_has_its_own_share_or_leaves_it_to_the_consumer() {
    let machine = Machine::new();
    let folder = machine.folder.path();
    small_graph(folder);
    train(folder, "cpu.jsonl", "--device cpu --epochs 1").run().succeeds();
    let shares = |name: &str, options: &str| {
        let options = format!("--epochs 1 --mps require --mps-percentage 20 {options}");
        let outcome = under_mps(&machine, name, &options).run().succeeds();
        assert_eq!(computed(&folder.join("cpu.jsonl")), computed(&folder.join(name)), "{options}\n{outcome}");
        let in_force = in_force(&folder.join(name));
        let mps = &in_force["backend"]["cuda"]["partition"]["mps"];
        (in_force["sampler"].clone(), mps["sampler"].clone(), mps["consumer_percentage"].clone())
    };
    let (sampler, share, consumer) =
        shares("gpu.jsonl", "--sampler gpu --mps-sampler-percentage 30 --gpu-cache 250KiB");
    assert_eq!((sampler, consumer), ("gpu".into(), 50.into()));
    assert_eq!((&share["percentage"], &share["multiprocessors"]), (&30.into(), &39.into()));
    // One process has both shares, 66 multiprocessors, and the sampler's share is part of these.
    let mps = in_force(&folder.join("gpu.jsonl"))["backend"]["cuda"]["partition"]["mps"].clone();
    assert_eq!((&mps["producer_percentage"], &mps["producer_multiprocessors"]), (&20.into(), &27.into()));
    let (sampler, share, consumer) = shares("auto.jsonl", "--sampler auto");
    // Either of the two may be faster under the stand-in; the shares follow from the choice.
    match sampler.as_str() {
        Some("gpu") => assert_eq!((&share["percentage"], consumer), (&20.into(), 60.into())),
        _ => assert_eq!((sampler.as_str(), share.is_null(), consumer), (Some("cpu"), true, 80.into())),
    }
    let refused = under_mps(
        &machine,
        "x.jsonl",
        "--epochs 1 --sampler gpu --mps-percentage 60 --mps-sampler-percentage 40",
    );
    refused.run().refuses(2, &["--mps-percentage 60", "--mps-sampler-percentage 40"]);
    machine.assert_clean();
}

#[test]
fn another_users_daemon_is_used_and_left_running() {
    let machine = Machine::new();
    small_graph(machine.folder.path());
    let pipe = machine.pipe();
    let daemon = machine.somebodys_daemon(&pipe, None);
    let run = under_mps(&machine, "a.jsonl", "--epochs 1 --mps require");
    run.env("CUDA_MPS_PIPE_DIRECTORY", &pipe).run().succeeds();
    assert!(Path::new(&format!("/proc/{daemon}")).exists(), "the daemon was ended");
    let quit = machine.recorded().iter().any(|line| line.to_string().contains("quit"));
    assert!(!quit, "the daemon received a quit: {:?}", machine.recorded());
}

/// In the stand-in, the server dies with a client that is killed while it has work in flight, as NVIDIA warns.
#[test]
#[ignore = "10 s of a core: scripts/measure/long_tests.sh"]
fn a_run_that_fails_or_is_interrupted_leaves_the_server_of_others_sound() {
    let machine = Machine::new();
    let folder = machine.folder.path();
    small_graph(folder);
    let pipe = machine.pipe();
    machine.somebodys_daemon(&pipe, None);
    let run = |metrics: &str, extra: &str, fault: &str| {
        let run = under_mps(&machine, metrics, &format!("--mps require {extra}"));
        run.env("CUDA_MPS_PIPE_DIRECTORY", &pipe).env("CUDA_SIM_DELAY_US", "2000").env("CUDA_SIM_FAIL", fault)
    };
    for (number, fault) in [
        "producer:cuLaunchKernel:40=CUDA_ERROR_INVALID_VALUE",
        "consumer:cuMemcpyDtoHAsync:9=CUDA_ERROR_INVALID_VALUE",
        "producer:cuLaunchKernel:40=CUDA_ERROR_LAUNCH_FAILED",
    ]
    .into_iter()
    .enumerate()
    {
        let told = run("fails.jsonl", "--epochs 3", fault).run().ends_with(1);
        assert!(told.stderr.contains(fault.split(':').nth(1).unwrap()), "{fault}: {told}");
        let after = format!("after-{number}.jsonl");
        run(&after, "--epochs 1", "").run().succeeds();
    }
    let mut interrupted = run("interrupted.jsonl", "--epochs 100000", "").start();
    wait_for_batches(&mut interrupted, &folder.join("interrupted.jsonl"), 5);
    kill_process(Pid::from_child(&interrupted.child), Signal::INT).unwrap();
    interrupted.wait().ends_with(130);
    run("last.jsonl", "--epochs 1", "").run().succeeds();
}

#[test]
fn without_mps_require_is_refused_with_the_reason_and_auto_continues() {
    let machine = Machine::new();
    let folder = machine.folder.path();
    small_graph(folder);
    let lacking =
        |metrics: &str, extra: &str| under_mps(&machine, metrics, extra).env("PATH", "/usr/bin:/bin");
    let refused = lacking("a.jsonl", "--epochs 1 --mps require").run();
    refused.refuses(3, &["MPS cannot divide the GPU", "nvidia-cuda-mps-control", "--mps auto"]);
    let outcome = lacking("b.jsonl", "--epochs 1 --mps auto").run().succeeds();
    assert!(outcome.stderr.contains("MPS cannot divide the GPU"), "{outcome}");
    assert!(in_force(&folder.join("b.jsonl"))["backend"]["cuda"]["partition"]["green"].is_object());
    for mode in ["hang", "dies", "refuse"] {
        let refused = under_mps(&machine, "c.jsonl", "--epochs 1 --mps require").env("CUDA_SIM_MPS", mode);
        refused.run().refuses(3, &["MPS cannot divide the GPU"]);
        machine.assert_clean();
    }
}

#[test]
#[ignore = "3 s of a core: scripts/measure/long_tests.sh"]
fn a_kill_under_mps_leaves_no_daemon_and_its_clients_leave_first() {
    for victim in ["launcher", "producer", "consumer"] {
        let machine = Machine::new();
        let folder = machine.folder.path();
        small_graph(folder);
        let mut run =
            under_mps(&machine, "run.jsonl", "--epochs 100000 --mps require --checkpoint kept").start();
        wait_for_batches(&mut run, &folder.join("run.jsonl"), 5);
        let code = match victim {
            "launcher" => {
                kill_process(Pid::from_child(&run.child), Signal::KILL).unwrap();
                128 + 9
            }
            role => {
                role_of(&run, role).signal(Signal::KILL);
                1
            }
        };
        // Waits for the janitor too, which holds its stderr.
        let outcome = run.wait().ends_with(code);
        assert!(!outcome.stderr.contains("panicked"), "{victim}: {outcome}");
        machine.assert_clean();
    }
}

#[test]
fn a_gpu_too_small_for_the_slots_is_reported_with_what_sizes_them() {
    let temp = directory();
    small_graph(temp.path());
    // The stand-in has a GPU smaller than the slots: the message names the buffer, its size, and the options.
    let small = on_gpu(temp.path(), "a.jsonl", "--epochs 1 --partition none").env("CUDA_SIM_MEMORY", "65536");
    small.run().refuses(1, &["feature slots", "--slots", "--batch-size", "--slot-bytes"]);
}

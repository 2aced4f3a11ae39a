//! The roles as processes over the stand-in for NVIDIA's driver, with a consumer that compares every byte with the
//! dataset and does not use libtorch, so that a run takes a fraction of a second and hundreds of faults can be tried.
//!
//! A separate program, without libtest's harness: the launcher also starts this executable as its roles.

#[path = "../../uva-runtime/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uva_graph::npy::{NpyType, write_array};
use uva_graph::{Dataset, Labels};
use uva_launch::launcher::{Consumer, Environments, Helper, Launch, Launcher, Role, run_helper, run_role};
use uva_runtime::backend::{
    Backend, CudaBackend, GatherChoice, GpuSlots, IpcKind, Kernel, Partition, PinPages, PreflightPolicy,
    SamplerChoice, SignalKind,
};
use uva_runtime::control::Stop;
use uva_runtime::pipeline::roles::BatchReceiver;
use uva_runtime::plan::RunPlan;
use uva_runtime::sampler::cache::{CacheContents, CachePlan, CachePolicy};
use uva_runtime::spec::Spelling;
use uva_runtime::telemetry::metrics::{Event, Observer, RunProgress};
use uva_runtime::tune::planning::Search;
use uva_runtime::{Aggregation, Batch, LoaderOptions, Passes, RuntimeError, SlotRoom};
use uva_sample::{SamplerKind, batch_hash};

/// A run that takes longer hangs: it has some twenty small batches. Generous, for busy machines.
const WATCHDOG: Duration = Duration::from_secs(60);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let word = arguments.get(1).map(String::as_str).unwrap_or_default();
    let channel = arguments.iter().find_map(|argument| argument.strip_prefix("--channel="));
    let channel = || channel.and_then(|number| number.parse().ok()).expect("a channel");
    if let Some(role) = Role::ALL.into_iter().find(|role| role.name() == word) {
        std::process::exit(run_role(role, channel(), hold_against_the_dataset));
    }
    if let Some(helper) = [Helper::Planner, Helper::Janitor].into_iter().find(|helper| helper.name() == word)
    {
        std::process::exit(run_helper(helper, channel()));
    }
    if word == "launch" {
        std::process::exit(launch(Path::new(&arguments[2]), &arguments[3]));
    }
    let tests: [(&str, fn()); 8] = [
        (
            "every_way_of_sharing_and_gathering_brings_the_datasets_own_bytes",
            every_way_of_sharing_and_gathering_brings_the_datasets_own_bytes,
        ),
        (
            "batches_larger_than_their_slots_bring_the_datasets_own_bytes",
            batches_larger_than_their_slots_bring_the_datasets_own_bytes,
        ),
        (
            "a_way_of_sharing_that_fails_is_replaced_or_refused_where_required",
            a_way_of_sharing_that_fails_is_replaced_or_refused_where_required,
        ),
        (
            "a_green_context_that_fails_is_replaced_by_grids_or_refused_if_required",
            a_green_context_that_fails_is_replaced_by_grids_or_refused_if_required,
        ),
        (
            "every_failing_driver_call_is_reported_by_name_and_role_or_is_harmless",
            every_failing_driver_call_is_reported_by_name_and_role_or_is_harmless,
        ),
        (
            "a_producer_killed_at_any_moment_leaves_no_wrong_batch_and_no_process",
            a_producer_killed_at_any_moment_leaves_no_wrong_batch_and_no_process,
        ),
        ("memory_does_not_grow_with_the_batches", memory_does_not_grow_with_the_batches),
        (
            "only_counts_of_a_batch_that_stays_on_the_gpu_come_to_the_host",
            only_counts_of_a_batch_that_stays_on_the_gpu_come_to_the_host,
        ),
    ];
    let filter = arguments[1..].iter().find(|argument| !argument.starts_with('-'));
    if arguments.iter().any(|argument| argument == "--list") {
        tests.iter().for_each(|(name, _)| println!("{name}: test"));
        return;
    }
    for (name, test) in tests {
        if filter.is_none_or(|filter| name.contains(filter.as_str())) {
            let began = Instant::now();
            println!("test {name} …");
            test();
            println!("test {name} … ok ({:.1} s)", began.elapsed().as_secs_f64());
        }
    }
}

/// The consumer: every array of every batch must equal the dataset's, or the run fails.
fn hold_against_the_dataset(
    receiver: &mut BatchReceiver,
    dataset: &Dataset,
    job: Value,
    observer: &mut dyn Observer,
) -> Result<Value, RuntimeError> {
    let table = dataset.features();
    let row = table.row_bytes();
    let table_of_edges = dataset.edge_features();
    let (mut list_hits, mut row_hits, mut edge_rows, mut columns, mut oversized) = (0, 0, 0, 0, 0);
    let mut edge_types = 0;
    let mut hashes = Vec::new();
    let mut resident = Vec::new();
    let wrong = |what: String| RuntimeError::failed(format!("WRONG DATA: {what}"));
    while receiver.stop() == Stop::No {
        let Some(batch) = receiver.next_batch()? else { break };
        batch.confirm()?;
        for (position, (node, bytes)) in
            batch.input_nodes().iter().zip(batch.features().bytes.chunks_exact(row)).enumerate()
        {
            let at = *node as usize * row;
            if bytes != &table.bytes[at..at + row] {
                return Err(wrong(format!("row {position} of batch {} is not node {node}'s", batch.index())));
            }
        }
        let expected = match sums_are_means(&batch, table.bytes) {
            None => batch.node_count(),
            Some(true) => batch.counts(batch.layers() - 1).destinations,
            Some(false) => return Err(wrong(format!("a sum of batch {}", batch.index()))),
        };
        if batch.features().rows != expected {
            return Err(wrong("fewer rows than nodes, or than destinations".into()));
        }
        let blocks: Vec<_> = (0..batch.layers()).map(|layer| batch.block(layer)).collect();
        if batch_hash(batch.input_nodes(), batch.seed_count(), &blocks) != batch.hash() {
            return Err(wrong(format!("the hash of batch {} is not its arrays'", batch.index())));
        }
        let (Labels::Single(given), Labels::Single(all)) = (batch.labels(), dataset.labels()) else {
            return Err(wrong("no labels".into()));
        };
        if !given.iter().eq(batch.seeds().iter().map(|seed| &all[*seed as usize])) {
            return Err(wrong(format!("the labels of batch {}", batch.index())));
        }
        let csc = dataset.csc();
        let degree = |node: &i64| csc.degree(*node as usize) as i32;
        if !batch.degrees().is_empty()
            && !batch.degrees().iter().copied().eq(batch.input_nodes().iter().map(degree))
        {
            return Err(wrong(format!("the degrees of batch {}", batch.index())));
        }
        let split = dataset.split(batch.split());
        if !batch.input_id().is_empty()
            && !batch.input_id().iter().map(|at| &split[*at as usize]).eq(batch.seeds())
        {
            return Err(wrong(format!("the places of the seeds of batch {}", batch.index())));
        }
        for layer in 0..batch.layers() {
            let (block, counts) = (batch.block(layer), batch.counts(layer));
            if block.indices.len() != counts.edges || block.indptr.last() != Some(&(counts.edges as i32)) {
                return Err(wrong(format!("the block of layer {layer}")));
            }
            let picked = block.indices.iter().map(|local| batch.input_nodes()[*local as usize]);
            if !block.edge_ids.is_empty()
                && !block.edge_ids.iter().map(|edge| csc.indices.get(*edge as usize)).eq(picked)
            {
                return Err(wrong(format!("the edge ids of layer {layer}")));
            }
            columns += usize::from(!batch.degrees().is_empty()) + usize::from(!batch.input_id().is_empty());
            if let (Some(rows), Some(table)) = (batch.edge_attr(layer), table_of_edges) {
                let row = table.row_bytes();
                let own = |edge: &i64| &table.bytes[*edge as usize * row..][..row];
                if rows.rows != counts.edges
                    || !rows.bytes.chunks_exact(row).eq(block.edge_ids.iter().map(own))
                {
                    return Err(wrong(format!("the rows of edges of layer {layer}")));
                }
                edge_rows += rows.rows;
            }
            let types = batch.edge_type(layer);
            if !types.is_empty() {
                let all = dataset.edge_types().ok_or_else(|| wrong("no edge types".into()))?;
                if !types.iter().eq(block.edge_ids.iter().map(|edge| &all[*edge as usize])) {
                    return Err(wrong(format!("the edge types of layer {layer}")));
                }
                edge_types += types.len();
            }
        }
        hashes.push(format!("{:016x}", batch.hash()));
        list_hits += batch.list_reads().cached;
        row_hits += batch.rows_cached();
        oversized += usize::from(batch.is_oversized());
        if job["note"] == true {
            observer.note(&format!("batch {}", batch.index()));
        }
        resident.push(resident_bytes());
    }
    Ok(json!({
        "hashes": hashes, "resident": resident, "list_hits": list_hits, "row_hits": row_hits,
        "edge_rows": edge_rows, "edge_types": edge_types, "columns": columns, "oversized": oversized,
    }))
}

/// Whether the batch's sums are the means of the table's float32 rows, up to rounding; `None` without sums.
fn sums_are_means(batch: &Batch, table: &[u8]) -> Option<bool> {
    let (sums, nodes) = (batch.aggregated()?, batch.input_nodes());
    let block = batch.block(batch.layers() - 1);
    let width = batch.layout().dim();
    let value = |node: i64, column: usize| {
        let at = (node as usize * width + column) * 4;
        f64::from(f32::from_ne_bytes([table[at], table[at + 1], table[at + 2], table[at + 3]]))
    };
    Some(block.indptr.windows(2).zip(sums).all(|(ends, sum)| {
        let list = &block.indices[ends[0] as usize..ends[1] as usize];
        let picks = list.len().max(1) as f64;
        sum.iter().enumerate().all(|(column, &sum)| {
            let terms = || list.iter().map(|&local| value(nodes[local as usize], column) / picks);
            let sizes: f64 = terms().map(f64::abs).sum();
            // One rounding more: the weight is rounded, too.
            (f64::from(sum) - terms().sum::<f64>()).abs() <= (picks + 3.0) * 2_f64.powi(-24) * sizes
        })
    }))
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4096)
}

/// The work of a launched run: the part of `uvatrain train` that is not training.
fn launch(dataset: &Path, what: &str) -> i32 {
    let what: Value = serde_json::from_str(what).expect("a description of the run");
    let ended = (|| {
        let opened = Dataset::open(dataset)?;
        let mut options = LoaderOptions {
            fanouts: [4, 3].into(),
            batch_size: what["batch_size"].as_u64().unwrap_or(40) as usize,
            samplers: what["samplers"].as_u64().unwrap_or(1) as usize,
            feature_slots: what["slots"].as_u64().unwrap_or(2) as usize,
            sampler_kind: SamplerKind::from_name(what["kind"].as_str().unwrap_or("neighbor"))
                .expect("a kind"),
            edge_attr: what["edge_attr"] == true,
            edge_type: what["edge_type"] == true,
            edge_ids: what["edge_ids"] == true,
            degrees: what["degrees"] == true,
            input_id: what["input_id"] == true,
            aggregation: if what["sums"] == true { Aggregation::Mean } else { Aggregation::None },
            ..LoaderOptions::default()
        };
        let backend: Backend = serde_json::from_value(what["backend"].clone()).expect("a backend");
        let epochs = what["epochs"].as_u64().unwrap_or(1) as u32;
        let passes = Passes { epochs, test: true, ..Passes::default() };
        let largest = RunPlan::new(&opened, &options, passes)?.slot_room();
        let asked = |name: &str, most: usize| what[name].as_u64().map_or(most, |asked| asked as usize);
        let room =
            SlotRoom { bytes: asked("slot_bytes", largest.bytes), nodes: asked("most_nodes", largest.nodes) };
        options.slot_room = (room != largest).then_some(room);
        let mut launcher = Launcher::begin(dataset, None)?;
        let mut contents = CacheContents::default();
        if let Some(bytes) = what["gpu_cache"].as_u64() {
            let policy = what["policy"]
                .as_str()
                .map_or(CachePolicy::PRESAMPLE, |name| name.parse().expect("a policy"));
            let search = Search { caches: Some((bytes, policy)), ..Search::default() };
            let found = launcher.find_caches(dataset, &options, &backend, &search, &mut Printing)?;
            let found = found.plan.expect("a plan");
            contents = CacheContents::of_plan(&opened, &found)?;
            if let Some(path) = what["keep"].as_str() {
                found.write(Path::new(path))?;
            }
        }
        if let Some(path) = what["plan"].as_str() {
            contents = CacheContents::of_plan(&opened, &CachePlan::read(Path::new(path))?)?;
        }
        let plan =
            RunPlan::new(&opened, &options, passes)?.on(backend).with_caches(contents.caches().clone());
        let launch = Launch {
            dataset,
            plans: std::slice::from_ref(&plan),
            sampler_backends: &[],
            caches: std::slice::from_ref(&contents),
            consumer: Consumer::Program {
                program: std::env::current_exe().expect("this executable"),
                job: json!({ "note": what["note"] }),
            },
            environments: Environments::default(),
        };
        launcher.run(launch, &mut Printing)
    })();
    match ended {
        Ok(outcome) => {
            println!("{}", outcome.done);
            0
        }
        Err(error) => {
            let error: RuntimeError = error;
            eprintln!("{error}");
            error.exit_code()
        }
    }
}

struct Printing;

impl Observer for Printing {
    fn event(&mut self, _: &Event) -> Result<(), RuntimeError> {
        Ok(())
    }
    fn progress(&mut self, _: &RunProgress, _: &str) {}
    fn note(&mut self, line: &str) {
        eprintln!("note: {}", Spelling::CommandLine.sentence(line));
    }
}

fn backend(partition: Partition, gather: GatherChoice, kernel: Kernel, ipc: IpcKind) -> Backend {
    let sampler = SamplerChoice::Cpu;
    let (preflight, ipc_signals) = (PreflightPolicy::Warn, SignalKind::Auto);
    Backend::Cuda(CudaBackend {
        ordinal: 0,
        gather,
        kernel,
        sampler,
        partition,
        ipc,
        ipc_signals,
        gpu_slots: GpuSlots::Sampled,
        nvrtc: None,
        preflight,
        table_pages: PinPages::InPlace,
        other_pages: true,
        split_share: None,
    })
}

/// The backend with this kind of signals.
fn signalling(backend: Backend, ipc_signals: SignalKind) -> Backend {
    match backend {
        Backend::Cuda(cuda) => Backend::Cuda(CudaBackend { ipc_signals, ..cuda }),
        Backend::Cpu => Backend::Cpu,
    }
}

/// Two processes that share memory and signals by these kinds.
fn sharing(ipc: IpcKind, signals: SignalKind) -> Backend {
    signalling(backend(Partition::None, GatherChoice::ZeroCopy, Kernel::Wide, ipc), signals)
}

/// As `--partition green` has it: without a fall-back.
const GREEN: Partition = Partition::Green { multiprocessors: 8, sampler: None, required: true };

/// A backend with a sampler on the GPU as well.
fn sampling(partition: Partition, gather: GatherChoice) -> Backend {
    match backend(partition, gather, Kernel::Wide, IpcKind::Auto) {
        Backend::Cuda(cuda) => Backend::Cuda(CudaBackend { sampler: SamplerChoice::Gpu, ..cuda }),
        Backend::Cpu => Backend::Cpu,
    }
}

/// Bytes for some of the lists and rows.
const CACHE: u64 = 14_000;

fn two_processes() -> Backend {
    backend(Partition::None, GatherChoice::ZeroCopy, Kernel::Wide, IpcKind::Auto)
}

/// Two processes with the CPU's rows and sums copied to the GPU.
fn copying() -> Backend {
    backend(Partition::None, GatherChoice::Dma, Kernel::Wide, IpcKind::Auto)
}

/// A graph, and the cache of compiled kernels shared by all runs of a test.
struct Place {
    directory: tempfile::TempDir,
    graph: PathBuf,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let graph = common::graph(directory.path(), 600, 6.0);
        let edges = Dataset::open(&graph).expect("a dataset").edges();
        let weights: Vec<f32> = (0..edges).map(|edge| (edge * 31 % 17) as f32).collect();
        write_array(&graph.join("weight.npy"), NpyType::F32, &[], &weights).expect("weights");
        let types: Vec<u16> = (0..edges).map(|edge| (edge * 7919) as u16).collect();
        write_array(&graph.join("edge_type.npy"), NpyType::U16, &[], &types).expect("edge types");
        std::fs::create_dir(directory.path().join("tmp")).expect("a directory");
        let rows: Vec<f32> = (0..3 * edges).map(|value| value as f32).collect();
        write_array(&graph.join("edge_feat.npy"), NpyType::F32, &[3], &rows).expect("edge features");
        Self { directory, graph }
    }

    fn command(&self, what: &Value, variables: &[(&str, String)]) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this executable"));
        command.arg("launch").arg(&self.graph).arg(what.to_string());
        cuda_sim::environment(&mut command);
        command
            .env("XDG_CACHE_HOME", self.directory.path().join("cache"))
            .env("TMPDIR", self.directory.path().join("tmp"))
            .envs(variables.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, what: &Value, variables: &[(&str, String)]) -> Ended {
        let command = self.command(what, variables);
        end(command, variables)
    }

    fn nothing_is_left(&self, case: &str) {
        let left: Vec<_> =
            std::fs::read_dir(self.directory.path().join("tmp")).expect("the folder").flatten().collect();
        assert!(left.is_empty(), "{case}: left in TMPDIR: {left:?}");
    }
}

struct Ended {
    code: Option<i32>,
    done: Value,
    stderr: String,
}

/// Runs the command to its end. `wait_with_output` returns when the last process that holds the pipes has ended: a role
/// that outlives its launcher, or hangs, is killed by the watchdog and fails the test.
fn end(mut command: Command, case: &[(&str, String)]) -> Ended {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
    let child = command.spawn().expect("this executable runs");
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a pid");
    let (sender, receiver) = std::sync::mpsc::channel();
    let waiter = std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output = receiver.recv_timeout(WATCHDOG).unwrap_or_else(|_| {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        panic!("{case:?}: the run hangs");
    });
    let _ = waiter.join();
    let output = output.expect("the run's output");
    let stdout = String::from_utf8_lossy(&output.stdout);
    Ended {
        code: output.status.code(),
        done: serde_json::from_str(&stdout).unwrap_or(Value::Null),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The hashes of a run on the CPU, which every other run must have.
fn expected(place: &Place) -> Value {
    expected_of(place, "neighbor")
}

/// The hashes of a run on the CPU with this kind of sampler.
fn expected_of(place: &Place, kind: &str) -> Value {
    let ended = place.run(&json!({ "backend": Backend::Cpu, "kind": kind }), &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.done["hashes"].as_array().is_some_and(|hashes| hashes.len() >= 8), "{}", ended.done);
    ended.done["hashes"].clone()
}

fn every_way_of_sharing_and_gathering_brings_the_datasets_own_bytes() {
    let place = Place::new();
    let hashes = expected(&place);
    let few = Partition::Grid { multiprocessors: 2, sampler: None };
    for partition in [Partition::None, GREEN, few] {
        for gather in [
            GatherChoice::ZeroCopy,
            GatherChoice::Dma,
            GatherChoice::Split,
            GatherChoice::Cpu,
            GatherChoice::Device,
        ] {
            for (kernel, ipc, signals, slots) in [
                (Kernel::Wide, IpcKind::Vmm, SignalKind::Events, 2),
                (Kernel::Shift, IpcKind::Legacy, SignalKind::Stamps, 1),
                (Kernel::Naive, IpcKind::Auto, SignalKind::Auto, 3),
                (Kernel::Wide, IpcKind::Vmm, SignalKind::Stamps, 4),
            ] {
                let backend = signalling(backend(partition, gather, kernel, ipc), signals);
                let edge_attr = slots != 2;
                let what = json!({
                    "backend": backend, "slots": slots, "samplers": slots, "epochs": 1, "edge_attr": edge_attr
                });
                // Delayed by different times in each run: an order that holds by chance does not hold then.
                let ended = place.run(&what, &[("CUDA_SIM_DELAY_US", "300".into())]);
                assert_eq!(ended.code, Some(0), "{what}\n{}", ended.stderr);
                assert_eq!(ended.done["hashes"], hashes, "{what}");
                assert_eq!(ended.done["edge_rows"].as_u64() > Some(0), edge_attr, "{what}");
            }
        }
    }
    for partition in [Partition::None, GREEN, few] {
        for (gather, policy) in [
            (GatherChoice::ZeroCopy, None),
            (GatherChoice::ZeroCopy, Some("presample")),
            (GatherChoice::ZeroCopy, Some("fifo")),
            (GatherChoice::Split, Some("degree")),
        ] {
            let mut what = json!({ "backend": sampling(partition, gather) });
            if let Some(policy) = policy {
                (what["gpu_cache"], what["policy"]) = (CACHE.into(), policy.into());
            }
            let ended = place.run(&what, &[("CUDA_SIM_DELAY_US", "300".into())]);
            assert_eq!(ended.code, Some(0), "{what}\n{}", ended.stderr);
            assert_eq!(ended.done["hashes"], hashes, "{what}");
            let hit = |name: &str| ended.done[name].as_u64().expect("a count") > 0;
            assert_eq!(hit("list_hits") || hit("row_hits"), policy.is_some(), "{what}: {}", ended.done);
        }
    }
    for (gpu_cache, room) in [(None, None), (Some(CACHE), None), (Some(CACHE), Some(SOME_FIT))] {
        // Sums of the CPU, which only begins them if rows are cached; some batches are larger than their slots.
        let mut what = json!({ "backend": copying(), "sums": true, "policy": "degree" });
        (what["gpu_cache"], what["slot_bytes"]) = (gpu_cache.into(), room.into());
        let ended = place.run(&what, &[("CUDA_SIM_DELAY_US", "300".into())]);
        assert_eq!(ended.code, Some(0), "{what}\n{}", ended.stderr);
        assert_eq!(ended.done["hashes"], hashes, "{what}");
        assert_eq!(ended.done["row_hits"].as_u64() > Some(0), gpu_cache.is_some(), "{what}: {}", ended.done);
        assert_eq!(ended.done["oversized"].as_u64() > Some(0), room.is_some(), "{what}: {}", ended.done);
    }
    for kind in ["neighbor", "labor", "weighted"] {
        let hashes = expected_of(&place, kind);
        for cache in [None, Some(CACHE)] {
            // With a sampler on the GPU, rows are cached only for the zero-copy gather: here all bytes are used for
            // lists.
            let backend = sampling(Partition::None, GatherChoice::Dma);
            let mut what = json!({ "backend": backend, "kind": kind, "edge_type": true, "edge_attr": true });
            if let Some(bytes) = cache {
                what["gpu_cache"] = bytes.into();
            }
            let ended = place.run(&what, &[("CUDA_SIM_DELAY_US", "300".into())]);
            assert_eq!(ended.code, Some(0), "{what}\n{}", ended.stderr);
            assert_eq!(ended.done["hashes"], hashes, "{what}");
            let lists = ended.done["list_hits"].as_u64().expect("a count");
            assert_eq!(lists > 0, cache.is_some(), "{what}: {}", ended.done);
            assert!(ended.done["edge_types"].as_u64() > Some(0), "{what}: {}", ended.done);
            // Sampler and producer in one process: batches stay on the GPU, with every column.
            for (gather, edge_attr) in [
                (GatherChoice::ZeroCopy, false),
                (GatherChoice::Device, true),
                (GatherChoice::Dma, false),
                (GatherChoice::Split, true),
            ] {
                let mut what = json!({
                    "backend": sampling(few, gather), "kind": kind, "slots": 3, "edge_attr": edge_attr,
                    "edge_type": !edge_attr, "edge_ids": true, "degrees": true, "input_id": true,
                });
                if let Some(bytes) = cache.filter(|_| gather == GatherChoice::ZeroCopy) {
                    what["gpu_cache"] = bytes.into();
                }
                let ended = place.run(&what, &[("CUDA_SIM_DELAY_US", "300".into())]);
                assert_eq!(ended.code, Some(0), "{what}\n{}", ended.stderr);
                assert_eq!(ended.done["hashes"], hashes, "{what}");
                assert!(ended.done["columns"].as_u64() > Some(0), "{what}: {}", ended.done);
                assert_eq!(ended.done["edge_rows"].as_u64() > Some(0), edge_attr, "{what}");
                assert_eq!(ended.done["edge_types"].as_u64() > Some(0), !edge_attr, "{what}");
            }
        }
    }
    place.nothing_is_left("clean runs");
}

/// A number of bytes between the sizes of smaller and larger batches of a run in a slot on a GPU.
const SOME_FIT: u64 = 13_696;

/// A number of nodes between those of smaller and larger batches of a run, for any columns.
const SOME_NODES: u64 = 272;

fn batches_larger_than_their_slots_bring_the_datasets_own_bytes() {
    let place = Place::new();
    let hashes = expected(&place);
    let oversized = |what: &Value, hashes: &Value, variables: &[(&str, String)]| {
        let ended = place.run(what, variables);
        assert_eq!((ended.code, &ended.done["hashes"]), (Some(0), hashes), "{what}\n{}", ended.stderr);
        let oversized = ended.done["oversized"].as_u64().expect("a count") as usize;
        assert!(oversized > 0, "{what}: every batch fits");
        (oversized, ended)
    };
    let late = || [("CUDA_SIM_DELAY_US", "300".to_owned())];
    let few = Partition::Grid { multiprocessors: 2, sampler: None };
    for partition in [Partition::None, GREEN, few] {
        for gather in [GatherChoice::ZeroCopy, GatherChoice::Dma, GatherChoice::Split, GatherChoice::Device] {
            for (kernel, ipc, signals, slots) in [
                (Kernel::Wide, IpcKind::Vmm, SignalKind::Events, 2),
                (Kernel::Shift, IpcKind::Legacy, SignalKind::Stamps, 1),
                (Kernel::Wide, IpcKind::Vmm, SignalKind::Stamps, 3),
            ] {
                let backend = signalling(backend(partition, gather, kernel, ipc), signals);
                let mut what = json!({ "backend": backend, "slots": slots, "samplers": slots });
                if slots == 2 {
                    what["slot_bytes"] = SOME_FIT.into();
                } else {
                    (what["most_nodes"], what["edge_attr"]) = (SOME_NODES.into(), true.into());
                }
                let (oversized, ended) = oversized(&what, &hashes, &late());
                assert!(oversized < hashes.as_array().expect("hashes").len(), "{what}: no batch fits");
                assert_eq!(ended.done["edge_rows"].as_u64() > Some(0), slots != 2, "{what}");
            }
        }
    }
    for kind in ["neighbor", "weighted"] {
        let hashes = expected_of(&place, kind);
        for partition in [Partition::None, GREEN, few] {
            for (gather, policy) in [
                (GatherChoice::ZeroCopy, Some("presample")),
                (GatherChoice::ZeroCopy, Some("fifo")),
                (GatherChoice::Split, None),
                (GatherChoice::Device, None),
            ] {
                // With two columns of the host's, and all arrays that a sampler on the GPU makes there.
                let mut what = json!({
                    "backend": sampling(partition, gather), "kind": kind, "most_nodes": 200,
                    "edge_attr": policy.is_none(), "edge_ids": true, "degrees": true, "input_id": true,
                });
                if let Some(policy) = policy {
                    (what["gpu_cache"], what["policy"]) = (CACHE.into(), policy.into());
                }
                let (_, ended) = oversized(&what, &hashes, &late());
                assert_eq!(ended.done["edge_rows"].as_u64() > Some(0), policy.is_none(), "{what}");
            }
        }
    }
    // A GPU without memory for such a batch reads it from the host's.
    let what = json!({ "backend": two_processes(), "slot_bytes": SOME_FIT });
    let full = [("CUDA_SIM_FAIL", "consumer:cuMemAlloc:*=2".to_owned())];
    oversized(&what, &hashes, &full);
    place.nothing_is_left("larger batches");
}

/// A failing method (a fault, or a feature that the machine lacks), the side that reports it, and a part of the report.
type Failing = (&'static str, &'static str, &'static str, &'static str);

fn a_way_of_sharing_that_fails_is_replaced_or_refused_where_required() {
    let place = Place::new();
    let hashes = expected(&place);
    let run = |ipc, signals, variables: &[(&str, String)]| {
        let what = json!({ "backend": sharing(ipc, signals), "slots": 2 });
        (place.run(&what, variables), format!("{ipc:?}, {signals:?}, {variables:?}"))
    };
    let (memory, events) = ("GPU memory by file descriptor", "events between processes");
    let failing: [Failing; 12] = [
        ("producer:cuMemCreate:1=801", "producer", "cannot share", memory),
        ("producer:cuMemExportToShareableHandle:*=800", "producer", "cannot share", memory),
        ("producer:cuMemSetAccess:1=1", "producer", "cannot share", memory),
        ("consumer:cuMemImportFromShareableHandle:*=999", "consumer", "cannot open", memory),
        ("consumer:cuMemMap:1=1", "consumer", "cannot open", memory),
        ("consumer:cuMemSetAccess:1=800", "consumer", "cannot open", memory),
        ("producer:cuIpcGetEventHandle:1=801", "producer", "cannot share", events),
        ("producer:cuIpcGetEventHandle:2=1", "producer", "cannot share", events),
        ("consumer:cuIpcGetEventHandle:*=801", "consumer", "cannot share", events),
        ("consumer:cuIpcOpenEventHandle:*=205", "consumer", "cannot open", events),
        ("consumer:cuIpcOpenEventHandle:2=400", "consumer", "cannot open", events),
        ("producer:cuIpcOpenEventHandle:2=999", "producer", "cannot open", events),
    ];
    for (fault, role, how, what) in failing {
        let fault = [("CUDA_SIM_FAIL", fault.to_owned())];
        let (ended, case) = run(IpcKind::Auto, SignalKind::Auto, &fault);
        assert_eq!((ended.code, &ended.done["hashes"]), (Some(0), &hashes), "{case}\n{}", ended.stderr);
        let call = fault[0].1.split(':').nth(1).expect("a call");
        let said: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("instead")).collect();
        let [line] = said[..] else { panic!("{case}: {said:?}") };
        for part in [&format!("the {role} {how} {what}"), call, "avoids the attempt"] {
            assert!(line.contains(part), "{case}: no {part} in {line}");
        }
        // If named explicitly, there is no fallback.
        let (ipc, signals, option) = if what == memory {
            (IpcKind::Vmm, SignalKind::Auto, "--ipc vmm")
        } else {
            (IpcKind::Auto, SignalKind::Events, "--ipc-signals events")
        };
        let (ended, case) = run(ipc, signals, &fault);
        assert!(matches!(ended.code, Some(1 | 3)), "{case}: {:?}", ended.code);
        for part in [option, call, &format!("the {role} failed")] {
            assert!(ended.stderr.contains(part), "{case}: no {part} in {}", ended.stderr);
        }
        assert!(!ended.stderr.contains("instead"), "{case}: {}", ended.stderr);
    }
    for (ipc, signals, call, option) in [
        (IpcKind::Legacy, SignalKind::Auto, "consumer:cuIpcOpenMemHandle:*=999", "--ipc legacy"),
        (IpcKind::Legacy, SignalKind::Auto, "producer:cuIpcGetMemHandle:*=999", "--ipc legacy"),
        (IpcKind::Auto, SignalKind::Stamps, "consumer:cuStreamWaitValue64:1=801", "--ipc-signals stamps"),
        (IpcKind::Auto, SignalKind::Stamps, "producer:cuStreamWriteValue64:1=801", "--ipc-signals stamps"),
    ] {
        let (ended, case) = run(ipc, signals, &[("CUDA_SIM_FAIL", call.to_owned())]);
        let (role, call) = (call.split(':').next().expect("a role"), call.split(':').nth(1).expect("a call"));
        assert!(matches!(ended.code, Some(1 | 3)), "{case}: {:?}", ended.code);
        for part in [option, call, &format!("the {role} failed")] {
            assert!(ended.stderr.contains(part), "{case}: no {part} in {}", ended.stderr);
        }
    }
    // A feature that the machine lacks entirely, on both sides.
    for (lacks, works) in [
        ("vmm", true),
        ("ipc_event", true),
        ("vmm,ipc_event", true),
        ("vmm,ipc_memory", false),
        ("ipc_event,stream_memory_operations", false),
    ] {
        let (ended, case) = run(IpcKind::Auto, SignalKind::Auto, &[("CUDA_SIM_LACKS", lacks.to_owned())]);
        assert_eq!(ended.code == Some(0), works, "{case}\n{}", ended.stderr);
        assert!(!works || ended.done["hashes"] == hashes, "{case}");
    }
    place.nothing_is_left("failed ways");
}

fn a_green_context_that_fails_is_replaced_by_grids_or_refused_if_required() {
    let place = Place::new();
    let hashes = expected(&place);
    for sampler in [SamplerChoice::Cpu, SamplerChoice::Gpu] {
        for fault in [
            "consumer:cuDevSmResourceSplitByCount:*=915",
            "consumer:cuDevResourceGenerateDesc:1=1",
            "consumer:cuGreenCtxCreate:*=801",
            "consumer:cuCtxFromGreenCtx:1=201",
            "consumer:cuGreenCtxStreamCreate:1=1",
            // The first record of the process is the one that tries the green context.
            "consumer:cuEventRecord:1=400",
            "consumer:cuStreamWaitEvent:2=400",
        ] {
            let run = |required| {
                let partition = Partition::Green { multiprocessors: 8, sampler: Some(16), required };
                let backend = backend(partition, GatherChoice::Split, Kernel::Wide, IpcKind::Auto);
                let Backend::Cuda(cuda) = backend else { panic!("a GPU") };
                let backend = Backend::Cuda(CudaBackend { sampler, ..cuda });
                place.run(&json!({ "backend": backend }), &[("CUDA_SIM_FAIL", fault.into())])
            };
            let call = fault.split(':').nth(1).expect("a call");
            let ended = run(false);
            assert_eq!((ended.code, &ended.done["hashes"]), (Some(0), &hashes), "{fault}\n{}", ended.stderr);
            let said: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("instead")).collect();
            let [line] = said[..] else { panic!("{fault}: {said:?}") };
            for part in ["the consumer cannot use green contexts", call, "--partition grid"] {
                assert!(line.contains(part), "{fault}: no {part} in {line}");
            }
            let ended = run(true);
            assert!(matches!(ended.code, Some(1 | 3)), "{fault}: {:?}", ended.code);
            for part in ["partition=green", call, "the consumer failed"] {
                assert!(ended.stderr.contains(part), "{fault}: no {part} in {}", ended.stderr);
            }
        }
    }
    place.nothing_is_left("failed green contexts");
}

/// One CUresult of each class: out of memory, invalid value, not supported, launch failed, MPS client terminated.
const CODES: [u32; 5] = [2, 1, 801, 719, 810];

/// The codes after which no call works any longer.
const LOSES_THE_CONTEXT: [u32; 2] = [719, 810];

/// The method with caches and sampling on the GPU.
const CACHES: &str = "caches and a sampler";

fn backend_of(what: &Value) -> Backend {
    serde_json::from_value(what["backend"].clone()).expect("a backend")
}

fn every_failing_driver_call_is_reported_by_name_and_role_or_is_harmless() {
    let place = Place::new();
    let hashes = expected(&place);
    let (green, split) = (GREEN, GatherChoice::Split);
    let caching = sampling(Partition::None, GatherChoice::ZeroCopy);
    let plan = place.directory.path().join("plan.json");
    let caches = json!({ "backend": caching, "gpu_cache": CACHE, "keep": plan });
    // The planner costs more than the run: only its own faults are tried with it.
    let planned = json!({ "backend": caching, "plan": plan });
    let rows = place.directory.path().join("rows.json");
    let mut continued = json!({ "backend": copying(), "sums": true, "policy": "degree" });
    (continued["gpu_cache"], continued["keep"]) = (CACHE.into(), json!(rows));
    let ended = place.run(&continued, &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let way = |backend: Backend| json!({ "backend": backend });
    let ways = [
        ("two processes", way(two_processes())),
        ("one process", way(backend(green, split, Kernel::Wide, IpcKind::Auto))),
        ("stamps", way(sharing(IpcKind::Auto, SignalKind::Stamps))),
        ("legacy", way(backend(Partition::None, GatherChoice::Dma, Kernel::Shift, IpcKind::Legacy))),
        ("sums that are continued", json!({ "backend": copying(), "sums": true, "plan": rows })),
        (CACHES, caches),
        (
            "batches that stay on the GPU",
            way(sampling(Partition::Grid { multiprocessors: 2, sampler: None }, GatherChoice::ZeroCopy)),
        ),
        ("larger batches", json!({ "backend": two_processes(), "slot_bytes": SOME_FIT })),
        (
            "larger batches of a sampler on the GPU",
            json!({ "backend": sampling(GREEN, GatherChoice::ZeroCopy), "slot_bytes": SOME_FIT }),
        ),
    ];
    // Every code for each call of each method takes minutes: scripts/measure/long_tests.sh runs all. Here codes alternate,
    // and a function counts with the first method that calls it.
    let all = std::env::var_os("UVATRAIN_TESTS").is_some_and(|which| which == "all");
    let mut cases = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for (way, what) in &ways {
        for ((role, function), calls) in calls_of(&place, what) {
            // After the other side's end, the watch over stamps writes as well, and nothing waits for that. A side's
            // own writes, as many as there are batches, come before that end: the first ones test the function.
            let watched = function == "cuStreamWriteValue64_v2";
            let calls =
                if watched { calls.min(hashes.as_array().expect("hashes").len() as u64) } else { calls };
            // A function that another method was swept with already gets its first call only, with one code.
            let thorough = seen.insert((role.clone(), function.clone()));
            if !thorough && !all {
                continue;
            }
            let mut positions = vec![1, calls.div_ceil(2), calls];
            positions.dedup();
            positions.truncate(if thorough { positions.len() } else { 1 });
            // The planner runs alone, and any failure of it ends the run before it begins: two codes show that.
            let codes: &[u32] = if role == "planner" { &[2, 719] } else { &CODES };
            for position in positions {
                let turn = cases.len() % codes.len();
                let codes = if thorough && all { codes } else { &codes[turn..=turn] };
                let what = if *way == CACHES && role != "planner" { &planned } else { what };
                cases.extend(
                    codes
                        .iter()
                        .map(|&code| (*way, what.clone(), role.clone(), function.clone(), position, code)),
                );
            }
        }
    }
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let told = Mutex::new(std::collections::BTreeSet::new());
    // A run mostly waits for its processes to start and to end.
    let threads = 4 * std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // Relaxed: a ticket that orders nothing else.
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (way, what, role, function, position, code) = case;
                    let fault = format!("{role}:{function}:{position}={code}");
                    let ended = place.run(what, &[("CUDA_SIM_FAIL", fault.clone())]);
                    let text = &ended.stderr;
                    let case = format!("{way}, {fault}: code {:?}\n{text}", ended.code);
                    assert!(!text.contains("panicked") && !text.contains("WRONG DATA"), "{case}");
                    match ended.code {
                        // A failure that the run tolerates, or has a fallback for: the result is then still right.
                        Some(0) => {
                            assert_eq!(ended.done["hashes"], hashes, "{case}");
                            // Every record orders the next write of one process after the last read of another.
                            assert!(
                                !["cuEventRecord", "cuStreamWriteValue64_v2"].contains(&&**function),
                                "{case}"
                            );
                        }
                        Some(1..=3) => {
                            let call = function.trim_end_matches("_v2");
                            // A lost context fails every call from then on. The first to encounter it may be the other
                            // thread of the process, or a `drop`, which cannot report it: then the next call does.
                            let gives_back = ["Destroy", "Free", "Unmap", "Release", "Unregister", "Unload"];
                            let backend = backend_of(what);
                            let mute = backend.in_one_process()
                                || backend.gpu_sampler().is_some()
                                || gives_back.iter().any(|part| function.contains(part));
                            let either = mute && LOSES_THE_CONTEXT.contains(code);
                            let named =
                                text.contains(call) || (either && text.contains(&format!("({code})")));
                            assert!(named, "the call is not named: {case}");
                            assert!(
                                text.contains(&format!("the {role} failed")),
                                "the role is not named: {case}"
                            );
                            told.lock().unwrap().insert(function.clone());
                        }
                        _ => panic!("{case}"),
                    }
                }
            });
        }
    });
    place.nothing_is_left("failed calls");
    let told = told.into_inner().unwrap();
    println!(
        "  {} faults in {} functions, {} of them reported, in {:.0} s",
        cases.len(),
        seen.len(),
        told.len(),
        began.elapsed().as_secs_f64()
    );
    assert!(told.len() >= 30, "only {told:?} were ever reported: is anything injected?");
}

/// Number of calls of each function by each role in a clean run.
fn calls_of(place: &Place, what: &Value) -> BTreeMap<(String, String), u64> {
    let counts = tempfile::tempdir().expect("a temporary directory");
    let variable = counts.path().to_str().expect("a path of text").to_owned();
    let ended = place.run(what, &[("CUDA_SIM_COUNTS", variable)]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let mut calls = BTreeMap::new();
    for entry in std::fs::read_dir(counts.path()).expect("the counts").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((role, _)) = name.split_once('-') else { continue };
        for line in std::fs::read_to_string(entry.path()).expect("counts").lines() {
            let Some((function, count)) = line.split_once(' ') else { continue };
            let count: u64 = count.trim().parse().expect("a count");
            if count > 0 {
                *calls.entry((role.to_owned(), function.to_owned())).or_insert(0) += count;
            }
        }
    }
    assert!(calls.len() >= 40, "only these calls were counted: {calls:?}");
    calls
}

fn a_producer_killed_at_any_moment_leaves_no_wrong_batch_and_no_process() {
    let place = Place::new();
    let plain = json!({ "backend": two_processes(), "epochs": 10_000, "note": true });
    let sampling = sampling(Partition::None, GatherChoice::ZeroCopy);
    let cached = json!({ "backend": sampling, "epochs": 10_000, "note": true, "gpu_cache": CACHE });
    let stamps =
        json!({ "backend": sharing(IpcKind::Auto, SignalKind::Stamps), "epochs": 10_000, "note": true });
    let larger = json!({
        "backend": sharing(IpcKind::Auto, SignalKind::Stamps), "epochs": 10_000, "note": true, "slot_bytes": SOME_FIT
    });
    let continued = json!({
        "backend": copying(), "epochs": 10_000, "note": true, "gpu_cache": CACHE, "policy": "degree", "sums": true
    });
    for round in 0..24_u64 {
        // Every second round of the plain one has sums that the CPU begins.
        let what =
            [&plain, &cached, &stamps, &larger, &continued, &cached, &stamps, &larger][round as usize % 8];
        let mut command = place.command(what, &[("CUDA_SIM_DELAY_US", "300".into())]);
        let mut child = command.spawn().expect("this executable runs");
        // After some batches, at a moment that varies from round to round with the machine's load.
        let stderr = std::io::BufReader::new(child.stderr.take().expect("stderr"));
        let mut lines = std::io::BufRead::lines(stderr);
        let mut batches = 0;
        while batches < 3 + round * 3 {
            let line = lines.next().expect("the run continues").expect("text");
            batches += u64::from(line.starts_with("note: batch"));
        }
        // A sampler on the GPU is a thread of the producer's process.
        let role = match round / 4 {
            5 if round % 4 != 1 => "sampler",
            2 | 4 => "consumer",
            _ => "producer",
        };
        let victim = child_of(child.id(), role).unwrap_or_else(|| panic!("no {role}"));
        rustix::process::kill_process(victim, rustix::process::Signal::KILL).expect("kill");
        let rest: Vec<String> = lines.map_while(Result::ok).collect();
        let text = rest.join("\n");
        let status = child.wait().expect("the launcher ends");
        assert_eq!(status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("the {role} was killed by SIGKILL")), "{text}");
        assert!(!text.contains("WRONG DATA") && !text.contains("panicked"), "{text}");
    }
    place.nothing_is_left("kills");
    // The next run works.
    let ended = place.run(&json!({ "backend": two_processes() }), &[]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// The child of a process that runs as this role.
fn child_of(parent: u32, role: &str) -> Option<rustix::process::Pid> {
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let arguments = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        let is_child = status.lines().any(|line| {
            line.strip_prefix("PPid:").is_some_and(|parent_of| parent_of.trim() == parent.to_string())
        });
        if is_child && arguments.split('\0').nth(1) == Some(role) {
            return rustix::process::Pid::from_raw(pid);
        }
    }
    None
}

fn memory_does_not_grow_with_the_batches() {
    let place = Place::new();
    // Also if most batches have their own memory.
    for slot_bytes in [Value::Null, 13_376.into()] {
        let what = json!({ "backend": two_processes(), "epochs": 100, "slot_bytes": slot_bytes });
        let ended = place.run(&what, &[]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let resident: Vec<u64> =
            ended.done["resident"].as_array().expect("sizes").iter().filter_map(Value::as_u64).collect();
        assert!(resident.len() >= 500, "{} batches", resident.len());
        let oversized = ended.done["oversized"].as_u64().expect("a count");
        assert_eq!(oversized > 400, !slot_bytes.is_null(), "{oversized} of {}", resident.len());
        // After the first quarter every slot has been used and every buffer has grown.
        let (early, late) = (resident[resident.len() / 4], resident[resident.len() - 1]);
        assert!(late <= early + (2 << 20), "the consumer grew from {early} to {late} bytes");
    }
}

/// Calls of one batch: those of a long run without those of a short one.
fn only_counts_of_a_batch_that_stays_on_the_gpu_come_to_the_host() {
    let place = Place::new();
    for partition in [Partition::None, Partition::Grid { multiprocessors: 2, sampler: None }] {
        only_counts_come_to_the_host(&place, partition);
    }
}

fn only_counts_come_to_the_host(place: &Place, partition: Partition) {
    let backend = sampling(partition, GatherChoice::ZeroCopy);
    let run = |epochs: u64| {
        let what = json!({ "backend": backend, "epochs": epochs, "edge_ids": true, "degrees": true });
        let batches = place.run(&what, &[]).done["hashes"].as_array().expect("hashes").len() as u64;
        (calls_of(place, &what), batches)
    };
    let ((short, before), (long, behind)) = (run(2), run(6));
    let a_batch = |function: &str| {
        let of = |calls: &BTreeMap<(String, String), u64>| {
            calls
                .iter()
                .filter(|((_, name), _)| name.trim_end_matches("_v2") == function)
                .map(|(_, n)| n)
                .sum::<u64>()
        };
        let (more, batches) = (of(&long) - of(&short), behind - before);
        assert_eq!(more % batches, 0, "{function}: {more} calls for {batches} batches");
        more / batches
    };
    // The seeds, and the upload of labels and report.
    assert_eq!(a_batch("cuMemcpyHtoDAsync"), 2);
    // The sampler's report with the counts, and the gather's for the producer and for the consumer.
    assert_eq!(a_batch("cuMemcpyDtoHAsync"), 3);
    // One launch copies nodes and degrees, and indptr, indices and edge ids of both layers.
    assert_eq!(a_batch("cuMemcpyDtoDAsync"), 0);
    // That one, gather and report, in addition to the sampler's 3, and 8 per layer.
    assert_eq!(a_batch("cuLaunchKernel"), 3 + 3 + 2 * 8);
    // The sampler for its counts, and this consumer, which is on the CPU, for the batch.
    assert_eq!(a_batch("cuStreamSynchronize"), 2);
}

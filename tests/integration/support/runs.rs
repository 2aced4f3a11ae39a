//! Training runs under test: a small graph, the options that every run shares, their metrics, and their processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;

use super::stamps::settle;
use super::{Running, Uvatrain, uvatrain};

/// A graph of 4,000 nodes in four classes, made by the binary under test.
pub fn small_graph(directory: &Path) -> PathBuf {
    graph_of(directory, 4000)
}

/// A smaller graph for tests that run kernels in the stand-in for a GPU, which takes some 40 µs for each row of a
/// batch: five training batches of 100 and two for validation.
pub fn smaller_graph(directory: &Path) -> PathBuf {
    graph_of(directory, SMALLER_NODES)
}

/// Nodes of [`smaller_graph`].
pub const SMALLER_NODES: u32 = 1200;

fn graph_of(directory: &Path, nodes: u32) -> PathBuf {
    let graph = directory.join("graph");
    let args = format!("generate graph --nodes {nodes} --avg-degree 12 --feat-dim 24 --classes 4 --seed 7");
    uvatrain(directory, args.split(' ')).run().succeeds();
    settle(&graph);
    graph
}

/// Training with small batches and one thread a stage.
pub const TRAIN: &str =
    "train graph --fanouts 5,4 --batch-size 100 --hidden 16 --train-threads 1 --gather-threads 1";

/// [`TRAIN`] with its metrics in `metrics`.
pub fn train(directory: &Path, metrics: &str, extra: &str) -> Uvatrain {
    uvatrain(directory, format!("{TRAIN} --metrics {metrics} {extra}").split_whitespace())
}

/// The content of a metrics file. Objects are compared as written, floats by their shortest digits.
pub struct Metrics(pub Vec<Value>);

impl Metrics {
    /// Every whole line of the file.
    pub fn read(path: &Path) -> Metrics {
        let text = fs::read_to_string(path).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        Metrics(
            whole
                .lines()
                .map(|line| {
                    serde_json::from_str(line).unwrap_or_else(|e| panic!("{}: {e}: {line}", path.display()))
                })
                .collect(),
        )
    }

    /// The events of one kind.
    pub fn of<'a>(&'a self, event: &'a str) -> impl Iterator<Item = &'a Value> {
        self.0.iter().filter(move |line| line["event"] == event)
    }

    /// Epoch, batch, hash and the loss's exact digits of every training batch, in the order they were trained.
    pub fn trained(&self) -> Vec<(u64, u64, String, String)> {
        self.of("batch")
            .map(|line| {
                let hash = line["hash"].as_str().expect("a hash").to_owned();
                let number = |name: &str| line[name].as_u64().expect("a number");
                (number("epoch"), number("batch"), hash, line["loss"].to_string())
            })
            .collect()
    }
}

/// Results that must not depend on the place of aggregation: hashes and losses of all batches, and the validation of
/// each epoch.
pub type Learned = (Vec<(u64, u64, String, String)>, Vec<String>);

pub fn learned(metrics: &Metrics) -> Learned {
    (metrics.trained(), metrics.of("epoch").map(|epoch| epoch["valid_accuracy"].to_string()).collect())
}

/// The names in a directory of checkpoints, but for the file that runs lock.
pub fn checkpoint_files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name != ".uvatrain-lock").collect()
}

/// Waits until the run has trained this many batches, according to its metrics.
pub fn wait_for_batches(run: &mut Running, metrics: &Path, batches: usize) {
    wait_until("the run trains batches", || {
        if let Ok(Some(status)) = run.child.try_wait() {
            panic!("the run ended ({status}) before it had trained {batches} batches");
        }
        Metrics::read(metrics).of("batch").count() >= batches
    });
}

/// Polls until the condition holds; fails the test, with a description of the condition, after three minutes, since
/// other test programs and the Python suite may run at the same time.
pub fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < Duration::from_secs(180), "waited three minutes for this: {what}");
        std::thread::yield_now();
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// A process of a run, held by descriptor.
pub struct Process {
    /// Its first argument, such as `producer`.
    pub role: String,
    /// The process number.
    pub pid: i32,
    handle: std::os::fd::OwnedFd,
}

impl Process {
    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        self.try_signal(signal).unwrap_or_else(|e| panic!("{} to the {}: {e}", signal.as_raw(), self.role));
    }

    /// Sends a signal to the process, unless it has ended.
    pub fn try_signal(&self, signal: Signal) -> rustix::io::Result<()> {
        pidfd_send_signal(&self.handle, signal)
    }

    /// Whether all threads of the process are stopped, after SIGSTOP.
    pub fn is_stopped(&self) -> bool {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else { return false };
        threads.flatten().all(|thread| {
            // A thread that ends meanwhile is not running either.
            let Ok(stat) = fs::read_to_string(thread.path().join("stat")) else { return true };
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
        })
    }

    /// Whether the process has ended, reaped or not.
    pub fn has_ended(&self) -> bool {
        let mut fds = [rustix::event::PollFd::new(&self.handle, rustix::event::PollFlags::IN)];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::event::poll(&mut fds, Some(&at_once)).expect("poll") > 0
    }
}

/// The processes that a launcher has started, once all of them run: consumer, producer, janitor, samplers. With workers
/// instead, the run has one process for them, and no sampler.
pub fn processes_of(run: &Running, samplers: usize) -> Vec<Process> {
    let launcher = run.child.id();
    let mut found = Vec::new();
    wait_until("all roles are started", || {
        found = children_of(launcher);
        found.len() == samplers + 3
    });
    found
}

/// A role of a run, once it runs.
pub fn role_of(run: &Running, role: &str) -> Process {
    let mut found = None;
    wait_until(&format!("the {role} is started"), || {
        found = children_of(run.child.id()).into_iter().find(|process| process.role == role);
        found.is_some()
    });
    found.expect("it was found")
}

/// The samplers of a run, once this many run.
pub fn samplers_of(run: &Running, samplers: usize) -> Vec<Process> {
    let mut found = Vec::new();
    wait_until("all samplers are started", || {
        found = children_of(run.child.id());
        found.retain(|process| process.role == "sampler");
        found.len() == samplers
    });
    found
}

fn children_of(parent: u32) -> Vec<Process> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(status) = fs::read_to_string(entry.path().join("status")) else { continue };
        let is_child = status
            .lines()
            .any(|line| line.strip_prefix("PPid:").is_some_and(|p| p.trim() == parent.to_string()));
        let Ok(arguments) = fs::read_to_string(entry.path().join("cmdline")) else { continue };
        let role = arguments.split('\0').nth(1).unwrap_or_default().to_owned();
        // Between fork and exec a child still shows its parent's arguments.
        if !is_child
            || !["sampler", "producer", "worker", "consumer", "planner", "janitor"].contains(&role.as_str())
        {
            continue;
        }
        if let Some(handle) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) {
            found.push(Process { role, pid, handle });
        }
    }
    found
}

/// Possible leftovers of a run outside of its own files: names in /dev/shm, socket files, and the content of its
/// temporary directory.
#[derive(Debug, PartialEq, Eq)]
pub struct Traces {
    shm: Vec<String>,
    sockets: Vec<String>,
    temporary: Vec<String>,
}

impl Traces {
    /// The present names; `temporary` is the run's `TMPDIR`, in its test's directory. Other tests run at the same time and
    /// bind sockets, too, so only files of this test's directory count. A socket with an abstract name cannot outlive its
    /// process, and tests check processes separately.
    pub fn now(temporary: &Path) -> Traces {
        let names = |folder: &Path| -> Vec<String> {
            let mut names: Vec<_> = fs::read_dir(folder)
                .map(|entries| {
                    entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect()
                })
                .unwrap_or_default();
            names.sort();
            names
        };
        let own = temporary.parent().expect("in the test's directory").to_string_lossy();
        let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let named = sockets.lines().filter_map(|line| line.split_whitespace().nth(7));
        Traces {
            shm: names(Path::new("/dev/shm")).into_iter().filter(|name| name.contains("uva")).collect(),
            sockets: named.filter(|name| name.contains(&*own)).map(str::to_owned).collect(),
            temporary: names(temporary),
        }
    }
}

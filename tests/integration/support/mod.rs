//! Shared code of whole-program tests: the real binary under a watchdog, small handmade datasets, and comparisons that
//! report differences.
//!
//! Modules that drive training are unused in a build without it.
#![cfg_attr(not(feature = "train"), allow(dead_code))]

pub mod arrays;
pub mod command;
pub mod extent;
pub mod mps;
pub mod ranks;
pub mod runs;
pub mod slots;
pub mod stamps;
pub mod typed;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// Long enough for a loaded machine, short enough that a hanging test names itself before CI gives up.
const WATCHDOG: Duration = Duration::from_secs(120);

/// A call of the `uvatrain` under test, with a cache separate from the caller's.
pub struct Uvatrain {
    command: Command,
    limit: Duration,
}

/// `uvatrain ARGS…`, with its cache in `directory`.
pub fn uvatrain<S: AsRef<OsStr>>(directory: &Path, args: impl IntoIterator<Item = S>) -> Uvatrain {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uvatrain"));
    command
        .args(args)
        .current_dir(directory)
        .env("XDG_CACHE_HOME", directory.join("cache"))
        .env("NO_COLOR", "1")
        .env_remove("UVATRAIN_LOG")
        .env_remove("UVATRAIN_LOG_FORMAT")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // In a separate process group, so that the watchdog ends the roles as well.
        .process_group(0);
    Uvatrain { command, limit: WATCHDOG }
}

/// `uvatrain ARGS…` after a line of the shell that changes its conditions, such as `ulimit -n 16`. In the line `"$@"`
/// is the call; if it is missing, the call follows the line.
pub fn uvatrain_behind<S: AsRef<OsStr>>(
    directory: &Path,
    line: &str,
    args: impl IntoIterator<Item = S>,
) -> Uvatrain {
    let line = if line.contains("\"$@\"") { line.to_owned() } else { format!("{line}\nexec \"$@\"") };
    in_shell(uvatrain(directory, args), &["sh", "-ec", &line, "sh"])
}

/// As [`uvatrain_behind`], in a separate mount namespace, so that the line may mount anything. `None`, with a message,
/// if the machine does not allow that: the caller skips.
pub fn uvatrain_behind_mounts<S: AsRef<OsStr>>(
    directory: &Path,
    line: &str,
    args: impl IntoIterator<Item = S>,
) -> Option<Uvatrain> {
    let ways: [&[&str]; 2] = [&["unshare", "-m"], &["unshare", "-rm"]];
    let may = |way: &&&[&str]| {
        let mut trial = Command::new(way[0]);
        trial.args(&way[1..]).args(["sh", "-c", "mount -t tmpfs -o size=64k none /mnt"]);
        trial.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let Some(way) = ways.iter().find(may) else {
        println!("skipped: this machine does not let a test mount anything (unshare -m, unshare -rm)");
        return None;
    };
    let line = if line.contains("\"$@\"") { line.to_owned() } else { format!("{line}\nexec \"$@\"") };
    Some(in_shell(uvatrain(directory, args), &[way, &["sh", "-ec", &line, "sh"][..]].concat()))
}

/// `uvatrain ARGS…` whose user may have `most` processes and threads, including this process. Under root it runs as a
/// user without other processes; otherwise the user of the tests has many, so that it gets no thread for any `most`.
/// `None`, with a message, if the machine has no prlimit(1) or setpriv(1): the caller skips.
pub fn uvatrain_with_threads<S: AsRef<OsStr>>(
    directory: &Path,
    most: u32,
    args: impl IntoIterator<Item = S>,
) -> Option<Uvatrain> {
    // A separate user for each call: processes of an earlier one may still be ending.
    static USERS: AtomicU32 = AtomicU32::new(0);
    let user = 1_000_000 + std::process::id() % 100_000 * 100 + USERS.fetch_add(1, Ordering::Relaxed) % 100;
    let (reuid, limit) = (format!("--reuid={user}"), format!("--nproc={most}:{most}"));
    let mut way = vec![];
    if rustix::process::geteuid().is_root() {
        // Root has no limit. The user can still read files that only root can, such as its libtorch.
        let capabilities = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"];
        way.extend(["setpriv", &reuid, "--clear-groups", "--bounding-set=-sys_resource,-sys_admin"]);
        way.extend(capabilities);
    }
    way.extend(["prlimit", &limit]);
    if !Command::new(way[0]).args(&way[1..]).arg("true").status().is_ok_and(|status| status.success()) {
        println!("skipped: this machine has no prlimit(1), or no setpriv(1) that works");
        return None;
    }
    Some(in_shell(uvatrain(directory, args), &way))
}

/// The same call as the arguments of another program.
fn in_shell(inner: Uvatrain, words: &[&str]) -> Uvatrain {
    let Uvatrain { command: call, limit } = inner;
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(call.get_program()).args(call.get_args());
    for (name, value) in call.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .current_dir(call.get_current_dir().expect("set above"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    Uvatrain { command, limit }
}

impl Uvatrain {
    /// Sets a limit other than the usual two minutes.
    pub fn limit(mut self, limit: Duration) -> Uvatrain {
        self.limit = limit;
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Uvatrain {
        self.command.env(name, value);
        self
    }

    /// Makes the stand-in for NVIDIA's driver (crates/cuda-sim) available.
    pub fn simulated(mut self) -> Uvatrain {
        cuda_sim::environment(&mut self.command);
        self
    }

    /// Makes the stand-ins for NVIDIA's driver and cuFile available.
    pub fn with_cufile(mut self) -> Uvatrain {
        cuda_sim::cufile_environment(&mut self.command);
        self
    }

    /// Starts the program and returns it to the caller while it runs.
    pub fn start(mut self) -> Running {
        let line = format!("{:?}", self.command);
        let mut child = self.command.spawn().unwrap_or_else(|e| panic!("cannot start {line}: {e}"));
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        let watchdog = Watchdog::over(&child, self.limit);
        Running { child, line, stdout, stderr, watchdog }
    }

    /// Runs the program to its end.
    pub fn run(self) -> Outcome {
        self.start().wait()
    }
}

/// A running program.
pub struct Running {
    /// The launcher.
    pub child: Child,
    line: String,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
    watchdog: Watchdog,
}

impl Running {
    /// Waits for the program's end.
    pub fn wait(mut self) -> Outcome {
        let status = self.child.wait().unwrap_or_else(|e| panic!("cannot wait for {}: {e}", self.line));
        let late = self.watchdog.dismiss();
        // A pipe ends with the last process that holds it: a process that outlives the launcher is a fault.
        let rest = |pipe: mpsc::Receiver<String>, name| {
            pipe.recv_timeout(WATCHDOG).unwrap_or_else(|_| {
                panic!("{} has ended, and another process still holds its {name}", self.line)
            })
        };
        let (stdout, stderr) = (rest(self.stdout, "stdout"), rest(self.stderr, "stderr"));
        let outcome = Outcome { line: self.line, status, stdout, stderr };
        assert!(!late, "killed by the watchdog\n{outcome}");
        outcome
    }
}

/// Reads a pipe to its end on a separate thread, so that a full pipe blocks no process.
fn collect(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let mut pipe = pipe.expect("the pipe exists");
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

/// Kills a process and its group if it takes too long, or if no test waits for it any longer: a failed test must not
/// leave a run that would slow later tests down.
struct Watchdog {
    /// Both are `None` once it is dismissed.
    dismissed: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<bool>>,
}

impl Watchdog {
    fn over(child: &Child, limit: Duration) -> Watchdog {
        let pid = Pid::from_child(child);
        // A descriptor, not a number: a number could belong to another process by the time it is used.
        let handle = pidfd_open(pid, PidfdFlags::empty()).expect("pidfd_open");
        let (dismissed, dismissal) = mpsc::channel();
        let thread = thread::spawn(move || {
            let heard = dismissal.recv_timeout(limit);
            if heard.is_err() && pidfd_send_signal(&handle, Signal::KILL).is_ok() {
                let _ = kill_process_group(pid, Signal::KILL);
            }
            heard == Err(mpsc::RecvTimeoutError::Timeout)
        });
        Watchdog { dismissed: Some(dismissed), thread: Some(thread) }
    }

    /// Whether the watchdog had to act.
    fn dismiss(mut self) -> bool {
        if let Some(dismissed) = self.dismissed.take() {
            let _ = dismissed.send(());
        }
        self.thread.take().is_some_and(|thread| thread.join().expect("the watchdog panicked"))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.dismissed.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The end of a program.
pub struct Outcome {
    line: String,
    /// Its status.
    pub status: ExitStatus,
    /// The printed result.
    pub stdout: String,
    /// The messages for users.
    pub stderr: String,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outcome { line, status, stdout, stderr } = self;
        write!(f, "  ran: {line}\n  ended: {status}\n--- stdout ---\n{stdout}\n--- stderr ---\n{stderr}\n---")
    }
}

impl Outcome {
    /// The output, followed by the messages.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The exit code, or 128 + signal where a signal ended it.
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }

    /// Asserts success.
    #[track_caller]
    pub fn succeeds(self) -> Outcome {
        self.ends_with(0)
    }

    /// Asserts an exit code.
    #[track_caller]
    pub fn ends_with(self, code: i32) -> Outcome {
        assert!(self.code() == code, "expected exit code {code}\n{self}");
        self
    }

    /// Asserts that the message on stderr contains all of these, and that stdout is empty, since a refusal has no
    /// result.
    #[track_caller]
    pub fn refuses(self, code: i32, message: &[&str]) -> Outcome {
        let outcome = self.ends_with(code);
        assert!(outcome.stdout.is_empty(), "stdout should be empty\n{outcome}");
        for part in message {
            assert!(outcome.stderr.contains(part), "stderr does not say {part:?}\n{outcome}");
        }
        outcome
    }

    /// The one JSON object on stdout.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("stdout is not one JSON value: {e}\n{self}"))
    }
}

/// The words that run a program as another user; `None`, with a message, if that is not possible.
pub fn as_another_user() -> Option<[&'static str; 3]> {
    let words = ["setpriv", "--reuid=65534", "--clear-groups"];
    let tried = Command::new(words[0]).args(&words[1..]).arg("true").stderr(Stdio::null()).status();
    if rustix::process::getuid().is_root() && tried.is_ok_and(|status| status.success()) {
        return Some(words);
    }
    println!("skipped: only root with setpriv can become another user");
    None
}

/// A temporary directory, gone at the end of the test.
pub fn directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("uvatrain-test-").tempdir().expect("a temporary directory")
}

/// All files in a directory: each file's bytes, by path. Compared before and after a run, they show that it changed
/// nothing.
pub fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() {
                // A folder counts on its own: an empty one that appears is a change.
                found.insert(path.strip_prefix(directory).unwrap().join(""), Vec::new());
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                found.insert(path.strip_prefix(directory).unwrap().to_owned(), bytes);
            }
        }
    }
    found
}

/// Asserts that two directories' contents are equal, and names the files that are not.
#[track_caller]
pub fn assert_same_contents(before: &BTreeMap<PathBuf, Vec<u8>>, after: &BTreeMap<PathBuf, Vec<u8>>) {
    let mut differences = String::new();
    for path in before.keys().chain(after.keys().filter(|path| !before.contains_key(*path))) {
        differences += &match (before.get(path), after.get(path)) {
            (Some(_), None) => format!("- {}\n", path.display()),
            (None, Some(_)) => format!("+ {}\n", path.display()),
            (Some(a), Some(b)) if a != b => {
                let at = a.iter().zip(b).position(|(x, y)| x != y).unwrap_or(a.len().min(b.len()));
                format!("~ {}: {} and {} bytes, first difference at {at}\n", path.display(), a.len(), b.len())
            }
            _ => continue,
        };
    }
    assert!(differences.is_empty(), "contents differ:\n{differences}");
}

/// The folder of graphs outside the checkout: `UVATRAIN_SHARED`, or `shared` in the checkout's folder. `None`, with a
/// message, if there is none: the caller skips.
pub fn shared_datasets(test: &str) -> Option<PathBuf> {
    let shared = std::env::var_os("UVATRAIN_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let datasets = shared.join("datasets");
    if datasets.is_dir() {
        return Some(datasets);
    }
    println!("{test}: skipped, {} is not there", datasets.display());
    None
}

/// A real graph unpacked by scripts/setup/datasets.sh: in `UVATRAIN_DATASETS`, or in the cache folder. `None`, with a
/// message, if it does not exist: the caller skips.
pub fn real_graph(test: &str, name: &str) -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let folder = variable("UVATRAIN_DATASETS")
        .or_else(|| Some(variable("UVATRAIN_CACHE")?.join("datasets")))
        .or_else(|| Some(variable("XDG_CACHE_HOME")?.join("uvatrain/datasets")))
        .or_else(|| Some(variable("HOME")?.join(".cache/uvatrain/datasets")))?;
    let graph = folder.join(name);
    if graph.join("indptr.npy").is_file() {
        return Some(graph);
    }
    println!("{test}: skipped, {} is not there (scripts/setup/datasets.sh unpacks it)", graph.display());
    None
}

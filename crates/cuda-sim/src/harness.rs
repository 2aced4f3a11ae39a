//! How tests run under the shared library: this process again, or any command, with a loader that finds it first.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal};

/// Set for whatever runs under the simulator.
const MARK: &str = "CUDA_SIM_FOLDER";

/// Set where tests are to run on the machine's own driver and GPU instead: see [`on_a_gpu`].
const REAL: &str = "UVATRAIN_REQUIRE_GPU";

/// A folder in which tests keep what NVRTC compiled, so that programs of tests that run one after another on a GPU
/// compile each kernel once.
const KERNELS: &str = "UVATRAIN_TEST_KERNELS";

/// Variables that make the simulator later or stricter, and tell nothing of the machine: on a GPU a test does without.
const ONLY_STRICTER: [&str; 3] = ["CUDA_SIM_DELAY_US", "CUDA_SIM_WATCHDOG", "CUDA_SIM_STRICT"];

/// The rules that tests are held to unless they say otherwise: all there are.
const RULES: [(&str, &str); 2] =
    [("CUDA_SIM_STRICT", "green_events,green_groups,mps"), ("CUDA_SIM_WATCHDOG", "1")];

/// How long a test may take under the simulator: much longer than any does, on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// What cargo calls the shared library.
const LIBRARY: &str = "libcuda_sim.so";

/// A folder that holds the shared library under the names programs look for: `libcuda.so` and `libcuda.so.1`.
///
/// Any number of processes may ask at once.
///
/// # Panics
/// When the library does not lie where cargo puts it (beside the test executable, for crates that have `cuda-sim` as a
/// dependency of whatever kind), or the links cannot be made.
pub fn library_folder() -> PathBuf {
    let executable = std::env::current_exe().expect("the path of this executable");
    let beside = executable.parent().expect("an executable lies in a folder");
    // A test lies in `deps` itself, a program one above it, an example beside it.
    let candidates = [beside.to_owned(), beside.join("deps"), beside.join("../deps")];
    let Some(found) = candidates.iter().find(|folder| folder.join(LIBRARY).is_file()) else {
        panic!("{LIBRARY} lies in none of {candidates:?}: is cuda-sim a dependency of what is being tested?");
    };
    let library = found.join(LIBRARY).canonicalize().expect("the path of the library");
    let profile = library.parent().and_then(Path::parent).expect("`deps` lies in a profile's folder");
    let folder = profile.join("cuda-sim");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for name in ["libcuda.so", "libcuda.so.1"] {
        link(&library, &folder.join(name));
    }
    folder
}

/// Leads `command` to the stand-in libcufile, beside what else it finds: for a command that runs under the simulator.
///
/// # Panics
/// As [`library_folder`].
pub fn cufile_environment(command: &mut Command) {
    let libcuda = library_folder().join("libcuda.so.1");
    let library =
        std::fs::read_link(&libcuda).unwrap_or_else(|error| panic!("{}: {error}", libcuda.display()));
    // A folder of its own: most tests are of machines without the library.
    let folder = libcuda.with_file_name("cufile");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    link(&library, &folder.join("libcufile.so.0"));
    search_first(command, &folder);
}

/// Has the loader look into `folder` before it looks elsewhere.
fn search_first(command: &mut Command, folder: &Path) {
    let set = command
        .get_envs()
        .find(|(name, _)| *name == "LD_LIBRARY_PATH")
        .map(|(_, value)| value.map(OsString::from));
    let rest = set.unwrap_or_else(|| std::env::var_os("LD_LIBRARY_PATH")).unwrap_or_default();
    let mut path = folder.to_owned().into_os_string();
    if !rest.is_empty() {
        path.push(":");
        path.push(rest);
    }
    command.env("LD_LIBRARY_PATH", path);
}

/// Makes `link` point to `library`. Renaming is atomic, so other processes may do the same at the same time.
fn link(library: &Path, link: &Path) {
    if std::fs::read_link(link).is_ok_and(|target| target == library) {
        return;
    }
    let thread = format!("{:?}", std::thread::current().id());
    let own = link.with_extension(format!("{}-{}", std::process::id(), thread.replace(['(', ')'], "")));
    let made = std::os::unix::fs::symlink(library, &own).and_then(|()| std::fs::rename(&own, link));
    made.unwrap_or_else(|error| panic!("{}: {error}", link.display()));
}

/// Runs a command to its end, or kills it: a test that waits for ever fails and does not hang the run.
fn run(mut command: Command, test_name: &str) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("this executable runs");
    let pid = Pid::from_child(&child);
    // A descriptor of the child that is not waited for yet: it means no other process later.
    let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty()).expect("a pidfd of the child");
    let (ended, still_runs) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let late = still_runs.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
        if late {
            // It may have ended at this very moment.
            let _ = rustix::process::pidfd_send_signal(&handle, Signal::KILL);
        }
        late
    });
    let output = child.wait_with_output().expect("the output of this executable");
    drop(ended);
    let late = watchdog.join().expect("the watchdog does not panic");
    assert!(
        !late,
        "{test_name} under cuda-sim did not end within {PATIENCE:?}\n{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Makes `command` run under the simulator. What else it loads by the loader's path stays findable. Of the simulator's
/// own variables (see the README) it sets those that make it stricter, where nobody has set them.
///
/// # Panics
/// As [`library_folder`].
pub fn environment(command: &mut Command) {
    let folder = library_folder();
    for (name, value) in RULES {
        let given = command.get_envs().any(|(given, _)| given == name) || std::env::var_os(name).is_some();
        if !given {
            command.env(name, value);
        }
    }
    search_first(command, &folder);
    command.env(MARK, folder);
}

/// Where tests are to keep kernels that NVRTC compiled; nowhere unless `UVATRAIN_TEST_KERNELS` names a folder.
pub fn kernel_cache() -> Option<PathBuf> {
    std::env::var_os(KERNELS).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Whether this process runs under the simulator, or [is to run on a GPU](on_a_gpu). If not, runs the test of that name
/// (as `cargo test -- --list` shows it) of this test executable under it, in a process of its own, and gives `false`:
/// the caller returns.
///
/// ```ignore
/// #[test]
/// fn a_stream_is_made() {
///     if !cuda_sim::in_process("a_stream_is_made") {
///         return;
///     }
///     // libcuda is the simulator here
/// }
/// ```
///
/// # Panics
/// When that test fails, or takes longer than [`PATIENCE`], or there is none of that name; and as [`library_folder`].
pub fn in_process(test_name: &str) -> bool {
    in_process_with(test_name, &[])
}

/// Whether the tests are to run on the machine's own driver and GPU: `UVATRAIN_REQUIRE_GPU` is set, to anything but
/// nothing. A test then fails where there is no GPU, as it should.
pub fn on_a_gpu() -> bool {
    std::env::var_os(REAL).is_some_and(|value| !value.is_empty())
}

/// As [`in_process`], with more variables set for the other process. On a GPU such a test is left out, and says so: the
/// variables are the simulator's. Those that only make it later or stricter count for nothing there.
///
/// # Panics
/// As [`in_process`].
pub fn in_process_with(test_name: &str, variables: &[(&str, &str)]) -> bool {
    in_process_in(test_name, variables, environment)
}

/// As [`in_process_with`], beside the stand-in libcufile. On a GPU such a test is left out, too.
///
/// # Panics
/// As [`in_process`].
pub fn in_process_with_cufile(test_name: &str, variables: &[(&str, &str)]) -> bool {
    if on_a_gpu() && std::env::var_os(MARK).is_none() {
        eprintln!("{test_name}: not run on a GPU, for it needs the stand-in libcufile");
        return false;
    }
    in_process_in(test_name, variables, |command| {
        environment(command);
        cufile_environment(command);
    })
}

fn in_process_in(
    test_name: &str,
    variables: &[(&str, &str)],
    environment: impl FnOnce(&mut Command),
) -> bool {
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    if on_a_gpu() {
        let needed: Vec<_> = variables.iter().filter(|(name, _)| !ONLY_STRICTER.contains(name)).collect();
        if !needed.is_empty() {
            eprintln!("{test_name}: not run on a GPU, for it needs the simulator with {needed:?}");
        }
        return needed.is_empty();
    }
    let mut command = Command::new(std::env::current_exe().expect("the path of this executable"));
    command.args(["--exact", test_name, "--nocapture", "--include-ignored"]).envs(variables.iter().copied());
    environment(&mut command);
    let output = run(command, test_name);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test_name} under cuda-sim: {}\n{stdout}\n{stderr}", output.status);
    // A name that is none runs nothing, and succeeds.
    assert!(stdout.contains("1 passed"), "{test_name} names no test of this executable:\n{stdout}");
    false
}

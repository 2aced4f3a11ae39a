//! Running tests with the shared library: this process again, or any command, with the library first in the loader's
//! path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal};

/// Environment variable that is set for processes in the simulator.
const MARK: &str = "CUDA_SIM_FOLDER";

/// Environment variable to run tests on the machine's own driver and GPU instead: see [`on_a_gpu`].
const REAL: &str = "UVATRAIN_REQUIRE_GPU";

/// Environment variable with a folder for compiled kernels, so that consecutive test programs on a GPU compile each
/// kernel once.
const KERNELS: &str = "UVATRAIN_TEST_KERNELS";

/// Variables that only make the simulator slower or stricter, and are ignored on a GPU.
const ONLY_STRICTER: [&str; 3] = ["CUDA_SIM_DELAY_US", "CUDA_SIM_WATCHDOG", "CUDA_SIM_STRICT"];

/// The rules enforced in tests by default: all rules.
const RULES: [(&str, &str); 2] =
    [("CUDA_SIM_STRICT", "green_events,green_groups,mps"), ("CUDA_SIM_WATCHDOG", "1")];

/// The maximum duration of a test in the simulator: much longer than any test on the slowest machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The file name of the shared library in cargo's output.
const LIBRARY: &str = "libcuda_sim.so";

/// A folder that holds the shared library under the names programs look for: `libcuda.so` and `libcuda.so.1`.
///
/// May be called by several processes concurrently.
///
/// # Panics
/// If the library is not in cargo's output (next to the test executable, for crates with any kind of dependency on
/// `cuda-sim`), or the links cannot be created.
pub fn library_folder() -> PathBuf {
    let executable = std::env::current_exe().expect("the path of this executable");
    let beside = executable.parent().expect("an executable lies in a folder");
    // A test is in `deps` itself, a program one level above, an example next to it.
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

/// Adds the stand-in libcufile to the loader's path of `command`, which runs in the simulator.
///
/// # Panics
/// As [`library_folder`].
pub fn cufile_environment(command: &mut Command) {
    let libcuda = library_folder().join("libcuda.so.1");
    let library =
        std::fs::read_link(&libcuda).unwrap_or_else(|error| panic!("{}: {error}", libcuda.display()));
    // A separate folder, since most tests simulate machines without the library.
    let folder = libcuda.with_file_name("cufile");
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    link(&library, &folder.join("libcufile.so.0"));
    search_first(command, &folder);
}

/// Puts `folder` first in the loader's path.
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

/// Runs a command to its end, or kills it: a test that never ends fails instead of blocking the run.
fn run(mut command: Command, test_name: &str) -> Output {
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("this executable runs");
    let pid = Pid::from_child(&child);
    // A descriptor of the child that is not waited for yet: it never refers to a later process.
    let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty()).expect("a pidfd of the child");
    let (ended, still_runs) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let late = still_runs.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
        if late {
            // It may have just ended.
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

/// Makes `command` run in the simulator. The rest of the loader's path is kept. Sets those of the simulator's variables
/// (see the README) that make it stricter, unless already set.
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

/// The folder for kernels compiled in tests: `UVATRAIN_TEST_KERNELS`, if set.
pub fn kernel_cache() -> Option<PathBuf> {
    std::env::var_os(KERNELS).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// Whether this process runs in the simulator, or [is to run on a GPU](on_a_gpu). If not, runs the test of that name
/// (as shown by `cargo test -- --list`) of this test executable in the simulator, in a separate process, and returns
/// `false`; the caller must then return.
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
/// If that test fails, takes longer than [`PATIENCE`], or does not exist; and as [`library_folder`].
pub fn in_process(test_name: &str) -> bool {
    in_process_with(test_name, &[])
}

/// Whether the tests are to run on the machine's own driver and GPU: `UVATRAIN_REQUIRE_GPU` is set and not empty. A
/// test then fails on a machine without a GPU.
pub fn on_a_gpu() -> bool {
    std::env::var_os(REAL).is_some_and(|value| !value.is_empty())
}

/// As [`in_process`], with more variables set for the other process. On a GPU such a test is skipped with a message,
/// since the variables belong to the simulator. Variables that only make it slower or stricter are ignored there.
///
/// # Panics
/// As [`in_process`].
pub fn in_process_with(test_name: &str, variables: &[(&str, &str)]) -> bool {
    in_process_in(test_name, variables, environment)
}

/// As [`in_process_with`], with the stand-in libcufile. On a GPU such a test is skipped, too.
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
    // An unknown name runs no test, and succeeds.
    assert!(stdout.contains("1 passed"), "{test_name} names no test of this executable:\n{stdout}");
    false
}

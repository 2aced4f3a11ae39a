//! MPS as used by a launcher: its own daemon, clients that are ended before they are killed, and the janitor's work
//! after the launcher is gone. With the stand-in for NVIDIA's control program; `uvatrain mps` has separate tests.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use uva_launch::mps::{
    AvailableMps, Daemon, DaemonDevice, DaemonPlace, Environment, Leftover, MpsError, MpsSession, NotRunning,
    ProcessId, Running, look, shares,
};
use uva_runtime::RuntimeError;

/// An environment with the stand-in in PATH and everything else in `folder`.
fn environment(folder: &Path) -> Environment {
    let stand_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda-sim");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(stand_in).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).unwrap();
    Environment::from_variables(|name| match name {
        "PATH" => Some(path.clone()),
        "XDG_RUNTIME_DIR" => Some(folder.into()),
        _ => None,
    })
}

/// An environment whose user names a pipe directory.
fn naming(folder: &Path, pipe: &Path) -> Environment {
    Environment { pipe_directory: Some(pipe.to_owned()), ..environment(folder) }
}

fn contents(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name()).collect()
}

/// A process that the stand-in counts as a client.
fn client(daemon: &Running, percentage: u32) -> Child {
    Command::new("sleep").arg("600").envs(daemon.client_environment(percentage)).spawn().unwrap()
}

fn end(mut client: Child) {
    client.kill().unwrap();
    client.wait().unwrap();
}

fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !so() {
        assert!(since.elapsed() < Duration::from_secs(60), "waited a minute for this: {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn a_daemon_of_our_own_is_private_and_ends_with_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    for by_drop in [true, false] {
        let daemon = Daemon::start(&environment(folder.path()), Some(&DaemonDevice::Ordinal(3))).unwrap();
        let process = daemon.running().process();
        let pipe = daemon.running().pipe_directory().to_owned();
        for private in [pipe.as_path(), pipe.parent().unwrap(), &daemon.leftover().log_directory] {
            assert_eq!(fs::metadata(private).unwrap().permissions().mode() & 0o7777, 0o700);
        }
        // The daemon counts the devices it serves from 0.
        assert_eq!(daemon.running().visible_devices().as_deref(), Some("3"));
        assert_eq!(daemon.running().client_ordinal(3).unwrap(), 0);
        assert!(matches!(
            daemon.running().client_ordinal(0),
            Err(MpsError::DeviceNotServed { asked: 0, .. })
        ));
        if by_drop {
            drop(daemon);
        } else {
            daemon.quit().unwrap();
        }
        assert!(!process.is_alive());
        assert!(contents(folder.path()).is_empty(), "{:?}", contents(folder.path()));
    }
}

#[test]
fn a_client_gets_the_daemon_and_its_share() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&environment(folder.path()), None).unwrap();
    let (producer, consumer) = shares(12).unwrap();
    for (share, text) in [(producer, "12"), (consumer, "88"), (0, "1"), (1000, "100")] {
        let variables = daemon.client_environment(share);
        let value = |name: &str| variables.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
        assert_eq!(value("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), Some(text));
        assert_eq!(value("CUDA_MPS_PIPE_DIRECTORY"), daemon.running().pipe_directory().to_str());
        assert_eq!(value("CUDA_MPS_LOG_DIRECTORY"), daemon.leftover().log_directory.to_str());
    }
}

#[test]
fn a_client_is_terminated_at_its_server_and_a_stranger_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&environment(folder.path()), None).unwrap();
    assert!(!daemon.terminate_client(std::process::id()).unwrap(), "there is no server yet");
    let (first, second) = (client(daemon.running(), 10), client(daemon.running(), 90));
    let clients = |daemon: &Daemon| -> Vec<u32> {
        let servers = daemon.running().status().unwrap().servers;
        servers.iter().flat_map(|server| server.clients.iter().map(|client| client.pid)).collect()
    };
    wait_until("both are clients", || clients(&daemon).len() == 2);
    assert!(!daemon.terminate_client(std::process::id()).unwrap(), "this process is not a client");
    assert!(daemon.terminate_client(first.id()).unwrap());
    assert_eq!(clients(&daemon), [second.id()]);
    // As the janitor does, which has only the leftover.
    assert!(daemon.leftover().terminate_client(second.id()).unwrap());
    assert!(clients(&daemon).is_empty());
    end(first);
    end(second);
    daemon.quit().unwrap();
    assert!(contents(folder.path()).is_empty());
}

#[test]
fn a_janitor_ends_the_daemon_of_a_launcher_that_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(&environment(folder.path()), None).unwrap();
    let process = daemon.running().process();
    end(client(daemon.running(), 10));
    let told = serde_json::to_vec(daemon.leftover()).unwrap();
    std::mem::forget(daemon);

    let leftover: Leftover = serde_json::from_slice(&told).unwrap();
    leftover.remove().unwrap();
    assert!(!process.is_alive());
    assert!(contents(folder.path()).is_empty(), "{:?}", contents(folder.path()));
    // Again, as after a launcher that had ended it itself.
    leftover.remove().unwrap();
    assert!(!leftover.terminate_client(1).unwrap());
}

#[test]
fn a_janitor_informed_before_the_start_still_finds_the_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = prepared(&environment(folder.path()));
    let early = prepared.leftover().clone();
    assert_eq!(early.control, None);
    let daemon = prepared.start(None).unwrap();
    let process = daemon.running().process();
    std::mem::forget(daemon);
    early.remove().unwrap();
    assert!(!process.is_alive());
    assert!(contents(folder.path()).is_empty());
}

/// As [`look`], if CUDA's default directory is free; the test does not use a daemon that runs there on this machine.
fn prepared(environment: &Environment) -> Box<DaemonPlace> {
    match look(environment) {
        Ok(AvailableMps::Prepared(prepared)) => prepared,
        _ => Box::new(DaemonPlace::new(environment).unwrap()),
    }
}

#[test]
fn unused_directories_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let prepared = prepared(&environment(folder.path()));
    assert_eq!(contents(folder.path()).len(), 1);
    drop(prepared);
    assert!(contents(folder.path()).is_empty());
}

#[test]
fn a_janitor_spares_a_process_that_has_the_daemons_number_now() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    let now = ProcessId::of(other.id()).unwrap();
    let leftover = Leftover {
        program: "nvidia-cuda-mps-control".into(),
        pipe_directory: folder.path().join("pipe"),
        log_directory: folder.path().join("log"),
        created: Vec::new(),
        control: Some(ProcessId { started: now.started - 1, ..now }),
    };
    leftover.remove().unwrap();
    assert_eq!(other.try_wait().unwrap(), None, "it was killed");
    end(other);
}

#[test]
fn another_users_daemon_is_shared_and_survives_the_session() {
    let folder = tempfile::tempdir().unwrap();
    let theirs = Daemon::start(&environment(folder.path()), None).unwrap();
    let named = naming(folder.path(), theirs.running().pipe_directory());
    let Ok(AvailableMps::Running(running)) = look(&named) else { panic!("it was not found") };
    let session = MpsSession::Shared(running);
    assert_eq!(session.leftover(), None);
    assert_eq!(session.running().process(), theirs.running().process());
    // The clients get the log directory of that daemon, not of this environment.
    assert_eq!(session.client_environment(5), theirs.client_environment(5));
    session.end().unwrap();
    assert!(theirs.running().process().is_alive());
    theirs.quit().unwrap();
}

#[test]
fn a_pipe_directory_without_a_daemon_is_a_reason_to_run_without_mps() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("named");
    let reason = |environment: &Environment| match look(environment) {
        Err(MpsError::NotRunning(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let named = naming(folder.path(), &pipe);
    assert_eq!(reason(&named), NotRunning::Nothing { directory: pipe.clone() });
    fs::create_dir(&pipe).unwrap();
    fs::write(pipe.join("control"), "").unwrap();
    assert_eq!(reason(&named).kind(), "stale");
    fs::write(pipe.join("nvidia-cuda-mps-control.pid"), "not a number").unwrap();
    assert_eq!(reason(&named).kind(), "stale");
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    fs::write(pipe.join("nvidia-cuda-mps-control.pid"), format!("{}\n", ended.id())).unwrap();
    assert_eq!(reason(&named), NotRunning::Dead { directory: pipe.clone(), pid: ended.id() });
    assert_eq!(RuntimeError::from(MpsError::from(reason(&named))).exit_code(), 3);
    assert_eq!(contents(folder.path()).len(), 1, "no other file was created");
}

#[test]
fn without_a_control_program_there_is_no_mps_and_no_file_is_created() {
    let folder = tempfile::tempdir().unwrap();
    let environment = Environment { path: PathBuf::from("/nowhere").into(), ..environment(folder.path()) };
    let error = Daemon::start(&environment, None).unwrap_err();
    assert!(matches!(error, MpsError::NoControlProgram), "{error}");
    assert_eq!(RuntimeError::from(error).exit_code(), 3);
    assert!(contents(folder.path()).is_empty());
}

//! The MPS daemon of `uvatrain mps`: the real binary with a stand-in for NVIDIA's control program, and the processes
//! and folders that each command leaves.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::mps::{Machine, pid_file, stand_in};
use crate::support::runs::wait_until;
use crate::support::uvatrain;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;

fn runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
}

fn kill(pid: u32) {
    let handle = pidfd_open(Pid::from_raw(pid as i32).unwrap(), PidfdFlags::empty()).unwrap();
    pidfd_send_signal(&handle, Signal::KILL).unwrap();
    wait_until("the killed process ends", || !runs(pid));
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("{test}: skipped, only root can make another user's daemon");
    }
    root
}

/// Whether CUDA's default directory is free: a test must not interfere with a daemon of this machine.
fn default_place_is_free(test: &str) -> bool {
    let free = !Path::new("/tmp/nvidia-mps").exists();
    if !free {
        println!("{test}: skipped, /tmp/nvidia-mps is in use");
    }
    free
}

// ---- start, status, stop

#[test]
fn a_daemon_is_started_shown_and_stopped_and_leaves_nothing() {
    if !default_place_is_free("gpu::mps::a_daemon_is_started_shown_and_stopped_and_leaves_nothing") {
        return;
    }
    let machine = Machine::new();
    let started = machine.mps("start --device 1 --json").run().succeeds().json();
    assert_eq!(started["started"], true, "{started}");
    let pipe = PathBuf::from(started["environment"]["CUDA_MPS_PIPE_DIRECTORY"].as_str().unwrap());
    let log = PathBuf::from(started["environment"]["CUDA_MPS_LOG_DIRECTORY"].as_str().unwrap());
    for private in [&pipe, &log, &pipe.parent().unwrap().to_owned()] {
        assert!(private.starts_with(machine.runtime()), "{}", private.display());
        assert_eq!(mode(private), 0o700, "{}", private.display());
    }

    let again = machine.mps("start --json").run().succeeds().json();
    assert_eq!((&again["started"], &again["pid"]), (&Value::Bool(false), &started["pid"]));

    let status = machine.mps("status --json").run().succeeds().json();
    assert_eq!(status["pid"], started["pid"]);
    assert_eq!(status["started_by_uvatrain"], true, "{status}");
    assert_eq!(status["owner"]["uid"], rustix::process::geteuid().as_raw());
    assert_eq!(status["default_percentage"], 100.0);
    assert_eq!(status["servers"], serde_json::json!([]));

    machine.mps("stop").run().succeeds();
    machine.assert_clean();
    machine.mps("stop").run().succeeds();

    // Only the daemon receives the list of devices that it serves.
    let recorded = machine.recorded();
    assert_eq!(recorded[0]["command"], "-d");
    assert_eq!(recorded[0]["environment"]["CUDA_VISIBLE_DEVICES"], "1");
    for asked in &recorded[1..] {
        assert!(asked["environment"]["CUDA_VISIBLE_DEVICES"].is_null(), "{asked}");
        assert_eq!(asked["environment"]["CUDA_MPS_PIPE_DIRECTORY"], *pipe.to_str().unwrap());
    }
    assert_eq!(recorded.last().unwrap()["command"], "quit");
}

#[test]
fn what_start_prints_is_what_a_shell_has_to_export() {
    let machine = Machine::new();
    let pipe = machine.folder.path().join("it's a pipe");
    let started = machine.mps_in(&pipe, "start").run().succeeds();
    let script =
        format!("{}printf %s \"$CUDA_MPS_PIPE_DIRECTORY|${{CUDA_VISIBLE_DEVICES-unset}}\"", started.stdout);
    let shell = Command::new("sh").args(["-c", &script]).env("CUDA_VISIBLE_DEVICES", "0").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&shell.stdout), format!("{}|unset", pipe.display()));
    machine.mps_in(&pipe, "stop").run().succeeds();
    assert!(!pipe.exists());
    machine.assert_clean();
}

#[test]
fn a_cap_in_the_callers_environment_does_not_reach_the_daemon() {
    let machine = Machine::new();
    machine.mps_in(&machine.pipe(), "start").env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "7").run().succeeds();
    let recorded = machine.recorded();
    assert!(recorded[0]["environment"]["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"].is_null(), "{}", recorded[0]);
    machine.mps_in(&machine.pipe(), "stop").run().succeeds();
    machine.assert_clean();
}

#[test]
fn status_shows_the_server_and_its_clients() {
    let machine = Machine::new();
    let pipe = machine.pipe();
    machine.mps_in(&pipe, "start").run().succeeds();
    // A process that the stand-in counts as a client.
    let mut client = Command::new("sleep")
        .arg("600")
        .env("CUDA_MPS_PIPE_DIRECTORY", &pipe)
        .env("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "10")
        .spawn()
        .unwrap();
    let status = machine.mps_in(&pipe, "status --json").run().succeeds().json();
    let text = machine.mps_in(&pipe, "status").run().succeeds().stdout;
    client.kill().unwrap();
    client.wait().unwrap();
    let server = &status["servers"][0];
    assert_eq!(server["state"], "ACTIVE", "{status}");
    assert_eq!(server["clients"][0]["pid"], client.id(), "{status}");
    assert!(text.contains(&format!("client {}  sleep", client.id())), "{text}");
    machine.mps_in(&pipe, "stop").run().succeeds();
    assert!(!pipe.exists());
    machine.assert_clean();
}

// ---- missing, dead, stale, or another user's

#[test]
fn without_the_control_program_every_command_exits_with_3_and_a_remedy() {
    let machine = Machine::new();
    for command in ["start", "status", "stop"] {
        machine
            .mps(command)
            .env("PATH", machine.folder.path())
            .run()
            .refuses(3, &["nvidia-cuda-mps-control is not in PATH", "apt install nvidia-compute-utils"]);
    }
    machine.assert_clean();
}

#[test]
fn a_killed_daemon_is_reported_dead_and_its_remains_are_removed() {
    let machine = Machine::new();
    let pipe = machine.pipe();
    for clean_up in ["stop", "start"] {
        let started = machine.mps_in(&pipe, "start --json").run().succeeds().json();
        kill(started["pid"].as_u64().unwrap() as u32);
        let status = machine.mps_in(&pipe, "status --json").run().succeeds().json();
        assert_eq!(
            (&status["running"], &status["state"]),
            (&Value::Bool(false), &Value::from("dead")),
            "{status}"
        );
        machine.mps_in(&pipe, clean_up).run().succeeds();
        machine.mps_in(&pipe, "stop").run().succeeds();
        assert!(!pipe.exists());
        machine.assert_clean();
    }
}

#[test]
fn a_number_that_another_program_has_now_is_not_a_daemon() {
    let machine = Machine::new();
    let pipe = machine.pipe();
    fs::create_dir(&pipe).unwrap();
    fs::write(pipe.join("nvidia-cuda-mps-control.pid"), format!("{}\n", std::process::id())).unwrap();
    let status = machine.mps_in(&pipe, "status --json").run().succeeds().json();
    assert_eq!(status["state"], "dead", "{status}");
    machine.mps_in(&pipe, "stop").run().succeeds();
    assert!(pipe.exists(), "it is not ours to remove");
}

#[test]
fn a_stale_pipe_directory_is_reported_and_can_be_taken_over() {
    let machine = Machine::new();
    let pipe = machine.pipe();
    let daemon = machine.somebodys_daemon(&pipe, None);
    let mut quit = machine.control(&pipe).stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut quit.stdin.take().unwrap(), b"quit\n").unwrap();
    quit.wait().unwrap();
    wait_until("the daemon ends", || !runs(daemon));
    // A daemon that ends properly leaves its socket.
    let status = machine.mps_in(&pipe, "status --json").run().succeeds().json();
    assert_eq!(status["state"], "stale", "{status}");
    assert!(status["reason"].as_str().unwrap().contains("rm -r"), "{status}");
    machine.mps_in(&pipe, "start").run().succeeds();
    machine.mps_in(&pipe, "stop").run().succeeds();
    assert!(pipe.exists(), "it was there before");
    let left: Vec<_> = fs::read_dir(&pipe).unwrap().flatten().map(|entry| entry.file_name()).collect();
    // The other daemon's log directory was the same.
    assert!(left.iter().all(|name| name.to_string_lossy().ends_with(".log")), "{left:?}");
    machine.assert_clean();
}

#[test]
fn a_daemon_of_another_program_is_used_and_left_alone() {
    let machine = Machine::new();
    let pipe = machine.pipe();
    let daemon = machine.somebodys_daemon(&pipe, None);
    let started = machine.mps_in(&pipe, "start --json").run().succeeds().json();
    assert_eq!((&started["started"], &started["pid"]), (&Value::Bool(false), &Value::from(daemon)));
    let status = machine.mps_in(&pipe, "status --json").run().succeeds().json();
    assert_eq!(status["started_by_uvatrain"], false, "{status}");
    machine.mps_in(&pipe, "stop").run().refuses(2, &[&daemon.to_string(), "is not stopped", "echo quit"]);
    assert!(runs(daemon) && pid_file(&pipe) == Some(daemon));
    kill(daemon);
}

#[test]
fn another_users_daemon_is_reported_by_name_and_left_alone() {
    const TEST: &str = "gpu::mps::another_users_daemon_is_reported_by_name_and_left_alone";
    if !is_root(TEST) {
        return;
    }
    let machine = Machine::new();
    let (pipe, program) = (machine.pipe(), stand_in().join("nvidia-cuda-mps-control"));
    fs::set_permissions(machine.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Another user can run the stand-in and its interpreter only if their paths are accessible.
    let other = 65534;
    let reached = Command::new(&program).env("CUDA_SIM_MPS", "refuse").arg("-d").uid(other).output();
    if !reached.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("refuse")) {
        println!("{TEST}: its own daemon skipped, user {other} cannot run {}", program.display());
    } else {
        let daemon = machine.somebodys_daemon(&pipe, Some(other));
        assert_is_foreign(&machine, &pipe, other);
        assert!(runs(daemon) && pid_file(&pipe) == Some(daemon));
        kill(daemon);
        fs::remove_dir_all(&pipe).unwrap();
    }
    // A directory of another user's with a daemon of this user: the owner of the directory owns its sockets.
    let daemon = machine.somebodys_daemon(&pipe, None);
    chown(&pipe, Some(other), None).unwrap();
    assert_is_foreign(&machine, &pipe, other);
    assert!(runs(daemon));
    kill(daemon);
}

#[test]
fn a_pipe_directory_of_another_user_is_theirs_however_many_may_write_it() {
    if !is_root("gpu::mps::a_pipe_directory_of_another_user_is_theirs_however_many_may_write_it") {
        return;
    }
    let machine = Machine::new();
    let pipe = machine.pipe();
    let daemon = machine.somebodys_daemon(&pipe, None);
    let other = 65534;
    chown(&pipe, Some(other), None).unwrap();
    for open_to in [0o777, 0o1777] {
        fs::set_permissions(&pipe, fs::Permissions::from_mode(open_to)).unwrap();
        assert_is_foreign(&machine, &pipe, other);
    }
    assert!(runs(daemon));
    kill(daemon);
}

/// Listens at `socket` as another user, for as long as its stdin is open.
const LISTEN: &str = "import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(sys.argv[1])
listener.listen(8)
print('listens', flush=True)
sys.stdin.read()";

#[test]
fn another_users_socket_is_not_used_though_the_pid_file_names_our_daemon() {
    const TEST: &str = "gpu::mps::another_users_socket_is_not_used_though_the_pid_file_names_our_daemon";
    if !is_root(TEST) {
        return;
    }
    let machine = Machine::new();
    fs::set_permissions(machine.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let ours = machine.folder.path().join("ours");
    let daemon = machine.somebodys_daemon(&ours, None);
    // A directory that everybody may write, as /tmp/nvidia-mps may be.
    let (pipe, other) = (machine.pipe(), 65534);
    fs::create_dir(&pipe).unwrap();
    fs::set_permissions(&pipe, fs::Permissions::from_mode(0o1777)).unwrap();
    let mut theirs = Command::new("python3")
        .args(["-S", "-c", LISTEN])
        .arg(pipe.join("control"))
        .uid(other)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 8];
    std::io::Read::read_exact(theirs.stdout.as_mut().unwrap(), &mut said).unwrap();
    fs::write(pipe.join("nvidia-cuda-mps-control.pid"), format!("{daemon}\n")).unwrap();
    assert_is_foreign(&machine, &pipe, other);
    assert!(machine.recorded().is_empty(), "{:?}", machine.recorded());
    theirs.kill().unwrap();
    theirs.wait().unwrap();
    // A stale socket without a listener.
    let status = machine.mps_in(&pipe, "status --json").run().succeeds().json();
    assert_eq!(status["state"], "stale", "{status}");
    assert!(status["reason"].as_str().unwrap().contains("no process listens"), "{status}");
    assert!(runs(daemon));
    kill(daemon);
    fs::remove_dir_all(&ours).unwrap();
}

#[test]
fn a_pid_file_that_names_another_daemon_than_the_listener_is_ignored() {
    let machine = Machine::new();
    let (pipe, elsewhere) = (machine.pipe(), machine.folder.path().join("elsewhere"));
    let daemon = machine.somebodys_daemon(&pipe, None);
    let other = machine.somebodys_daemon(&elsewhere, None);
    fs::write(pipe.join("nvidia-cuda-mps-control.pid"), format!("{other}\n")).unwrap();
    let status = machine.mps_in(&pipe, "status --json").run().succeeds().json();
    assert_eq!(status["state"], "stale", "{status}");
    assert!(status["reason"].as_str().unwrap().contains("another daemon"), "{status}");
    assert!(runs(daemon) && runs(other));
    kill(daemon);
    kill(other);
    fs::remove_dir_all(&elsewhere).unwrap();
}

#[test]
fn an_invalid_pid_file_is_not_waited_for() {
    let machine = Machine::new();
    let pipe = machine.pipe();
    fs::create_dir(&pipe).unwrap();
    let file = pipe.join("nvidia-cuda-mps-control.pid");
    for plant in ["mkfifo", "mkdir", "ln -s /dev/zero"] {
        let line = format!("{plant} \"$1\"");
        let planted = Command::new("sh").args(["-c", &line, "sh"]).arg(&file).status().unwrap();
        assert!(planted.success());
        let status = machine.mps_in(&pipe, "status --json").run().succeeds().json();
        assert_eq!(status["state"], "stale", "{plant}: {status}");
        let _ = fs::remove_file(&file).or_else(|_| fs::remove_dir(&file));
    }
}

fn assert_is_foreign(machine: &Machine, pipe: &Path, uid: u32) {
    let status = machine.mps_in(pipe, "status --json").run().succeeds().json();
    assert_eq!(status["state"], "foreign", "{status}");
    for command in ["start", "stop"] {
        machine.mps_in(pipe, command).run().refuses(3, &[&format!("uid {uid}"), "same user"]);
    }
}

// ---- a control program or a daemon that misbehaves

#[test]
fn a_control_program_that_hangs_is_an_error_in_bounded_time() {
    // `hang`: the daemon starts but does not answer; `hang-start`: it does not even start. The watchdog of each run is
    // the bound.
    for (mode, asked) in [("hang", "get_default_active_thread_percentage"), ("hang-start", "-d")] {
        let machine = Machine::new();
        let start = machine.mps_in(&machine.pipe(), "start --timeout 1").env("CUDA_SIM_MPS", mode);
        start.run().refuses(3, &[&format!("did not answer '{asked}' within 1 s")]);
        assert!(!machine.pipe().exists());
        machine.assert_clean();
    }
}

#[test]
fn a_hanging_control_program_is_ended_and_a_running_daemon_is_not() {
    let machine = Machine::new();
    let pipe = machine.pipe();
    let daemon = machine.somebodys_daemon(&pipe, None);
    for command in ["status", "start"] {
        let hanging = machine.mps_in(&pipe, &format!("{command} --timeout 1")).env("CUDA_SIM_MPS", "hang");
        hanging.run().refuses(3, &["did not answer", &pipe.display().to_string()]);
    }
    assert!(runs(daemon));
    assert_eq!(machine.processes().len(), 1, "{:?}", machine.processes());
    kill(daemon);
}

#[test]
fn a_daemon_that_refuses_or_dies_at_once_is_an_error_with_its_words() {
    for (mode, words) in [("refuse", "is set to refuse"), ("dies", "exited immediately; its log ends with")] {
        let machine = Machine::new();
        machine.mps_in(&machine.pipe(), "start").env("CUDA_SIM_MPS", mode).run().refuses(3, &[words]);
        assert!(!machine.pipe().exists());
        machine.assert_clean();
    }
}

#[test]
fn an_unresponsive_daemon_and_surviving_servers_are_ended_anyway() {
    for mode in ["deaf", "orphans"] {
        let machine = Machine::new();
        let pipe = machine.pipe();
        machine.mps_in(&pipe, "start").env("CUDA_SIM_MPS", mode).run().succeeds();
        let mut start_server = machine.control(&pipe).stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut start_server.stdin.take().unwrap(), b"start_server -uid 0\n").unwrap();
        start_server.wait().unwrap();
        assert_eq!(machine.processes().len(), 2, "a daemon and its server: {:?}", machine.processes());
        machine.mps_in(&pipe, "stop").run().succeeds();
        assert!(!pipe.exists());
        machine.assert_clean();
    }
}

#[test]
fn a_pipe_directory_too_long_for_a_socket_is_refused_with_its_limit() {
    let machine = Machine::new();
    let pipe = machine.folder.path().join("x".repeat(90));
    machine.mps_in(&pipe, "start").run().refuses(2, &["88 bytes", "TMPDIR"]);
    assert!(!pipe.exists());
}

// ---- doctor

#[test]
fn doctor_finds_the_control_program_and_the_daemon_and_touches_neither() {
    let machine = Machine::new();
    let pipe = machine.pipe();
    let daemon = machine.somebodys_daemon(&pipe, None);
    let doctor = uvatrain(machine.folder.path(), ["doctor", "--json"]);
    let report = machine.with(doctor).env("CUDA_MPS_PIPE_DIRECTORY", &pipe).run().succeeds().json();
    let finding = |name: &str| {
        let checks = report["checks"].as_array().unwrap();
        let check = checks
            .iter()
            .find(|check| check["name"] == name)
            .unwrap_or_else(|| panic!("no {name}: {report}"));
        check["finding"].as_str().unwrap().to_owned()
    };
    assert!(finding("CUDA MPS").contains("nvidia-cuda-mps-control"), "{report}");
    assert!(finding("MPS daemon").starts_with(&format!("{daemon} of ")), "{report}");
    assert!(!finding("NVRTC").is_empty());
    assert!(runs(daemon));
    kill(daemon);
}

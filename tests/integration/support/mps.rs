//! A machine with MPS: separate folders, the stand-in of crates/cuda-sim for NVIDIA's control program, and checks for
//! leftovers.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::runs::wait_until;
use super::{Uvatrain, directory, uvatrain};

/// The folder of the stand-in control program.
pub fn stand_in() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda-sim")
}

/// One test's machine: separate folders, with the stand-in in PATH. On drop it asserts that nothing is left.
pub struct Machine {
    /// The machine's folder, which contains everything else.
    pub folder: tempfile::TempDir,
}

impl Machine {
    /// An empty machine, without a daemon.
    pub fn new() -> Machine {
        let machine = Machine { folder: directory() };
        fs::create_dir(machine.runtime()).unwrap();
        machine
    }

    /// The replacement of /run/user/UID.
    pub fn runtime(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// The directory of the sockets of a daemon that a test starts.
    pub fn pipe(&self) -> PathBuf {
        self.folder.path().join("pipe")
    }

    /// The file of the stand-in's records.
    pub fn recorded_in(&self) -> PathBuf {
        self.folder.path().join("recorded")
    }

    /// `uvatrain mps …` for the user of this machine.
    pub fn mps(&self, args: &str) -> Uvatrain {
        self.with(uvatrain(self.folder.path(), format!("mps {args}").split_whitespace()))
            .env("CUDA_MPS_PIPE_DIRECTORY", "")
    }

    /// As [`Machine::mps`], for a user who exports CUDA_MPS_PIPE_DIRECTORY.
    pub fn mps_in(&self, pipe: &Path, args: &str) -> Uvatrain {
        self.with(uvatrain(self.folder.path(), format!("mps {args}").split_whitespace()))
            .env("CUDA_MPS_PIPE_DIRECTORY", pipe)
    }

    /// A call of the program on this machine.
    pub fn with(&self, command: Uvatrain) -> Uvatrain {
        command
            .env("PATH", path_with(&stand_in()))
            .env("XDG_RUNTIME_DIR", self.runtime())
            .env("TMPDIR", self.folder.path())
            .env("CUDA_MPS_LOG_DIRECTORY", "")
            .env("CUDA_VISIBLE_DEVICES", "")
            .env("CUDA_SIM_MPS_LOG", self.recorded_in())
    }

    /// The control program itself, as a program other than uvatrain uses it.
    pub fn control(&self, pipe: &Path) -> Command {
        let mut command = Command::new(stand_in().join("nvidia-cuda-mps-control"));
        command.env("CUDA_MPS_PIPE_DIRECTORY", pipe).env("CUDA_MPS_LOG_DIRECTORY", pipe);
        command.stdin(Stdio::null());
        command
    }

    /// Starts a daemon in `pipe` like another program, and returns its process number.
    pub fn somebodys_daemon(&self, pipe: &Path, uid: Option<u32>) -> u32 {
        fs::create_dir(pipe).unwrap();
        let mut command = self.control(pipe);
        if let Some(uid) = uid {
            chown(pipe, Some(uid), None).unwrap();
            command.uid(uid);
        }
        assert!(command.arg("-d").status().unwrap().success());
        wait_until("the daemon writes its pid file", || pid_file(pipe).is_some());
        pid_file(pipe).unwrap()
    }

    /// The requests to the control program, as the stand-in recorded them.
    pub fn recorded(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.recorded_in()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The daemons, servers and control programs that run anywhere in this machine's folders.
    pub fn processes(&self) -> Vec<String> {
        let inside = self.folder.path().as_os_str().as_encoded_bytes().to_vec();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            // A zombie's files are empty: it has ended, and waits only for its parent.
            let file = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
            let environment = file("environ");
            let ours = environment.split(|byte| *byte == 0).any(|variable| {
                variable
                    .strip_prefix(b"CUDA_MPS_PIPE_DIRECTORY=")
                    .is_some_and(|pipe| pipe.starts_with(&inside))
            });
            if ours {
                found.push(String::from_utf8_lossy(&file("cmdline")).replace('\0', " "));
            }
        }
        found
    }

    /// Asserts that no process of MPS runs here and that the user's folder is empty again.
    #[track_caller]
    pub fn assert_clean(&self) {
        let processes = self.processes();
        assert!(processes.is_empty(), "left running: {processes:?}");
        let left: Vec<_> =
            fs::read_dir(self.runtime()).unwrap().flatten().map(|entry| entry.path()).collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        let stray: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("uvatrain-mps"))
            .collect();
        assert!(stray.is_empty(), "left behind: {stray:?}");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Leftovers of a failed test: the stand-in ends once its folder is gone, hanging processes do not.
        let _ = fs::remove_dir_all(self.pipe());
        let _ = fs::remove_dir_all(self.runtime());
    }
}

/// PATH with a folder in front.
pub fn path_with(folder: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path))).unwrap()
}

/// The process number in a pipe directory.
pub fn pid_file(pipe: &Path) -> Option<u32> {
    fs::read_to_string(pipe.join("nvidia-cuda-mps-control.pid")).ok()?.trim().parse().ok()
}

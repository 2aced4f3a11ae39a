//! The control program: found in PATH, queried through its stdin, and ended after a time-out.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use uva_mem::spawn::Inherit;
use uva_mem::{PidFd, Signal};

use super::environment::{DaemonDirectories, Environment};
use super::error::MpsError;
use super::replies;

const PROGRAM: &str = "nvidia-cuda-mps-control";
/// The maximum length of a reply; its tables are far shorter.
const LONGEST_REPLY: usize = 1 << 20;

/// `nvidia-cuda-mps-control`, and its path.
#[derive(Clone, Debug)]
pub(super) struct ControlProgram {
    pub program: PathBuf,
    pub timeout: Duration,
}

impl ControlProgram {
    /// Searches the environment's PATH for it.
    pub fn find(environment: &Environment) -> Result<Self, MpsError> {
        let runs = |file: &PathBuf| {
            std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
        };
        let program = std::env::split_paths(&environment.path)
            .map(|folder| folder.join(PROGRAM))
            .find(runs)
            .ok_or(MpsError::NoControlProgram)?;
        Ok(Self { program, timeout: environment.timeout })
    }

    /// Sends one query to the daemon in `place` and returns its answer.
    pub fn ask(&self, place: &DaemonDirectories, command: &str) -> Result<String, MpsError> {
        self.run(place, self.command(place), command, Some(command))
    }

    /// Starts a daemon in `place` that serves the `visible` devices. Returns once the starting program has ended: the
    /// daemon may still be coming up.
    pub fn start_daemon(&self, place: &DaemonDirectories, visible: Option<&str>) -> Result<(), MpsError> {
        let mut command = self.command(place);
        command.arg("-d");
        if let Some(visible) = visible {
            command.env("CUDA_VISIBLE_DEVICES", visible);
        }
        self.run(place, command, "-d", None).map(drop)
    }

    /// Ends a client's work on the GPU, so that it can be killed. Returns false if no server has this process as a
    /// client.
    pub fn terminate_client(&self, place: &DaemonDirectories, pid: u32) -> Result<bool, MpsError> {
        for server in replies::pids(&self.ask(place, "get_server_list")?) {
            if !replies::pids(&self.ask(place, &format!("get_client_list {server}"))?).contains(&pid) {
                continue;
            }
            let command = format!("terminate_client {server} {pid}");
            let reply = self.ask(place, &command)?;
            if !replies::is_done(&reply) {
                return Err(MpsError::Refused { command, said: reply.trim().to_owned() });
            }
            return Ok(true);
        }
        Ok(false)
    }

    fn command(&self, place: &DaemonDirectories) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("CUDA_MPS_PIPE_DIRECTORY", &place.pipe)
            .env("CUDA_MPS_LOG_DIRECTORY", &place.log)
            .env_remove("CUDA_VISIBLE_DEVICES")
            // It would cap every client of a daemon started with it: a client's own value can only be lower.
            .env_remove("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
        command
    }

    fn run(
        &self,
        place: &DaemonDirectories,
        mut command: Command,
        asked: &str,
        input: Option<&str>,
    ) -> Result<String, MpsError> {
        let doing = || format!("{} {asked}", self.program.display());
        // Memory files, not pipes: a daemon that keeps its starter's stdout open would keep a pipe from ending.
        let buffer = || memfd_create("mps-control", MemfdFlags::CLOEXEC).map(File::from).map_err(Into::into);
        let (out, err) =
            (buffer().map_err(MpsError::system(doing()))?, buffer().map_err(MpsError::system(doing()))?);
        let share = |file: &File| file.try_clone().map(Stdio::from).map_err(MpsError::system(doing()));
        command.stdout(share(&out)?).stderr(share(&err)?);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        // The program ends with this process, since no other process would end it if it hangs. The daemon does not end,
        // because a death signal is not inherited. The new session excludes the terminal's signals.
        Inherit { death_signal: Some(Signal::KILL), new_session: true, ..Inherit::default() }
            .apply(&mut command);
        let mut child = command.spawn().map_err(MpsError::system(doing()))?;
        let deadline = Instant::now() + self.timeout;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            // A few bytes always fit a pipe. If a program does not read them, its exit shows why.
            let _ = stdin.write_all(format!("{input}\n").as_bytes());
        }
        let ended = PidFd::open(child.id()).and_then(|process| ends_by(&process, deadline));
        if !matches!(ended, Ok(true)) {
            let _ = child.kill();
        }
        let status = child.wait().map_err(MpsError::system(doing()))?;
        if !ended.map_err(MpsError::system(doing()))? {
            return Err(MpsError::Silent {
                command: asked.to_owned(),
                pipe_directory: place.pipe.display().to_string(),
                limit: self.timeout,
            });
        }
        let (out, err) = (text(&out), text(&err));
        if status.success() && !replies::is_refusal(&out) {
            return Ok(out);
        }
        let said = [out.trim(), err.trim()]
            .into_iter()
            .filter(|said| !said.is_empty())
            .collect::<Vec<_>>()
            .join("; ");
        let said = if said.is_empty() { status.to_string() } else { said };
        Err(MpsError::Refused { command: asked.to_owned(), said })
    }
}

/// Waits until the process has ended or the deadline has passed; returns whether it has ended.
pub(super) fn ends_by(process: &PidFd, deadline: Instant) -> std::io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // A signal handler ends one wait early.
        if process.wait_for_end(left)? || left.is_zero() {
            return process.is_alive().map(|alive| !alive);
        }
    }
}

/// The content of a memory file. Other holders share its offset, so it reads at explicit positions.
fn text(file: &File) -> String {
    let mut bytes = vec![0; file.metadata().map_or(0, |meta| meta.len() as usize).min(LONGEST_REPLY)];
    let read = file.read_at(&mut bytes, 0).unwrap_or(0);
    bytes.truncate(read);
    String::from_utf8_lossy(&bytes).into_owned()
}

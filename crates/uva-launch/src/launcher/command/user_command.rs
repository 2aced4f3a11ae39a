//! A user's command as a run's consumer: its lookup, name and start.
//!
//! The command is the user's program and controls its standard streams, signals and children. The launcher adds only
//! one variable and the socket to which the variable leads ([`crate::launcher::wire::address`]).

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::Access;
use uva_mem::Signal;
use uva_mem::handover::Channel;
use uva_mem::spawn::Inherit;

use crate::launcher::process::child::{ChildProcess, set_variables};
use crate::launcher::process::environments::Environments;
use crate::launcher::process::member::Member;
use crate::launcher::wire::address::{Address, RANKS_VARIABLE, Secrets, Socket, VARIABLE};
use uva_runtime::plan::topology::{Role, RunStage};
use uva_runtime::{RuntimeError, machine};

/// Maximum length of a command line in a message.
const LONGEST: usize = 80;

/// A command line that uses a run's batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserCommand {
    words: Vec<OsString>,
    stdout_to_stderr: bool,
}

impl UserCommand {
    /// A program, found in `PATH` or given by its path, and its arguments.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] if there is no such program, or it may not be executed.
    pub fn new(words: Vec<OsString>) -> Result<Self, RuntimeError> {
        let Some(program) = words.first() else {
            return Err(RuntimeError::usage(
                "no command: give it after --, as in `uvatrain run DATA -- python train.py`",
            ));
        };
        check_startable(program)?;
        Ok(Self { words, stdout_to_stderr: false })
    }

    /// Redirects its stdout to this process's stderr.
    #[must_use]
    pub fn with_stdout_on_stderr(mut self) -> Self {
        self.stdout_to_stderr = true;
        self
    }

    /// Its words, for people.
    pub fn words(&self) -> Vec<String> {
        self.words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// Its name in messages.
    pub(crate) fn title(&self) -> String {
        let mut line = self.words().join(" ").replace('\n', " ");
        if line.chars().count() > LONGEST {
            line = line.chars().take(LONGEST - 1).chain(['…']).collect();
        }
        format!("command ({line})")
    }

    /// Starts the command, for `ranks` ranks if its processes are ranks. Also returns the end of the socket at which
    /// its processes knock, and the secrets of ranks. `on_gpu` states whether the command will have work on a GPU.
    pub(crate) fn start(
        &self,
        environments: &Environments,
        on_gpu: bool,
        ranks: Option<usize>,
    ) -> Result<(Member, Channel, Option<Secrets>), RuntimeError> {
        let failed = |what: &dyn std::fmt::Display| {
            RuntimeError::failed(format!("cannot start the {}: {what}", self.title()))
        };
        let program = self.words.first().ok_or_else(|| failed(&"the command is empty"))?;
        let mut command = Command::new(program);
        command.args(&self.words[1..]);
        if self.stdout_to_stderr {
            let stderr = std::io::stderr().as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
            command.stdout(Stdio::from(stderr));
        }
        set_variables(&mut command, environments.of(Role::Consumer));
        // SIGTERM, which any program understands as a request to end. Under MPS no client may be killed during its
        // work, and a program without a handler would be. Under MPS the attached process watches the launcher itself
        // (`attach`), and the janitor handles the rest.
        let death_signal = if on_gpu { None } else { Some(Signal::TERM) };
        let inherit = Inherit { death_signal, ..Inherit::default() };
        let (ours, socket) = if let Some(ranks) = ranks {
            command.env(RANKS_VARIABLE, ranks.to_string());
            let (ours, name, secrets) = Socket::named().map_err(|error| failed(&error))?;
            inherit.apply(&mut command);
            (ours, Some(Socket::Named { name, secrets }))
        } else {
            let (ours, theirs) = Channel::pair().map_err(|error| failed(&error))?;
            ours.refuse_other_users().map_err(|error| failed(&error))?;
            let identity = theirs.identity().map_err(|error| failed(&error))?;
            let number = Inherit { channel: Some(theirs), ..inherit }.apply(&mut command);
            (ours, number.map(|number| Socket::Inherited { number, identity }))
        };
        let secrets = socket.as_ref().and_then(Socket::secrets);
        if let Some(socket) = socket {
            let address = Address { launcher: std::process::id(), socket };
            command.env(VARIABLE, address.to_string());
        }
        let child = command.spawn().map_err(|error| self.not_started(&error))?;
        // The command holds its end of the socket. The socket closes with the end of its processes only after this
        // drop.
        drop(command);
        tracing::info!(pid = child.id(), on_gpu, "the command is started");
        let member = Member {
            stage: RunStage::CONSUMER,
            rank: Some(0),
            of_rank: String::new(),
            process: ChildProcess::new(Role::Consumer.name(), child, None)?,
            title: Some(self.title()),
            said_why: false,
            is_on_gpu: on_gpu,
        };
        Ok((member, ours, secrets))
    }

    fn not_started(&self, error: &std::io::Error) -> RuntimeError {
        let program = self.words.first().map(|word| word.to_string_lossy()).unwrap_or_default();
        if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::OutOfMemory) {
            return machine::not_started(&format!("the command {program}"), error);
        }
        let advice = match error.kind() {
            // The file itself existed a moment ago.
            std::io::ErrorKind::NotFound => {
                "; the first line of a script may name an interpreter that does not exist"
            }
            _ => "",
        };
        RuntimeError::usage(format!("cannot start the command {program}: {error}{advice}"))
    }
}

/// Checks whether the program can be started, before a preparation that may take minutes. The result is not kept: the
/// system looks the program up again.
fn check_startable(program: &OsStr) -> Result<(), RuntimeError> {
    let name = program.to_string_lossy();
    let refused = |what: String| Err(RuntimeError::usage(format!("cannot start the command {name}: {what}")));
    let candidates: Vec<PathBuf> = if Path::new(program).components().count() > 1 || name.contains('/') {
        vec![PathBuf::from(program)]
    } else {
        // The system's default if the variable is missing.
        let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
        std::env::split_paths(&path).map(|folder| folder.join(program)).collect()
    };
    let mut there = None;
    for candidate in &candidates {
        if candidate.is_file() {
            if rustix::fs::access(candidate, Access::EXEC_OK).is_ok() {
                return Ok(());
            }
            there.get_or_insert(format!(
                "{} is not executable: run chmod +x on it, or pass it to its interpreter: -- python train.py",
                candidate.display()
            ));
        } else if candidate.is_dir() {
            there.get_or_insert(format!("{} is a directory", candidate.display()));
        }
    }
    refused(there.unwrap_or_else(|| match candidates.len() {
        1 => "no such file".to_owned(),
        _ => "not found in PATH".to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn refusal(program: &OsStr) -> String {
        let error = UserCommand::new(vec![program.to_owned()]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    }

    #[test]
    fn what_cannot_be_started_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("train.py");
        std::fs::write(&script, "print()").unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(refusal(script.as_os_str()).contains("is not executable"));
        assert!(refusal(folder.path().as_os_str()).contains("is a directory"));
        assert!(refusal(folder.path().join("none").as_os_str()).contains("no such file"));
        assert!(refusal(OsStr::new("no-program-has-this-name")).contains("not found in PATH"));
        assert!(refusal(OsStr::new("")).contains("cannot start the command"));
        assert_eq!(UserCommand::new(Vec::new()).unwrap_err().exit_code(), 2);
        UserCommand::new(vec!["sh".into()]).unwrap();
        UserCommand::new(vec!["/bin/sh".into()]).unwrap();
    }

    #[test]
    fn a_message_repeats_no_more_of_a_command_than_fits_a_line() {
        let command = UserCommand::new(vec!["sh".into(), "-c".into(), "x".repeat(200).into()]).unwrap();
        assert_eq!(command.title().chars().count(), LONGEST + "command ()".len());
        let short = UserCommand::new(vec!["sh".into(), "train.sh".into()]).unwrap();
        assert_eq!(short.title(), "command (sh train.sh)");
    }
}

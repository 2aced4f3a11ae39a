//! A daemon of this program: its directories, its start, its end.

use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::control::ControlProgram;
use super::environment::{DaemonDevice, DaemonDirectories, Environment};
use super::error::{MpsError, NotRunning};
use super::leftover::Leftover;
use super::process::ProcessOwner;
use super::running_daemon::{self, Running};

/// The polling interval for a daemon that is starting.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Maximum number of names to try for a private directory.
const NAMES: usize = 16;

/// A place for a daemon that is not started yet. Dropping it removes its directories.
///
/// It is separate from [`Daemon`], so that a janitor can receive the directories before they contain files.
#[derive(Debug)]
pub struct DaemonPlace {
    environment: Environment,
    control: ControlProgram,
    leftover: Leftover,
    kept: bool,
}

impl DaemonPlace {
    /// Makes private directories (0700, with an unpredictable name) for a daemon of this process.
    ///
    /// # Errors
    /// [`MpsError::NoControlProgram`], or [`MpsError::System`] if no directory can be created.
    pub fn new(environment: &Environment) -> Result<Self, MpsError> {
        let control = ControlProgram::find(environment)?;
        let scratch = environment.scratch();
        let mut names = (0..NAMES).map(|_| {
            // std's hash keys are random; no other code in this module needs random numbers.
            let random = RandomState::new().build_hasher().finish();
            scratch.join(format!("uvatrain-mps-{}-{random:016x}", std::process::id()))
        });
        let directory = loop {
            let directory = names.next().ok_or_else(|| MpsError::System {
                doing: format!("a private directory in {}", scratch.display()),
                source: io::ErrorKind::AlreadyExists.into(),
            })?;
            match make(&directory) {
                Ok(()) => break directory,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(cannot_make(&directory, source)),
            }
        };
        let place = DaemonDirectories::within(&directory);
        let leftover = Leftover {
            program: control.program.clone(),
            pipe_directory: place.pipe.clone(),
            log_directory: place.log.clone(),
            created: vec![directory],
            control: None,
        };
        let prepared = Self { environment: environment.clone(), control, leftover, kept: false };
        place.check_length()?;
        for directory in [&place.pipe, &place.log] {
            make(directory).map_err(|source| cannot_make(directory, source))?;
        }
        Ok(prepared)
    }

    /// A place that outlives this process: the directories of [`Environment::permanent`]. Missing ones are created.
    pub(super) fn permanent(environment: &Environment) -> Result<Self, MpsError> {
        let control = ControlProgram::find(environment)?;
        let place = environment.permanent();
        place.check_length()?;
        let leftover = Leftover {
            program: control.program.clone(),
            pipe_directory: place.pipe.clone(),
            log_directory: place.log.clone(),
            created: Vec::new(),
            control: None,
        };
        let mut prepared = Self { environment: environment.clone(), control, leftover, kept: false };
        // A directory that this program names holds both; a directory that the user names is used unchanged.
        let parent = place.pipe.parent().filter(|_| environment.pipe_directory.is_none());
        for directory in parent.into_iter().chain([&*place.pipe, &*place.log]) {
            match make(directory) {
                Ok(()) => prepared.leftover.created.push(directory.to_owned()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_ours(directory)?,
                Err(source) => return Err(cannot_make(directory, source)),
            }
        }
        Ok(prepared)
    }

    /// The resources to remove if this process is killed from here on. They include a daemon that is being started,
    /// whose process is found by its pipe directory.
    pub fn leftover(&self) -> &Leftover {
        &self.leftover
    }

    /// Starts a daemon here that serves `device` alone, or all devices that this process may use, and returns once it
    /// answers. If a daemon serves one device, that device is number 0 to its clients.
    ///
    /// # Errors
    /// [`MpsError::DidNotStart`] with the daemon's log, [`MpsError::Refused`], [`MpsError::Silent`]. The directories
    /// are removed then.
    pub fn start(mut self, device: Option<&DaemonDevice>) -> Result<Daemon, MpsError> {
        let place = self.leftover.place();
        self.control.start_daemon(&place, self.environment.visible_to_daemon(device).as_deref())?;
        let running = self.wait_until_it_answers(&place)?;
        self.leftover.control = Some(running.process());
        // From here on the daemon removes them.
        self.kept = true;
        Ok(Daemon { running, leftover: self.leftover.clone(), kept: false })
    }

    fn wait_until_it_answers(&self, place: &DaemonDirectories) -> Result<Running, MpsError> {
        let deadline = Instant::now() + self.environment.timeout;
        loop {
            let why = match Running::at(&self.environment, &place.pipe) {
                Ok(running) => return Ok(running),
                // It creates its socket before its pid file, and listens only after that.
                Err(why @ (MpsError::NotRunning(_) | MpsError::Refused { .. })) => why,
                Err(why) => return Err(why),
            };
            // If a pid file's process is gone, waiting does not help.
            let died = matches!(
                running_daemon::living(&place.pipe),
                Err(MpsError::NotRunning(NotRunning::Dead { .. }))
            );
            if died || Instant::now() >= deadline {
                let why = if died { "the daemon exited immediately".to_owned() } else { why.to_string() };
                return Err(MpsError::DidNotStart(match last_words(&place.log) {
                    Some(words) => format!("{why}; its log ends with: {words}"),
                    None => why,
                }));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for DaemonPlace {
    fn drop(&mut self) {
        if !self.kept {
            remove(&self.leftover, &self.control);
        }
    }
}

/// A daemon that this process started. Dropping it ends the daemon and removes its directories.
#[derive(Debug)]
pub struct Daemon {
    running: Running,
    leftover: Leftover,
    kept: bool,
}

impl Daemon {
    /// [`DaemonPlace::new`] and [`DaemonPlace::start`] in one, for callers without a janitor to inform in between.
    ///
    /// # Errors
    /// See both functions.
    pub fn start(environment: &Environment, device: Option<&DaemonDevice>) -> Result<Self, MpsError> {
        DaemonPlace::new(environment)?.start(device)
    }

    /// The daemon that `environment` leads to, started by any program. See [`Running::find`].
    ///
    /// # Errors
    /// See [`Running::find`].
    pub fn find(environment: &Environment) -> Result<Running, MpsError> {
        Running::find(environment)
    }

    /// The daemon's queries.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// The resources to end and remove if this process is killed.
    pub fn leftover(&self) -> &Leftover {
        &self.leftover
    }

    /// See [`Running::client_environment`].
    pub fn client_environment(&self, percentage: u32) -> Vec<(String, String)> {
        self.running.client_environment(percentage)
    }

    /// See [`Running::terminate_client`].
    ///
    /// # Errors
    /// See [`Running::terminate_client`].
    pub fn terminate_client(&self, pid: u32) -> Result<bool, MpsError> {
        self.running.terminate_client(pid)
    }

    /// Ends the daemon and removes its directories. Call it only when no client runs any longer.
    ///
    /// # Errors
    /// As [`Leftover::remove`].
    pub fn quit(mut self) -> Result<(), MpsError> {
        self.kept = true;
        self.leftover.remove_within(self.running.control.timeout)
    }

    /// Lets the daemon continue, and records in its pipe directory that this program may stop it.
    pub(super) fn keep(mut self) -> Result<Running, MpsError> {
        self.leftover.write()?;
        self.kept = true;
        Ok(self.running.clone())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if !self.kept {
            remove(&self.leftover, &self.running.control);
        }
    }
}

fn remove(leftover: &Leftover, control: &ControlProgram) {
    if let Err(error) = leftover.remove_within(control.timeout) {
        tracing::warn!("the directories of an MPS daemon were not removed: {error}");
    }
}

/// Makes a directory that only this user can enter. Fails if the name is taken.
fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(directory)
}

/// Rejects an existing entry under a required name, unless it is a directory of this user: the owner of a directory
/// controls the sockets in it. Does not follow links, which any user could have created.
fn check_ours(directory: &Path) -> Result<(), MpsError> {
    let meta = fs::symlink_metadata(directory).map_err(|source| cannot_make(directory, source))?;
    let owner = ProcessOwner::of(meta.uid());
    match (owner.is_us(), meta.is_dir()) {
        (false, _) => Err(NotRunning::Foreign { directory: directory.to_owned(), owner }.into()),
        (true, false) => Err(cannot_make(directory, io::ErrorKind::NotADirectory.into())),
        (true, true) => Ok(()),
    }
}

fn cannot_make(directory: &Path, source: io::Error) -> MpsError {
    MpsError::System { doing: format!("cannot make the directory {}", directory.display()), source }
}

/// The last non-empty line of the daemon's log.
fn last_words(log: &Path) -> Option<String> {
    // A daemon that ends at once has a short log.
    let text = uva_mem::files::read_regular(&log.join("control.log"), 1 << 20).ok()?;
    String::from_utf8_lossy(&text)
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(str::to_owned)
}

//! A daemon of our own: its directories, its start, its end.

use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::control::Control;
use super::environment::{DaemonDirectories, Device, Environment};
use super::error::{MpsError, NotRunning};
use super::leftover::Leftover;
use super::process::Owner;
use super::running::{self, Running};

/// How often a daemon that is coming up is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Names tried for a private directory.
const NAMES: usize = 16;

/// A place for a daemon that is not started yet. Dropped, it removes its directories.
///
/// Apart from [`Daemon`] so that a janitor can be told of the directories before there is anything in them.
#[derive(Debug)]
pub struct Prepared {
    environment: Environment,
    control: Control,
    leftover: Leftover,
    kept: bool,
}

impl Prepared {
    /// Makes private directories (0700, with a name that nobody can have guessed) for a daemon of this process.
    ///
    /// # Errors
    /// [`MpsError::NoControlProgram`]; [`MpsError::System`] where no directory can be made.
    pub fn new(environment: &Environment) -> Result<Self, MpsError> {
        let control = Control::find(environment)?;
        let scratch = environment.scratch();
        let mut names = (0..NAMES).map(|_| {
            // std's hash keys are random; nothing else here needs random numbers.
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

    /// A place that outlives this process: the directories of [`Environment::permanent`], of which those that are
    /// missing are made.
    pub(super) fn permanent(environment: &Environment) -> Result<Self, MpsError> {
        let control = Control::find(environment)?;
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
        // A directory of our naming holds both; what the user named stands where the user wants it.
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

    /// What is to be removed should this process be killed from here on. Complete enough for a daemon that is being
    /// started: its process is found by its pipe directory.
    pub fn leftover(&self) -> &Leftover {
        &self.leftover
    }

    /// Starts a daemon here that serves `device` alone, or all that this process may use, and returns once it
    /// answers. Under a daemon that serves one device, that device is number 0 to its clients.
    ///
    /// # Errors
    /// [`MpsError::DidNotStart`] with what the daemon logged, [`MpsError::Refused`], [`MpsError::Silent`]. The
    /// directories are gone then.
    pub fn start(mut self, device: Option<&Device>) -> Result<Daemon, MpsError> {
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
                // Its socket is made before its pid file, and it hears only after that.
                Err(why @ (MpsError::NotRunning(_) | MpsError::Refused { .. })) => why,
                Err(why) => return Err(why),
            };
            // A pid file whose process is gone does not get better by waiting.
            let died =
                matches!(running::living(&place.pipe), Err(MpsError::NotRunning(NotRunning::Dead { .. })));
            if died || Instant::now() >= deadline {
                let why = if died { "it died at once".to_owned() } else { why.to_string() };
                return Err(MpsError::DidNotStart(match last_words(&place.log) {
                    Some(words) => format!("{why}; its log ends with: {words}"),
                    None => why,
                }));
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if !self.kept {
            remove(&self.leftover, &self.control);
        }
    }
}

/// A daemon that this process started. Dropped, it is ended and its directories are removed.
#[derive(Debug)]
pub struct Daemon {
    running: Running,
    leftover: Leftover,
    kept: bool,
}

impl Daemon {
    /// [`Prepared::new`] and [`Prepared::start`] in one, for who has no janitor to tell in between.
    ///
    /// # Errors
    /// As theirs.
    pub fn start(environment: &Environment, device: Option<&Device>) -> Result<Self, MpsError> {
        Prepared::new(environment)?.start(device)
    }

    /// The daemon that `environment` leads to, whoever started it. See [`Running::find`].
    ///
    /// # Errors
    /// As there.
    pub fn find(environment: &Environment) -> Result<Running, MpsError> {
        Running::find(environment)
    }

    /// What can be asked of it.
    pub fn running(&self) -> &Running {
        &self.running
    }

    /// What is to be ended and removed should this process be killed.
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
    /// As there.
    pub fn terminate_client(&self, pid: u32) -> Result<bool, MpsError> {
        self.running.terminate_client(pid)
    }

    /// Ends it and removes its directories. Only once no client runs any more.
    ///
    /// # Errors
    /// As [`Leftover::remove`].
    pub fn quit(mut self) -> Result<(), MpsError> {
        self.kept = true;
        self.leftover.remove_within(self.running.control.timeout)
    }

    /// Lets it stay, and writes down beside its sockets that it is ours to stop.
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

fn remove(leftover: &Leftover, control: &Control) {
    if let Err(error) = leftover.remove_within(control.timeout) {
        tracing::warn!("an MPS daemon's directories stay behind: {error}");
    }
}

/// Makes a directory that only this user can enter. Fails where there is anything of that name.
fn make(directory: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(directory)
}

/// Refuses what is there under a name that we want, unless it is a directory of this user's: whoever owns it owns the
/// sockets in it. Not through a link, which anybody could have put there.
fn check_ours(directory: &Path) -> Result<(), MpsError> {
    let meta = fs::symlink_metadata(directory).map_err(|source| cannot_make(directory, source))?;
    let owner = Owner::of(meta.uid());
    match (owner.is_us(), meta.is_dir()) {
        (false, _) => Err(NotRunning::Foreign { directory: directory.to_owned(), owner }.into()),
        (true, false) => Err(cannot_make(directory, io::ErrorKind::NotADirectory.into())),
        (true, true) => Ok(()),
    }
}

fn cannot_make(directory: &Path, source: io::Error) -> MpsError {
    MpsError::System { doing: format!("cannot make the directory {}", directory.display()), source }
}

/// The last line that says something in the daemon's log.
fn last_words(log: &Path) -> Option<String> {
    // A daemon that ends at once has said little.
    let text = uva_mem::files::read_regular(&log.join("control.log"), 1 << 20).ok()?;
    String::from_utf8_lossy(&text)
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .map(str::to_owned)
}

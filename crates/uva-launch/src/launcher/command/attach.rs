//! Attachment of a process of the user's command to a run, in the consumer's place.
//!
//! ```no_run
//! # fn main() -> Result<(), uva_runtime::RuntimeError> {
//! // In a program that was started as `uvatrain run data/graph --fanouts 15,10 -- ./program`.
//! use uva_graph::Split;
//! use uva_runtime::pipeline::consumer::PassCursor;
//!
//! let mut batches = uva_launch::launcher::attach()?.begin(Split::Train);
//! for epoch in 0..3 {
//!     batches.go_to(PassCursor { split: Split::Train, epoch, first: 0, batch: 0 });
//!     while let Some(batch) = batches.next_batch(&|| false)? {
//!         println!("{} nodes, hash {:016x}", batch.input_nodes().len(), batch.hash());
//!     }
//! }
//! batches.close()
//! # }
//! ```
//!
//! The process belongs to the user: its signal handlers are unchanged, and it may end at any time. This module runs at
//! most two threads in it. One is the producer, where the GPU is not divided between processes. The other watches the
//! launcher: this process need not be the launcher's child, so it gets no signal from the launcher's death.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpid, kill_process};
use uva_graph::{Dataset, Split};
use uva_mem::PidFd;
use uva_mem::handover::{Channel, HandoverError, ReceivedMessage};

use crate::launcher::process::child::hand_over;
use crate::launcher::wire::address::{Address, Socket, VARIABLE};
use crate::launcher::wire::connections;
use crate::launcher::wire::messages::{AttachReply, AttachedJob, Knock, Report, Setup};
use crate::launcher::wire::protocol::{VERSION, protocol};
use crate::launcher::wire::reports::{note_over, say};
use crate::launcher::wire::usage::Usage;
use uva_runtime::control::{CONSUMER, Control, Stop};
use uva_runtime::feed::batch::Batch;
use uva_runtime::machine;
use uva_runtime::options::part::Part;
use uva_runtime::pipeline::consumer::{Attachment, BatchStream};
use uva_runtime::plan::RunPlan;
use uva_runtime::{Runtime, RuntimeError};

/// Interval at which a process that waits for its answer checks whether to continue.
const ASK: Duration = Duration::from_millis(100);

/// Maximum time that a process may continue after its launcher has ended, longer than the janitor waits.
const GRACE: Duration = Duration::from_secs(10);

/// The process in this address space that has attached. A process attaches at most once. A fork inherits this record.
static TAKEN_BY: Mutex<Option<u32>> = Mutex::new(None);

/// Takes the consumer's place in the run that started this process: `uvatrain run DATA … -- COMMAND`. With `--ranks N`,
/// the place is that of the rank in `RANK` and `WORLD_SIZE`, which `torchrun` sets.
///
/// # Errors
/// [`RuntimeError::Unattached`] outside such a run, if the versions differ, and if this or another process has attached
/// before; the message explains how to attach. Also the errors of opening dataset and GPU.
pub fn attach() -> Result<Attached, RuntimeError> {
    attach_as(rank_of_environment()?, &|| false)
}

/// Takes the consumer's place as this rank; a run without ranks ignores the rank. The attempt ends when `interrupted`,
/// which is called ten times a second, returns true.
///
/// # Errors
/// See [`attach`]; [`RuntimeError::Interrupted`] if `interrupted` ended the attempt.
pub fn attach_as(rank: Part, interrupted: &dyn Fn() -> bool) -> Result<Attached, RuntimeError> {
    let mut taken = TAKEN_BY.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(pid) = *taken {
        return Err(RuntimeError::unattached(if pid == std::process::id() {
            format!("this process ({pid}) is already attached: all splits and epochs use one attachment")
        } else {
            format!(
                "process {pid}, of which this one ({}) is a fork, is attached: only that one takes batches",
                std::process::id()
            )
        }));
    }
    let address = address()?;
    let (channel, received) = knock(&address, rank, interrupted)?;
    *taken = Some(std::process::id());
    let ReceivedMessage { payload, fds, .. } = received;
    let answer = serde_json::from_slice(&payload)
        .map_err(|error| RuntimeError::failed(format!("the launcher's answer: {error}")))?;
    let setup = match answer {
        AttachReply::Welcome { setup, secret }
            if secret == address.socket.secrets().map(|known| known.answer) =>
        {
            setup
        }
        AttachReply::Welcome { .. } => {
            *taken = None;
            return Err(RuntimeError::unattached("another process answers in the launcher's place"));
        }
        AttachReply::Refused(reason) => {
            *taken = None;
            return Err(RuntimeError::unattached(format!("the launcher refused this process: {reason}")));
        }
    };
    let channel = Arc::new(channel);
    let job: AttachedJob = serde_json::from_value(setup.job.clone())
        .map_err(|error| RuntimeError::failed(format!("the launcher's set-up: {error}")))?;
    let begun = Attached::of_setup(&setup, fds, &channel, job);
    if let Err(error) = &begun {
        // The launcher cannot see this failure, and the user's program may continue without it.
        let _ = say(&channel, &Report::failed(error));
    }
    begun
}

/// The rank that `torchrun` sets for its processes; without `torchrun`, rank 0 of 1.
fn rank_of_environment() -> Result<Part, RuntimeError> {
    let variables = ["RANK", "WORLD_SIZE"].map(|name| (name, std::env::var(name).ok()));
    let number = |(name, text): &(&str, Option<String>)| {
        let text = text.as_deref()?;
        let refused = format!("environment variable {name}={text}: expected a number");
        Some(text.parse::<u32>().map_err(|_| RuntimeError::unattached(refused)))
    };
    match (number(&variables[0]), number(&variables[1])) {
        (Some(index), Some(of)) => Ok(Part { index: index?, of: of? }),
        _ => Ok(Part::default()),
    }
}

/// The launcher's address, from the environment.
fn address() -> Result<Address, RuntimeError> {
    let variable = std::env::var(VARIABLE).map_err(|_| {
        RuntimeError::unattached(
            "this process was not started by a launcher: use `uvatrain run DATA --fanouts 15,10,5 -- python train.py`, or \
             load batches in this process with uvatrain.Loader"
                ,
        )
    })?;
    variable.parse().map_err(RuntimeError::unattached)
}

/// Requests a place, and waits for the answer. Also returns the channel to the launcher.
fn knock(
    address: &Address,
    rank: Part,
    interrupted: &dyn Fn() -> bool,
) -> Result<(Channel, ReceivedMessage), RuntimeError> {
    let gone = || {
        RuntimeError::unattached(format!(
            "the launcher (process {}) that started this process has exited, or accepts no more connections",
            address.launcher
        ))
    };
    let failed = |error: &dyn std::fmt::Display| RuntimeError::failed(format!("attaching: {error}"));
    let door = match &address.socket {
        Socket::Inherited { number, identity } => Channel::from_inherited_as(*number, *identity),
        Socket::Named { name, .. } => Channel::to_named(name),
    };
    let door = match door {
        Ok(door) => door,
        Err(HandoverError::Refused(what)) => {
            return Err(RuntimeError::unattached(format!(
                "this process did not inherit the launcher's socket ({what}): a program between the two closed it (Python's \
                 subprocess requires close_fds=False), or another process of this run has already attached. For the ranks \
                 of torchrun, start the run with `--ranks N`"
            )));
        }
        Err(HandoverError::Closed) => {
            return Err(RuntimeError::unattached(format!(
                "the launcher (process {}) has exited, or runs in another network namespace than this process",
                address.launcher
            )));
        }
        Err(error) => return Err(failed(&error)),
    };
    let own = PidFd::open(std::process::id()).map_err(|error| failed(&error))?;
    let (ours, theirs) = Channel::pair().map_err(|error| failed(&error))?;
    let knock = Knock {
        version: VERSION.to_owned(),
        protocol: protocol(),
        pid: std::process::id(),
        part: rank,
        secret: address.socket.secrets().map(|known| known.knock),
    };
    match hand_over(&door, &knock, &[own.as_fd(), theirs.as_fd()]) {
        Ok(()) => {}
        Err(HandoverError::Closed) => return Err(gone()),
        Err(error) => return Err(failed(&error)),
    }
    // From here on only the launcher holds that end: if the launcher ends without an answer, the channel closes.
    drop(theirs);
    loop {
        match ours.recv_within(ASK) {
            Ok(answer) => return Ok((ours, answer)),
            Err(HandoverError::TimedOut(_)) if !interrupted() => {}
            Err(HandoverError::TimedOut(_)) => {
                return Err(RuntimeError::Interrupted(signal_hook::consts::SIGINT));
            }
            Err(HandoverError::Closed) => return Err(gone()),
            Err(error) => return Err(failed(&error)),
        }
    }
}

/// The consumer's place in a run. Dropping it, or the stream made from it, gives up the place: the roles then end, and
/// the process continues.
#[derive(Debug)]
pub struct Attached {
    plan: Arc<RunPlan>,
    runtime: Runtime,
    attachment: LauncherLink,
}

impl Attached {
    fn of_setup(
        setup: &Setup,
        fds: Vec<OwnedFd>,
        channel: &Arc<Channel>,
        job: AttachedJob,
    ) -> Result<Self, RuntimeError> {
        let connections = connections::open(setup, fds, note_over(channel))?;
        let (plan, control) = (Arc::clone(&connections.plan), Arc::clone(&connections.control));
        let watch = LauncherWatch::start(Arc::clone(channel), Arc::clone(&control))?;
        let runtime = Runtime::wired(connections, &setup.stages)?;
        if let Some(event) = runtime.fall_back() {
            say(channel, &Report::Event(Box::new(event)))?;
        }
        let usage = Usage::begin(Arc::clone(channel), Arc::clone(&control), &plan, job.events);
        let attachment =
            LauncherLink { control, channel: Arc::clone(channel), usage, said_why: false, _watch: watch };
        Ok(Self { plan, runtime, attachment })
    }

    /// The run's dataset.
    pub fn dataset(&self) -> &Dataset {
        self.runtime.dataset()
    }

    /// The run's plan: its options, its backend, its caches.
    pub fn plan(&self) -> &RunPlan {
        &self.plan
    }

    /// Begins to take batches. Epochs of `main` are expected in sequence.
    pub fn begin(self, main: Split) -> BatchStream {
        BatchStream::over_attached(self.runtime, main, Box::new(self.attachment))
    }
}

/// The link from a stream of batches in an attached process to its launcher.
#[derive(Debug)]
struct LauncherLink {
    control: Arc<Control>,
    channel: Arc<Channel>,
    usage: Usage,
    /// This side has reported its failure to the launcher.
    said_why: bool,
    _watch: LauncherWatch,
}

impl Attachment for LauncherLink {
    fn asked(&mut self) -> Result<(), RuntimeError> {
        let told = self.usage.asked();
        // Checked after a pass's last batch too: otherwise the caller would continue with another pass.
        if self.control.stop() == Stop::Now { self.failed(ended()) } else { told }
    }

    fn received(
        &mut self,
        received: Result<Option<Batch>, RuntimeError>,
    ) -> Result<Option<Batch>, RuntimeError> {
        match received {
            Ok(Some(mut batch)) => {
                self.usage.taken(&mut batch);
                Ok(Some(batch))
            }
            Ok(None) if self.control.stop() == Stop::Now => self.failed(ended()),
            // An error for the caller alone, which continues or ends with its own error.
            Err(error @ (RuntimeError::SlotHeld(_) | RuntimeError::Interrupted(_))) => Err(error),
            Err(error) => self.failed(error),
            Ok(None) => Ok(None),
        }
    }

    fn ends(&mut self) {
        // Other checks report that the launcher has ended.
        let _ = self.usage.asked();
        self.control.note_memory(CONSUMER);
        // Sent first, so that the launcher has the reason why its roles end.
        if self.control.stop() != Stop::Now {
            let _ = say(&self.channel, &Report::Done(serde_json::Value::Null));
        }
        self.control.set_stop(Stop::Now);
    }

    fn ended(&mut self, ended: Result<(), RuntimeError>) -> Result<(), RuntimeError> {
        ended.or_else(|error| self.failed(error))
    }
}

impl LauncherLink {
    fn failed<T>(&mut self, error: RuntimeError) -> Result<T, RuntimeError> {
        if !self.said_why {
            self.said_why = true;
            // The launcher's message then adds details that the user's own may lack.
            let _ = say(&self.channel, &Report::failed(&error));
        }
        Err(error)
    }
}

fn ended() -> RuntimeError {
    RuntimeError::peer_gone(
        "the run has ended: another role failed, or the launcher is gone; see the messages of the launcher",
    )
}

/// A thread that watches the launcher until this value is dropped. When the launcher has ended, the thread stops all
/// waits in this process. If the process then does not end, the thread kills it.
#[derive(Debug)]
struct LauncherWatch {
    /// A message on this channel ends the thread.
    word: Channel,
    thread: Option<JoinHandle<()>>,
}

impl LauncherWatch {
    fn start(channel: Arc<Channel>, control: Arc<Control>) -> Result<Self, RuntimeError> {
        let failed = |error: &dyn std::fmt::Display| RuntimeError::failed(format!("attaching: {error}"));
        let (ours, theirs) = Channel::pair().map_err(|error| failed(&error))?;
        let watch = move || {
            if !launcher_ends(&channel, &theirs) {
                return;
            }
            control.set_stop(Stop::Now);
            // The janitor ends the process within this time. If the janitor was killed too, no other process does.
            if let Err(HandoverError::TimedOut(_)) = theirs.recv_within(GRACE) {
                let _ = kill_process(getpid(), Signal::KILL);
            }
        };
        let thread = std::thread::Builder::new().name("uva-launcher".to_owned());
        let thread = thread
            .spawn(watch)
            .map_err(|error| machine::not_started("the thread that watches the launcher", &error))?;
        Ok(Self { word: ours, thread: Some(thread) })
    }
}

impl Drop for LauncherWatch {
    fn drop(&mut self) {
        // A message is sent, since a fork of this process also holds this end and a close would not suffice. Giving up
        // the place must leave no thread, so wait for it, unless the message could not be sent.
        if self.word.send(&[], &[]).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

/// Waits for the launcher's end or for a message of this process; returns true for the launcher's end.
fn launcher_ends(channel: &Channel, word: &Channel) -> bool {
    loop {
        // Only the launcher holds its end of the channel, so it closes with the launcher, which sends nothing more
        // there.
        let launcher = PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::HUP);
        let mut fds = [launcher, PollFd::from_borrowed_fd(word.as_fd(), PollFlags::IN)];
        match poll(&mut fds, None) {
            Ok(_) if !fds[1].revents().is_empty() => return false,
            Ok(_) if !fds[0].revents().is_empty() => return true,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

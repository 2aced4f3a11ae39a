//! The launcher's loop: hears the roles, their ends and the signals, and decides when the run is over and of what.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use signal_hook::consts::{SIGBUS, SIGINT, SIGKILL};
use uva_mem::handover::HandoverError;

use super::command_watch::CommandWatch;
use super::fleet::Fleet;
use super::janitor::Janitor;
use super::messages::{Report, Role};
use super::signals::Signals;
use crate::RuntimeError;
use crate::clock::since_boot;
use crate::control::{Control, Stop};
use crate::error::signal_name;
use crate::metrics::Observer;
use crate::plan::RunPlan;

/// How long a role may take to return once it has been told to stop now. A role looks at the stop word at every
/// futex time-out, ten times a second, so what takes longer hangs.
pub(super) const GRACE: Duration = Duration::from_secs(3);

/// How long the roles may take to end when a run has gone well.
const UNPINNING: Duration = Duration::from_secs(60);

/// Why a run ends before its time. Ordered: the larger one is nearer to the cause.
#[derive(Debug)]
pub(super) struct Cause {
    rank: Rank,
    /// When it failed, on the machine's clock since boot. Of two roles that failed the first is the cause: the other
    /// may have failed of what the first left behind.
    at: Duration,
    error: RuntimeError,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A role ended because another had.
    Follows,
    /// A role said itself what failed.
    Failed,
    /// A role was killed, or left without a word.
    Died,
    /// A person asked for it, or the observer failed.
    Asked,
}

/// Watches the fleet to its end. Returns what the consumer ended with.
pub(super) fn watch(
    mut fleet: Fleet,
    control: &Control,
    signals: &mut Signals,
    plan: &RunPlan,
    janitor: &Janitor,
    observer: &mut dyn Observer,
) -> Result<Value, RuntimeError> {
    let command = fleet.door.is_some().then(CommandWatch::begin);
    let mut watch =
        Watch { control, plan, cause: None, done: None, deadline: None, interrupted: None, command };
    while !fleet.all_ended() {
        wait(&fleet, signals, watch.next_deadline(&fleet)).map_err(|error| {
            RuntimeError::Failed(format!("the launcher cannot wait for its roles: {error}"))
        })?;
        for signal in signals.take() {
            if watch.signal(signal, &fleet, observer) {
                fleet.end_now();
            }
        }
        watch.hear_command(&mut fleet, janitor, observer)?;
        for member in 0..fleet.members.len() {
            watch.hear(&mut fleet, member, observer);
        }
        // After hearing them, and whether or not there was something to hear: who talks on is ended too.
        if watch.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            fleet.end_roles();
        }
        watch.end_command_in_time(&mut fleet);
    }
    watch.verdict()
}

pub(super) struct Watch<'a> {
    pub control: &'a Control,
    pub plan: &'a RunPlan,
    pub cause: Option<Cause>,
    pub done: Option<Value>,
    /// When the roles that still run are killed; set once the run is ending.
    deadline: Option<Instant>,
    pub interrupted: Option<i32>,
    /// What there is to know of the command, where the consumer is one.
    pub command: Option<CommandWatch>,
}

impl Watch<'_> {
    /// Takes note of a signal. True: everything is to end at once.
    fn signal(&mut self, signal: i32, fleet: &Fleet, observer: &mut dyn Observer) -> bool {
        let again = self.interrupted.replace(signal).is_some();
        let name = signal_name(signal);
        tracing::info!(signal = %name, again, "a signal came");
        if again {
            self.blame(Rank::Asked, since_boot(), RuntimeError::Interrupted(signal));
            observer.note(&format!("{name} again: ending at once"));
        } else {
            self.control.set_stop(Stop::Soon);
            let how = if signal == SIGINT { "press Ctrl-C" } else { "send it" };
            let what = match self.pass_on(signal, fleet) {
                None => "finishing this batch, then stopping",
                Some(what) => what,
            };
            observer.note(&format!("{name}: {what}; {how} again to end at once"));
        }
        again
    }

    /// Takes in what a role has said since, and whether it has ended.
    fn hear(&mut self, fleet: &mut Fleet, member: usize, observer: &mut dyn Observer) {
        // Its end is asked first and its words are read after, so that nothing it said before it ended is missed. One
        // that this loop has killed was reaped then, and is not blamed for it.
        let newly_ended = fleet.members[member].ended.is_none() && fleet.members[member].reap().is_some();
        self.read_reports(fleet, member, observer);
        if !newly_ended {
            return;
        }
        if fleet.door.is_some() && member == 0 {
            return self.command_ended(fleet, observer);
        }
        let member = &fleet.members[member];
        let Some(status) = member.ended else { return };
        let name = member.name(self.plan.options.samplers);
        tracing::info!(ended = name, pid = member.pidfd.pid(), %status, "a role's process has ended");
        // A consumer that was told to stop has nothing more to say either.
        let expected = match member.role {
            Role::Consumer => self.done.is_some() || self.cause.is_some(),
            _ => true,
        };
        if status.success() && expected {
            if member.role == Role::Consumer {
                // Nobody reads batches any more.
                self.wind_down();
            }
            return;
        }
        let place = self.whereabouts(member.place());
        let how = match (status.signal(), status.code()) {
            (Some(signal), _) => format!("was killed by {}", signal_name(signal)),
            (None, Some(code)) => format!("ended with exit code {code}"),
            (None, None) => "ended".to_owned(),
        };
        let error = RuntimeError::Failed(format!(
            "the {name} {how} {place}; the other roles were ended{}{}",
            status.signal().map_or("", what_sends),
            self.advice()
        ));
        // A role that failed in an orderly way has said why; one that panicked, say, has not.
        let rank = if member.said_why { Rank::Follows } else { Rank::Died };
        self.blame(rank, since_boot(), error);
    }

    fn read_reports(&mut self, fleet: &mut Fleet, member: usize, observer: &mut dyn Observer) {
        let place = fleet.members[member].place();
        let name = fleet.members[member].name(self.plan.options.samplers);
        while let Some(channel) = &fleet.members[member].channel {
            let message = match channel.recv_within(Duration::ZERO) {
                Ok(message) => message,
                Err(HandoverError::TimedOut(_)) => return,
                Err(_) => {
                    fleet.members[member].channel = None;
                    return;
                }
            };
            let whose = Speaker { name: &name, place };
            match self.take_report(&message.payload, &whose, observer) {
                Heard::Done(value) => self.done = Some(value),
                Heard::Failed => fleet.members[member].said_why = true,
                Heard::Other => {}
            }
        }
    }

    /// Takes in one report.
    pub fn take_report(&mut self, payload: &[u8], whose: &Speaker<'_>, observer: &mut dyn Observer) -> Heard {
        let Speaker { name, place } = *whose;
        let mut heard = Heard::Other;
        let outcome = match serde_json::from_slice::<Report>(payload) {
            Ok(Report::Event(event)) => observer.event(&event),
            Ok(Report::Progress(progress)) => {
                observer.progress(&progress, self.control.roles().bottleneck());
                Ok(())
            }
            Ok(Report::Note(line)) => {
                observer.note(&line);
                Ok(())
            }
            Ok(Report::Done(value)) => {
                heard = Heard::Done(value);
                Ok(())
            }
            Ok(Report::Failed { error, at }) => {
                heard = Heard::Failed;
                let follows = matches!(error, RuntimeError::PeerGone(_));
                let rank = if follows { Rank::Follows } else { Rank::Failed };
                let whereabouts = format!("the {name} failed {}", self.whereabouts(place));
                self.blame(rank, at, error.of_role(&whereabouts));
                Ok(())
            }
            Err(error) => {
                Err(RuntimeError::Failed(format!("a report of the {name} cannot be read: {error}")))
            }
        };
        if let Err(error) = outcome {
            self.blame(Rank::Asked, since_boot(), error);
        }
        heard
    }

    /// Notes why the run ends, keeping what is nearest to the cause, and begins to end it.
    pub fn blame(&mut self, rank: Rank, at: Duration, error: RuntimeError) {
        if rank == Rank::Follows && self.command.is_some() && self.done.is_some() {
            // Of the command's good end, which a process that it left behind hears of too.
            return;
        }
        tracing::info!(?rank, %error, "the run is to end before its time");
        let nearer = |known: &Cause| rank > known.rank || (rank == known.rank && at < known.at);
        if self.cause.as_ref().is_none_or(nearer) {
            self.cause = Some(Cause { rank, at, error });
        }
        self.wind_down();
    }

    /// Tells every role to return, and gives them some time for that: little where something failed, more where nothing
    /// did and a producer may have a large table to unpin.
    pub fn wind_down(&mut self) {
        self.control.set_stop(Stop::Now);
        let grace = if self.cause.is_some() || self.interrupted.is_some() { GRACE } else { UNPINNING };
        let deadline = Instant::now() + grace;
        self.deadline = Some(self.deadline.map_or(deadline, |known| known.min(deadline)));
    }

    /// When the watch has something to do although nobody says anything.
    fn next_deadline(&self, fleet: &Fleet) -> Option<Instant> {
        // The roles' own passes once: behind it they are gone, and the command may take its time.
        let roles = self.deadline.filter(|_| !fleet.roles_have_ended());
        let command = self.command.as_ref().and_then(|command| command.next_deadline(fleet));
        roles.into_iter().chain(command).min()
    }

    pub fn whereabouts(&self, place: usize) -> String {
        self.plan.whereabouts(self.control, place)
    }

    fn advice(&self) -> &'static str {
        if self.plan.checkpointed { "; --resume continues from the last checkpoint" } else { "" }
    }

    fn verdict(self) -> Result<Value, RuntimeError> {
        match (self.interrupted, self.cause, self.done) {
            // A person's wish explains whatever came after it, except that a role said it failed.
            (Some(signal), None | Some(Cause { rank: Rank::Follows | Rank::Died | Rank::Asked, .. }), _) => {
                Err(RuntimeError::Interrupted(signal))
            }
            (_, Some(cause), _) => Err(cause.error),
            (None, None, Some(done)) => Ok(done),
            (None, None, None) => {
                Err(RuntimeError::Failed("the consumer ended without saying what came of the run".into()))
            }
        }
    }
}

/// What usually sends a signal that nobody in the run does, for the message.
fn what_sends(signal: i32) -> &'static str {
    match signal {
        SIGBUS => {
            "; a file of the dataset was made shorter while it was in use, or the machine has no memory left for \
             shared pages"
        }
        SIGKILL => "; where nobody did it, the kernel may have, for want of memory (dmesg tells)",
        _ => "",
    }
}

/// What a report was, where its sender's place depends on it.
pub(super) enum Heard {
    /// It is through, with this.
    Done(Value),
    /// It says of what it failed.
    Failed,
    Other,
}

/// Whose report it is.
pub(super) struct Speaker<'a> {
    pub name: &'a str,
    /// In the control page.
    pub place: usize,
}

/// Waits until a role says something or ends, a signal comes, or the deadline passes.
fn wait(fleet: &Fleet, signals: &Signals, deadline: Option<Instant>) -> rustix::io::Result<()> {
    let mut fds: Vec<PollFd<'_>> = Vec::new();
    for fd in signals.fds() {
        fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
    }
    for member in &fleet.members {
        if member.ended.is_none() {
            fds.push(PollFd::from_borrowed_fd(member.pidfd.as_fd(), PollFlags::IN));
        }
        if let Some(channel) = &member.channel {
            fds.push(PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN));
        }
    }
    if let Some(door) = &fleet.door {
        fds.extend(
            door.knocks.as_ref().map(|knocks| PollFd::from_borrowed_fd(knocks.as_fd(), PollFlags::IN)),
        );
        if let Some(attached) = &door.attached {
            if !attached.ended {
                fds.push(PollFd::from_borrowed_fd(attached.pidfd.as_fd(), PollFlags::IN));
            }
            let channel = attached.channel.as_ref();
            fds.extend(channel.map(|channel| PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN)));
        }
    }
    let timeout = deadline.map(|deadline| {
        let left = deadline.saturating_duration_since(Instant::now());
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
    });
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

//! The launcher's event loop: receives reports, ends and signals, and determines the end of the run and its cause.

use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::Value;
use signal_hook::consts::{SIGBUS, SIGINT, SIGKILL};
use uva_mem::handover::HandoverError;
use uva_mem::out_of_memory::OUT_OF_MEMORY;

use super::command_state::CommandState;
use super::fleet::Fleet;
use super::verdict::{Nearness, ReportKind, RunWatch, Speaker, WatchedRank};
use crate::launcher::process::janitor::Janitor;
use crate::launcher::process::signals::EndSignals;
use uva_runtime::RuntimeError;
use uva_runtime::control::Stop;
use uva_runtime::machine::clock::since_boot;
use uva_runtime::plan::topology::Role;
use uva_runtime::signal_name;
use uva_runtime::telemetry::metrics::Observer;

/// Watches the fleet to its end. Returns the consumer's result.
pub(super) fn watch(
    mut fleet: Fleet,
    ranks: Vec<WatchedRank<'_>>,
    signals: &mut EndSignals,
    janitor: &Janitor,
    observer: &mut dyn Observer,
) -> Result<Value, RuntimeError> {
    let command = fleet.door.is_some().then(CommandState::begin);
    let mut watch = RunWatch { ranks, cause: None, done: None, interrupted: None, command };
    while !fleet.all_ended() {
        wait(&fleet, signals, watch.next_deadline(&fleet)).map_err(|error| {
            RuntimeError::failed(format!("the launcher cannot wait for its roles: {error}"))
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
        // After reading the messages, and even if there were none: a role that keeps sending reports is ended too.
        for (rank, deadline) in watch.deadlines() {
            if Instant::now() >= deadline {
                fleet.end_roles(rank);
            }
        }
        watch.end_command_in_time(&mut fleet);
    }
    watch.verdict()
}

impl RunWatch<'_> {
    /// Handles a signal. Returns true if all processes must end at once.
    fn signal(&mut self, signal: i32, fleet: &Fleet, observer: &mut dyn Observer) -> bool {
        let again = self.interrupted.replace(signal).is_some();
        let name = signal_name(signal);
        tracing::info!(signal = %name, again, "a signal came");
        if again {
            self.blame(Nearness::Asked, since_boot(), RuntimeError::Interrupted(signal));
            observer.note(&format!("{name} again: ending at once"));
        } else {
            self.ranks.iter().for_each(|rank| rank.control.set_stop(Stop::Soon));
            let how = if signal == SIGINT { "press Ctrl-C" } else { "send it" };
            let what = match self.pass_on(signal, fleet) {
                None => "finishing this batch, then stopping",
                Some(what) => what,
            };
            observer.note(&format!("{name}: {what}; {how} again to end at once"));
        }
        again
    }

    /// Reads a role's reports since the last call, and checks whether it has ended.
    fn hear(&mut self, fleet: &mut Fleet, member: usize, observer: &mut dyn Observer) {
        // Check its end first and read its reports after, so that no report before its end is missed. A role that this
        // loop killed was reaped then, and is not blamed.
        let newly_ended =
            fleet.members[member].process.ended.is_none() && fleet.members[member].process.reap().is_some();
        self.read_reports(fleet, member, observer);
        if !newly_ended {
            return;
        }
        if fleet.door.is_some() && member == 0 {
            return self.command_ended(fleet, observer);
        }
        let member = &fleet.members[member];
        let Some(status) = member.process.ended else { return };
        let WatchedRank { control, plan, .. } = self.ranks[member.counted_by()];
        let samplers = plan.options.samplers;
        let name = member.name(samplers);
        tracing::info!(ended = name, pid = member.pid(), %status, "a role's process has ended");
        // A consumer that was requested to stop has nothing more to report either.
        let expected = match member.stage.role {
            Role::Consumer => self.done.is_some() || self.cause.is_some(),
            _ => true,
        };
        if status.success() && expected {
            if member.stage.role == Role::Consumer {
                // Batches are no longer read.
                self.wind_down();
            }
            return;
        }
        let place = self.whereabouts(member.rank, member.counters(control, samplers));
        let how = match (status.signal(), status.code()) {
            (Some(signal), _) => format!("was killed by {}", signal_name(signal)),
            (None, Some(code)) if code == i32::from(OUT_OF_MEMORY) => "ran out of memory".to_owned(),
            (None, Some(code)) => format!("ended with exit code {code}"),
            (None, None) => "ended".to_owned(),
        };
        let error = RuntimeError::failed(format!(
            "the {name} {how} {place}; the other roles were ended{}{}",
            status.signal().map_or("", what_sends),
            self.advice()
        ));
        // A role that failed in an orderly way has reported why; one that panicked, for example, has not.
        let nearness = if member.said_why { Nearness::Follows } else { Nearness::Died };
        self.blame(nearness, since_boot(), error);
    }

    fn read_reports(&mut self, fleet: &mut Fleet, member: usize, observer: &mut dyn Observer) {
        let rank = fleet.members[member].rank;
        let WatchedRank { control, plan, .. } = self.ranks[fleet.members[member].counted_by()];
        let samplers = plan.options.samplers;
        let name = fleet.members[member].name(samplers);
        while let Some(channel) = &fleet.members[member].process.channel {
            let message = match channel.recv_within(Duration::ZERO) {
                Ok(message) => message,
                Err(HandoverError::TimedOut(_)) => return,
                Err(_) => {
                    fleet.members[member].process.channel = None;
                    return;
                }
            };
            let counters = fleet.members[member].counters(control, samplers);
            let whose = Speaker { name: &name, rank, counters };
            match self.take_report(&message.payload, &whose, observer) {
                ReportKind::Done(value) => self.done = Some(value),
                ReportKind::Failed => fleet.members[member].said_why = true,
                ReportKind::Other => {}
            }
        }
    }

    /// The time at which the watch has to act even without a message.
    fn next_deadline(&self, fleet: &Fleet) -> Option<Instant> {
        // The roles' deadline passes once. After it they have ended, and the command is not limited in time.
        let roles = self.deadlines().filter(|(rank, _)| !fleet.roles_have_ended(*rank));
        let roles = roles.map(|(_, deadline)| deadline);
        let command = self.command.as_ref().and_then(|command| command.next_deadline(fleet));
        roles.chain(command).min()
    }
}

/// The usual sender of a signal that comes from outside the run, for the message.
fn what_sends(signal: i32) -> &'static str {
    match signal {
        SIGBUS => "; the machine has no memory left for shared pages, or a file was truncated while in use",
        SIGKILL => "; the kernel may have killed the process for lack of memory (see dmesg)",
        _ => "",
    }
}

/// Waits until a role sends a report or ends, a signal arrives, or the deadline passes.
fn wait(fleet: &Fleet, signals: &EndSignals, deadline: Option<Instant>) -> rustix::io::Result<()> {
    let mut fds: Vec<PollFd<'_>> = Vec::new();
    for fd in signals.fds() {
        fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
    }
    for member in &fleet.members {
        if member.process.ended.is_none() {
            fds.push(PollFd::from_borrowed_fd(member.process.pidfd.as_fd(), PollFlags::IN));
        }
        if let Some(channel) = &member.process.channel {
            fds.push(PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN));
        }
    }
    if let Some(door) = &fleet.door {
        fds.extend(
            door.knocks.as_ref().map(|knocks| PollFd::from_borrowed_fd(knocks.as_fd(), PollFlags::IN)),
        );
        for attached in door.attached() {
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

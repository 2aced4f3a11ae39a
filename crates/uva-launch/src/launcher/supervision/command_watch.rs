//! The launcher's additional duties if the consumer is a user's command.
//!
//! | event | effect on the run |
//! |---|---|
//! | the command exits with 0, and a process of it, or every rank, has attached | success, even if batches are left |
//! | exits with 0, but no process, or not every rank, has attached | failure: batches were not used |
//! | exits with another code, or by a signal | failure, naming command, code or signal, and batch |
//! | ends by SIGINT, or exits with 130 | interrupted |
//! | does not attach for a while | a line reports that its batches wait |
//! | a rank ends without a report before any other has ended | failure: the others would wait for it |
//! | continues when a role has died | the next batch request fails; after a grace period SIGTERM, then SIGKILL |
//!
//! Only the process that was started and those that attached are ended. The command's other processes belong to the
//! user, and the launcher does not touch them.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use serde_json::Value;
use signal_hook::consts::SIGINT;
use uva_mem::Signal;
use uva_mem::handover::HandoverError;

use super::command_state::PATIENCE;
use super::fleet::Fleet;
use super::verdict::{GRACE, Nearness, ReportKind, RunWatch, Speaker};
use crate::launcher::command::door::{AttachedProcess, Door};
use crate::launcher::process::janitor::Janitor;
use uva_runtime::RuntimeError;
use uva_runtime::control::CONSUMER;
use uva_runtime::machine::clock::since_boot;
use uva_runtime::signal_name;
use uva_runtime::telemetry::metrics::Observer;

/// Maximum time for an attached process to end when there are no more batches for it: a training step, a traceback, and
/// the end of an interpreter.
const COMMAND_GRACE: Duration = Duration::from_secs(10);

/// The exit code of shells and many programs for an interrupt.
const INTERRUPTED: i32 = 128 + SIGINT;

impl RunWatch<'_> {
    /// Passes a signal on to the command if only the launcher got it, and returns a line about the effect. `None`
    /// without a command.
    pub fn pass_on(&self, signal: i32, fleet: &Fleet) -> Option<&'static str> {
        let door = fleet.door.as_ref()?;
        if door.attached().any(AttachedProcess::takes_batches) {
            return Some("the command is notified with its next batch");
        }
        if signal == SIGINT && is_in_the_foreground() {
            return Some("waiting for the command, which also received the signal");
        }
        if let Some(number) = Signal::from_named_raw(signal) {
            // If it has already ended, that is detected soon.
            let _ = fleet.members[0].process.pidfd.send_signal(number);
        }
        Some("passed on to the command")
    }

    /// Admits processes that knock, and handles the reports of attached ones.
    pub fn hear_command(
        &mut self,
        fleet: &mut Fleet,
        janitor: &Janitor,
        observer: &mut dyn Observer,
    ) -> Result<(), RuntimeError> {
        let Some(door) = &mut fleet.door else { return Ok(()) };
        if self.cause.is_some() {
            door.close();
        }
        door.answer(janitor)?;
        if let Some(vacant) = door.vacant() {
            let of_rank = door.as_rank(vacant);
            let running = fleet.members[0].process.ended.is_none();
            if running && self.command.as_mut().is_some_and(|command| command.note_is_due(Instant::now())) {
                observer.note(&format!(
                    "the {} has not called uvatrain.attach(){of_rank} for {} s; its batches wait for it",
                    fleet.members[0].name(1),
                    PATIENCE.as_secs()
                ));
            }
        }
        self.hear_attached(fleet, observer);
        Ok(())
    }

    fn hear_attached(&mut self, fleet: &mut Fleet, observer: &mut dyn Observer) {
        let command = &fleet.members[0];
        let name = command.name(1);
        let Some(door) = &mut fleet.door else { return };
        let ranked = door.is_ranked();
        // As with a role, check ends first, and read reports after. All ends are checked before all reports: if a rank
        // ends because another one did, the last report of that one is read.
        door.see_ends();
        for (rank, place) in door.places.iter_mut().enumerate() {
            let Some(attached) = &mut place.attached else { continue };
            let name = if ranked { format!("process of rank {rank}") } else { name.clone() };
            while let Some(channel) = &attached.channel {
                match channel.recv_within(Duration::ZERO) {
                    Ok(message) => {
                        let whose = Speaker { name: &name, rank: Some(rank), counters: CONSUMER };
                        match self.take_report(&message.payload, &whose, observer) {
                            // The command's end determines the result of the run.
                            ReportKind::Done(_) => attached.done = true,
                            ReportKind::Failed => attached.said_why = true,
                            ReportKind::Other => {}
                        }
                    }
                    Err(HandoverError::TimedOut(_)) if !attached.ended => break,
                    Err(_) => attached.channel = None,
                }
            }
        }
        let places = door.places.iter().enumerate();
        let attached = places.filter_map(|(rank, place)| Some((rank, place.attached.as_ref()?)));
        let out: Vec<_> =
            attached.filter(|(rank, of)| !of.takes_batches() && !self.ranks[*rank].retired).collect();
        if out.is_empty() {
            return;
        }
        // Not reaped here: its end is handled elsewhere.
        let runs = command.process.pidfd.is_alive().unwrap_or(true);
        self.retire(&out, runs);
    }

    /// Retires ranks whose batches are no longer taken. `runs` states whether the command runs.
    fn retire(&mut self, out: &[(usize, &AttachedProcess)], runs: bool) {
        for (rank, _) in out {
            self.ranks[*rank].retired = true;
            // The command is not limited in time.
            self.wind_down_rank(*rank);
        }
        let described = out.iter().map(|(rank, attached)| {
            format!(
                "rank {rank} (process {}) {}",
                attached.pidfd.pid(),
                self.whereabouts(Some(*rank), CONSUMER)
            )
        });
        let described = described.collect::<Vec<_>>().join(" and ");
        let several = self.ranks.len() > 1;
        let Some(command) = self.command.as_mut().filter(|command| several && command.first_out.is_none())
        else {
            return;
        };
        let told = command.told;
        command.first_out = Some(described.clone());
        // If one rank has reported, another's end may be a consequence. After an interrupt each rank ends at its next
        // batch, and must not be affected by another's end before that.
        if runs && !told && self.interrupted.is_none() && out.iter().all(|(_, attached)| attached.vanished())
        {
            // The other ranks would wait for it.
            let error = format!(
                "{described} ended without a message, as a killed process does; the other ranks and the roles were ended"
            );
            self.blame(Nearness::Died, since_boot(), RuntimeError::failed(error));
        }
    }

    /// Handles the command's end.
    pub fn command_ended(&mut self, fleet: &mut Fleet, observer: &mut dyn Observer) {
        self.hear_attached(fleet, observer);
        let name = fleet.members[0].name(1);
        let (Some(status), Some(door), Some(command)) =
            (fleet.members[0].process.ended, &mut fleet.door, &mut self.command)
        else {
            return;
        };
        door.close();
        command.note_at = None;
        // A remaining process of the command is ended too, since there are no more batches for it.
        command.end_at = Some((Instant::now() + GRACE, Signal::TERM));
        if command.told {
            return self.wind_down();
        }
        if status.signal() == Some(SIGINT) || status.code() == Some(INTERRUPTED) {
            self.interrupted.get_or_insert(SIGINT);
            return self.wind_down();
        }
        let vacant = door.vacant();
        if status.success() {
            let Some(vacant) = vacant else {
                for attached in door.attached() {
                    let pid = attached.pidfd.pid();
                    if pid != fleet.members[0].pid() && attached.vanished() {
                        // The attached process's exit code concerns its parent, which ended with success.
                        observer.note(&format!(
                            "process {pid}, which had attached, ended without detaching, as a killed process does; the \
                             command that started it ended successfully"
                        ));
                    }
                }
                self.done = Some(Value::Null);
                return self.wind_down();
            };
            if self.cause.is_none() && self.interrupted.is_none() {
                let refused = door.refused.take().map_or_else(String::new, |why| format!(" ({why})"));
                let of_rank = door.as_rank(vacant);
                self.blame(
                    Nearness::Failed,
                    since_boot(),
                    RuntimeError::failed(format!(
                        "the {name} ended without having attached{of_rank}{refused}: the run's batches were not used; a \
                         script takes them with `for batch in uvatrain.attach():`"
                    )),
                );
            }
            return self.wind_down();
        }
        let place = match (vacant, &command.first_out) {
            (_, Some(first)) => format!("; the first of its ranks to end: {first}"),
            (None, None) => format!(" {}", self.whereabouts(Some(0), CONSUMER)),
            (Some(rank), None) => {
                let of_rank = door.as_rank(rank);
                let refused =
                    door.refused.as_ref().map_or_else(String::new, |why| format!(" (refused: {why})"));
                format!(" before it had attached{of_rank}{refused}")
            }
        };
        let how = match (status.signal(), status.code()) {
            (Some(signal), _) => format!("was killed by {}", signal_name(signal)),
            (None, Some(code)) => format!("ended with exit code {code}"),
            (None, None) => "ended".to_owned(),
        };
        // If an attached process has reported the reason, this failure is already known.
        let said_why = door.attached().any(|attached| attached.said_why);
        let nearness = if said_why { Nearness::Follows } else { Nearness::Died };
        self.blame(
            nearness,
            since_boot(),
            RuntimeError::failed(format!("the {name} {how}{place}; the roles were ended")),
        );
    }

    /// Ends the command if the run has failed and its grace period is over.
    pub fn end_command_in_time(&mut self, fleet: &mut Fleet) {
        let Some(command) = &mut self.command else { return };
        let now = Instant::now();
        if self.cause.is_some() && command.end_at.is_none() && !command.told {
            let attached = fleet.door.iter().flat_map(Door::attached);
            let take_batches: Vec<bool> = attached.map(AttachedProcess::takes_batches).collect();
            command.end_at = match &take_batches[..] {
                [] => Some((now, Signal::TERM)),
                some if some.contains(&true) => Some((now + COMMAND_GRACE, Signal::TERM)),
                // These processes have had their batches, or work without batches: they may end at any time.
                _ => None,
            };
        }
        if let Some((at, signal)) = command.end_at
            && now >= at
        {
            command.told = true;
            command.end_at = (signal == Signal::TERM).then(|| (now + GRACE, Signal::KILL));
            fleet.end_command(signal);
        }
    }
}

/// Whether a terminal sends its signals to this process, and so to the command too.
fn is_in_the_foreground() -> bool {
    let stat = uva_mem::files::read_kernel_text("/proc/self/stat").unwrap_or_default();
    // The name, in parentheses, may contain any characters. It is followed by state, parent, group, session, terminal,
    // and the terminal's foreground group.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    matches!((fields.get(2), fields.get(5)), (Some(group), Some(foreground)) if group == foreground)
}

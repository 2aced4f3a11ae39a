//! The launcher's additional duties where the consumer is a command of the user's.
//!
//! | event | effect on the run |
//! |---|---|
//! | the command exits with 0, and a process of it attached | success, even if batches are left |
//! | exits with 0, and none attached | failure: nobody used the batches |
//! | exits with another code, or by a signal | failure, naming command, code or signal, and batch |
//! | ends by SIGINT, or exits with 130 | interrupted |
//! | does not attach for a while | a line says that its batches wait; nothing else |
//! | stays when a role has died | the next batch request fails; after a grace period SIGTERM, then SIGKILL |
//!
//! Only the process that was started and the one that attached are ended. The command's other processes are the user's:
//! the launcher neither knows nor touches them.

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use serde_json::Value;
use signal_hook::consts::SIGINT;
use uva_mem::Signal;
use uva_mem::handover::HandoverError;

use super::command_state::PATIENCE;
use super::fleet::Fleet;
use super::janitor::Janitor;
use super::verdict::{GRACE, Heard, Rank, Speaker, Watch};
use uva_runtime::RuntimeError;
use uva_runtime::clock::since_boot;
use uva_runtime::control::CONSUMER;
use uva_runtime::metrics::Observer;
use uva_runtime::signal_name;

/// How long an attached process may take to end by itself when there are no more batches for it: a training step, a
/// traceback, and the end of an interpreter.
const COMMAND_GRACE: Duration = Duration::from_secs(10);

/// The exit code of shells and many programs for an interrupt.
const INTERRUPTED: i32 = 128 + SIGINT;

impl Watch<'_> {
    /// Passes a signal on to the command if only the launcher got it, and returns a line about the effect. `None` where
    /// there is no command.
    pub fn pass_on(&self, signal: i32, fleet: &Fleet) -> Option<&'static str> {
        let door = fleet.door.as_ref()?;
        if door.attached.as_ref().is_some_and(|attached| attached.takes_batches()) {
            return Some("the command is told with its next batch");
        }
        if signal == SIGINT && is_in_the_foreground() {
            return Some("waiting for the command, which got it too");
        }
        if let Some(number) = Signal::from_named_raw(signal) {
            // If it has ended already, that shows in a moment.
            let _ = fleet.members[0].process.pidfd.send_signal(number);
        }
        Some("passed on to the command")
    }

    /// Admits a process that knocks, and processes the reports of the attached one.
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
        if door.attached.is_none() {
            let running = fleet.members[0].process.ended.is_none();
            if running && self.command.as_mut().is_some_and(|command| command.note_is_due(Instant::now())) {
                observer.note(&format!(
                    "the {} has not called uvatrain.attach() for {} s; its batches wait for it",
                    fleet.members[0].name(1),
                    PATIENCE.as_secs()
                ));
            }
        }
        self.hear_attached(fleet, observer);
        Ok(())
    }

    fn hear_attached(&mut self, fleet: &mut Fleet, observer: &mut dyn Observer) {
        let name = fleet.members[0].name(1);
        let Some(door) = &mut fleet.door else { return };
        // As with a role: check its end first, and read its reports after.
        door.see_end();
        let Some(attached) = &mut door.attached else { return };
        while let Some(channel) = &attached.channel {
            match channel.recv_within(Duration::ZERO) {
                Ok(message) => {
                    let whose = Speaker { name: &name, counters: CONSUMER };
                    match self.take_report(&message.payload, &whose, observer) {
                        // The command's end decides how the run went.
                        Heard::Done(_) => attached.done = true,
                        Heard::Failed => attached.said_why = true,
                        Heard::Other => {}
                    }
                }
                Err(HandoverError::TimedOut(_)) if !attached.ended => break,
                Err(_) => attached.channel = None,
            }
        }
        let goes_on = attached.takes_batches();
        if let Some(command) = &mut self.command
            && !goes_on
            && !command.retired
        {
            command.retired = true;
            // Nobody reads batches any more. The command may take its time.
            self.wind_down();
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
        // A process that it leaves behind is ended too: there are no more batches for it.
        command.end_at = Some((Instant::now() + GRACE, Signal::TERM));
        if command.told {
            return self.wind_down();
        }
        if status.signal() == Some(SIGINT) || status.code() == Some(INTERRUPTED) {
            self.interrupted.get_or_insert(SIGINT);
            return self.wind_down();
        }
        if status.success() {
            if let Some(attached) = &door.attached {
                let pid = attached.pidfd.pid();
                if pid != fleet.members[0].pid() && attached.ended && !attached.done && !attached.said_why {
                    // The attached process's exit code concerns its parent, which ended with success.
                    observer.note(&format!(
                        "process {pid}, which had attached, ended without giving up its place, as one that is killed \
                         does; the command that started it ended well all the same"
                    ));
                }
                self.done = Some(Value::Null);
                return self.wind_down();
            }
            if self.cause.is_none() && self.interrupted.is_none() {
                let refused = door.refused.take().map_or_else(String::new, |why| format!(" ({why})"));
                self.blame(
                    Rank::Failed,
                    since_boot(),
                    RuntimeError::Failed(format!(
                        "the {name} ended without having attached{refused}: nobody used the run's batches; a script \
                         takes them by `for batch in uvatrain.attach():`"
                    )),
                );
            }
            return self.wind_down();
        }
        let place = match &door.attached {
            Some(_) => self.whereabouts(CONSUMER),
            None => {
                let refused =
                    door.refused.as_ref().map_or_else(String::new, |why| format!(" (refused: {why})"));
                format!("before it had attached{refused}")
            }
        };
        let how = match (status.signal(), status.code()) {
            (Some(signal), _) => format!("was killed by {}", signal_name(signal)),
            (None, Some(code)) => format!("ended with exit code {code}"),
            (None, None) => "ended".to_owned(),
        };
        // If the attached process reported why, this failure is known already.
        let said_why = door.attached.as_ref().is_some_and(|attached| attached.said_why);
        let rank = if said_why { Rank::Follows } else { Rank::Died };
        self.blame(
            rank,
            since_boot(),
            RuntimeError::Failed(format!("the {name} {how} {place}; the roles were ended")),
        );
    }

    /// Ends the command when the run has failed and its time is over.
    pub fn end_command_in_time(&mut self, fleet: &mut Fleet) {
        let Some(command) = &mut self.command else { return };
        let now = Instant::now();
        if self.cause.is_some() && command.end_at.is_none() && !command.told {
            let attached = fleet.door.as_ref().and_then(|door| door.attached.as_ref());
            command.end_at = match attached {
                Some(attached) if attached.takes_batches() => Some((now + COMMAND_GRACE, Signal::TERM)),
                // It has had its batches, or works without: it may end when it likes.
                Some(_) => None,
                None => Some((now, Signal::TERM)),
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
    // The name, in parentheses, may contain anything. After it: state, parent, group, session, terminal, its foreground
    // group.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    matches!((fields.get(2), fields.get(5)), (Some(group), Some(foreground)) if group == foreground)
}

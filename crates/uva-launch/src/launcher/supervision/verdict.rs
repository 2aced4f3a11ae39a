//! The watch's record of a run: the cause of its end, the reports of its roles, and the result.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::command_state::CommandState;
use crate::launcher::wire::messages::Report;
use uva_runtime::RuntimeError;
use uva_runtime::control::{Control, Stop};
use uva_runtime::machine::clock::since_boot;
use uva_runtime::plan::RunPlan;
use uva_runtime::telemetry::metrics::Observer;

/// Maximum time for a role to return after a request to stop now. A role checks the stop word at every futex time-out,
/// ten times a second, so a role that takes longer hangs.
pub(super) const GRACE: Duration = Duration::from_secs(3);

/// Maximum time for the roles to end after a successful run.
const UNPINNING: Duration = Duration::from_secs(60);

/// The cause of a run's early end. Causes are ordered: the larger one is nearer to the origin.
#[derive(Debug)]
pub(super) struct EndCause {
    nearness: Nearness,
    /// The time of the failure, on the machine's clock since boot. Of two failed roles the first is the cause, since
    /// its failure may have caused the other's.
    at: Duration,
    error: RuntimeError,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Nearness {
    /// A role ended because another had ended.
    Follows,
    /// A role reported its failure itself.
    Failed,
    /// A role was killed, or ended without a report.
    Died,
    /// A user requested the end, or the observer failed.
    Asked,
}

pub(super) struct RunWatch<'a> {
    /// The ranks whose batches the roles prepare; one in a run without ranks.
    pub ranks: Vec<WatchedRank<'a>>,
    pub cause: Option<EndCause>,
    pub done: Option<Value>,
    pub interrupted: Option<i32>,
    /// The state of the command, if the consumer is a command.
    pub command: Option<CommandState>,
}

/// The watch's record of a rank.
pub(super) struct WatchedRank<'a> {
    pub control: &'a Control,
    pub plan: &'a RunPlan,
    /// The time at which its remaining roles are killed; set once they must end.
    pub deadline: Option<Instant>,
    /// Whether the roles were notified that batches are no longer taken.
    pub retired: bool,
}

impl RunWatch<'_> {
    /// Processes one report.
    pub fn take_report(
        &mut self,
        payload: &[u8],
        whose: &Speaker<'_>,
        observer: &mut dyn Observer,
    ) -> ReportKind {
        let Speaker { name, rank, counters } = *whose;
        let (of_rank, control) = (rank.unwrap_or(0), self.ranks[rank.unwrap_or(0)].control);
        let mut heard = ReportKind::Other;
        let outcome = match serde_json::from_slice::<Report>(payload) {
            Ok(Report::Event(event)) => observer.event_of(of_rank, &event),
            Ok(Report::Progress(progress)) => {
                // The other ranks advance together with the first one.
                if of_rank == 0 {
                    observer.progress(&progress, control.roles().bottleneck());
                }
                Ok(())
            }
            Ok(Report::Note(line)) => {
                match rank.filter(|_| self.ranks.len() > 1) {
                    None => observer.note(&line),
                    Some(rank) => observer.note(&format!("rank {rank}: {line}")),
                }
                Ok(())
            }
            Ok(Report::Done(value)) => {
                heard = ReportKind::Done(value);
                Ok(())
            }
            Ok(Report::Failed { error, at }) => {
                heard = ReportKind::Failed;
                let follows = matches!(error, RuntimeError::PeerGone(_));
                let nearness = if follows { Nearness::Follows } else { Nearness::Failed };
                // A role that works for all ranks reports the rank whose batch it failed at.
                let whereabouts = match rank {
                    Some(_) => format!("the {name} failed {}", self.whereabouts(rank, counters)),
                    None => format!("the {name} failed"),
                };
                self.blame(nearness, at, error.of_role(&whereabouts));
                Ok(())
            }
            Err(error) => {
                Err(RuntimeError::failed(format!("a report of the {name} cannot be read: {error}")))
            }
        };
        if let Err(error) = outcome {
            self.blame(Nearness::Asked, since_boot(), error);
        }
        heard
    }

    /// Records the cause of the run's end, keeps the error nearest to the origin, and begins to end the run.
    pub fn blame(&mut self, nearness: Nearness, at: Duration, error: RuntimeError) {
        if nearness == Nearness::Follows && self.command.is_some() && self.done.is_some() {
            // This follows the successful end of the command, which its remaining processes notice too.
            return;
        }
        tracing::info!(?nearness, %error, "the run ends early");
        let nearer =
            |known: &EndCause| nearness > known.nearness || (nearness == known.nearness && at < known.at);
        if self.cause.as_ref().is_none_or(nearer) {
            self.cause = Some(EndCause { nearness, at, error });
        }
        self.wind_down();
    }

    /// Requests every role to return, and sets the deadline: short after a failure, longer otherwise, since a producer
    /// may have a large table to unpin.
    pub fn wind_down(&mut self) {
        (0..self.ranks.len()).for_each(|rank| self.wind_down_rank(rank));
    }

    /// Requests the roles of one rank to return, and sets their deadline.
    pub fn wind_down_rank(&mut self, rank: usize) {
        let grace = if self.cause.is_some() || self.interrupted.is_some() { GRACE } else { UNPINNING };
        let deadline = Instant::now() + grace;
        let rank = &mut self.ranks[rank];
        rank.control.set_stop(Stop::Now);
        rank.deadline = Some(rank.deadline.map_or(deadline, |known| known.min(deadline)));
    }

    /// The times at which running roles of a rank are killed; the entry `None` is for roles that work for all ranks.
    pub fn deadlines(&self) -> impl Iterator<Item = (Option<usize>, Instant)> {
        deadlines(self.ranks.iter().map(|rank| rank.deadline).collect())
    }

    /// The batch that these counters of a rank are at. `None` for all ranks that still take batches.
    pub fn whereabouts(&self, rank: Option<usize>, counters: usize) -> String {
        let of = |rank: &WatchedRank<'_>| rank.plan.whereabouts(rank.control, counters);
        if let Some(rank) = rank {
            return of(&self.ranks[rank]);
        }
        let taking = self.ranks.iter().enumerate().filter(|(_, rank)| !rank.retired);
        let told: Vec<String> =
            taking.map(|(number, rank)| format!("{} of rank {number}", of(rank))).collect();
        told.join(" and ")
    }

    pub fn advice(&self) -> &'static str {
        if self.ranks[0].plan.checkpointed { "; `resume` continues from the last checkpoint" } else { "" }
    }

    pub fn verdict(self) -> Result<Value, RuntimeError> {
        match (self.interrupted, self.cause, self.done) {
            // A user's request explains all later events, except a failure that a role reported.
            (
                Some(signal),
                None | Some(EndCause { nearness: Nearness::Follows | Nearness::Died | Nearness::Asked, .. }),
                _,
            ) => Err(RuntimeError::Interrupted(signal)),
            (_, Some(cause), _) => Err(cause.error),
            (None, None, Some(done)) => Ok(done),
            (None, None, None) => Err(RuntimeError::failed("the consumer ended without a result")),
        }
    }
}

/// The deadlines of the ranks that have one. The entry `None` is for roles that work for all ranks: the last deadline,
/// once every rank has one.
fn deadlines(of_ranks: Vec<Option<Instant>>) -> impl Iterator<Item = (Option<usize>, Instant)> {
    let all: Option<Vec<Instant>> = of_ranks.iter().copied().collect();
    let last = all.into_iter().flatten().max().map(|deadline| (None, deadline));
    of_ranks.into_iter().enumerate().filter_map(|(rank, deadline)| Some((Some(rank), deadline?))).chain(last)
}

/// The kind of a report, as far as it concerns its sender's state.
pub(super) enum ReportKind {
    /// It has finished, with this result.
    Done(Value),
    /// It reported its failure.
    Failed,
    Other,
}

/// The sender of a report.
pub(super) struct Speaker<'a> {
    pub name: &'a str,
    /// The rank whose batches it prepares or takes; `None` for all ranks.
    pub rank: Option<usize>,
    /// The index of its counters on the control page.
    pub counters: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_that_work_for_all_ranks_are_ended_with_the_last_one() {
        let now = Instant::now();
        let later = now + GRACE;
        let of = |ranks: &[Option<Instant>]| deadlines(ranks.to_vec()).collect::<Vec<_>>();
        assert_eq!(of(&[None, None]), []);
        assert_eq!(of(&[Some(now), None]), [(Some(0), now)]);
        assert_eq!(of(&[Some(later), Some(now)]), [(Some(0), later), (Some(1), now), (None, later)]);
    }
}

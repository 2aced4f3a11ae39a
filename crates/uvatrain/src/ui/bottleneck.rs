//! Finds a run's bottleneck from how its roles spent their time. The report and a run's last lines share this rule.

use uva_runtime::telemetry::metrics::{RoleTimes, Roles};

/// The role that trains, of sampler, producer and consumer.
const CONSUMER: usize = 2;
const PRODUCER: usize = 1;
/// The role that samples, or the workers.
const SAMPLER: usize = 0;

/// The times of a role over the whole run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoleSum {
    pub processes: usize,
    /// Seconds working, waiting for input, waiting for output.
    pub seconds: [f64; 3],
    /// Unknown for a run without an end.
    pub peak_memory: Option<u64>,
}

impl RoleSum {
    /// A role's sums from the run's end.
    pub fn of(times: &RoleTimes) -> RoleSum {
        RoleSum {
            processes: times.processes,
            seconds: [times.working_s, times.waiting_input_s, times.waiting_output_s],
            peak_memory: Some(times.peak_rss_bytes).filter(|bytes| *bytes > 0),
        }
    }

    /// Sampler, producer and consumer. Workers count as the sampler, and the producer is then empty.
    pub fn of_all(roles: &Roles) -> [RoleSum; 3] {
        [&roles.sampler, &roles.producer, &roles.consumer].map(RoleSum::of)
    }

    /// The share of the role's time in which it worked.
    pub fn working(&self) -> f64 {
        self.share(0)
    }

    /// The share of the role's time in one of the three activities.
    pub fn share(&self, doing: usize) -> f64 {
        let whole: f64 = self.seconds.iter().sum();
        if whole > 0.0 { self.seconds[doing] / whole } else { 0.0 }
    }
}

/// The role that worked the largest share of its time; `None` where none did anything.
pub fn bottleneck(sums: &[RoleSum; 3]) -> Option<usize> {
    let busiest = (0..3).max_by(|a, b| sums[*a].working().total_cmp(&sums[*b].working()))?;
    (sums[busiest].working() > 0.0).then_some(busiest)
}

/// A run's bottleneck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldUpBy {
    /// The others wait for this role.
    Role(usize),
    /// No role worked all the time; this one worked most.
    None(usize),
    /// Batches were ready and were not taken: no stage was the bottleneck. This role worked most.
    Elsewhere(usize),
}

/// The bottleneck of a run whose roles have these sums; `None` if no role did anything.
pub fn held_up_by(sums: &[RoleSum; 3]) -> Option<HeldUpBy> {
    let busiest = bottleneck(sums)?;
    Some(if sums[busiest].working() >= 0.6 {
        HeldUpBy::Role(busiest)
    } else if sums[before_consumer(sums)].share(2) > 0.5 {
        // The slots before the consumer are full, but the consumer is not busy.
        HeldUpBy::Elsewhere(busiest)
    } else {
        HeldUpBy::None(busiest)
    })
}

/// The role that hands over to the consumer: a producer, or workers.
fn before_consumer(sums: &[RoleSum; 3]) -> usize {
    if sums[PRODUCER].processes == 0 { SAMPLER } else { PRODUCER }
}

/// The next number of `--train-threads` to try, if a run on the CPU waited for a built-in model with `threads`.
pub fn more_train_threads(held_up_by: HeldUpBy, threads: u64) -> Option<u64> {
    (held_up_by == HeldUpBy::Role(CONSUMER)).then(|| threads.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roles that worked for these numbers of seconds out of ten. The producer waited for output as long as given.
    fn sums(working: [f64; 3], for_output: f64) -> [RoleSum; 3] {
        std::array::from_fn(|role| {
            let output = if role == PRODUCER { for_output } else { 0.0 };
            let seconds = [working[role], 10.0 - working[role] - output, output];
            RoleSum { processes: 1, seconds, peak_memory: None }
        })
    }

    #[test]
    fn a_role_holds_a_run_up_where_it_works_most_of_the_time() {
        assert_eq!(held_up_by(&sums([9.0, 1.0, 5.0], 0.0)), Some(HeldUpBy::Role(0)));
        assert_eq!(held_up_by(&sums([1.0, 1.0, 6.0], 8.0)), Some(HeldUpBy::Role(CONSUMER)));
        assert_eq!(held_up_by(&sums([1.0, 1.0, 5.9], 8.0)), Some(HeldUpBy::Elsewhere(CONSUMER)));
        assert_eq!(held_up_by(&sums([1.0, 1.0, 5.9], 5.0)), Some(HeldUpBy::None(CONSUMER)));
        assert_eq!(held_up_by(&sums([0.0; 3], 0.0)), None);
    }

    #[test]
    fn threads_are_for_training_that_the_others_wait_for() {
        assert_eq!(more_train_threads(HeldUpBy::Role(CONSUMER), 3), Some(4));
        for other in [HeldUpBy::Role(0), HeldUpBy::Role(1), HeldUpBy::None(2), HeldUpBy::Elsewhere(2)] {
            assert_eq!(more_train_threads(other, 3), None, "{other:?}");
        }
    }
}

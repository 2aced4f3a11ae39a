//! The time of the roles: work, and waits for input and for output slots.

use serde::{Deserialize, Serialize};

/// The roles' times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Roles {
    /// The samplers; times are means over their processes. In a run whose workers prepare whole batches, the workers: they
    /// work while they sample and while they gather.
    pub sampler: RoleTimes,
    /// The producer. A run with workers has no producer, and reports 0 processes.
    pub producer: RoleTimes,
    /// The consumer.
    pub consumer: RoleTimes,
}

impl Roles {
    /// Names and times of the present roles, in the order in which a batch passes through them.
    pub fn each(&self) -> Vec<(&'static str, &RoleTimes)> {
        let consumer = ("consumer", &self.consumer);
        if self.are_of_workers() {
            return vec![("worker", &self.sampler), consumer];
        }
        vec![("sampler", &self.sampler), ("producer", &self.producer), consumer]
    }

    /// Whether workers prepare whole batches.
    pub fn are_of_workers(&self) -> bool {
        self.producer.processes == 0
    }

    /// The times since an earlier reading of the same run.
    pub fn since(&self, before: &Roles) -> Roles {
        Roles {
            sampler: self.sampler.since(&before.sampler),
            producer: self.producer.since(&before.producer),
            consumer: self.consumer.since(&before.consumer),
        }
    }

    /// The role with the largest share of working time: the others wait for it.
    pub fn bottleneck(&self) -> &'static str {
        let mut busiest = ("consumer", -1.0);
        for (name, times) in self.each() {
            if times.busy() > busiest.1 {
                busiest = (name, times.busy());
            }
        }
        busiest.0
    }
}

/// A role's time totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoleTimes {
    /// Processes, or threads in process.
    pub processes: usize,
    /// Seconds at work.
    pub working_s: f64,
    /// Seconds waiting for input.
    pub waiting_input_s: f64,
    /// Seconds waiting for a slot for its output.
    pub waiting_output_s: f64,
    /// Largest resident set of any of its processes, in bytes. For roles that are threads, that of the whole process.
    pub peak_rss_bytes: u64,
}

impl RoleTimes {
    fn since(&self, before: &RoleTimes) -> RoleTimes {
        RoleTimes {
            working_s: self.working_s - before.working_s,
            waiting_input_s: self.waiting_input_s - before.waiting_input_s,
            waiting_output_s: self.waiting_output_s - before.waiting_output_s,
            ..*self
        }
    }

    /// Share of its time at work, 0 to 1.
    pub fn busy(&self) -> f64 {
        let whole = self.working_s + self.waiting_input_s + self.waiting_output_s;
        if whole > 0.0 { self.working_s / whole } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_since_a_reading_omit_earlier_ones_and_may_move_the_bottleneck() {
        let role = |working_s, waiting_input_s| RoleTimes {
            processes: 1,
            working_s,
            waiting_input_s,
            waiting_output_s: 0.5,
            peak_rss_bytes: 7,
        };
        let of = |producer| Roles { sampler: role(1.0, 0.0), producer, consumer: role(0.0, 9.0) };
        let (before, after) = (of(role(0.25, 4.0)), of(role(3.25, 4.0)));
        assert_eq!(after.bottleneck(), "sampler");
        let since = after.since(&before);
        assert_eq!(since.producer, RoleTimes { waiting_output_s: 0.0, ..role(3.0, 0.0) });
        assert_eq!((since.bottleneck(), since.producer.busy()), ("producer", 1.0));
    }
}

//! The spread of the times of batches.

use std::time::Duration;

use serde::Serialize;

/// The shortest, the median and the longest time, in milliseconds; zeros if there was none.
#[derive(Serialize, Clone, Copy)]
pub struct Spread {
    pub min: f64,
    pub median: f64,
    pub max: f64,
}

impl Spread {
    /// The spread of these times.
    pub fn of_ms(times: impl Iterator<Item = Duration>) -> Spread {
        let mut times: Vec<f64> = times.map(|time| time.as_secs_f64() * 1e3).collect();
        times.sort_by(f64::total_cmp);
        let at = |index: usize| times.get(index).copied().unwrap_or(0.0);
        Spread { min: at(0), median: at(times.len() / 2), max: at(times.len().saturating_sub(1)) }
    }
}

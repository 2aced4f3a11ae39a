//! Batches of disjoint trees, and what a tree sees at the time of its seed.

use uva_options::named;

use crate::InvalidOption;

/// Batches in which each seed is the root of a tree. Trees have no nodes in common: a node that two seeds reach is two
/// nodes of the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trees {
    /// What a tree sees of the graph; `None`: all of it.
    pub time: Option<TimeLimit>,
}

/// Which entries of a list are visible at a time. Times are in the user's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TimeLimit {
    /// Visible entries, by their time and that of the seed.
    pub rule: TimeRule,
    /// The length of the time before the seed's in which entries are visible, 0 or more; `None`: any length.
    pub window: Option<i64>,
    /// Which of the visible entries are picked.
    pub pick: TimePick,
}

named! {
    /// The visible entries of a list, by their time τ and the seed's time T. Entries without a time are always visible.
    pub enum TimeRule = UntilSeed {
        /// Edges not later than the seed. With a window they are less than its length older.
        UntilSeed = "until-seed",
        /// Edges earlier than the seed. With a window they are at most its length older.
        BeforeSeed = "before-seed",
        /// Edges not later than the edge that led to their node, or at a seed than the seed. A window is as with until-seed.
        Decreasing = "decreasing",
    }
}

named! {
    /// The picks from the visible entries of a list.
    pub enum TimePick = Uniform {
        /// As the kind of sampler picks from a list of these entries.
        Uniform = "uniform",
        /// The latest. Of entries with equal times, those later in the list are later.
        Last = "last",
    }
}

impl TimeLimit {
    /// Checks the window.
    pub(crate) fn check(&self) -> Result<(), InvalidOption> {
        match self.window {
            Some(window) if window < 0 => Err(InvalidOption::TimeWindow { window }),
            _ => Ok(()),
        }
    }

    /// Whether a node found twice in a tree is two nodes if the entries that lead to it have different times. Only then
    /// is every path of a decreasing tree decreasing.
    pub(crate) fn splits_nodes(&self) -> bool {
        self.rule == TimeRule::Decreasing
    }

    /// The visible ones of `entries` ascending times, in a tree with a seed of time `seed`, from a node that sees times
    /// up to `limit`. `limit` counts for decreasing trees only.
    #[inline]
    pub(crate) fn visible(
        &self,
        entries: usize,
        time: impl Fn(usize) -> i64,
        (seed, limit): (i64, i64),
    ) -> std::ops::Range<usize> {
        let is_before_end = |at: usize| match self.rule {
            TimeRule::UntilSeed => time(at) <= seed,
            TimeRule::BeforeSeed => time(at) < seed,
            TimeRule::Decreasing => time(at) <= limit,
        };
        // Often the whole list is visible, which one read shows.
        let end = match entries.checked_sub(1) {
            Some(last) if !is_before_end(last) => count_first(last, is_before_end),
            _ => entries,
        };
        // Without a first time, or if it is below every int64, the window has no begin.
        let Some(from) = self.window.and_then(|window| seed.checked_sub(window)) else { return 0..end };
        let begin = count_first(end, |at| match self.rule {
            TimeRule::BeforeSeed => time(at) < from,
            TimeRule::UntilSeed | TimeRule::Decreasing => time(at) <= from,
        });
        begin..end
    }
}

/// The number of positions, of `count`, at which `holds` is true. It is true for these and false for all later ones.
#[inline]
fn count_first(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut first, mut rest) = (0, count);
    while rest > 0 {
        let half = rest / 2;
        if holds(first + half) {
            first += half + 1;
            rest -= half + 1;
        } else {
            rest = half;
        }
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The visible entries by the definition, one entry after the other, in numbers that do not overflow.
    fn by_definition(limit: &TimeLimit, times: &[i64], seed: i64, of_node: i64) -> Vec<usize> {
        let from = limit.window.map(|window| i128::from(seed) - i128::from(window));
        let is_visible = |time: i64| {
            let (tau, seed) = (i128::from(time), i128::from(seed));
            match limit.rule {
                TimeRule::UntilSeed => tau <= seed && from.is_none_or(|from| from < tau),
                TimeRule::BeforeSeed => tau < seed && from.is_none_or(|from| from <= tau),
                TimeRule::Decreasing => time <= of_node && from.is_none_or(|from| from < tau),
            }
        };
        (0..times.len()).filter(|at| is_visible(times[*at])).collect()
    }

    #[test]
    fn visible_entries_are_those_of_the_definition() {
        let times = [i64::MIN, i64::MIN + 1, -3, -3, 0, 0, 0, 1, 5, 5, 9, i64::MAX - 1, i64::MAX, i64::MAX];
        let around = [i64::MIN, i64::MIN + 1, -4, -3, -2, 0, 1, 4, 5, 6, i64::MAX - 1, i64::MAX];
        let windows = [None, Some(0), Some(1), Some(3), Some(9), Some(i64::MAX - 1), Some(i64::MAX)];
        let mut compared = 0;
        for rule in [TimeRule::UntilSeed, TimeRule::BeforeSeed, TimeRule::Decreasing] {
            for (window, seed, of_node) in windows
                .into_iter()
                .flat_map(|window| around.map(|seed| (window, seed)))
                .flat_map(|(window, seed)| around.map(|of_node| (window, seed, of_node)))
            {
                let limit = TimeLimit { rule, window, pick: TimePick::Uniform };
                for begin in 0..=times.len() {
                    for end in begin..=times.len() {
                        let list = &times[begin..end];
                        let found = limit.visible(list.len(), |at| list[at], (seed, of_node));
                        assert_eq!(
                            found.collect::<Vec<_>>(),
                            by_definition(&limit, list, seed, of_node),
                            "{limit:?}, {list:?}, seed at {seed}, limit {of_node}"
                        );
                        compared += 1;
                    }
                }
            }
        }
        assert_eq!(compared, 3 * 7 * 12 * 12 * 120);
    }
}

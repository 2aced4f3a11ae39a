//! Axes with round ticks, and numbers as they stand beside them.

use crate::ui::format;

/// An axis from one number to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    pub from: f64,
    pub to: f64,
    pub ticks: Vec<f64>,
    step: f64,
    percent: bool,
}

impl Axis {
    /// From a tick below the least to one above the largest, about so many in all.
    pub fn around(least: f64, most: f64, about: usize) -> Self {
        let (least, most) = widened(least, most);
        let step = round_step((most - least) / about.max(1) as f64);
        Self::between((least / step).floor() * step, (most / step).ceil() * step, step)
    }

    /// From one number exactly to the other, with ticks between.
    pub fn exactly(from: f64, to: f64, about: usize) -> Self {
        let (from, to) = widened(from, to);
        Self::between(from, to, round_step((to - from) / about.max(1) as f64))
    }

    /// The same with ticks at whole numbers only.
    pub fn of_whole_numbers(from: f64, to: f64, about: usize) -> Self {
        let (from, to) = widened(from, to);
        Self::between(from, to, round_step((to - from) / about.max(1) as f64).max(1.0))
    }

    /// From nothing to all, in percent.
    pub fn of_shares() -> Self {
        Self::between(0.0, 1.0, 0.25).in_percent()
    }

    /// Its numbers are shares, told as percent.
    pub fn in_percent(mut self) -> Self {
        self.percent = true;
        self
    }

    fn between(from: f64, to: f64, step: f64) -> Self {
        let first = (from / step - 1e-6).ceil();
        let count = ((to - from) / step + 1e-6).floor().min(50.0) as usize;
        let ticks = (0..=count)
            .map(|index| (first + index as f64) * step)
            .filter(|tick| *tick <= to + 1e-6 * step)
            // A zero that came out of a subtraction has no sign.
            .map(|tick| if tick.abs() < 1e-9 * step { 0.0 } else { tick })
            .collect();
        Self { from, to, ticks, step, percent: false }
    }

    /// Where a number lies on it, from 0 to 1.
    pub fn place(&self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }

    /// A number as a tick of this axis is told.
    pub fn label(&self, value: f64) -> String {
        if self.percent {
            return format!("{} %", with_decimals(100.0 * value, decimals(100.0 * self.step)));
        }
        let (unit, name) = match self.from.abs().max(self.to.abs()) {
            size if size >= 1e10 => (1e9, " G"),
            size if size >= 1e7 => (1e6, " M"),
            size if size >= 1e4 => (1e3, " k"),
            _ => (1.0, ""),
        };
        if value == 0.0 {
            return "0".to_owned();
        }
        format!("{}{name}", with_decimals(value / unit, decimals(self.step / unit)))
    }
}

/// Numbers that are one are given room; what is no number is none.
fn widened(least: f64, most: f64) -> (f64, f64) {
    match (least, most) {
        _ if !least.is_finite() || !most.is_finite() => (0.0, 1.0),
        _ if most - least > 1e-9 * least.abs().max(most.abs()) => (least, most),
        _ if least == 0.0 => (0.0, 1.0),
        _ => (least - 0.1 * least.abs(), least + 0.1 * least.abs()),
    }
}

/// The next of 1, 2, 2.5, 5 and 10 times a power of ten.
fn round_step(at_least: f64) -> f64 {
    let ten = 10f64.powf(at_least.log10().floor());
    let factors = [1.0, 2.0, 2.5, 5.0, 10.0];
    let factor = factors.into_iter().find(|factor| factor * ten >= at_least * (1.0 - 1e-9)).unwrap_or(10.0);
    let step = factor * ten;
    if step.is_finite() && step > 0.0 { step } else { 1.0 }
}

/// How many digits behind the point tell steps of this size apart.
fn decimals(step: f64) -> usize {
    (0..9)
        .find(|digits| {
            let scaled = step * 10f64.powi(*digits);
            (scaled - scaled.round()).abs() < 1e-6 * scaled.max(1e-9)
        })
        .unwrap_or(9) as usize
}

fn with_decimals(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    // As a word of its own, and not as a hyphen before it.
    text.strip_prefix('-').map_or_else(|| text.clone(), |rest| format!("−{rest}"))
}

/// The unit that a stretch of time is told in: its name, and how many microseconds it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeUnit {
    pub name: &'static str,
    pub microseconds: f64,
}

impl TimeUnit {
    /// For so many microseconds.
    pub fn of(microseconds: u64) -> Self {
        let (name, size) = match microseconds {
            0..500_000 => ("milliseconds", 1e3),
            500_000..300_000_000 => ("seconds", 1e6),
            300_000_000..10_800_000_000 => ("minutes", 60e6),
            _ => ("hours", 3600e6),
        };
        Self { name, microseconds: size }
    }
}

/// A stretch of time for a tooltip: `12.0 s to 14.0 s`.
pub fn stretch(from: f64, to: f64) -> String {
    format!("{} to {}", format::seconds(from / 1e6), format::seconds(to / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks.iter().map(|tick| axis.label(*tick)).collect()
    }

    #[test]
    fn ticks_are_round_and_no_more_than_fit() {
        assert_eq!(labels(&Axis::around(0.0, 63.2, 4)), ["0", "20", "40", "60", "80"]);
        assert_eq!(labels(&Axis::around(0.87, 1.77, 4)), ["0.75", "1.00", "1.25", "1.50", "1.75", "2.00"]);
        assert_eq!(labels(&Axis::exactly(0.0, 0.47, 5)), ["0", "0.1", "0.2", "0.3", "0.4"]);
        assert_eq!(labels(&Axis::exactly(130.0, 190.0, 4)), ["140", "160", "180"]);
        assert_eq!(labels(&Axis::of_whole_numbers(0.0, 3.0, 6)), ["0", "1", "2", "3"]);
        assert_eq!(labels(&Axis::of_shares()), ["0 %", "25 %", "50 %", "75 %", "100 %"]);
        assert_eq!(labels(&Axis::around(0.81, 0.82, 4).in_percent())[..2], ["81.00 %", "81.25 %"]);
        assert_eq!(labels(&Axis::around(-0.3, 0.3, 3)), ["−0.4", "−0.2", "0", "0.2", "0.4"]);
    }

    #[test]
    fn large_numbers_are_told_in_thousands_and_millions() {
        assert_eq!(labels(&Axis::around(0.0, 45_000.0, 4)), ["0", "20 k", "40 k", "60 k"]);
        assert_eq!(labels(&Axis::around(0.0, 3.0e7, 3)), ["0", "10 M", "20 M", "30 M"]);
        let narrow = Axis::exactly(390_100.0, 390_900.0, 4);
        assert_eq!(labels(&narrow), ["390.2 k", "390.4 k", "390.6 k", "390.8 k"]);
    }

    #[test]
    fn one_number_alone_and_none_have_an_axis_too() {
        for axis in [Axis::around(3.0, 3.0, 4), Axis::around(0.0, 0.0, 4), Axis::around(f64::NAN, 1.0, 4)] {
            assert!(axis.to > axis.from && axis.ticks.len() > 1, "{axis:?}");
        }
        assert!(Axis::exactly(0.0, 1e300, 4).ticks.len() < 60);
        assert_eq!(Axis::around(0.0, 4.0, 4).place(3.0), 0.75);
    }

    #[test]
    fn time_is_told_in_the_unit_that_fits() {
        assert_eq!(TimeUnit::of(20_000).name, "milliseconds");
        assert_eq!(TimeUnit::of(90_000_000).name, "seconds");
        assert_eq!(TimeUnit::of(7_200_000_000).name, "minutes");
        assert_eq!(TimeUnit::of(u64::MAX).name, "hours");
        assert_eq!(stretch(2e6, 4.5e6), "2.00 s to 4.50 s");
    }
}

//! The options that only some generators take.

/// An option that only some generators take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeOption {
    /// [`ShapeOptions::homophily`].
    Homophily,
    /// [`ShapeOptions::probabilities`].
    Probabilities,
    /// [`ShapeOptions::quadrants`].
    Quadrants,
    /// [`ShapeOptions::noise`].
    Noise,
}

impl ShapeOption {
    /// The option as it is called on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            ShapeOption::Homophily => "--homophily",
            ShapeOption::Probabilities => "--p-in",
            ShapeOption::Quadrants => "--quadrants",
            ShapeOption::Noise => "--noise",
        }
    }
}

/// The options that only some generators take; `None` leaves the default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShapeOptions {
    /// Share of edges within a class.
    pub homophily: Option<f64>,
    /// The probability of an edge within a class, and of one between two.
    pub probabilities: Option<[f64; 2]>,
    /// The probabilities of R-MAT's quadrants.
    pub quadrants: Option<[f64; 4]>,
    /// How far R-MAT's quadrants may be off at a level.
    pub noise: Option<f64>,
}

impl ShapeOptions {
    /// The options that are given.
    pub(super) fn given(&self) -> impl Iterator<Item = ShapeOption> {
        [
            (ShapeOption::Homophily, self.homophily.is_some()),
            (ShapeOption::Probabilities, self.probabilities.is_some()),
            (ShapeOption::Quadrants, self.quadrants.is_some()),
            (ShapeOption::Noise, self.noise.is_some()),
        ]
        .into_iter()
        .filter_map(|(option, given)| given.then_some(option))
    }
}

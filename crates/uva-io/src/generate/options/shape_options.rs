//! The options specific to some generators.

/// The options specific to some generators; `None` keeps the default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShapeOptions {
    /// Share of edges within a class.
    pub homophily: Option<f64>,
    /// The probability of an edge within a class, and of one between two.
    pub probabilities: Option<[f64; 2]>,
    /// The probabilities of R-MAT's quadrants.
    pub quadrants: Option<[f64; 4]>,
    /// Maximum deviation of R-MAT's quadrants at a level.
    pub noise: Option<f64>,
    /// Whether a type that could have features has none.
    pub featureless: bool,
}

impl ShapeOptions {
    /// The names of the given options.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("homophily", self.homophily.is_some()),
            ("p_in", self.probabilities.is_some()),
            ("quadrants", self.quadrants.is_some()),
            ("noise", self.noise.is_some()),
            ("featureless", self.featureless),
        ];
        all.into_iter().filter_map(|(name, given)| given.then_some(name))
    }
}

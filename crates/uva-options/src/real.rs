//! Real numbers within bounds.

/// The bounds of a real number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Real {
    /// From 0 to below 1.
    Probability,
    /// Above 0.
    Positive,
    /// 0 or more.
    NotNegative,
}

impl Real {
    /// The values within the bounds, for the documentation.
    #[must_use]
    pub fn range(self) -> &'static str {
        match self {
            Self::Probability => "from 0 to below 1",
            Self::Positive => "above 0",
            Self::NotNegative => "0 or more",
        }
    }

    /// Reads a number within the bounds.
    ///
    /// # Errors
    /// The reason for a refusal.
    pub fn read(self, text: &str) -> Result<f64, String> {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        let number = number.ok_or_else(|| format!("'{text}' is not a finite number"))?;
        let within = match self {
            Self::Probability => (0.0..1.0).contains(&number),
            Self::Positive => number > 0.0,
            Self::NotNegative => number >= 0.0,
        };
        if within { Ok(number) } else { Err(format!("{number} is not {}", self.range())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_numbers_within_the_bounds_are_read() {
        assert_eq!(Real::Probability.read("0"), Ok(0.0));
        assert_eq!(Real::Probability.read("1"), Err("1 is not from 0 to below 1".to_owned()));
        assert_eq!(Real::Positive.read("0"), Err("0 is not above 0".to_owned()));
        assert_eq!(Real::Positive.read("1e-9"), Ok(1e-9));
        assert_eq!(Real::NotNegative.read("-0.5"), Err("-0.5 is not 0 or more".to_owned()));
        for text in ["nan", "inf", "x", ""] {
            assert_eq!(Real::NotNegative.read(text), Err(format!("'{text}' is not a finite number")));
        }
    }
}

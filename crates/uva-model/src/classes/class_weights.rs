//! Weights of the classes in the cross-entropy loss.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uva_options::text_values;

/// How much a node of each class counts in the loss of training. In JSON `"balanced"`, or the array of weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClassWeights {
    /// The classes that occur in training contribute equally: class c has the weight `n / (k · n_c)` where `n_c` of `n`
    /// labelled training nodes have it, and `k` classes occur. A class that does not occur has the weight 0.
    Balanced,
    /// The weight of each class, a positive number.
    #[serde(untagged)]
    Given(Vec<f64>),
}

text_values!(ClassWeights);

impl ClassWeights {
    /// The weight of each of `classes` classes, where training nodes have these `labels`, -1 for none.
    ///
    /// # Panics
    /// If a label is not below `classes`.
    #[must_use]
    pub fn of_labels(&self, classes: usize, labels: impl IntoIterator<Item = i64>) -> Vec<f64> {
        match self {
            Self::Given(weights) => weights.clone(),
            Self::Balanced => {
                let mut counts = vec![0u64; classes];
                labels
                    .into_iter()
                    .filter_map(|label| usize::try_from(label).ok())
                    .for_each(|class| counts[class] += 1);
                let labelled = counts.iter().sum::<u64>() as f64;
                let occurring = counts.iter().filter(|&&count| count > 0).count() as f64;
                let weight = |count| if count > 0 { labelled / (occurring * count as f64) } else { 0.0 };
                counts.into_iter().map(weight).collect()
            }
        }
    }
}

impl fmt::Display for ClassWeights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Balanced => f.write_str("balanced"),
            Self::Given(weights) => {
                let weights: Vec<String> = weights.iter().map(f64::to_string).collect();
                f.write_str(&weights.join(","))
            }
        }
    }
}

impl FromStr for ClassWeights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "balanced" {
            return Ok(Self::Balanced);
        }
        let weight = |entry: &str| match entry.trim().parse::<f64>() {
            Ok(weight) if weight > 0.0 && weight.is_finite() => Ok(weight),
            _ => Err(format!("invalid weight '{entry}': expected a positive number")),
        };
        // A single word that is not a number is more likely a name than a weight.
        if !text.contains(',') && text.trim().parse::<f64>().is_err() {
            return Err(format!("invalid value '{text}': expected balanced, or one weight per class"));
        }
        text.split(',').map(weight).collect::<Result<_, _>>().map(Self::Given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balanced_weights_are_those_of_scikit_learn() {
        // compute_class_weight("balanced", classes=[0, 1, 3], y=[0, 0, 0, 1, 3, 3]): 6 / (3 * [3, 1, 2])
        let weights = ClassWeights::Balanced.of_labels(4, [0, 3, 0, -1, 1, 0, 3, -1]);
        assert_eq!(weights, [6.0 / 9.0, 2.0, 0.0, 1.0]);
    }

    #[test]
    fn text_and_json_of_weights_are_read_back() {
        for (text, json) in [("balanced", "\"balanced\""), ("1,0.5,20", "[1.0,0.5,20.0]")] {
            let weights: ClassWeights = text.parse().unwrap();
            assert_eq!(weights.to_string(), text);
            assert_eq!(serde_json::to_string(&weights).unwrap(), json);
            assert_eq!(serde_json::from_str::<ClassWeights>(json).unwrap(), weights);
        }
    }

    #[test]
    fn weights_that_are_not_positive_numbers_are_refused() {
        for (text, entry) in
            [("1,0", "'0'"), ("1,-2", "'-2'"), ("1,nan", "'nan'"), ("1,,2", "''"), ("inf", "'inf'")]
        {
            let refused = text.parse::<ClassWeights>().unwrap_err();
            assert!(refused.contains(&format!("invalid weight {entry}")), "{text}: {refused}");
        }
        assert!("balance".parse::<ClassWeights>().unwrap_err().contains("expected balanced"));
    }
}

//! Splits by a rule, for sources without splits, or instead of their own splits.

use uva_graph::{GraphError, mix};

/// Shares that add up to 1 in decimals need not in doubles.
const ROUNDING: f64 = 1e-9;

/// The division of nodes into training, validation and test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SplitRule {
    /// None: three empty splits.
    None,
    /// This many nodes of every class train, this many validate, all others with a label test (Shchur et al. 2018,
    /// "Pitfalls of Graph Neural Network Evaluation", §3: 20 and 30).
    PerClass {
        /// Training nodes per class.
        train: u32,
        /// Validation nodes per class.
        valid: u32,
    },
    /// Shares of the labelled nodes train, validate and test.
    Random {
        /// The training share.
        train: f64,
        /// The validation share.
        valid: f64,
        /// The test share; `None` for all others.
        test: Option<f64>,
        /// The key of the draw; `None` for that of the import.
        seed: Option<u64>,
    },
}

impl SplitRule {
    /// 20 and 30 a class.
    pub const PER_CLASS: SplitRule = SplitRule::PerClass { train: 20, valid: 30 };
    /// 60, 20 and 20 %.
    pub const RANDOM: SplitRule = SplitRule::Random { train: 0.6, valid: 0.2, test: None, seed: None };

    /// Parses `none`, `per-class`, `per-class:20,30`, `random`, `random:0.6,0.2`, `random:0.6,0.2,0.2` or
    /// `random:0.6,0.2,0.2,SEED`. Three shares are above 0, and shares add up to at most 1.
    pub fn from_text(text: &str) -> Option<SplitRule> {
        let (name, numbers) = text.split_once(':').unwrap_or((text, ""));
        let numbers: Vec<&str> = if name == text { Vec::new() } else { numbers.split(',').collect() };
        let share = |text: &str| text.parse::<f64>().ok();
        let (train, valid, test, seed) = match (name, numbers.as_slice()) {
            ("none", []) => return Some(SplitRule::None),
            ("per-class", []) => return Some(SplitRule::PER_CLASS),
            ("random", []) => return Some(SplitRule::RANDOM),
            ("per-class", [train, valid]) => {
                return Some(SplitRule::PerClass { train: train.parse().ok()?, valid: valid.parse().ok()? });
            }
            ("random", [train, valid]) => (share(train)?, share(valid)?, None, None),
            ("random", [train, valid, test]) => (share(train)?, share(valid)?, Some(share(test)?), None),
            ("random", [train, valid, test, seed]) => {
                (share(train)?, share(valid)?, Some(share(test)?), Some(seed.parse().ok()?))
            }
            _ => return None,
        };
        let positive = match test {
            Some(test) => train > 0.0 && valid > 0.0 && test > 0.0,
            None => train >= 0.0 && valid >= 0.0,
        };
        (positive && train + valid + test.unwrap_or(0.0) <= 1.0 + ROUNDING).then_some(SplitRule::Random {
            train,
            valid,
            test,
            seed,
        })
    }

    /// Its own key, or that of the import.
    fn seed(self, seed: u64) -> u64 {
        match self {
            SplitRule::Random { seed: Some(own), .. } => own,
            _ => seed,
        }
    }

    /// Its entry in `meta.json`.
    pub(super) fn describe(self, seed: u64) -> String {
        let seed = self.seed(seed);
        match self {
            SplitRule::None => "none".to_owned(),
            SplitRule::PerClass { train, valid } => format!("per-class:{train},{valid} seed {seed}"),
            SplitRule::Random { train, valid, test: None, .. } => {
                format!("random:{train},{valid} seed {seed}")
            }
            SplitRule::Random { train, valid, test: Some(test), .. } => {
                format!("random:{train},{valid},{test} seed {seed}")
            }
        }
    }

    /// The splits, each ascending. They depend on the seed, the labels and the nodes' ids alone. Unless nodes have one
    /// class each, `labels` is `None` and all of `nodes` are divided.
    pub(super) fn divide(
        self,
        nodes: usize,
        labels: Option<&[i64]>,
        seed: u64,
    ) -> Result<[Vec<i64>; 3], GraphError> {
        let mut splits = [Vec::new(), Vec::new(), Vec::new()];
        if self == SplitRule::None {
            return Ok(splits);
        }
        let seed = self.seed(seed);
        let key = |node: usize| mix(mix(seed ^ 0x5b11_7c05_0000_0001) ^ mix(node as u64));
        // In random order. Keys are distinct, because mixing is a bijection.
        let mut order: Vec<usize> =
            (0..nodes).filter(|&node| labels.is_none_or(|labels| labels[node] >= 0)).collect();
        order.sort_unstable_by_key(|&node| key(node));
        match (self, labels) {
            (SplitRule::PerClass { .. }, None) => {
                let message = "per-class requires one class a node: use random";
                return Err(GraphError::usage("split", message));
            }
            (SplitRule::PerClass { train, valid }, Some(labels)) => {
                let mut taken = std::collections::HashMap::new();
                for node in order {
                    let taken: &mut u64 = taken.entry(labels[node]).or_default();
                    let split = match *taken {
                        taken if taken < train.into() => 0,
                        taken if taken < u64::from(train) + u64::from(valid) => 1,
                        _ => 2,
                    };
                    *taken += 1;
                    splits[split].push(node as i64);
                }
            }
            (SplitRule::Random { train, valid, test, .. }, _) => {
                let count = order.len() as f64;
                // Rounded from the cumulative share, so that no node is left over if the shares add up to 1.
                let all = test.map_or(count, |test| (count * (train + valid + test)).round());
                let (train, both) = ((count * train).round(), (count * (train + valid)).round());
                for (place, node) in order.into_iter().enumerate() {
                    let place = place as f64;
                    let split = if place < train {
                        0
                    } else if place < both {
                        1
                    } else if place < all {
                        2
                    } else {
                        break;
                    };
                    splits[split].push(node as i64);
                }
            }
            (SplitRule::None, _) => {}
        }
        splits.iter_mut().for_each(|split| split.sort_unstable());
        Ok(splits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_nonsense_is_not() {
        assert_eq!(SplitRule::from_text("per-class"), Some(SplitRule::PerClass { train: 20, valid: 30 }));
        assert_eq!(SplitRule::from_text("per-class:5,0"), Some(SplitRule::PerClass { train: 5, valid: 0 }));
        let random = |train, valid, test, seed| Some(SplitRule::Random { train, valid, test, seed });
        assert_eq!(SplitRule::from_text("random"), random(0.6, 0.2, None, None));
        assert_eq!(SplitRule::from_text("random:0.5,0.5"), random(0.5, 0.5, None, None));
        assert_eq!(SplitRule::from_text("random:0.6,0.2,0.2"), random(0.6, 0.2, Some(0.2), None));
        assert_eq!(SplitRule::from_text("random:0.7,0.2,0.1,9"), random(0.7, 0.2, Some(0.1), Some(9)));
        assert_eq!(SplitRule::from_text("none"), Some(SplitRule::None));
        for text in [
            "",
            "planetoid",
            "random:0.9,0.2",
            "random:-0.1,0.2",
            "random:0.5",
            "none:1,2",
            "per-class:a,b",
            "random:",
            "random:0.6,0.2,0",
            "random:0,0.5,0.5",
            "random:0.6,0.2,0.3",
            "random:0.6,0.2,nan",
            "random:0.6,0.2,0.2,x",
            "random:0.6,0.2,0.2,-1",
            "random:0.1,0.1,0.1,1,1",
        ] {
            assert_eq!(SplitRule::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn every_labelled_node_is_in_one_split_and_another_seed_takes_others() {
        let labels: Vec<i64> = (0..1000).map(|node| node % 8 - 1).collect();
        for rule in [SplitRule::PER_CLASS, SplitRule::RANDOM] {
            let splits = rule.divide(1000, Some(&labels), 7).unwrap();
            let mut all = splits.concat();
            assert!(splits.iter().all(|split| split.is_sorted()));
            all.sort_unstable();
            assert!(all.iter().copied().eq((0..1000).filter(|node| node % 8 != 0)), "{rule:?}");
            assert_eq!(splits, rule.divide(1000, Some(&labels), 7).unwrap());
            assert_ne!(splits, rule.divide(1000, Some(&labels), 8).unwrap());
        }
    }

    #[test]
    fn per_class_takes_as_many_of_each_and_a_small_class_trains_first() {
        let mut labels = vec![0; 100];
        labels.extend([1; 25]);
        let [train, valid, test] = SplitRule::PER_CLASS.divide(125, Some(&labels), 0).unwrap();
        let of = |ids: &[i64], class: i64| ids.iter().filter(|&&id| labels[id as usize] == class).count();
        assert_eq!([of(&train, 0), of(&valid, 0), of(&test, 0)], [20, 30, 50]);
        assert_eq!([of(&train, 1), of(&valid, 1), of(&test, 1)], [20, 5, 0]);
        let error = SplitRule::PER_CLASS.divide(10, None, 0).unwrap_err();
        assert!(error.to_string().contains("`split`: per-class requires one class a node"), "{error}");
    }

    #[test]
    fn shares_are_those_requested() {
        let sizes = |rule: SplitRule| rule.divide(1001, None, 3).unwrap().map(|split| split.len());
        assert_eq!(sizes(SplitRule::RANDOM), [601, 200, 200]);
        let sizes_of = |text: &str| sizes(SplitRule::from_text(text).unwrap());
        assert_eq!(sizes_of("random:0.5,0.5"), [501, 500, 0]);
        assert_eq!(sizes_of("random:0.7,0.2,0.1"), [701, 200, 100]);
        assert_eq!(sizes_of("random:0.1,0.1,0.1"), [100, 100, 100]);
        let of_seed =
            |text: &str, seed| SplitRule::from_text(text).unwrap().divide(1001, None, seed).unwrap();
        assert_eq!(of_seed("random:0.5,0.2,0.3,8", 1), of_seed("random:0.5,0.2,0.3", 8));
    }
}

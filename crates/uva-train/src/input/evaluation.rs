//! The result of an evaluation, by batch or in total.

use uva_model::{ClassCounts, ClassScore, Metric};

/// The result of an evaluation. Results of several batches can be added.
///
/// The counted items are nodes for one class per node, single labels (nodes × classes) for several labels per node, and
/// numbers (nodes × columns) for regression.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    /// Loss summed over all labels.
    pub loss_sum: f64,
    /// Labelled nodes whose class had the largest logit. With several labels per node: correct labels, where a positive
    /// logit means yes. 0 for regression.
    pub correct: usize,
    /// Number of nodes with a label, of labels, or of numbers.
    pub labelled: usize,
    /// Labels and predictions by class, for one class per node.
    pub(crate) classes: ClassCounts,
    /// Every single prediction, if the metric requires them.
    pub(crate) scores: Scores,
    /// Sums of errors; `None` unless the task is regression.
    pub(crate) errors: Option<Errors>,
}

/// Errors of predictions, summed over all numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Errors {
    /// Squared errors.
    pub(crate) squared: f64,
    /// Absolute errors.
    pub(crate) absolute: f64,
}

impl Evaluation {
    /// Share of labels predicted correctly, or `None` without labels, or for regression.
    pub fn accuracy(&self) -> Option<f64> {
        (self.labelled > 0 && self.errors.is_none()).then(|| self.correct as f64 / self.labelled as f64)
    }

    /// The mean F1 of the classes that occur, or `None` without labels, or unless the task is one class a node.
    pub fn macro_f1(&self) -> Option<f64> {
        self.classes.macro_f1()
    }

    /// The scores of each class that occurs; empty unless the task is one class per node.
    pub fn of_classes(&self) -> Vec<ClassScore> {
        self.classes.scores()
    }

    /// Mean squared error, or `None` unless the task is regression.
    pub fn mse(&self) -> Option<f64> {
        self.errors.map(|errors| errors.squared / self.labelled as f64)
    }

    /// Mean absolute error, or `None` unless the task is regression.
    pub fn mae(&self) -> Option<f64> {
        self.errors.map(|errors| errors.absolute / self.labelled as f64)
    }

    /// Mean loss over all labels, or `None` without labels.
    pub fn mean_loss(&self) -> Option<f64> {
        (self.labelled > 0).then(|| self.loss_sum / self.labelled as f64)
    }

    /// The area under the ROC curve ([`Metric::RocAuc`]). `None` if the task uses another metric, if no class has both
    /// positive and negative nodes, or if an answer is NaN.
    pub fn roc_auc(&self) -> Option<f64> {
        self.scores.roc_auc()
    }

    /// The value of `metric`; `None` where it is not defined.
    pub fn judged_by(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Accuracy => self.accuracy(),
            Metric::RocAuc => self.roc_auc(),
            Metric::Mse => self.mse(),
            Metric::Mae => self.mae(),
        }
    }
}

impl std::ops::AddAssign for Evaluation {
    fn add_assign(&mut self, other: Self) {
        self.loss_sum += other.loss_sum;
        self.correct += other.correct;
        self.labelled += other.labelled;
        self.classes += other.classes;
        self.scores.extend(other.scores);
        self.errors = match (self.errors, other.errors) {
            (Some(a), Some(b)) => {
                Some(Errors { squared: a.squared + b.squared, absolute: a.absolute + b.absolute })
            }
            (a, b) => a.or(b),
        };
    }
}

/// Predictions with their labels: element i belongs to class i mod `classes`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Scores {
    /// Classes per node; 0 without predictions.
    classes: usize,
    /// A higher value means that the node is more likely to have the class.
    values: Vec<f32>,
    /// Whether the node has the class.
    positive: Vec<bool>,
}

impl Scores {
    /// `values` and `positive` are rows of `classes` each.
    pub(crate) fn new(classes: usize, values: Vec<f32>, positive: Vec<bool>) -> Self {
        debug_assert!(values.len() == positive.len() && values.len().is_multiple_of(classes));
        Self { classes, values, positive }
    }

    fn extend(&mut self, other: Self) {
        if self.values.is_empty() {
            *self = other;
        } else {
            self.values.extend(other.values);
            self.positive.extend(other.positive);
        }
    }

    fn roc_auc(&self) -> Option<f64> {
        if self.values.iter().any(|value| value.is_nan()) {
            return None;
        }
        let (mut sum, mut defined) = (0.0, 0);
        for class in 0..self.classes {
            let answers = self.values.iter().copied().zip(self.positive.iter().copied());
            if let Some(area) = area(answers.skip(class).step_by(self.classes).collect()) {
                sum += area;
                defined += 1;
            }
        }
        (defined > 0).then(|| sum / f64::from(defined))
    }
}

/// The area under the ROC curve of (score, positive), without NaN. It is the share of pairs of a positive and a
/// negative in which the positive scores higher, ties counting a half (Mann & Whitney). Pairs are counted in integers,
/// so the result is exact for any order. `None` without a pair.
fn area(mut answers: Vec<(f32, bool)>) -> Option<f64> {
    answers.sort_unstable_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal));
    let (mut halves, mut positives, mut negatives) = (0u128, 0u128, 0u128);
    for tied in answers.chunk_by(|a, b| a.0 == b.0) {
        let positive = tied.iter().filter(|answer| answer.1).count() as u128;
        let negative = tied.len() as u128 - positive;
        halves += positive * (2 * negatives + negative);
        positives += positive;
        negatives += negative;
    }
    let pairs = positives * negatives;
    (pairs > 0).then(|| halves as f64 / (2 * pairs) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of_one_class(answers: &[(f32, bool)]) -> Scores {
        Scores::new(1, answers.iter().map(|a| a.0).collect(), answers.iter().map(|a| a.1).collect())
    }

    #[test]
    fn a_perfect_order_has_area_one_its_reverse_zero_and_ties_a_half() {
        let order = |positive: [bool; 4]| {
            of_one_class(&[-1.0, 0.5, 2.0, 3.0].into_iter().zip(positive).collect::<Vec<_>>()).roc_auc()
        };
        assert_eq!(order([false, false, true, true]), Some(1.0));
        assert_eq!(order([true, true, false, false]), Some(0.0));
        assert_eq!(order([false, true, false, true]), Some(0.75));
        assert_eq!(of_one_class(&[(0.0, true), (-0.0, false)]).roc_auc(), Some(0.5));
        // scikit-learn's example: roc_auc_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]) is 0.75.
        assert_eq!(
            of_one_class(&[(0.1, false), (0.4, false), (0.35, true), (0.8, true)]).roc_auc(),
            Some(0.75)
        );
    }

    #[test]
    fn classes_that_all_nodes_have_or_none_has_are_left_out_of_the_mean() {
        let values = vec![0.1, 0.9, 5.0, 0.4, 0.3, 4.0, 0.35, 0.2, 6.0, 0.8, 0.1, 1.0];
        let positive = [[0, 1, 1], [0, 1, 1], [1, 0, 1], [1, 0, 1]].as_flattened().iter().map(|&p| p == 1);
        let scores = Scores::new(3, values, positive.collect());
        assert_eq!(scores.roc_auc(), Some((0.75 + 1.0) / 2.0));
        assert_eq!(of_one_class(&[(0.0, true), (1.0, true)]).roc_auc(), None);
        assert_eq!(Scores::default().roc_auc(), None);
        assert_eq!(of_one_class(&[(f32::NAN, true), (1.0, false), (0.0, true)]).roc_auc(), None);
    }

    proptest! {
        #[test]
        fn the_area_is_the_share_of_pairs_in_order_for_any_order_of_answers(
            answers in proptest::collection::vec((-3i8..3, any::<bool>()), 0..40), cut in 0usize..40,
        ) {
            let answers: Vec<(f32, bool)> = answers.iter().map(|a| (f32::from(a.0), a.1)).collect();
            let (mut halves, mut pairs) = (0, 0);
            for (higher, _) in answers.iter().filter(|answer| answer.1) {
                for (lower, _) in answers.iter().filter(|answer| !answer.1) {
                    halves += if higher > lower { 2 } else { i32::from(higher == lower) };
                    pairs += 1;
                }
            }
            let expected = (pairs > 0).then(|| f64::from(halves) / f64::from(2 * pairs));
            prop_assert_eq!(of_one_class(&answers).roc_auc(), expected);
            // In two batches, the second first.
            let (first, second) = answers.split_at(cut.min(answers.len()));
            let mut sum = Evaluation { scores: of_one_class(second), ..Evaluation::default() };
            sum += Evaluation { scores: of_one_class(first), ..Evaluation::default() };
            prop_assert_eq!(sum.roc_auc(), expected);
        }
    }
}

//! Prediction quality of each class.

use std::ops::AddAssign;

use serde::Serialize;

/// Counts of labels and predictions, with one class per node. Counts of several batches can be added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts(Vec<Counts>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Nodes with this label.
    labelled: u64,
    /// Labelled nodes that are predicted to be in this class.
    predicted: u64,
    /// Nodes with this label that are predicted to be in this class.
    correct: u64,
}

/// The prediction quality of a class. A quotient 0 / 0 is 0, as in scikit-learn with `zero_division=0`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassScore {
    /// The class.
    pub class: usize,
    /// Its name, if the dataset has names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Nodes with this label.
    pub nodes: u64,
    /// Share of the nodes predicted to be in the class that are in it.
    pub precision: f64,
    /// Share of the nodes in the class that are predicted to be in it.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
}

impl ClassCounts {
    /// Counts pairs of a label and a prediction, both below `classes`; a negative label means that the node has none.
    ///
    /// # Panics
    /// If a class is not below `classes`.
    #[must_use]
    pub fn of(classes: usize, answers: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let mut counts = vec![Counts::default(); classes];
        for (label, predicted) in answers {
            let Ok(label) = usize::try_from(label) else { continue };
            counts[label].labelled += 1;
            counts[predicted as usize].predicted += 1;
            counts[label].correct += u64::from(predicted as usize == label);
        }
        Self(counts)
    }

    /// The scores of the classes that occur among labels or predictions.
    #[must_use]
    pub fn scores(&self) -> Vec<ClassScore> {
        let share = |part: u64, whole: u64| if whole > 0 { part as f64 / whole as f64 } else { 0.0 };
        let occurring =
            self.0.iter().enumerate().filter(|(_, counts)| counts.labelled + counts.predicted > 0);
        let score = |(class, &Counts { labelled, predicted, correct }): (usize, &Counts)| ClassScore {
            class,
            name: None,
            nodes: labelled,
            precision: share(correct, predicted),
            recall: share(correct, labelled),
            f1: share(2 * correct, labelled + predicted),
        };
        occurring.map(score).collect()
    }

    /// The mean F1 of the classes that occur among labels or predictions; `None` without a label.
    #[must_use]
    pub fn macro_f1(&self) -> Option<f64> {
        let scores = self.scores();
        let sum = scores.iter().map(|score| score.f1).sum::<f64>();
        (!scores.is_empty()).then(|| sum / scores.len() as f64)
    }
}

impl AddAssign for ClassCounts {
    fn add_assign(&mut self, other: Self) {
        if self.0.is_empty() {
            *self = other;
            return;
        }
        for (own, more) in self.0.iter_mut().zip(other.0) {
            own.labelled += more.labelled;
            own.predicted += more.predicted;
            own.correct += more.correct;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Labels and predictions of the example, including two nodes without a label.
    const ANSWERS: [(i64, i64); 10] =
        [(0, 0), (0, 0), (0, 1), (0, 4), (1, 1), (1, 0), (3, 3), (3, 3), (-1, 2), (-1, 3)];

    #[test]
    fn scores_of_each_class_are_those_computed_by_hand() {
        let found: Vec<_> = ClassCounts::of(6, ANSWERS)
            .scores()
            .into_iter()
            .map(|score| (score.class, score.nodes, score.precision, score.recall, score.f1))
            .collect();
        // Class 2 is predicted only for a node without a label, and class 5 has no nodes.
        let expected = [
            (0, 4, 2.0 / 3.0, 0.5, 4.0 / 7.0),
            (1, 2, 0.5, 0.5, 0.5),
            (3, 2, 1.0, 1.0, 1.0),
            (4, 0, 0.0, 0.0, 0.0),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn macro_f1_is_the_mean_over_classes_that_occur_in_any_batches() {
        // f1_score([0, 0, 0, 0, 1, 1, 3, 3], [0, 0, 1, 4, 1, 0, 3, 3], average="macro"): 0.5178571428571428
        let whole = ClassCounts::of(6, ANSWERS);
        assert!((whole.macro_f1().unwrap() - 0.5178571428571428).abs() < 1e-15);
        let mut parts = ClassCounts::default();
        for part in ANSWERS.chunks(3) {
            parts += ClassCounts::of(6, part.iter().copied());
        }
        assert_eq!(parts, whole);
        assert_eq!(ClassCounts::default().macro_f1(), None);
        assert_eq!(ClassCounts::of(2, [(-1, 1)]).macro_f1(), None);
    }
}

//! How the nodes of the train split are chosen, and the draw by degree.

use std::collections::BinaryHeap;

use crate::generate::draws::random::{GeneratorPurpose, RandomStream};

/// How the nodes of the train split are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrainBy {
    /// By the shape: uniformly, or for citations among recent nodes of few fields.
    #[default]
    Shape,
    /// Drawn without replacement, with a probability proportional to the length of the node's list, as DUCATI (Zhang et
    /// al. 2023, section 6.1) does for graphs without a split. The other nodes are assigned to the other two splits
    /// uniformly.
    Degree,
}

impl TrainBy {
    /// The name as an option's value and in `meta.json`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shape => "shape",
            Self::Degree => "degree",
        }
    }
}

/// A draw of nodes without replacement, with probabilities proportional to their degrees.
///
/// A node's key is an exponential variate divided by its degree, and the nodes with the smallest keys are drawn
/// (Efraimidis and Spirakis 2006). Keys depend on seed and node alone. A node with an empty list is never drawn.
#[derive(Debug)]
pub(crate) struct DegreeDraw {
    seed: u64,
    wanted: usize,
    /// The smallest keys so far, as the bits of a positive double, which have its order. The largest is on top.
    smallest: BinaryHeap<(u64, u64)>,
}

impl DegreeDraw {
    /// A draw of `wanted` nodes.
    pub(crate) fn new(seed: u64, wanted: usize) -> DegreeDraw {
        DegreeDraw { seed, wanted, smallest: BinaryHeap::new() }
    }

    /// Bytes per drawn node during the draw: the heap's vector doubles.
    pub(crate) const BYTES: u64 = 2 * size_of::<(u64, u64)>() as u64;

    /// Adds a node of this degree to the draw.
    pub(crate) fn offer(&mut self, node: u64, degree: u64) {
        if degree == 0 || self.wanted == 0 {
            return;
        }
        let key =
            exponential(&mut RandomStream::new(self.seed, GeneratorPurpose::Split, node)) / degree as f64;
        let entry = (key.to_bits(), node);
        if self.smallest.len() < self.wanted {
            self.smallest.push(entry);
        } else if let Some(mut largest) = self.smallest.peek_mut()
            && entry < *largest
        {
            *largest = entry;
        }
    }

    /// The drawn nodes, ascending.
    pub(crate) fn finish(self) -> Vec<u64> {
        let mut nodes: Vec<u64> = self.smallest.into_iter().map(|(_, node)| node).collect();
        nodes.sort_unstable();
        nodes
    }
}

/// An exponential variate of mean 1 by comparisons of uniform variates only (von Neumann 1951), since a library's
/// logarithm may differ in its last bit between machines.
fn exponential(stream: &mut RandomStream) -> f64 {
    let mut whole = 0.0;
    loop {
        let first = stream.unit();
        let (mut last, mut falling) = (first, 1);
        loop {
            let next = stream.unit();
            if next >= last {
                break;
            }
            (last, falling) = (next, falling + 1);
        }
        // A falling run of odd length has probability 1/e^first.
        if falling % 2 == 1 {
            return whole + first;
        }
        whole += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_variates_have_mean_one_and_the_tail_of_an_exponential() {
        let draws: Vec<f64> = (0..100_000)
            .map(|key| exponential(&mut RandomStream::new(3, GeneratorPurpose::Split, key)))
            .collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        assert!((mean - 1.0).abs() < 0.015, "mean {mean}");
        for beyond in [0.5, 1.0, 2.0, 4.0] {
            let share = draws.iter().filter(|draw| **draw > beyond).count() as f64 / draws.len() as f64;
            let expected = (-beyond).exp();
            assert!((share - expected).abs() < 0.006, "beyond {beyond}: {share} for {expected}");
        }
    }

    #[test]
    fn a_draw_takes_the_requested_number_by_degree_and_never_an_empty_list() {
        // Of 40,000 nodes a quarter each has degree 0, 1, 4 and 16. 2 % are drawn, few enough that replacement has
        // little effect.
        let degrees = [0, 1, 4, 16];
        let mut draw = DegreeDraw::new(5, 800);
        (0..40_000).for_each(|node| draw.offer(node, degrees[node as usize % 4]));
        let drawn = draw.finish();
        assert_eq!(drawn.len(), 800);
        assert!(drawn.windows(2).all(|pair| pair[0] < pair[1]));
        let of = |class| drawn.iter().filter(|node| **node % 4 == class).count() as f64;
        assert_eq!(of(0), 0.0);
        for (class, share) in [(1, 1.0 / 21.0), (2, 4.0 / 21.0), (3, 16.0 / 21.0)] {
            let expected = 800.0 * share;
            assert!((of(class) - expected).abs() < 5.0 * f64::sqrt(expected), "{class}: {}", of(class));
        }
    }

    #[test]
    fn a_draw_of_more_nodes_than_have_a_list_takes_these() {
        let mut draw = DegreeDraw::new(0, 10);
        (0..8).for_each(|node| draw.offer(node, node % 2));
        assert_eq!(draw.finish(), [1, 3, 5, 7]);
        let mut none = DegreeDraw::new(0, 0);
        none.offer(1, 9);
        assert!(none.finish().is_empty());
    }
}

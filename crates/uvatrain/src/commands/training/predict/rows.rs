//! The node of each row of a prediction.

use uva_launch::training::InferenceNodes;

/// The nodes of the rows, in order. In a hop set, rows represent nodes.
#[derive(Clone)]
pub(super) struct PredictedNodes {
    nodes: InferenceNodes,
    count: usize,
}

impl PredictedNodes {
    /// `all` is the number of nodes.
    pub(super) fn new(nodes: &InferenceNodes, all: usize) -> Self {
        let count = match nodes {
            InferenceNodes::All => all,
            InferenceNodes::These(ids) => ids.len(),
        };
        Self { nodes: nodes.clone(), count }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The ids, at most `size` at a time.
    pub(super) fn pieces(&self, size: usize) -> impl Iterator<Item = Vec<i64>> {
        (0..self.count).step_by(size).map(move |first| {
            let last = self.count.min(first + size);
            match &self.nodes {
                InferenceNodes::All => (first as i64..last as i64).collect(),
                InferenceNodes::These(ids) => ids[first..last].to_vec(),
            }
        })
    }
}

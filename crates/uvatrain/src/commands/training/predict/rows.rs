//! The node of each row of a prediction.

use uva_launch::training::InferenceNodes;

/// The nodes of the rows, in their order. Of a hop set its rows stand for nodes.
#[derive(Clone)]
pub(super) struct PredictedNodes {
    nodes: InferenceNodes,
    count: usize,
}

impl PredictedNodes {
    /// `all`: how many nodes there are.
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

    /// Their ids, at most `size` at a time.
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

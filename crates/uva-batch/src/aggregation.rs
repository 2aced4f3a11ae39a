//! What the producer sums up before a batch is handed over.

use uva_options::named;

named! {
    /// The rows that a batch has in place of those of its outermost layer's sources.
    ///
    /// The first layer of some models begins with a sum that no trained parameter takes part in. Where the producer makes
    /// it, feature slots hold one row per destination, and no row for a node that is only summed. Blocks and ids are
    /// unchanged. docs/guide/aggregation.md has the formulas.
    pub enum Aggregation = None {
        /// No aggregation: batches have the rows of all their nodes.
        None = "none",
        /// The mean of each list, or its sum weighted by the sampler's weights; and the rows of the destinations.
        Mean = "mean",
        /// The unweighted sum of each list, also where the sampler has weights; and the rows of the destinations.
        Sum = "sum",
        /// The maximum of each column in each list, zeros for an empty list; and the rows of the destinations.
        Max = "max",
        /// The sum of a graph convolution, weighted by the degrees of both ends; it includes the destination's own row.
        Degrees = "gcn",
    }
}

impl Aggregation {
    /// Whether batches have the rows of the outermost layer's destinations in addition to the sums.
    #[must_use]
    pub fn keeps_own_rows(self) -> bool {
        matches!(self, Self::Mean | Self::Sum | Self::Max)
    }
}

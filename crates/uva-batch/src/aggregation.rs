//! What the producer sums up before a batch is handed over.

use uva_options::named;

named! {
    /// The rows that a batch has in place of those of its outermost layer's sources.
    ///
    /// The first layer of some models begins with a sum that no trained parameter takes part in. Where the producer makes
    /// it, feature slots hold a row a destination, and none for a node that is only summed. Blocks and ids stay as they
    /// are. docs/guide/aggregation.md has the formulas.
    pub enum Aggregation = None {
        /// Nothing: batches have the rows of all their nodes.
        None = "none",
        /// The mean of each list, or the sum by the sampler's weights; and the rows of the destinations themselves.
        Mean = "mean",
        /// The plain sum of each list, whatever the sampler's weights; and the rows of the destinations themselves.
        Sum = "sum",
        /// The largest value of each column in each list, zeros for an empty one; and the rows of the destinations
        /// themselves.
        Max = "max",
        /// A graph convolution's sum, by the degrees of both ends, which has the destination's own row in it.
        Degrees = "gcn",
    }
}

impl Aggregation {
    /// Whether batches have the rows of the outermost layer's destinations besides the sums.
    #[must_use]
    pub fn keeps_own_rows(self) -> bool {
        matches!(self, Self::Mean | Self::Sum | Self::Max)
    }
}

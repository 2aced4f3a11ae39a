//! The shape of a layer over a block, to compute its memory.

/// A layer's shape.
#[derive(Clone, Copy, Debug)]
pub struct LayerSize {
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
    /// Features of an edge; 0 if the model gets none.
    pub(crate) edge_dim: u64,
    /// Attention heads, for models that have them.
    pub(crate) heads: u64,
    /// Whether heads are averaged, each as wide as the result. Otherwise they are concatenated.
    pub(crate) averaged: bool,
}

impl LayerSize {
    /// Columns of all heads.
    pub(crate) fn of_all_heads(self) -> u64 {
        if self.averaged { product(&[self.heads, self.outputs]) } else { self.outputs }
    }
}

/// The product, saturating at 64 bits.
pub(crate) fn product(factors: &[u64]) -> u64 {
    factors.iter().copied().fold(1, u64::saturating_mul)
}

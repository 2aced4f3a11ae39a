//! The shape of a layer over a block, to compute its memory.

/// A layer's shape.
#[derive(Clone, Copy, Debug)]
pub struct LayerSize {
    pub(crate) inputs: u64,
    pub(crate) outputs: u64,
    /// Features of an edge, 0 where the model gets none.
    pub(crate) edge_dim: u64,
    /// Attention heads, where the model has them.
    pub(crate) heads: u64,
    /// Heads are averaged, each as wide as the result; else they stand side by side.
    pub(crate) averaged: bool,
}

impl LayerSize {
    /// Columns of all heads.
    pub(crate) fn of_all_heads(self) -> u64 {
        if self.averaged { product(&[self.heads, self.outputs]) } else { self.outputs }
    }
}

/// The product, or the largest number where 64 bits cannot count it.
pub(crate) fn product(factors: &[u64]) -> u64 {
    factors.iter().copied().fold(1, u64::saturating_mul)
}

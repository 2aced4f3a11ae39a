//! Trained rows in place of the features that a node type lacks.

use uva_options::named;

named! {
    /// How the rows of a table begin.
    pub enum EmbeddingInit = Xavier {
        /// Uniform in ±√(6 / (nodes + columns)), as Glorot and Bengio (2010).
        Xavier = "xavier",
        /// Normal with mean 0 and variance 1, as in torch.nn.Embedding.
        Normal = "normal",
    }
}

/// The table of a node type without features: a trained row for each of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingShape {
    /// The number of the node type.
    pub of_type: usize,
    /// Its name.
    pub name: String,
    /// Rows of the table: the nodes of the type.
    pub rows: usize,
    /// Elements of a row.
    pub columns: usize,
}

impl EmbeddingShape {
    /// Bytes of the table; `None` if they do not fit into the address space.
    #[must_use]
    pub fn bytes(&self) -> Option<usize> {
        let elements = self.rows.checked_mul(self.columns)?;
        elements.checked_mul(size_of::<f32>()).filter(|&bytes| bytes <= isize::MAX as usize)
    }
}

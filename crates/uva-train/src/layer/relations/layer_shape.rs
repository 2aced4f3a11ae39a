//! What a layer over relations is made for.

use uva_model::LayerWiring;

/// The relations, widths and names of a layer.
#[derive(Clone, Copy)]
pub(crate) struct LayerShape<'n> {
    pub(crate) wiring: &'n LayerWiring,
    /// Columns of each type's rows before it.
    pub(crate) widths: &'n [usize],
    /// Columns of all rows after it.
    pub(crate) outputs: usize,
    /// The names of the node types.
    pub(crate) types: &'n [&'n str],
    /// The names of the relations' parts in PyG, `<author___writes___paper>`.
    pub(crate) relations: &'n [String],
}

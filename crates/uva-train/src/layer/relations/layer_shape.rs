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
    /// The source type, the name and the destination type of each relation.
    pub(crate) relations: &'n [[String; 3]],
}

impl LayerShape<'_> {
    /// The name of a relation's part in PyG's modules, `<author___writes___paper>`.
    pub(crate) fn part(&self, relation: usize) -> String {
        format!("<{}>", self.relations[relation].join("___"))
    }
}

//! The sizes of models over relations.

use crate::layer_size::product;
use crate::network::{Network, NetworkForm};
use crate::relations::relation_model::{RelationModel, RelationShape, RootKind};

/// Layers over the relations of a batch.
pub(crate) const OVER_RELATIONS: NetworkForm = NetworkForm {
    layers_option: "fanouts",
    network: |shape| Network { others: shape.of_relations, ..Network::default() },
    kept: |_| 0,
};

/// GraphSAGE for each relation.
pub(crate) const RSAGE: RelationModel =
    RelationModel { has_roots: true, reads_own_rows: |root| root != RootKind::None, parameters: rsage };

/// A map of each relation's mean, with a bias; and the maps of the own rows.
fn rsage(&RelationShape { root, layer, widths, outputs }: &RelationShape<'_>) -> u64 {
    let map = |inputs: u64| product(&[inputs, outputs]);
    let with_bias = |inputs: u64| map(inputs).saturating_add(outputs);
    let of_means = layer.relations.iter().map(|of| with_bias(widths[of.source]));
    let of_roots: Vec<u64> = match root {
        RootKind::Relation => layer.relations.iter().map(|of| map(widths[of.destination])).collect(),
        RootKind::Type => layer.destinations.iter().map(|&of_type| with_bias(widths[of_type])).collect(),
        RootKind::None => Vec::new(),
    };
    of_means.chain(of_roots).fold(0, u64::saturating_add)
}

//! The models over relations: what each has, and the sizes of its layers.

use crate::layer_size::product;
use crate::network::{Network, NetworkForm};
use crate::relations::relation_model::{InputMaps, RelationModel, RelationShape, RelationWeights, RootKind};
use crate::relations::wiring::OwnRowUse;

/// Layers over the relations of a batch.
pub(crate) const OVER_RELATIONS: NetworkForm = NetworkForm {
    layers_option: "fanouts",
    network: |shape| Network { others: shape.of_relations, ..Network::default() },
    kept: |_| 0,
};

/// The largest number of relations into a node type for which each has its own map of a node's own row. With many, their
/// sum has too many parameters to learn.
const MOST_ROOTS: usize = 8;

/// GraphSAGE for each relation.
pub(crate) const RSAGE: RelationModel = RelationModel {
    roots: &[RootKind::Relation, RootKind::Type, RootKind::None],
    usual_root: |graph| {
        if graph.most_into_one_type() > MOST_ROOTS { RootKind::Type } else { RootKind::Relation }
    },
    has_relation_sum: true,
    has_shared_weights: false,
    input_maps: InputMaps::Never,
    has_output_map: false,
    own_rows: |root| if root == RootKind::None { OwnRowUse::Unread } else { OwnRowUse::Read },
    parameters: rsage,
};

/// R-GCN.
pub(crate) const RGCN: RelationModel = RelationModel {
    roots: &[RootKind::Shared, RootKind::Type],
    usual_root: |graph| if graph.types.len() > 1 { RootKind::Type } else { RootKind::Shared },
    has_relation_sum: false,
    has_shared_weights: true,
    input_maps: InputMaps::WhereUneven,
    has_output_map: false,
    own_rows: |_| OwnRowUse::Kept,
    parameters: rgcn,
};

/// GAT for each relation.
pub(crate) const RGAT: RelationModel = RelationModel {
    roots: &[],
    usual_root: |_| RootKind::Relation,
    has_relation_sum: false,
    has_shared_weights: false,
    input_maps: InputMaps::Never,
    has_output_map: true,
    own_rows: |_| OwnRowUse::Read,
    parameters: rgat,
};

/// A transformer over the entries of all relations.
pub(crate) const HGT: RelationModel = RelationModel {
    roots: &[],
    usual_root: |_| RootKind::Relation,
    has_relation_sum: false,
    has_shared_weights: false,
    input_maps: InputMaps::WithRelu,
    has_output_map: true,
    own_rows: |_| OwnRowUse::Read,
    parameters: hgt,
};

/// A map of each relation's mean, with a bias; and the maps of the own rows.
fn rsage(&RelationShape { root, layer, widths, outputs, .. }: &RelationShape<'_>) -> u64 {
    let map = |inputs: u64| product(&[inputs, outputs]);
    let with_bias = |inputs: u64| map(inputs).saturating_add(outputs);
    let of_means = layer.relations.iter().map(|of| with_bias(widths[of.source]));
    let of_roots: Vec<u64> = match root {
        RootKind::Relation => layer.relations.iter().map(|of| map(widths[of.destination])).collect(),
        RootKind::Type => layer.destinations.iter().map(|&of_type| with_bias(widths[of_type])).collect(),
        RootKind::Shared | RootKind::None => Vec::new(),
    };
    of_means.chain(of_roots).fold(0, u64::saturating_add)
}

/// The matrices of the relations, and the maps of the own rows with their biases. All rows are equally wide.
fn rgcn(&RelationShape { root, weights, layer, widths, outputs, .. }: &RelationShape<'_>) -> u64 {
    let inputs = layer.destinations.first().map_or(0, |&of_type| widths[of_type]);
    let (relations, matrix) = (layer.relations.len() as u64, product(&[inputs, outputs]));
    let of_relations = match weights {
        RelationWeights::Free => product(&[relations, matrix]),
        RelationWeights::Bases(bases) => product(&[bases as u64, matrix.saturating_add(relations)]),
        RelationWeights::Blocks(blocks) => product(&[relations, matrix / blocks.max(1) as u64]),
    };
    let roots = if root == RootKind::Type { layer.destinations.len() as u64 } else { 1 };
    of_relations.saturating_add(product(&[roots, matrix.saturating_add(outputs)]))
}

/// For each relation a map, a second one for destinations of another width, two vectors and a bias.
fn rgat(&RelationShape { layer, widths, outputs, .. }: &RelationShape<'_>) -> u64 {
    let of_relation = layer.relations.iter().map(|of| {
        let (source, own) = (widths[of.source], widths[of.destination]);
        let columns = if source == own { source } else { source.saturating_add(own) };
        product(&[columns.saturating_add(3), outputs])
    });
    of_relation.fold(0, u64::saturating_add)
}

/// For each type a map to keys, queries and values, one of what is attended to, and a share; for each relation two matrices
/// and a factor a head.
fn hgt(&RelationShape { heads, layer, widths, outputs, .. }: &RelationShape<'_>) -> u64 {
    let of_type = |of_type: usize| {
        let three = product(&[widths[of_type].saturating_add(1), outputs, 3]);
        three.saturating_add(product(&[outputs.saturating_add(1), outputs])).saturating_add(1)
    };
    let of_types = layer.types().into_iter().map(of_type).fold(0, u64::saturating_add);
    let of_relation = product(&[2, outputs, outputs / heads.max(1)]).saturating_add(heads);
    of_types.saturating_add(product(&[layer.relations.len() as u64, of_relation]))
}

//! The networks of models over a hop set, and the values that they keep for the backward pass.

use crate::layer_size::product;
use crate::network::{Network, NetworkForm, NetworkShape};

/// A linear map of one row per node: SGC, S²GC.
pub(crate) const LINEAR: NetworkForm = NetworkForm {
    layers_option: "layers",
    network: |shape| Network { linear: vec![(shape.inputs, shape.classes)], ..Network::default() },
    kept: |_| 0,
};

/// A linear map for each hop, and linear maps of all of them.
pub(crate) const SIGN: NetworkForm =
    NetworkForm { layers_option: "layers", network: sign, kept: kept_by_sign };

/// Attention between hops.
pub(crate) const HOGA: NetworkForm =
    NetworkForm { layers_option: "layers", network: hoga, kept: kept_by_hoga };

fn sign(shape: &NetworkShape) -> Network {
    let NetworkShape { hidden, inputs, classes, layers, hops, operators, .. } = *shape;
    let wide = product(&[hops.saturating_add(1), hidden]);
    let behind = (1..layers).map(|layer| {
        (if layer == 1 { wide } else { hidden }, if layer + 1 == layers { classes } else { hidden })
    });
    let linear = std::iter::once((inputs, hidden)).chain(behind).collect();
    let of_hop = product(&[operators, inputs]).saturating_add(1);
    let slopes = if shape.slopes { layers.saturating_sub(1) } else { 0 };
    let others = product(&[hops, of_hop, hidden]).saturating_add(slopes);
    Network { linear, others, ..Network::default() }
}

/// Linear maps without bias: one for each hop, five per layer, the scores of the readout, and two after it. Two maps of
/// a layer have a bias.
fn hoga(shape: &NetworkShape) -> Network {
    let NetworkShape { hidden, inputs, classes, layers, hops, .. } = *shape;
    let squares = product(&[5, layers]).saturating_add(1);
    let vectors = product(&[2, layers]).saturating_add(1);
    let maps = [
        &[hops.saturating_add(1), inputs, hidden][..],
        &[squares, hidden, hidden],
        &[vectors, hidden],
        &[hidden, classes],
    ];
    let others = maps.iter().map(|map| product(map)).fold(0, u64::saturating_add);
    let norms = vec![hidden; (layers as usize).saturating_add(1)];
    Network { norms, others, ..Network::default() }
}

/// The mapped rows of the hops, with their gradient; the input of each later linear map; and with several operators the
/// concatenated rows of a hop.
fn kept_by_sign(shape: &NetworkShape) -> u64 {
    let NetworkShape { hidden, inputs, layers, hops, operators, .. } = *shape;
    let behind = product(&[layers.saturating_sub(2), hidden]);
    let joined = if operators > 1 { product(&[hops, operators, inputs]) } else { 0 };
    product(&[2, hops.saturating_add(1), hidden]).saturating_add(behind).saturating_add(joined)
}

/// The mapped rows of the hops. For each layer: queries, keys and values, the attention's result, its mapped result, the
/// gate, the product, and the output of the ReLU. Then the shares of the hops.
fn kept_by_hoga(shape: &NetworkShape) -> u64 {
    let NetworkShape { hidden, layers, hops, heads, .. } = *shape;
    let rows = hops.saturating_add(1);
    let of_layer = product(&[8, rows, hidden]).saturating_add(product(&[heads, rows, rows]));
    product(&[rows, hidden]).saturating_add(layers.saturating_mul(of_layer))
}

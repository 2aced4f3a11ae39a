//! What sets models over hop sets apart from each other.

use uva_options::named;

/// A model over a hop set: each row is read alone, and no neighbour.
#[derive(Clone, Copy, Debug)]
pub struct HopModel {
    /// It reads the last hop alone.
    pub last_alone: bool,
    /// It takes hop sets of several operators.
    pub several_operators: bool,
    /// Its number of layers, where `--layers` chooses one.
    pub layers: Option<LayerCount>,
    /// It has attention between hops, and so takes `--heads`.
    pub has_heads: bool,
}

/// Numbers of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerCount {
    /// The least that make a model.
    pub least: usize,
    /// The default.
    pub usual: usize,
}

named! {
    /// The function between the layers of SIGN.
    pub enum ActivationKind = Relu {
        /// max(x, 0).
        Relu = "relu",
        /// x above 0, and x times a trained slope below 0; one slope per layer, initially 0.25.
        Prelu = "prelu",
    }
}

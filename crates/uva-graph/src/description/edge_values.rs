//! The arrays of a dataset with one value per edge, in one table from which everything else is derived.

use crate::npy::NpyType;

/// An array with one value per edge, in the order of the neighbour lists. All are optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EdgeValues {
    /// Edge weights.
    Weights,
    /// Edge types: the relation of each edge.
    Types,
}

/// The description of such an array.
#[derive(Clone, Copy, Debug)]
pub struct EdgeValuesSpec {
    /// The array.
    pub values: EdgeValues,
    /// Its file.
    pub file: &'static str,
    /// The name of its values in messages.
    pub name: &'static str,
    /// The name of one value.
    pub(crate) one: &'static str,
    /// The type of a value.
    pub kind: NpyType,
    /// Whether its values are float32 that have to be finite.
    pub(crate) finite: bool,
    /// Its tag in fingerprints and hashes. It never changes.
    pub(crate) tag: u8,
}

/// All arrays with one value per edge.
pub const EDGE_VALUES: [EdgeValuesSpec; 2] = [
    EdgeValuesSpec {
        values: EdgeValues::Weights,
        file: "weight.npy",
        name: "weights",
        one: "weight",
        kind: NpyType::F32,
        finite: true,
        tag: 8,
    },
    EdgeValuesSpec {
        values: EdgeValues::Types,
        file: "edge_type.npy",
        name: "edge types",
        one: "type",
        kind: NpyType::U16,
        finite: false,
        tag: 34,
    },
];

// The number of an array is its index in the table.
const _: () = {
    let mut at = 0;
    while at < EDGE_VALUES.len() {
        assert!(EDGE_VALUES[at].values as usize == at);
        at += 1;
    }
};

impl EdgeValues {
    /// Its description.
    #[must_use]
    pub const fn spec(self) -> &'static EdgeValuesSpec {
        &EDGE_VALUES[self as usize]
    }
}

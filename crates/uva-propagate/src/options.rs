//! The options of a hop set, and those of them that determine its bytes.

use serde::{Deserialize, Serialize};
use uva_graph::npy::NpyType;
use uva_graph::{ElementType, GraphError};
use uva_model::FeatureNorm;
use uva_options::named;

use crate::operator::Operator;

/// The most hops.
pub const MOST_HOPS: u32 = 64;

/// The most operators of a hop set.
pub const MOST_OPERATORS: usize = 64;

named! {
    /// The nodes whose rows are kept.
    pub enum KeptNodes = Splits {
        /// The nodes of the three splits.
        Splits = "splits",
        /// The nodes of the splits that have a label.
        Labelled = "labelled",
        /// The nodes of the splits, followed by all others.
        All = "all",
    }
}

named! {
    /// The element type of the stored rows. Sums are float32 in any case, and rounded to the nearest value when stored.
    pub enum HopType = F32 {
        /// IEEE 754 single precision.
        F32 = "f32",
        /// IEEE 754 half precision.
        F16 = "f16",
        /// The upper half of a float32, stored as uint16.
        Bf16 = "bf16",
    }
}

named! {
    /// Layout of the rows in files.
    pub enum Layout = Hops {
        /// One file per hop, [rows, features].
        Hops = "hops",
        /// One file, [rows, hops, features].
        Rows = "rows",
    }
}

named! {
    /// The order of the training rows.
    pub enum RowOrder = Shuffled {
        /// A random order, by the seed: consecutive rows are a uniform sample.
        Shuffled = "shuffled",
        /// The order of train_idx.npy.
        File = "file",
        /// Row i belongs to node i, in any split: for `train --first-layer`. All nodes have rows.
        Nodes = "nodes",
    }
}

impl HopType {
    /// Bytes of a value.
    pub fn bytes(self) -> usize {
        self.npy().bytes()
    }

    /// The type of its values.
    pub fn element(self) -> ElementType {
        match self {
            Self::F32 => ElementType::F32,
            Self::F16 => ElementType::F16,
            Self::Bf16 => ElementType::Bf16,
        }
    }

    /// The type of its arrays. `.npy` has no bfloat16, which is stored as uint16.
    pub fn npy(self) -> NpyType {
        match self {
            Self::F32 => NpyType::F32,
            Self::F16 => NpyType::F16,
            Self::Bf16 => NpyType::U16,
        }
    }
}

/// What to make, and with what.
#[derive(Clone, Debug)]
pub struct PropagateOptions {
    /// What features are multiplied by; each operator has hops of its own.
    pub operators: Vec<Operator>,
    /// How often each operator is applied: 1 to [`MOST_HOPS`].
    pub hops: u32,
    /// The nodes whose rows are kept.
    pub nodes: KeptNodes,
    /// The element type of the stored rows.
    pub element: HopType,
    /// Which rows lie side by side.
    pub layout: Layout,
    /// The order of the training rows.
    pub row_order: RowOrder,
    /// What a shuffled order is drawn by.
    pub seed: u64,
    /// Whether entries of the lists count by `weight.npy` instead of as 1 each.
    pub weighted: bool,
    /// How feature rows are normalised before the first hop.
    pub feature_norm: FeatureNorm,
    /// Bytes for tables and buffers. Mapped files do not count.
    pub memory: u64,
    /// Threads that sum.
    pub threads: usize,
}

impl PropagateOptions {
    /// Refuses what no graph could be multiplied by.
    pub(crate) fn check(&self) -> Result<(), GraphError> {
        if !(1..=MOST_HOPS).contains(&self.hops) {
            let message = format!("{} is not from 1 to {MOST_HOPS}", self.hops);
            return Err(GraphError::usage("hops", message));
        }
        if self.operators.is_empty() {
            return Err(GraphError::usage("operator", "give at least one"));
        }
        if self.operators.len() > MOST_OPERATORS {
            let message =
                format!("{} are given: a hop set has at most {MOST_OPERATORS}", self.operators.len());
            return Err(GraphError::usage("operator", message));
        }
        if self.threads == 0 {
            return Err(GraphError::usage("threads", "invalid value 0: expected 1 or more"));
        }
        if self.row_order == RowOrder::Nodes && self.nodes != KeptNodes::All {
            let message = "row i belongs to node i, so every node needs a row: give `nodes=all`";
            return Err(GraphError::usage("row_order=nodes", message));
        }
        Ok(())
    }
}

/// What decides the bytes of a hop set: the dataset, and every option but memory and threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Decisive {
    pub(crate) data: String,
    pub(crate) operators: Vec<String>,
    pub(crate) hops: u32,
    pub(crate) nodes: KeptNodes,
    pub(crate) element: HopType,
    pub(crate) layout: Layout,
    pub(crate) row_order: RowOrder,
    pub(crate) seed: u64,
    pub(crate) weighted: bool,
    pub(crate) feature_norm: FeatureNorm,
}

impl Decisive {
    /// Of a dataset with this fingerprint.
    pub(crate) fn of(options: &PropagateOptions, fingerprint: String) -> Decisive {
        Decisive {
            data: fingerprint,
            operators: options.operators.iter().map(Operator::to_string).collect(),
            hops: options.hops,
            nodes: options.nodes,
            element: options.element,
            layout: options.layout,
            row_order: options.row_order,
            // No other order draws by it.
            seed: if options.row_order == RowOrder::Shuffled { options.seed } else { 0 },
            weighted: options.weighted,
            feature_norm: options.feature_norm,
        }
    }

    /// Refuses to resume what was begun with `earlier`, which `place` names, unless all of it agrees.
    pub(crate) fn check_same(&self, earlier: &Decisive, place: &str) -> Result<(), GraphError> {
        let differs = |option: &str, now: &str, before: &str| {
            let message = format!(
                "it is {now} now, but {before} in {place}: use the same value, or remove that and start again"
            );
            Err(GraphError::usage(option, message))
        };
        if self.data != earlier.data {
            return differs(
                "DATA",
                &format!("a dataset with the fingerprint {}", self.data),
                &format!("one with {}", earlier.data),
            );
        }
        for (option, now, before) in [
            ("operator", self.operators.join(","), earlier.operators.join(",")),
            ("hops", self.hops.to_string(), earlier.hops.to_string()),
            ("nodes", self.nodes.to_string(), earlier.nodes.to_string()),
            ("type", self.element.to_string(), earlier.element.to_string()),
            ("layout", self.layout.to_string(), earlier.layout.to_string()),
            ("row_order", self.row_order.to_string(), earlier.row_order.to_string()),
            ("seed", self.seed.to_string(), earlier.seed.to_string()),
            ("weighted", self.weighted.to_string(), earlier.weighted.to_string()),
            ("feature_norm", self.feature_norm.to_string(), earlier.feature_norm.to_string()),
        ] {
            if now != before {
                return differs(option, &now, &before);
            }
        }
        Ok(())
    }
}

//! What is asked for, and what of it decides the bytes of a hop set.

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
        /// Those of the three splits.
        Splits = "splits",
        /// Those of the splits that have a label.
        Labelled = "labelled",
        /// Those of the splits, and behind them all others.
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
    /// Which rows lie side by side in a file.
    pub enum Layout = Hops {
        /// A file for each hop, [rows, features].
        Hops = "hops",
        /// One file, [rows, hops, features].
        Rows = "rows",
    }
}

named! {
    /// The order of the training rows.
    pub enum RowOrder = Shuffled {
        /// Drawn by the seed, so that consecutive rows are a uniform sample.
        Shuffled = "shuffled",
        /// That of train_idx.npy.
        File = "file",
        /// Row `i` is that of node `i`, whatever its split: for `train --first-layer`. All nodes have rows.
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

    /// The type of its arrays. `.npy` has no bfloat16, and uint16 stands in.
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
            return Err(GraphError::usage("operator", "name one at least"));
        }
        if self.operators.len() > MOST_OPERATORS {
            let message =
                format!("{} are named: a hop set has {MOST_OPERATORS} at most", self.operators.len());
            return Err(GraphError::usage("operator", message));
        }
        if self.threads == 0 {
            return Err(GraphError::usage("threads", "0 is not 1 or more"));
        }
        if self.row_order == RowOrder::Nodes && self.nodes != KeptNodes::All {
            let message = "row i is that of node i, so every node needs a row: give `nodes=all`";
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

    /// Refuses to go on with what was begun with `earlier`, which `place` names, unless all of it agrees.
    pub(crate) fn check_same(&self, earlier: &Decisive, place: &str) -> Result<(), GraphError> {
        let differs = |option: &str, now: &str, before: &str| {
            let message = format!(
                "it is {now} now, but {before} in {place}: give the same again, or remove that and begin anew"
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

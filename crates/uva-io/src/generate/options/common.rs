//! The options shared by all shapes.

use uva_graph::{ElementType, GraphError, Split};

use super::train_by::TrainBy;
use crate::generate::draws::random::{GeneratorPurpose, RandomStream};

/// The options that do not depend on a graph's shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Common {
    /// The number of nodes; at least 2.
    pub nodes: u64,
    /// Mean length of a list. The actual mean is slightly lower, since lists have no repeats.
    pub average_degree: f64,
    /// Features per node; at least 1.
    pub feature_dim: usize,
    /// The number of classes, 1 to `nodes`.
    pub classes: u64,
    /// The key of all random numbers.
    pub seed: u64,
    /// The element type of features: f32, f16, bf16 or e4m3.
    pub feature_element: ElementType,
    /// Number of threads; `None` uses all cores. The bytes are the same for any number.
    pub threads: Option<usize>,
    /// Distance of a class centre from 0 in each dimension, where the noise has variance 1. `None`: 2/√`feature_dim`.
    pub feature_signal: Option<f64>,
    /// Share of labels that are redrawn from all classes.
    pub label_noise: f64,
    /// Share of nodes in the train split.
    pub train_share: f64,
    /// How the nodes of the train split are chosen.
    pub train_by: TrainBy,
    /// Share of nodes in the valid split.
    pub valid_share: f64,
    /// Share of nodes in the test split. Nodes left over have a label but are in no split.
    pub test_share: f64,
    /// The name in `meta.json`; `None` uses the directory's.
    pub name: Option<String>,
}

/// The common defaults of all shapes: 200,000 nodes, 20 neighbours, 100 features, 12 classes, and the splits of a
/// benchmark graph, 40, 10 and 10 %.
impl Default for Common {
    fn default() -> Common {
        Common {
            nodes: 200_000,
            average_degree: 20.0,
            feature_dim: 100,
            classes: 12,
            seed: 0,
            feature_element: ElementType::F32,
            threads: None,
            feature_signal: None,
            label_noise: 0.1,
            train_share: 0.4,
            train_by: TrainBy::Shape,
            valid_share: 0.1,
            test_share: 0.1,
            name: None,
        }
    }
}

impl Common {
    /// Rejects options that no shape supports.
    pub(crate) fn check(&self) -> Result<(), GraphError> {
        let &Common { nodes, average_degree, feature_dim, classes, .. } = self;
        let refuse = |option: &str, message: String| Err(GraphError::usage(option, message));
        if !(2..=1 << 40).contains(&nodes) {
            return refuse("nodes", format!("{nodes} is outside 2..=2^40"));
        }
        if !(average_degree > 0.0 && average_degree <= (nodes - 1) as f64 / 2.0) {
            let most = (nodes - 1) as f64 / 2.0;
            return refuse(
                "avg_degree",
                format!("{average_degree} is outside 0..={most}, half the other nodes"),
            );
        }
        if average_degree * nodes as f64 >= (1_u64 << 53) as f64 {
            return refuse("avg_degree", format!("{average_degree} · {nodes} nodes are too many edges"));
        }
        if feature_dim == 0 {
            return refuse("feat_dim", "invalid value 0: expected at least 1".to_owned());
        }
        let row_bytes = feature_dim.checked_mul(self.feature_element.bytes());
        let table = row_bytes.and_then(|row| usize::try_from(nodes).ok()?.checked_mul(row));
        if table.is_none_or(|bytes| bytes > isize::MAX as usize) {
            return refuse(
                "feat_dim",
                format!("{nodes} nodes × {feature_dim} features overflow the address space"),
            );
        }
        if !(1..=nodes.min(1 << 31)).contains(&classes) {
            return refuse("classes", format!("{classes} is outside 1..={}", nodes.min(1 << 31)));
        }
        if matches!(self.feature_element, ElementType::U8 | ElementType::I8) {
            let element = self.feature_element;
            return refuse(
                "feat_dtype",
                format!("{element} cannot hold these features: use f32, f16, bf16 or e4m3"),
            );
        }
        check_share("label_noise", self.label_noise)?;
        check_share("train_share", self.train_share)?;
        check_share("valid_share", self.valid_share)?;
        check_share("test_share", self.test_share)?;
        let all = self.split_shares();
        if all > 1.0 + 1e-9 {
            return refuse("train_share", format!("the three splits' shares add up to {all}, more than 1"));
        }
        if let Some(signal) = self.feature_signal
            && !(0.0..=1000.0).contains(&signal)
        {
            return refuse("feature_signal", format!("{signal} is outside 0..=1000"));
        }
        if self.threads == Some(0) {
            return refuse("threads", "invalid value 0: expected at least 1".to_owned());
        }
        Ok(())
    }

    /// The share of nodes that are in a split.
    pub(crate) fn split_shares(&self) -> f64 {
        self.train_share + self.valid_share + self.test_share
    }

    /// The distance between two centres grows with the root of the dimensions. With a constant signal² · dim, features
    /// distinguish classes as well in 10 dimensions as in 1000.
    pub(crate) fn signal(&self) -> f64 {
        self.feature_signal.unwrap_or_else(|| 2.0 / (self.feature_dim as f64).sqrt())
    }

    /// A split drawn for `node` alone, from the position of `share` in [0, 1).
    pub(crate) fn split_at(&self, share: f64) -> Option<Split> {
        if share < self.train_share {
            Some(Split::Train)
        } else if share < self.train_share + self.valid_share {
            Some(Split::Valid)
        } else if share < self.train_share + self.valid_share + self.test_share {
            Some(Split::Test)
        } else {
            None
        }
    }

    /// The number of nodes that a draw of the train split takes.
    pub(crate) fn train_nodes(&self) -> u64 {
        (self.train_share * self.nodes as f64).round() as u64
    }

    /// The split of a node not drawn for the train split, with the same probabilities for all of them.
    pub(crate) fn rest_split(&self, node: u64) -> Option<Split> {
        let rest = 1.0 - self.train_share;
        self.split_at(
            self.train_share + rest * RandomStream::new(self.seed, GeneratorPurpose::RestSplit, node).unit(),
        )
    }

    /// A split drawn with the same probabilities for every node.
    pub(crate) fn uniform_split(&self, node: u64) -> Option<Split> {
        self.split_at(RandomStream::new(self.seed, GeneratorPurpose::Split, node).unit())
    }
}

/// Rejects a share outside 0..=1.
pub(crate) fn check_share(option: &str, share: f64) -> Result<(), GraphError> {
    if (0.0..=1.0).contains(&share) {
        return Ok(());
    }
    Err(GraphError::usage(option, format!("{share} is outside 0..=1")))
}

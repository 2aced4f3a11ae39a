//! The power-law generator.
//!
//! Nodes have positions 0..N, a keyed shuffle of their ids. A node's class is its position modulo the number of
//! classes, so that the members of a class can be counted through without a table. Low positions are hubs, both ways:
//! - In-degree at position p is `scale · u^(−5/8)` with u = (p + ½)/N, capped, so P(degree > d) ~ d^(−1.6), an exponent
//!   of 2.6 as web and citation graphs have; the scale is solved for such that the mean is the one asked for.
//! - A neighbour is the m-th member of its class with m = members · w³, w uniform, so P(member m) ~ m^(−2/3) (exponent
//!   2.5). Its class is the node's own with probability `homophily`, and any class otherwise.
//!
//! The graph is directed: each list is drawn for its node, and no reverse edge is planted. A list has no self-loop,
//! names no neighbour twice, and ascends. Features are the centre of the class (±`feature_signal` a dimension) plus
//! noise of variance 1; a share of `label_noise` of the labels is drawn anew. So features alone tell the class only so
//! well, and a mean over neighbours, which averages the noise away, tells it better.
//!
//! Only integers and correctly rounded operations (+, −, ×, ÷, √) decide, never a library's pow, and every number is
//! keyed by seed, purpose and node: the bytes are the same for any number of threads, on any machine.

use std::path::Path;

use serde_json::{Map, Value, json};
use uva_graph::{ElementType, GraphError, Progress, Split, Summary};

use super::common::{Common, check_share};
use super::permutation::Permutation;
use super::planted::{self, Shape, draw_list};
use super::random::{Purpose, Stream};

/// A power-law graph with planted classes. [`PowerLaw::default`] has the knobs' defaults, which keep the best
/// classifier of features alone well below one that sees neighbours too.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerLaw {
    /// How many nodes; at least 2.
    pub nodes: u64,
    /// Mean in-degree. A little less is reached, since lists name no neighbour twice.
    pub average_degree: f64,
    /// Features a node; at least 1.
    pub feature_dim: usize,
    /// How many classes, 1 to `nodes`. Node counts differ by at most one between them.
    pub classes: u64,
    /// What all random numbers are keyed by.
    pub seed: u64,
    /// How features are stored: f32, f16 or bf16.
    pub feature_element: ElementType,
    /// How many threads to use; as many as there are cores where `None`. The bytes are the same for any number.
    pub threads: Option<usize>,
    /// Share of neighbours drawn from the node's own class; the others are drawn from all classes.
    pub homophily: f64,
    /// Distance of a class centre from 0 in each dimension, where the noise has variance 1. `None` chooses it by
    /// `feature_dim` such that, with the other defaults, features alone tell the label of 58 % of the nodes at best.
    pub feature_signal: Option<f64>,
    /// Share of labels that are drawn anew from all classes.
    pub label_noise: f64,
    /// Share of nodes in the train split.
    pub train_share: f64,
    /// Share of nodes in the valid split.
    pub valid_share: f64,
    /// Share of nodes in the test split. Nodes left over have a label but are in no split.
    pub test_share: f64,
    /// The name in `meta.json`; the directory's where `None`.
    pub name: Option<String>,
}

impl Default for PowerLaw {
    fn default() -> PowerLaw {
        PowerLaw {
            nodes: 200_000,
            average_degree: 20.0,
            feature_dim: 100,
            classes: 12,
            seed: 0,
            feature_element: ElementType::F32,
            threads: None,
            homophily: 0.5,
            feature_signal: None,
            label_noise: 0.1,
            train_share: 0.4,
            valid_share: 0.1,
            test_share: 0.1,
            name: None,
        }
    }
}

/// Writes a power-law graph to the directory `out`, which must not exist. `progress` is called now and then, from this
/// thread.
///
/// Memory stays bounded whatever the size: about 64 MiB of output is held at a time, or the lists of 1,024 nodes where
/// those are larger.
///
/// # Errors
/// Where an option is out of its range, `out` exists, or the system refuses to write; nothing is left behind then.
pub fn power_law(out: &Path, options: &PowerLaw, progress: &dyn Fn(Progress)) -> Result<Summary, GraphError> {
    let plan = Plan::new(options)?;
    planted::write(out, &plan.common, &plan, progress)
}

impl PowerLaw {
    /// The same, with other options of those that all shapes share.
    pub(super) fn with_common(self, common: Common) -> PowerLaw {
        let Common { nodes, average_degree, feature_dim, classes, seed, feature_element, threads, .. } =
            common;
        let Common { feature_signal, label_noise, train_share, valid_share, test_share, name, .. } = common;
        PowerLaw {
            nodes,
            average_degree,
            feature_dim,
            classes,
            seed,
            feature_element,
            threads,
            homophily: self.homophily,
            feature_signal,
            label_noise,
            train_share,
            valid_share,
            test_share,
            name,
        }
    }

    pub(super) fn common(&self) -> Common {
        Common {
            nodes: self.nodes,
            average_degree: self.average_degree,
            feature_dim: self.feature_dim,
            classes: self.classes,
            seed: self.seed,
            feature_element: self.feature_element,
            threads: self.threads,
            feature_signal: self.feature_signal,
            label_noise: self.label_noise,
            train_share: self.train_share,
            valid_share: self.valid_share,
            test_share: self.test_share,
            name: self.name.clone(),
        }
    }
}

/// The options, checked, with what follows from them.
struct Plan {
    common: Common,
    homophily: f64,
    permutation: Permutation,
    degrees: Degrees,
}

impl Plan {
    fn new(options: &PowerLaw) -> Result<Plan, GraphError> {
        let common = options.common();
        common.check()?;
        check_share("--homophily", options.homophily)?;
        Ok(Plan {
            homophily: options.homophily,
            permutation: Permutation::new(common.nodes, common.seed),
            degrees: Degrees::new(common.nodes, common.average_degree),
            common,
        })
    }
}

impl Shape for Plan {
    fn neighbours_of(&self, node: u64, list: &mut Vec<u64>) {
        let &Common { nodes, classes, seed, .. } = &self.common;
        let position = self.permutation.backward(node);
        let class = position % classes;
        let degree = self.degrees.at(position, Stream::new(seed, Purpose::Degree, node).unit());
        let mut stream = Stream::new(seed, Purpose::Neighbours, node);
        draw_list(list, degree, || {
            let class = if stream.unit() < self.homophily { class } else { stream.below(classes) };
            // Positions class, class + classes, …: that many members.
            let members = (nodes - class).div_ceil(classes);
            let w = stream.unit();
            let member = ((w * w * w * members as f64) as u64).min(members - 1);
            let neighbour = self.permutation.forward(class + member * classes);
            (neighbour != node).then_some(neighbour)
        });
    }

    fn class_of(&self, node: u64) -> u64 {
        self.permutation.backward(node) % self.common.classes
    }

    fn split_of(&self, node: u64) -> Option<Split> {
        self.common.uniform_split(node)
    }

    fn description(&self) -> Map<String, Value> {
        Map::from_iter([
            ("kind".to_owned(), json!("powerlaw")),
            ("homophily".to_owned(), json!(self.homophily)),
        ])
    }
}

/// In-degrees by position: `min(scale · u^(−5/8), cap)`.
#[derive(Debug, Clone)]
pub(super) struct Degrees {
    nodes: u64,
    scale: f64,
    cap: f64,
}

impl Degrees {
    pub(super) fn new(nodes: u64, average: f64) -> Degrees {
        // A hub that a quarter of all nodes point to is large enough for any graph; small graphs need more room.
        let others = (nodes - 1) as f64;
        let cap = (others / 4.0).max(4.0 * average).min(others);
        // With t = (scale/cap)^(1/5) the mean, ∫ min(scale · u^(−5/8), cap) du over 0..1, is cap · (8t⁵ − 5t⁸)/3. It
        // rises with t from 0 to cap, so halving finds t; 64 times is all a double can tell.
        let mean = |t: f64| {
            let fifth = t * t * t * t * t;
            cap * (8.0 * fifth - 5.0 * fifth * t * t * t) / 3.0
        };
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..64 {
            let middle = (low + high) / 2.0;
            if mean(middle) < average {
                low = middle;
            } else {
                high = middle;
            }
        }
        Degrees { nodes, scale: cap * low * low * low * low * low, cap }
    }

    /// The degree at `position`, rounded up or down at random (`unit` in [0, 1)) such that the mean is kept.
    pub(super) fn at(&self, position: u64, unit: f64) -> u64 {
        let u = (position as f64 + 0.5) / self.nodes as f64;
        let (root, eighth) = (u.sqrt(), u.sqrt().sqrt().sqrt());
        let exact = (self.scale / (root * eighth)).min(self.cap);
        ((exact + unit) as u64).min(self.nodes - 1)
    }
}

#[cfg(test)]
mod tests;

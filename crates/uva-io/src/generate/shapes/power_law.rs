//! The power-law generator.
//!
//! Nodes have positions 0..N, a keyed shuffle of their ids. A node's class is its position modulo the number of
//! classes, so that the members of a class can be enumerated without a table. Low positions are hubs, both ways:
//!
//! - In-degree at position p is `scale · u^(−5/8)` with u = (p + ½)/N, capped. So P(degree > d) ~ d^(−1.6), an exponent
//!   of 2.6 as web and citation graphs have. The scale follows from the mean degree.
//! - A neighbour is the m-th member of its class with m = members · w³, w uniform, so P(member m) ~ m^(−2/3) (exponent
//!   2.5). Its class is the node's own with probability `homophily`, and any class otherwise.
//!
//! The graph is directed: each list is drawn for its node, and no reverse edge is planted. A list has no self-loop and
//! no repeats, and ascends. Features are the centre of the class (±`feature_signal` a dimension) plus noise of unit
//! variance. A share of `label_noise` of the labels is redrawn. So features alone identify the class only partly. A mean over
//! neighbours averages the noise away and identifies it better.
//!
//! The result depends only on integers and correctly rounded operations (+, −, ×, ÷, √), never on a library's pow.
//! Every number is keyed by seed, purpose and node. So the bytes are the same for any number of threads, on any
//! machine.

use serde_json::{Map, Value, json};
use uva_graph::{GraphError, Split};

use crate::generate::draws::permutation::Permutation;
use crate::generate::draws::random::{GeneratorPurpose, RandomStream};
use crate::generate::options::common::{Common, check_share};
use crate::generate::options::shape_options::ShapeOptions;
use crate::generate::planted::{PlantedGraph, draw_list};
use crate::generate::recipe::{Generator, Planned, Recipe};

/// A power-law graph with planted classes. With the defaults of [`PowerLaw::default`], the best classifier of features
/// alone stays well below one that sees neighbours too.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerLaw {
    /// The options shared by all shapes. Unless `feature_signal` is set, features alone predict the label of at most 58
    /// % of the nodes with the other defaults.
    pub common: Common,
    /// Share of neighbours drawn from the node's own class; the others are drawn from all classes.
    pub homophily: f64,
}

impl PowerLaw {
    /// Creates a graph with these common options and the default homophily.
    pub fn of(common: Common) -> PowerLaw {
        PowerLaw { common, homophily: 0.5 }
    }
}

impl Default for PowerLaw {
    fn default() -> PowerLaw {
        PowerLaw::of(Common::default())
    }
}

/// The row in the table.
pub(crate) static GENERATOR: Generator = Generator {
    name: "powerlaw",
    help: "Power-law degrees: few nodes with very many neighbours, many with few, as in social and citation graphs",
    why_fewer_edges: "a repeated neighbour is redrawn three times and then dropped",
    takes: &["homophily"],
    defaults: || Box::new(PowerLaw::default()),
};

impl Recipe for PowerLaw {
    fn generator(&self) -> &'static Generator {
        &GENERATOR
    }

    fn common(&self) -> Common {
        self.common.clone()
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn shape(&mut self, options: &ShapeOptions) {
        self.homophily = options.homophily.unwrap_or(self.homophily);
    }

    fn plan(&self) -> Result<Planned<'_>, GraphError> {
        Ok(Planned::Graph(Box::new(Plan::new(self)?)))
    }
}

/// The checked options and derived values.
struct Plan<'o> {
    options: &'o PowerLaw,
    permutation: Permutation,
    degrees: Degrees,
}

impl<'o> Plan<'o> {
    fn new(options: &'o PowerLaw) -> Result<Plan<'o>, GraphError> {
        let common = &options.common;
        common.check()?;
        check_share("homophily", options.homophily)?;
        Ok(Plan {
            options,
            permutation: Permutation::new(common.nodes, common.seed),
            degrees: Degrees::new(common.nodes, common.average_degree),
        })
    }
}

impl PlantedGraph for Plan<'_> {
    fn neighbours_of(&self, node: u64, list: &mut Vec<u64>) {
        let &Common { nodes, classes, seed, .. } = &self.options.common;
        let position = self.permutation.backward(node);
        let class = position % classes;
        let degree =
            self.degrees.at(position, RandomStream::new(seed, GeneratorPurpose::Degree, node).unit());
        let mut stream = RandomStream::new(seed, GeneratorPurpose::Neighbours, node);
        draw_list(list, degree, || {
            let class = if stream.unit() < self.options.homophily { class } else { stream.below(classes) };
            // Positions class, class + classes, …: the number of members.
            let members = (nodes - class).div_ceil(classes);
            let w = stream.unit();
            let member = ((w * w * w * members as f64) as u64).min(members - 1);
            let neighbour = self.permutation.forward(class + member * classes);
            (neighbour != node).then_some(neighbour)
        });
    }

    fn class_of(&self, node: u64) -> u64 {
        self.permutation.backward(node) % self.options.common.classes
    }

    fn split_of(&self, node: u64) -> Option<Split> {
        self.options.common.uniform_split(node)
    }

    fn description(&self) -> Map<String, Value> {
        Map::from_iter([("homophily".to_owned(), json!(self.options.homophily))])
    }
}

/// In-degrees by position: `min(scale · u^(−5/8), cap)`.
#[derive(Debug, Clone)]
pub(crate) struct Degrees {
    nodes: u64,
    /// The largest degree that a node can have.
    most: u64,
    scale: f64,
    cap: f64,
}

impl Degrees {
    pub(crate) fn new(nodes: u64, average: f64) -> Degrees {
        Degrees::between(nodes, (nodes - 1) as f64, average)
    }

    /// The degrees of `nodes` nodes that each have up to `others` neighbours.
    pub(crate) fn between(nodes: u64, others: f64, average: f64) -> Degrees {
        // A hub with in-edges from a quarter of all nodes is large enough for any graph; small graphs need a larger
        // cap.
        let cap = (others / 4.0).max(4.0 * average).min(others);
        // With t = (scale/cap)^(1/5), the mean, ∫ min(scale · u^(−5/8), cap) du over 0..1, is cap · (8t⁵ − 5t⁸)/3. It
        // rises with t from 0 to cap, so bisection finds t; 64 steps exhaust the precision of a double.
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
        Degrees { nodes, most: others as u64, scale: cap * low * low * low * low * low, cap }
    }

    /// The degree at `position`, rounded up or down at random (`unit` in [0, 1)) such that the mean is preserved.
    pub(crate) fn at(&self, position: u64, unit: f64) -> u64 {
        let u = (position as f64 + 0.5) / self.nodes as f64;
        let (root, eighth) = (u.sqrt(), u.sqrt().sqrt().sqrt());
        let exact = (self.scale / (root * eighth)).min(self.cap);
        ((exact + unit) as u64).min(self.most)
    }
}

#[cfg(test)]
mod tests;

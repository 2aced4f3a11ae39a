//! The R-MAT generator (Chakrabarti, Zhan and Faloutsos 2004): the shape of Graph500.
//!
//! The adjacency matrix is cut into four quadrants, sources by destinations. An edge falls into one of them with
//! probability a (first half to first half), b (first half of the sources to the second of the destinations), c (the
//! reverse) or d (second to second). The quadrant is cut again, until one cell is left. With Graph500's 0.57, 0.19,
//! 0.19, 0.05, few nodes have very many edges, both ways.
//!
//! This implementation reads the matrix destination by destination instead of cutting it edge by edge, which gives the
//! same edges. A destination has Binomial(E, P(destination)) of them, P being the product of a + c or b + d over the
//! levels. Each source's half at a level has the probability of its quadrant given the destination's half. So a list
//! depends only on its node, and memory does not grow with the edges.
//!
//! - **Any number of nodes**: a run of ids is cut into halves that differ by at most one, the larger one first. If one
//!   side of a cell is a single id before the other is, only the other is cut, by its own sums (a + b, or a + c). For a
//!   power of two that is exactly R-MAT.
//! - **Noise**: with equal probabilities at all levels degrees come in waves, since all nodes with the same number of
//!   second halves have the same degree. Each level gets μ, uniform in ±`noise`: b and c become b + μ and c + μ, and a
//!   and d lose 2μ between them in proportion (Seshadhri, Pinar and Kolda 2011).
//! - **Ids** are a keyed shuffle of the positions in the matrix, as Graph500 requires: a node's id is independent of
//!   its degree.
//! - **Classes** are positions modulo their number. R-MAT itself has none. So a share `homophily` of the sources moves
//!   to a member of the destination's class: the one in the same run of as many positions as there are classes. 0 gives
//!   plain R-MAT. List lengths do not depend on it.
//! - Repeats and self-loops are redrawn a few times and then dropped, so the mean degree is slightly lower than
//!   requested.
//!
//! The result depends only on integers and correctly rounded operations, and every number is keyed by seed, purpose and
//! node. So the bytes are the same for any number of threads, on any machine.

use serde_json::{Map, Value, json};
use uva_graph::{GraphError, Split};

use crate::generate::draws::binomial::binomial;
use crate::generate::draws::permutation::Permutation;
use crate::generate::draws::random::{GeneratorPurpose, RandomStream};
use crate::generate::options::common::{Common, check_share};
use crate::generate::options::shape_options::ShapeOptions;
use crate::generate::planted::{PlantedGraph, draw_list};
use crate::generate::recipe::{Generator, Planned, Recipe};

/// An R-MAT graph with planted classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Rmat {
    /// The options shared by all shapes.
    pub common: Common,
    /// The probabilities of the quadrants: a (first half of the sources to first half of the destinations), b (first to
    /// second), c (second to first), d (second to second). They add up to 1.
    pub quadrants: [f64; 4],
    /// Maximum deviation of b and c at a level, up or down; at most the smallest of b, c and (a + d)/2.
    pub noise: f64,
    /// Share of the sources that move to the destination's class; some of the others belong to it by chance.
    pub homophily: f64,
}

impl Default for Rmat {
    fn default() -> Rmat {
        Rmat { common: Common::default(), quadrants: [0.57, 0.19, 0.19, 0.05], noise: 0.1, homophily: 0.5 }
    }
}

/// The row in the table.
pub(crate) static GENERATOR: Generator = Generator {
    name: "rmat",
    help: "Recursive matrix (R-MAT) of Graph500: edges fall into nested quadrants with different probabilities",
    why_fewer_edges: "most edges are drawn among few nodes, and a repeated edge or a self-loop is redrawn three times \
         and then dropped",
    takes: &["homophily", "quadrants", "noise"],
    defaults: || Box::new(Rmat::default()),
};

impl Recipe for Rmat {
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
        self.quadrants = options.quadrants.unwrap_or(self.quadrants);
        self.noise = options.noise.unwrap_or(self.noise);
    }

    fn plan(&self) -> Result<Planned<'_>, GraphError> {
        Ok(Planned::Graph(Box::new(Plan::new(self)?)))
    }
}

/// One cut of the matrix. Probabilities of the first half, in units of 2⁻³² if a 32-bit number is compared with them.
#[derive(Debug, Clone, Copy)]
struct Level {
    /// The probability that a destination is in the first half.
    destination: f64,
    /// The probability that a source is in the first half, given that the destination is in the first or in the second
    /// half.
    source_given: [u64; 2],
    /// The probability that a source is in the first half, if the destination is no longer cut.
    source: u64,
}

/// The position of a destination, cut by cut.
#[derive(Debug, Clone, Copy)]
struct Descent {
    /// The probability of an edge to the destination.
    chance: f64,
    /// Bit l is set if the destination is in the second half at level l.
    halves: u64,
    /// The number of cuts.
    cuts: usize,
}

/// The checked options and derived values.
struct Plan<'o> {
    options: &'o Rmat,
    permutation: Permutation,
    levels: Vec<Level>,
    edges: u64,
}

impl<'o> Plan<'o> {
    fn new(options: &'o Rmat) -> Result<Plan<'o>, GraphError> {
        let Rmat { common, quadrants, noise, homophily } = options;
        common.check()?;
        check_share("homophily", *homophily)?;
        let [a, b, c, d] = *quadrants;
        let sum = a + b + c + d;
        if quadrants.iter().any(|p| !(0.0..=1.0).contains(p)) || (sum - 1.0).abs() > 1e-6 {
            let message =
                format!("{a},{b},{c},{d} are not four probabilities that add up to 1, but to {sum}");
            return Err(GraphError::usage("quadrants", message));
        }
        let most = b.min(c).min((a + d) / 2.0);
        if !(0.0..=most).contains(noise) {
            return Err(GraphError::usage(
                "noise",
                format!(
                    "{noise} is outside 0..={most}, the smallest of b, c and (a + d)/2 of the quadrants {a},{b},{c},{d}"
                ),
            ));
        }
        let depth = u64::BITS - (common.nodes - 1).leading_zeros();
        Ok(Plan {
            options,
            permutation: Permutation::new(common.nodes, common.seed),
            levels: (0..depth).map(|level| Level::new(options, level)).collect(),
            edges: (common.average_degree * common.nodes as f64) as u64,
        })
    }

    /// The path to the destination at `position`.
    fn way_to(&self, position: u64) -> Descent {
        let mut way = Descent { chance: 1.0, halves: 0, cuts: 0 };
        let mut run = Run { start: 0, len: self.options.common.nodes };
        for level in &self.levels {
            if run.len == 1 {
                break;
            }
            let second = position >= run.start + run.first_half();
            way.chance *= if second { 1.0 - level.destination } else { level.destination };
            way.halves |= u64::from(second) << way.cuts;
            way.cuts += 1;
            run = run.half(second);
        }
        way
    }

    /// The position of one source of the destination at the end of `way`.
    fn source(&self, way: Descent, stream: &mut RandomStream) -> u64 {
        let mut run = Run { start: 0, len: self.options.common.nodes };
        let mut word = 0;
        for (cut, level) in self.levels.iter().enumerate() {
            if run.len == 1 {
                break;
            }
            // One number for two levels.
            word = if cut % 2 == 0 { stream.next() } else { word >> 32 };
            let first = match cut < way.cuts {
                true => level.source_given[(way.halves >> cut & 1) as usize],
                false => level.source,
            };
            run = run.half(word & 0xffff_ffff >= first);
        }
        run.start
    }
}

impl Level {
    fn new(options: &Rmat, level: u32) -> Level {
        let [a, b, c, d] = options.quadrants;
        let unit = RandomStream::new(options.common.seed, GeneratorPurpose::Quadrants, level.into()).unit();
        let mu = options.noise * (2.0 * unit - 1.0);
        // If a and d are 0 there is no noise, since it is at most half of them.
        let rest = if a + d > 0.0 { 1.0 - 2.0 * mu / (a + d) } else { 1.0 };
        let (a, b, c, d) = (a * rest, b + mu, c + mu, d * rest);
        // A half without edges has no sources; any number does.
        let share = |part: f64, whole: f64| {
            let share = if whole > 0.0 { part / whole } else { 0.5 };
            (share * (1_u64 << 32) as f64) as u64
        };
        let sum = a + b + c + d;
        Level {
            destination: (a + c) / sum,
            source_given: [share(a, a + c), share(b, b + d)],
            source: share(a + b, sum),
        }
    }
}

/// A run of positions.
#[derive(Debug, Clone, Copy)]
struct Run {
    start: u64,
    len: u64,
}

impl Run {
    fn first_half(self) -> u64 {
        self.len - self.len / 2
    }

    fn half(self, second: bool) -> Run {
        match second {
            false => Run { start: self.start, len: self.first_half() },
            true => Run { start: self.start + self.first_half(), len: self.len / 2 },
        }
    }
}

impl PlantedGraph for Plan<'_> {
    fn neighbours_of(&self, node: u64, list: &mut Vec<u64>) {
        let &Common { nodes, classes, seed, .. } = &self.options.common;
        let position = self.permutation.backward(node);
        let class = position % classes;
        let way = self.way_to(position);
        let length =
            binomial(self.edges, way.chance, &mut RandomStream::new(seed, GeneratorPurpose::Degree, node));
        let mut stream = RandomStream::new(seed, GeneratorPurpose::Neighbours, node);
        draw_list(list, length.min(nodes - 1), || {
            let mut source = self.source(way, &mut stream);
            if stream.unit() < self.options.homophily {
                source = source - source % classes + class;
                // The last run may lack that member; the previous run has it.
                source -= if source >= nodes { classes } else { 0 };
            }
            (source != position).then(|| self.permutation.forward(source))
        });
    }

    fn class_of(&self, node: u64) -> u64 {
        self.permutation.backward(node) % self.options.common.classes
    }

    fn split_of(&self, node: u64) -> Option<Split> {
        self.options.common.uniform_split(node)
    }

    fn description(&self) -> Map<String, Value> {
        let options = self.options;
        Map::from_iter([
            ("quadrants".to_owned(), json!(options.quadrants)),
            ("noise".to_owned(), json!(options.noise)),
            ("homophily".to_owned(), json!(options.homophily)),
        ])
    }
}

#[cfg(test)]
mod tests;

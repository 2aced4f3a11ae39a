//! The stochastic block model (Holland, Laskey and Leinhardt 1983): communities only.
//!
//! Every ordered pair of two nodes is an edge independently, with probability p_in if both are of one class and p_out
//! if they are not. So all degrees are similar, and the informativeness of edges about classes is adjustable. Either
//! the two probabilities are given, or they follow from the mean degree and the share of edges within a class.
//!
//! A node's class is its id modulo the number of classes, so that members and non-members of a class can be enumerated
//! without a table. A list is drawn for its node: Binomial(members − 1, p_in) nodes of its class and Binomial(others,
//! p_out) other nodes, each a uniform choice without repeats. Every number is keyed by seed, purpose and node, and only
//! integers and correctly rounded operations are used. So the bytes are the same for any number of threads, on any
//! machine.

use serde_json::{Map, Value, json};
use uva_graph::{GraphError, Split};

use crate::generate::draws::binomial::binomial;
use crate::generate::draws::random::{GeneratorPurpose, RandomStream};
use crate::generate::options::common::{Common, check_share};
use crate::generate::options::shape_options::ShapeOptions;
use crate::generate::planted::PlantedGraph;
use crate::generate::recipe::{Generator, Planned, Recipe};

/// A graph of communities, which are its classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Sbm {
    /// The options shared by all shapes. The mean degree is reached in full, since all repeats are redrawn. With
    /// [`Mixing::Probabilities`] it follows from these, and the value here is ignored.
    pub common: Common,
    /// How edges divide between a class and the others.
    pub mixing: Mixing,
}

/// How edges divide between a class and the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mixing {
    /// The share of all edges within a class.
    Homophily(f64),
    /// The probability of an edge from any node to any other.
    Probabilities {
        /// If both nodes are of the same class.
        within: f64,
        /// If the nodes are of different classes.
        between: f64,
    },
}

impl Default for Sbm {
    fn default() -> Sbm {
        Sbm { common: Common::default(), mixing: Mixing::Homophily(0.5) }
    }
}

/// The row in the table.
pub(crate) static GENERATOR: Generator = Generator {
    name: "sbm",
    help: "Stochastic block model: classes are communities, and all degrees are similar",
    why_fewer_edges: "a repeated neighbour is redrawn three times and then dropped",
    takes: &["homophily", "p_in"],
    defaults: || Box::new(Sbm::default()),
};

impl Recipe for Sbm {
    fn generator(&self) -> &'static Generator {
        &GENERATOR
    }

    fn common(&self) -> Common {
        let mut common = self.common.clone();
        if let Mixing::Probabilities { within, between } = self.mixing {
            let (nodes, members) = (common.nodes as f64, mean_members(&common));
            common.average_degree = within * (members - 1.0) + between * (nodes - members);
        }
        common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn shape(&mut self, options: &ShapeOptions) {
        if let Some([within, between]) = options.probabilities {
            self.mixing = Mixing::Probabilities { within, between };
        } else if let Some(share) = options.homophily {
            self.mixing = Mixing::Homophily(share);
        }
    }

    fn plan(&self) -> Result<Planned<'_>, GraphError> {
        Ok(Planned::Graph(Box::new(Plan::new(self)?)))
    }
}

/// Nodes per class, on average.
fn mean_members(common: &Common) -> f64 {
    common.nodes as f64 / common.classes as f64
}

/// The checked options and derived values.
struct Plan {
    common: Common,
    within: f64,
    between: f64,
}

impl Plan {
    fn new(options: &Sbm) -> Result<Plan, GraphError> {
        let common = options.common();
        let (within, between) = match options.mixing {
            Mixing::Homophily(share) => {
                common.check()?;
                check_share("homophily", share)?;
                let degree = common.average_degree;
                let others = mean_members(&common) - 1.0;
                let strangers = common.nodes as f64 - mean_members(&common);
                (
                    probability(degree * share, others, "of its own class", share)?,
                    probability(degree * (1.0 - share), strangers, "of other classes", share)?,
                )
            }
            Mixing::Probabilities { within, between } => {
                check_share("p_in", within)?;
                check_share("p_out", between)?;
                // An error about the mean degree is then about them.
                let most = (common.nodes.saturating_sub(1)) as f64 / 2.0;
                if !(common.average_degree > 0.0 && common.average_degree <= most) {
                    return Err(GraphError::usage(
                        "p_in",
                        format!(
                            "{within} and `p_out={between}` make {} neighbours a node, which is outside 0..={most}, half \
                             the other nodes",
                            common.average_degree
                        ),
                    ));
                }
                common.check()?;
                (within, between)
            }
        };
        Ok(Plan { common, within, between })
    }

    fn members(&self, class: u64) -> u64 {
        (self.common.nodes - class).div_ceil(self.common.classes)
    }
}

/// The probability that gives `wanted` neighbours of `candidates` nodes on average.
fn probability(wanted: f64, candidates: f64, which: &str, share: f64) -> Result<f64, GraphError> {
    if wanted == 0.0 {
        return Ok(0.0);
    }
    if wanted > candidates {
        return Err(GraphError::usage(
            "homophily",
            format!(
                "{share} makes {wanted} neighbours {which} a node, and there are only {candidates:.1} such nodes"
            ),
        ));
    }
    Ok(wanted / candidates)
}

/// Appends `count` of 0..`population` without repeats; all such sets are equally likely.
fn choose(list: &mut Vec<u64>, count: u64, population: u64, stream: &mut RandomStream) {
    let start = list.len();
    if count > population / 2 {
        // Fewer numbers are excluded than included.
        choose(list, population - count, population, stream);
        let out = list.split_off(start);
        let mut out = out.into_iter().peekable();
        list.extend((0..population).filter(|number| out.next_if_eq(number).is_none()));
        return;
    }
    let mut drawn: Vec<u64> = Vec::new();
    while (drawn.len() as u64) < count {
        let missing = count - drawn.len() as u64;
        drawn.extend((0..missing).map(|_| stream.below(population)));
        drawn.sort_unstable();
        drawn.dedup();
    }
    list.extend(drawn);
}

impl PlantedGraph for Plan {
    fn neighbours_of(&self, node: u64, list: &mut Vec<u64>) {
        let &Common { nodes, classes, seed, .. } = &self.common;
        let (class, place) = (node % classes, node / classes);
        let members = self.members(class);
        let mut lengths = RandomStream::new(seed, GeneratorPurpose::Degree, node);
        let of_class = binomial(members - 1, self.within, &mut lengths);
        let of_others = binomial(nodes - members, self.between, &mut lengths);

        let mut stream = RandomStream::new(seed, GeneratorPurpose::Neighbours, node);
        let start = list.len();
        choose(list, of_class, members - 1, &mut stream);
        for neighbour in &mut list[start..] {
            // The members except the node itself, enumerated.
            *neighbour = (*neighbour + u64::from(*neighbour >= place)) * classes + class;
        }
        let middle = list.len();
        choose(list, of_others, nodes - members, &mut stream);
        for neighbour in &mut list[middle..] {
            // Of each run of `classes` ids all but one are of other classes.
            let (run, rest) = (*neighbour / (classes - 1), *neighbour % (classes - 1));
            *neighbour = run * classes + rest + u64::from(rest >= class);
        }
        list[start..].sort_unstable();
    }

    fn class_of(&self, node: u64) -> u64 {
        node % self.common.classes
    }

    fn split_of(&self, node: u64) -> Option<Split> {
        self.common.uniform_split(node)
    }

    fn description(&self) -> Map<String, Value> {
        Map::from_iter([("p_in".to_owned(), json!(self.within)), ("p_out".to_owned(), json!(self.between))])
    }
}

#[cfg(test)]
mod tests;

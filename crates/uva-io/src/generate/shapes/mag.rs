//! The generator of papers, authors, institutions and fields: the shape of ogbn-mag.
//!
//! Sizes of types and relations are those of ogbn-mag, in proportion to the number of papers. Citations have the shape of
//! the citation generator, with all papers labelled, and both directions of each edge in one relation. In every other
//! relation, in-degrees follow a power law with exponent 2.6, sources one with 2.5. Each type has one shuffle of its ids,
//! so a node with many edges in one relation has many in all.
//!
//! Sources of the figures: Hu et al. 2020, "Open Graph Benchmark", and the split sizes of ogb's loader.

use serde_json::Map;
use uva_graph::{ElementType, GraphError, Split};

use super::citation::{self, Citation};
use super::power_law::Degrees;
use crate::generate::draws::permutation::Permutation;
use crate::generate::draws::random::{GeneratorPurpose, RandomStream};
use crate::generate::estimate::GeneratorEstimate;
use crate::generate::options::common::Common;
use crate::generate::options::train_by::TrainBy;
use crate::generate::planted::{PlantedGraph, draw_list};
use crate::generate::planted_types::{PlantedRelation, PlantedType, PlantedTypes, estimate, seed_of};
use crate::generate::recipe::{Generator, Planned, Recipe};
use crate::typed::Reversal;

/// Papers of ogbn-mag.
pub(crate) const PAPERS: u64 = 736_389;
/// Citations of ogbn-mag.
pub(crate) const CITATIONS: u64 = 5_416_271;
/// Papers of the splits of ogbn-mag.
pub(crate) const SPLITS: [u64; 3] = [629_571, 64_879, 41_939];

/// The other types of ogbn-mag, and their nodes.
const OTHER_TYPES: [(&str, u64); 3] = [("author", 1_134_649), ("institution", 8_740), ("field", 59_965)];

/// A relation of ogbn-mag except the citations: its names, the types at its ends, and the number of its edges.
struct Published {
    names: [&'static str; 3],
    ends: [usize; 2],
    edges: u64,
}

const OTHER_RELATIONS: [Published; 3] = [
    Published { names: ["author", "writes", "paper"], ends: [1, 0], edges: 7_145_660 },
    Published { names: ["author", "affiliated_with", "institution"], ends: [1, 2], edges: 1_043_998 },
    Published { names: ["paper", "has_topic", "field"], ends: [0, 3], edges: 7_505_078 },
];

/// A graph of papers, authors, institutions and fields. `common` describes the papers; the mean degree is that of their
/// citations. Other types and relations are in proportion.
#[derive(Debug, Clone, PartialEq)]
pub struct Mag {
    /// The options shared by all shapes.
    pub common: Common,
}

impl Default for Mag {
    fn default() -> Mag {
        let share = |count: u64| count as f64 / PAPERS as f64;
        let [train_share, valid_share, test_share] = SPLITS.map(share);
        Mag {
            common: Common {
                nodes: PAPERS,
                average_degree: share(CITATIONS),
                feature_dim: 128,
                feature_element: ElementType::F32,
                classes: 349,
                train_share,
                valid_share,
                test_share,
                ..Common::default()
            },
        }
    }
}

/// The row in the table.
pub(crate) static GENERATOR: Generator = Generator {
    name: "mag",
    help: "Typed: papers that cite, authors who write them, institutions and fields, as in ogbn-mag",
    why_fewer_edges: "a repeated neighbour is redrawn three times and then dropped",
    takes: &[],
    defaults: || Box::new(Mag::default()),
};

impl Mag {
    fn types(&self) -> Vec<PlantedType> {
        let scale = self.common.nodes as f64 / PAPERS as f64;
        let papers = PlantedType { name: "paper", nodes: self.common.nodes, has_features: true };
        let others = OTHER_TYPES.map(|(name, nodes)| {
            let nodes = ((nodes as f64 * scale).round() as u64).max(2);
            PlantedType { name, nodes, has_features: false }
        });
        std::iter::once(papers).chain(others).collect()
    }

    fn relations(&self) -> Vec<PlantedRelation> {
        let types = self.types();
        let published_nodes = [PAPERS, OTHER_TYPES[0].1, OTHER_TYPES[1].1, OTHER_TYPES[2].1];
        let more = self.common.average_degree / (CITATIONS as f64 / PAPERS as f64);
        let cites = PlantedRelation {
            names: ["paper", "cites", "paper"],
            mean: self.common.average_degree,
            reversal: Reversal::Same,
        };
        let others = OTHER_RELATIONS.map(|Published { names, ends: [source, destination], edges }| {
            let mean = more * edges as f64 / published_nodes[destination] as f64;
            // A small graph has fewer sources than a list of the published length.
            let mean = mean.min(types[source].nodes as f64 / 2.0);
            PlantedRelation { names, mean, reversal: Reversal::Separate }
        });
        std::iter::once(cites).chain(others).collect()
    }
}

impl Recipe for Mag {
    fn generator(&self) -> &'static Generator {
        &GENERATOR
    }

    fn common(&self) -> Common {
        self.common.clone()
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn plan(&self) -> Result<Planned<'_>, GraphError> {
        Ok(Planned::Typed(Box::new(Plan::new(self)?)))
    }

    fn estimate(&self) -> GeneratorEstimate {
        estimate(&self.common, &self.types(), &self.relations())
    }
}

/// A relation whose lists are drawn by degree alone.
struct Drawn {
    ends: [usize; 2],
    seed: u64,
    degrees: Degrees,
}

struct Plan {
    options: Mag,
    citations: citation::CitationPlan,
    types: Vec<PlantedType>,
    shuffles: Vec<Permutation>,
    drawn: Vec<Drawn>,
}

impl Plan {
    fn new(options: &Mag) -> Result<Plan, GraphError> {
        let common = options.common.clone();
        if common.train_by == TrainBy::Degree {
            let message = "by degree is not supported with `kind=mag`, whose papers train in order of time";
            return Err(GraphError::usage("train_by", message));
        }
        let all_labelled =
            Citation { common, fields_per_class: 1, coverage: 1.0, window: 1.0, ..Citation::default() };
        let citations = citation::CitationPlan::new(&all_labelled)?;
        let (types, relations) = (options.types(), options.relations());
        let seed = options.common.seed;
        let shuffles = types
            .iter()
            .enumerate()
            .map(|(number, planted)| Permutation::new(planted.nodes, seed_of(seed, number)))
            .collect();
        let drawn =
            OTHER_RELATIONS.iter().zip(&relations[1..]).enumerate().map(|(at, (published, planted))| {
                let [sources, destinations] = published.ends.map(|end| types[end].nodes);
                let degrees = Degrees::between(destinations, sources as f64, planted.mean);
                Drawn { ends: published.ends, seed: seed_of(seed, at + 1), degrees }
            });
        let drawn = drawn.collect();
        Ok(Plan { options: options.clone(), citations, types, shuffles, drawn })
    }
}

impl PlantedTypes for Plan {
    fn types(&self) -> Vec<PlantedType> {
        self.types.clone()
    }

    fn relations(&self) -> Vec<PlantedRelation> {
        self.options.relations()
    }

    fn neighbours_of(&self, relation: usize, node: u64, list: &mut Vec<u64>) {
        let Some(Drawn { ends: [source, destination], seed, degrees }) =
            relation.checked_sub(1).map(|at| &self.drawn[at])
        else {
            return self.citations.neighbours_of(node, list);
        };
        let position = self.shuffles[*destination].backward(node);
        let degree = degrees.at(position, RandomStream::new(*seed, GeneratorPurpose::Degree, node).unit());
        let mut stream = RandomStream::new(*seed, GeneratorPurpose::Neighbours, node);
        let (sources, shuffle) = (self.types[*source].nodes, &self.shuffles[*source]);
        draw_list(list, degree, || {
            let w = stream.unit();
            Some(shuffle.forward(((w * w * w * sources as f64) as u64).min(sources - 1)))
        });
    }

    fn shown_class(&self, _: usize, node: u64) -> Option<u64> {
        Some(self.citations.class_of(node))
    }

    fn signal(&self) -> f64 {
        self.options.common.signal()
    }

    fn class_of(&self, node: u64) -> u64 {
        self.citations.class_of(node)
    }

    fn split_of(&self, node: u64) -> Option<Split> {
        self.citations.split_of(node)
    }

    fn description(&self) -> Map<String, serde_json::Value> {
        self.citations.description()
    }
}

#[cfg(test)]
mod tests;

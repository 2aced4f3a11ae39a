//! The generator of typed graphs of papers, such as ogbn-mag, MAG240M and IGBH.
//!
//! Sizes of types and relations are those of a [published graph](published), in proportion to the number of papers.
//! Citations have the shape of the citation generator, and both directions of each edge in one relation. In every other
//! relation, in-degrees follow a power law with exponent 2.6, sources one with 2.5. Each type has one shuffle of its ids,
//! so a node with many edges in one relation has many in all. In a relation without a published size, a share of the
//! sources has one edge each.

pub(crate) mod published;

use serde_json::Map;
use uva_graph::{GraphError, Split};

use self::published::{OGBN_MAG, PublishedGraph};
use super::citation::{self, Citation};
use super::power_law::Degrees;
use crate::generate::draws::permutation::Permutation;
use crate::generate::draws::random::{GeneratorPurpose, RandomStream};
use crate::generate::estimate::GeneratorEstimate;
use crate::generate::options::common::Common;
use crate::generate::options::train_by::TrainBy;
use crate::generate::planted::{PlantedGraph, draw_list};
use crate::generate::planted_types::{
    DrawnAt, PlantedRelation, PlantedType, PlantedTypes, estimate, seed_of,
};
use crate::generate::recipe::{Generator, Planned, Recipe};
use crate::typed::Reversal;

/// A graph of papers, authors and more. `common` describes the papers; the mean degree is that of their citations. Other
/// types and relations are in proportion.
#[derive(Debug, Clone, PartialEq)]
pub struct Mag {
    /// The options shared by all shapes.
    pub common: Common,
    published: &'static PublishedGraph,
}

impl Mag {
    /// The graph with the sizes of a published one.
    pub(crate) fn of(published: &'static PublishedGraph) -> Mag {
        let share = |count: u64| count as f64 / published.papers as f64;
        let [train_share, valid_share, test_share] = published.splits.map(share);
        let common = Common {
            nodes: published.papers,
            average_degree: share(published.citations),
            feature_dim: published.feature_dim,
            feature_element: published.feature_element,
            classes: published.classes,
            train_share,
            valid_share,
            test_share,
            ..Common::default()
        };
        Mag { common, published }
    }

    /// The same shape with other options of the papers.
    pub(crate) fn with(self, common: Common) -> Mag {
        Mag { common, ..self }
    }
}

impl Default for Mag {
    fn default() -> Mag {
        Mag::of(&OGBN_MAG)
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
        let scale = self.common.nodes as f64 / self.published.papers as f64;
        let mut types = Vec::new();
        for (name, nodes) in self.published.all_types() {
            let is_paper = types.is_empty();
            let scaled = ((nodes as f64 * scale).round() as u64).max(2);
            let nodes = if is_paper { self.common.nodes } else { scaled };
            types.push(PlantedType {
                name,
                nodes,
                has_features: is_paper || self.published.all_have_features,
            });
        }
        types
    }

    fn relations(&self) -> Vec<PlantedRelation> {
        let (types, published) = (self.types(), self.published);
        let published_nodes: Vec<u64> = published.all_types().map(|(_, nodes)| nodes).collect();
        let more = self.common.average_degree / (published.citations as f64 / published.papers as f64);
        let cites = PlantedRelation {
            names: ["paper", "cites", "paper"],
            drawn_at: DrawnAt::Destinations,
            mean: self.common.average_degree,
            reversal: Reversal::Same,
        };
        let counted = published.relations.iter().zip(published.edges).map(|(&names, &edges)| {
            let [source, destination] = [names[0], names[2]].map(|name| published.type_at(name));
            let mean = more * edges as f64 / published_nodes[destination] as f64;
            // A small graph has fewer sources than a list of the published length.
            let mean = mean.min(types[source].nodes as f64 / 2.0);
            PlantedRelation { names, drawn_at: DrawnAt::Destinations, mean, reversal: Reversal::Separate }
        });
        let guessed = published.guessed.iter().map(|&(names, mean)| PlantedRelation {
            names,
            drawn_at: DrawnAt::Sources,
            mean,
            reversal: Reversal::Separate,
        });
        std::iter::once(cites).chain(counted).chain(guessed).collect()
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

/// A relation whose lists are drawn without regard to classes.
struct Drawn {
    /// The type whose nodes have the lists, and the type of their entries.
    ends: [usize; 2],
    seed: u64,
    length: Length,
}

/// The length of a list.
enum Length {
    PowerLaw(Degrees),
    /// One entry with this probability, otherwise none.
    One(f64),
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
        common.check()?;
        if common.train_by == TrainBy::Degree {
            let message = "by degree is not supported with `kind=mag`, whose papers train in order of time";
            return Err(GraphError::usage("train_by", message));
        }
        let labelled = match options.published.few_labels {
            true => Citation::few_labelled(common),
            false => Citation::all_labelled(common),
        };
        let citations = citation::CitationPlan::new(&labelled)?;
        let (types, relations) = (options.types(), options.relations());
        let seed = options.common.seed;
        let shuffles = types
            .iter()
            .enumerate()
            .map(|(number, planted)| Permutation::new(planted.nodes, seed_of(seed, number)))
            .collect();
        let drawn = relations.iter().enumerate().skip(1).map(|(number, planted)| {
            let [source, destination] =
                [planted.names[0], planted.names[2]].map(|name| options.published.type_at(name));
            let (ends, length) = match planted.drawn_at {
                DrawnAt::Destinations => {
                    let [sources, destinations] = [source, destination].map(|end| types[end].nodes);
                    let degrees = Degrees::between(destinations, sources as f64, planted.mean);
                    ([destination, source], Length::PowerLaw(degrees))
                }
                DrawnAt::Sources => ([source, destination], Length::One(planted.mean)),
            };
            Drawn { ends, seed: seed_of(seed, number), length }
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
        let Some(Drawn { ends: [owner, other], seed, length }) =
            relation.checked_sub(1).map(|at| &self.drawn[at])
        else {
            return self.citations.neighbours_of(node, list);
        };
        let unit = RandomStream::new(*seed, GeneratorPurpose::Degree, node).unit();
        let length = match length {
            Length::PowerLaw(degrees) => degrees.at(self.shuffles[*owner].backward(node), unit),
            Length::One(share) => u64::from(unit < *share),
        };
        let mut stream = RandomStream::new(*seed, GeneratorPurpose::Neighbours, node);
        let (others, shuffle) = (self.types[*other].nodes, &self.shuffles[*other]);
        draw_list(list, length, || {
            let w = stream.unit();
            Some(shuffle.forward(((w * w * w * others as f64) as u64).min(others - 1)))
        });
    }

    fn shown_class(&self, node_type: usize, node: u64) -> Option<u64> {
        (node_type == 0).then(|| self.citations.class_of(node))
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
        let mut description = self.citations.description();
        description.extend(self.options.published.guesses());
        description
    }
}

#[cfg(test)]
mod tests;

//! The generator of a typed graph whose labels need two relations.
//!
//! An item has two hidden digits a and b; its class is a · B + b of A · B. Digit a shows only in the features of tags,
//! which lead to the item by the relation `has`. Digit b shows only in the groups of users, which lead to it by `buys`.
//! Features of items are noise. A tag or user in a list is drawn from those with the item's digit with the probability
//! `homophily`, otherwise from all. So a model that does not see one of the relations can only guess that digit.

use rayon::prelude::*;
use serde_json::{Map, Value, json};
use uva_graph::{GraphError, Split};

use crate::generate::draws::permutation::Permutation;
use crate::generate::draws::random::{GeneratorPurpose, RandomStream};
use crate::generate::estimate::GeneratorEstimate;
use crate::generate::options::common::{Common, check_share};
use crate::generate::options::shape_options::ShapeOptions;
use crate::generate::options::train_by::TrainBy;
use crate::generate::planted::draw_list;
use crate::generate::planted_types::{
    DrawnAt, PlantedRelation, PlantedType, PlantedTypes, estimate, seed_of,
};
use crate::generate::recipe::{Generator, Planned, Recipe};
use crate::typed::Reversal;

/// Items for which the best classifiers are computed.
const SAMPLE: u64 = 100_000;

/// A graph of items, tags and users.
#[derive(Debug, Clone, PartialEq)]
pub struct TwoRelations {
    /// The options of the items. Half of the mean degree is that of each relation.
    pub common: Common,
    /// Share of neighbours drawn from those with the item's digit; the others are drawn from all.
    pub homophily: f64,
    /// Whether users have no features, so that only an embedding of each can show its group.
    pub featureless: bool,
}

impl Default for TwoRelations {
    fn default() -> TwoRelations {
        TwoRelations {
            common: Common { nodes: 20_000, feature_dim: 32, label_noise: 0.0, ..Common::default() },
            homophily: 0.7,
            featureless: false,
        }
    }
}

/// The row in the table.
pub(crate) static GENERATOR: Generator = Generator {
    name: "typed",
    help: "Typed: items whose class needs both the features of their tags and the groups of their users",
    why_fewer_edges: "a repeated neighbour is redrawn three times and then dropped",
    takes: &["homophily", "featureless"],
    defaults: || Box::new(TwoRelations::default()),
};

impl TwoRelations {
    /// The numbers of values of both digits; 1 and the number of classes if it is prime.
    fn digits(&self) -> [u64; 2] {
        let classes = self.common.classes;
        let largest =
            (1..).take_while(|digit| digit * digit <= classes).filter(|digit| classes.is_multiple_of(*digit));
        let small = largest.last().unwrap_or(1);
        [classes / small, small]
    }

    fn types(&self) -> Vec<PlantedType> {
        let nodes = self.common.nodes;
        let [of_tags, of_users] = self.digits();
        vec![
            PlantedType { name: "item", nodes, has_features: true },
            PlantedType { name: "tag", nodes: (nodes / 20).max(8 * of_tags), has_features: true },
            PlantedType {
                name: "user",
                nodes: (nodes / 2).max(8 * of_users),
                has_features: !self.featureless,
            },
        ]
    }

    fn relations(&self) -> Vec<PlantedRelation> {
        let mean = self.common.average_degree / 2.0;
        let drawn_at = DrawnAt::Destinations;
        let of = |names| PlantedRelation { names, drawn_at, mean, reversal: Reversal::Separate };
        vec![of(["tag", "has", "item"]), of(["user", "buys", "item"])]
    }
}

impl Recipe for TwoRelations {
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
        self.featureless |= options.featureless;
    }

    fn plan(&self) -> Result<Planned<'_>, GraphError> {
        Ok(Planned::Typed(Box::new(Plan::new(self)?)))
    }

    fn estimate(&self) -> GeneratorEstimate {
        estimate(&self.common, &self.types(), &self.relations())
    }
}

struct Plan {
    options: TwoRelations,
    /// The numbers of values of the digits that tags and users show.
    digits: [u64; 2],
    types: Vec<PlantedType>,
    shuffles: Vec<Permutation>,
}

impl Plan {
    fn new(options: &TwoRelations) -> Result<Plan, GraphError> {
        options.common.check()?;
        check_share("homophily", options.homophily)?;
        let (digits, classes) = (options.digits(), options.common.classes);
        if digits.contains(&1) {
            let message =
                format!("{classes} is not a product of two numbers of values: choose another, such as 12");
            return Err(GraphError::usage("classes", message));
        }
        if options.common.train_by == TrainBy::Degree {
            let message = "by degree is not supported with `kind=typed`";
            return Err(GraphError::usage("train_by", message));
        }
        let types = options.types();
        let least = types[1].nodes.min(types[2].nodes) as f64 / 4.0;
        if options.common.average_degree / 2.0 > least {
            let message = format!(
                "{} is too large for {} tags and {} users: at most {}",
                options.common.average_degree,
                types[1].nodes,
                types[2].nodes,
                2.0 * least
            );
            return Err(GraphError::usage("avg_degree", message));
        }
        let seed = options.common.seed;
        let shuffle =
            |(number, planted): (usize, &PlantedType)| Permutation::new(planted.nodes, seed_of(seed, number));
        let shuffles = types.iter().enumerate().map(shuffle).collect();
        Ok(Plan { options: options.clone(), digits, types, shuffles })
    }

    /// The digit of an item that a relation shows.
    fn digit_of_item(&self, relation: usize, item: u64) -> u64 {
        let class = self.class_of(item);
        [class / self.digits[1], class % self.digits[1]][relation]
    }

    /// The digit of a tag (type 1) or user (type 2).
    fn digit_of(&self, node_type: usize, node: u64) -> u64 {
        self.shuffles[node_type].backward(node) % self.digits[node_type - 1]
    }

    /// The probability that the most frequent digit among an item's neighbours is its own, where a tie is decided at
    /// random.
    fn chance(&self, relation: usize, item: u64) -> f64 {
        let mut list = Vec::new();
        self.neighbours_of(relation, item, &mut list);
        let mut counts = vec![0_u32; self.digits[relation] as usize];
        for neighbour in list {
            counts[self.digit_of(relation + 1, neighbour) as usize] += 1;
        }
        let own = counts[self.digit_of_item(relation, item) as usize];
        let most = counts.iter().max().copied().unwrap_or(0);
        let ties = counts.iter().filter(|&&count| count == most).count();
        if own == most { 1.0 / ties as f64 } else { 0.0 }
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
        let common = &self.options.common;
        let seed = seed_of(common.seed, relation + 1);
        let own = self.digit_of_item(relation, node);
        let (source, digits) = (relation + 1, self.digits[relation]);
        let (nodes, shuffle) = (self.types[source].nodes, &self.shuffles[source]);
        // From half the mean to one and a half, so that no item has too few neighbours to show its digit.
        let mut stream = RandomStream::new(seed, GeneratorPurpose::Degree, node);
        let length = common.average_degree / 2.0 * (0.5 + stream.unit());
        let length = ((length + stream.unit()) as u64).max(1);
        let mut stream = RandomStream::new(seed, GeneratorPurpose::Neighbours, node);
        draw_list(list, length, || {
            let digit = if stream.unit() < self.options.homophily { own } else { stream.below(digits) };
            // Positions digit, digit + digits, …: those with this digit.
            let members = (nodes - digit).div_ceil(digits);
            Some(shuffle.forward(digit + stream.below(members) * digits))
        });
    }

    fn shown_class(&self, node_type: usize, node: u64) -> Option<u64> {
        (node_type > 0).then(|| self.digit_of(node_type, node))
    }

    /// Twice that of other generators, so that a tag's features show its digit.
    fn signal(&self) -> f64 {
        2.0 * self.options.common.signal()
    }

    fn class_of(&self, node: u64) -> u64 {
        self.shuffles[0].backward(node) % self.options.common.classes
    }

    fn split_of(&self, node: u64) -> Option<Split> {
        self.options.common.uniform_split(node)
    }

    fn description(&self) -> Map<String, Value> {
        let [tags, users] = self.digits;
        Map::from_iter([
            ("homophily".to_owned(), json!(self.options.homophily)),
            ("digits".to_owned(), json!([tags, users])),
        ])
    }

    fn best_accuracies(&self) -> Vec<(&'static str, f64)> {
        let items = self.types[0].nodes.min(SAMPLE);
        let common = &self.options.common;
        // Exact sums of integers would need common denominators; a fixed order of additions is as repeatable.
        let chances: Vec<[f64; 2]> =
            (0..items).into_par_iter().map(|item| [self.chance(0, item), self.chance(1, item)]).collect();
        let mean = |of: &dyn Fn(&[f64; 2]) -> f64| chances.iter().map(of).sum::<f64>() / items as f64;
        let with_noise = |accuracy: f64| {
            accuracy * (1.0 - common.label_noise) + common.label_noise / common.classes as f64
        };
        let [tags, users] = self.digits.map(|digits| 1.0 / digits as f64);
        vec![
            ("both relations", with_noise(mean(&|[has, buys]| has * buys))),
            ("has alone", with_noise(mean(&|[has, _]| has * users))),
            ("buys alone", with_noise(mean(&|[_, buys]| buys * tags))),
        ]
    }
}

#[cfg(test)]
mod tests;

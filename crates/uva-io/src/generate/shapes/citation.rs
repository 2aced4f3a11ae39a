//! The citation generator: the shape of papers100M.
//!
//! Ids run in time, and a node cites older nodes only: the list of a node, its in-neighbours, is its references. Every
//! node belongs to a field, its id modulo the number of fields. So the members of a field older than a node can be
//! counted without a table. One field per class is *labelled*. Its coverage is good: its lists are longer, and so its
//! nodes are cited more. The splits are drawn from its newest part, train before valid before test. In papers100M too,
//! only the papers of arXiv have labels, 1.4 % of all. So the popular nodes of the whole graph are not the ones that a
//! training set reaches.
//!
//! A citation goes to the node's own field (`within_field`), else to any. Within the field, its age is either recent,
//! with P(age < a) ~ a^(1/4), or uniform. From there it may climb to a famous work nearby (`fame`), which is
//! preferential attachment without a history. The older members of a field form a binary tree of blocks, and each
//! block's most cited member is that of one of its halves. A citation climbs one level with probability `fame`, and
//! again, as long as the block is older than the node. A work that leads blocks of 2^l members then gets ~ (2 ·
//! fame)^l, so the r-th of a field ~ r^−(1 + log2 fame). A citation of another field goes to a leader of at least 2^12
//! members, or of the largest block: other fields cite only its famous works.
//!
//! Lists are `c/√u` long with u uniform (an exponent of 3), at most 20 times the mean, growing with time from half the
//! mean to one and a half.
//!
//! # Purpose
//! It reproduces the pattern that GNNLab found on papers100M (Yang et al. 2022). Take the defaults, 1 M nodes, fanouts
//! 15, 10, 5, batches of 1000 and a feature cache of 10 % of the nodes. Rows chosen by the counts of a sampled epoch
//! then get 98 % of later reads, rows chosen by out-degree 46 %, rows chosen at random 10 %. A test of uva-sample
//! measures it. Batches that reach much of a small graph flatten the pattern (94 and 47 % at 250,000 nodes and batches
//! of 256). At 4 M nodes it is 99 and 54 %.
//!
//! The result depends only on integers and correctly rounded operations (+, −, ×, ÷, √), and every number is keyed by
//! seed, purpose and node. So the bytes are the same for any number of threads, on any machine.

use serde_json::{Map, Value, json};
use uva_graph::{GraphError, Split, mix};

use crate::generate::draws::random::{GeneratorPurpose, RandomStream};
use crate::generate::options::common::{Common, check_share};
use crate::generate::planted::{PlantedGraph, draw_list, list_length};
use crate::generate::recipe::{Generator, Planned, Recipe};

/// A citation of another field goes to the leader of a block of at least 2^this members, if there is one.
const KNOWN_ELSEWHERE: u32 = 12;

/// A graph in the shape of papers100M, with planted classes. The defaults of the options beyond [`Common`] reproduce
/// how caches behave there.
#[derive(Debug, Clone, PartialEq)]
pub struct Citation {
    /// The options that all shapes share. By default lists have 14 entries on average, and 1.09 % of the nodes train,
    /// 0.11 % validate and 0.19 % test, as in papers100M. Together the splits can hold at most one node in
    /// `fields_per_class`.
    pub common: Common,
    /// How many fields each class has; one of them is labelled.
    pub fields_per_class: u64,
    /// The share of citations that stay within the field.
    pub within_field: f64,
    /// Share of citations within the field that go to recent nodes; the others ignore age.
    pub recent: f64,
    /// Probability of a climb from a work to the most cited one of a block twice as large; below 1.
    pub fame: f64,
    /// How many times longer than the mean lists of labelled fields are. Those of the others are shorter, so that the
    /// mean stays.
    pub coverage: f64,
    /// The newest share of all time that the splits are drawn from; more if they would not fit.
    pub window: f64,
}

impl Default for Citation {
    fn default() -> Citation {
        Citation {
            common: Common {
                average_degree: 14.0,
                train_share: 0.0109,
                valid_share: 0.0011,
                test_share: 0.0019,
                ..Common::default()
            },
            fields_per_class: 16,
            within_field: 0.99,
            recent: 0.5,
            fame: 0.75,
            coverage: 2.8,
            window: 0.35,
        }
    }
}

/// The minimum number of nodes per field.
const FIELD: u64 = 256;

impl Citation {
    /// Labels in one field of sixteen, or of fewer if the fields would be too small to cite within.
    pub(crate) fn few_labelled(common: Common) -> Citation {
        let defaults = Citation::default();
        let most = defaults.fields_per_class;
        let fields_per_class = (common.nodes / (common.classes * FIELD)).clamp(1, most);
        // With one field per class there are no other fields with lower coverage.
        let others = (fields_per_class - 1) as f64 / (most - 1) as f64;
        let coverage = 1.0 + (defaults.coverage - 1.0) * others;
        Citation { common, fields_per_class, coverage, ..defaults }
    }

    /// Labels in all fields.
    pub(crate) fn all_labelled(common: Common) -> Citation {
        Citation { common, fields_per_class: 1, coverage: 1.0, window: 1.0, ..Citation::default() }
    }
}

/// The row in the table.
pub(crate) static GENERATOR: Generator = Generator {
    name: "citation",
    help: "Nodes in order of time, each citing older nodes of its field; few training nodes, recent ones of few fields, as in papers100M",
    why_fewer_edges: "a node cites only older nodes, and the first nodes have few; a repeated citation is redrawn three times \
         and then dropped",
    takes: &[],
    defaults: || Box::new(Citation::default()),
};

impl Recipe for Citation {
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
        Ok(Planned::Graph(Box::new(CitationPlan::new(self)?)))
    }
}

/// The checked options and derived values.
pub(super) struct CitationPlan {
    options: Citation,
    fields: u64,
    /// How many times longer than the mean the lists of a field without labels are.
    coverage_elsewhere: f64,
    /// The first node that may be in a split.
    from: u64,
    /// The probability that a node of a labelled field, from `from` on, is in a split.
    drawn: f64,
}

impl CitationPlan {
    pub(super) fn new(options: &Citation) -> Result<CitationPlan, GraphError> {
        let common = &options.common;
        common.check()?;
        check_share("within_field", options.within_field)?;
        check_share("recent", options.recent)?;
        check_share("fame", options.fame)?;
        check_share("window", options.window)?;
        let refuse = |option: &str, message: String| Err(GraphError::usage(option, message));
        let per_class = options.fields_per_class;
        if !(1..=1 << 20).contains(&per_class) {
            return refuse("fields_per_class", format!("{per_class} is outside 1..=2^20"));
        }
        if options.fame >= 1.0 {
            return refuse("fame", format!("{} is not below 1", options.fame));
        }
        let labelled = 1.0 / per_class as f64;
        let most = per_class as f64;
        if !(0.0..=most).contains(&options.coverage) {
            return refuse("coverage", format!("{} is outside 0..={most}", options.coverage));
        }
        let all = common.split_shares();
        // Shares of published splits add up to 1 except for rounding.
        if all > labelled + 1e-9 {
            return refuse(
                "train_share",
                format!(
                    "the splits take {all} of the nodes, but only {labelled} of them (one in {per_class}) are in fields with \
                     labels"
                ),
            );
        }
        let window = options.window.max(all / labelled).min(1.0);
        Ok(CitationPlan {
            options: options.clone(),
            fields: common.classes * per_class,
            coverage_elsewhere: if per_class == 1 {
                1.0
            } else {
                (1.0 - labelled * options.coverage) / (1.0 - labelled)
            },
            from: (common.nodes as f64 * (1.0 - window)) as u64,
            drawn: if all == 0.0 { 0.0 } else { all / (labelled * window) },
        })
    }

    /// The first fields are the labelled ones, one per class.
    fn is_labelled(&self, field: u64) -> bool {
        field < self.options.common.classes
    }

    /// The number of members of `field` older than `node`: those at `field`, `field` + `fields`, … below it.
    fn older_members(&self, field: u64, node: u64) -> u64 {
        node.saturating_sub(field).div_ceil(self.fields)
    }

    /// The most cited one of the 2^`level` members of `field` whose block contains `member`.
    fn leader(&self, field: u64, member: u64, level: u32) -> u64 {
        let mut block = member >> level;
        for level in (0..level).rev() {
            // The half of the block that contains it.
            let key = mix(field | u64::from(level) << 56) ^ block;
            let half = RandomStream::new(self.options.common.seed, GeneratorPurpose::Fame, key).next() >> 63;
            block = block << 1 | half;
        }
        block
    }

    /// One citation of `node`; `None` if there is nothing to cite.
    fn cited(&self, node: u64, stream: &mut RandomStream) -> Option<u64> {
        let options = &self.options;
        let own = node % self.fields;
        let within = stream.unit() < options.within_field;
        let field = if within { own } else { stream.below(self.fields) };
        let (recent, age, climb) = (stream.unit() < options.recent, stream.unit(), stream.unit());
        let older = self.older_members(field, node);
        if older == 0 {
            return None;
        }
        let age = if within && recent { age * age * age * age } else { age };
        let member = older - 1 - ((age * older as f64) as u64).min(older - 1);
        let mut level = if within { 0 } else { KNOWN_ELSEWHERE };
        let mut chance = options.fame;
        // No field has 2^40 members, and the probability shrinks.
        while climb < chance && level < 40 {
            level += 1;
            chance *= options.fame;
        }
        // The whole block must be older. A block of one node always is.
        while ((member >> level) + 1) << level > older {
            level -= 1;
        }
        Some(field + self.leader(field, member, level) * self.fields)
    }
}

impl PlantedGraph for CitationPlan {
    fn neighbours_of(&self, node: u64, list: &mut Vec<u64>) {
        let common = &self.options.common;
        let labelled = self.is_labelled(node % self.fields);
        let coverage = if labelled { self.options.coverage } else { self.coverage_elsewhere };
        let time = 0.5 + node as f64 / common.nodes as f64;
        let mut stream = RandomStream::new(common.seed, GeneratorPurpose::Degree, node);
        let length = list_length(common.average_degree * coverage * time, &mut stream).min(node);
        let mut stream = RandomStream::new(common.seed, GeneratorPurpose::Neighbours, node);
        draw_list(list, length, || self.cited(node, &mut stream));
    }

    fn class_of(&self, node: u64) -> u64 {
        node % self.fields % self.options.common.classes
    }

    fn split_of(&self, node: u64) -> Option<Split> {
        let common = &self.options.common;
        let drawn = node >= self.from
            && self.is_labelled(node % self.fields)
            && RandomStream::new(common.seed, GeneratorPurpose::Split, node).unit() < self.drawn;
        if !drawn {
            return None;
        }
        // Train first, test last, each with a part of the time proportional to its share.
        let time = (node - self.from) as f64 / (common.nodes - self.from) as f64;
        common.split_at(time * common.split_shares())
    }

    fn description(&self) -> Map<String, Value> {
        let options = &self.options;
        Map::from_iter([
            ("fields_per_class".to_owned(), json!(options.fields_per_class)),
            ("within_field".to_owned(), json!(options.within_field)),
            ("recent".to_owned(), json!(options.recent)),
            ("fame".to_owned(), json!(options.fame)),
            ("coverage".to_owned(), json!(options.coverage)),
            ("window".to_owned(), json!(options.window)),
        ])
    }
}

#[cfg(test)]
mod tests;

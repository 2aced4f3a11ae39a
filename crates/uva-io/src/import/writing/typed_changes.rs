//! The changes that options make in the relations and node types of a typed graph.

use uva_graph::csc::{Changes, SelfLoops};
use uva_graph::typed_meta::{NodeTypeMeta, RelationMeta};
use uva_graph::{GraphError, Metagraph};

use crate::import::options::{Float8, ImportOptions};
use crate::import::scoped::Scoped;
use crate::typed::{Reversal, metagraph_of};

/// The reverse edges that a format adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReverseRule {
    /// On request, each in a relation of its own.
    OnRequest,
    /// Unless the options say otherwise; within one node type, in the relation itself.
    ByDefault,
}

/// The changes of a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RelationChanges {
    /// The reverse edges to add.
    pub(crate) reversal: Reversal,
    /// The other changes.
    pub(crate) changes: Changes,
}

/// The changes of all relations and node types, each in the order of `meta.json`.
#[derive(Debug)]
pub(crate) struct TypedChanges {
    pub(crate) relations: Vec<RelationChanges>,
    /// Features as float8, by type.
    pub(crate) float8: Vec<Option<Float8>>,
    /// Whether labels are targets of regression, by type.
    pub(crate) regression: Vec<bool>,
}

impl TypedChanges {
    /// What the options mean for these types.
    ///
    /// # Errors
    /// If an option names an unknown type or relation, or a relation that cannot have the change.
    pub(crate) fn of(
        options: &ImportOptions,
        nodes: &[NodeTypeMeta],
        edges: &[RelationMeta],
        rule: ReverseRule,
    ) -> Result<Self, GraphError> {
        let metagraph = metagraph_of(nodes, edges)?;
        let chosen = Chosen { metagraph: &metagraph, edges };
        let by_type = |name: &str| metagraph.find_type(name).map(|found| found.index());
        let float8 = match &options.float8 {
            None => vec![None; nodes.len()],
            Some(value) => value.values("feat_dtype", nodes.len(), by_type)?,
        };
        let regression = match &options.regression {
            None => vec![None; nodes.len()],
            Some(value) => value.values("regression", nodes.len(), by_type)?,
        };
        let regression = regression.into_iter().map(|value| value == Some(true)).collect();
        let symmetrise = chosen.symmetrise(options.symmetrise.as_ref())?;
        let reverse = chosen.reverse(options.reverse.as_ref(), rule)?;
        let deduplicate = chosen.values("dedup", options.deduplicate.as_ref())?;
        let self_loops = chosen.self_loops(options.self_loops.as_ref())?;
        let mut relations = Vec::with_capacity(edges.len());
        for at in 0..edges.len() {
            let reversal = match (symmetrise[at], reverse[at]) {
                (Some(true), _) => Reversal::Same,
                (Some(false), Reversal::Same) => Reversal::None,
                (_, reversal) => reversal,
            };
            let deduplicate = deduplicate[at] == Some(true);
            let self_loops = self_loops[at].unwrap_or(SelfLoops::Keep);
            let changes = Changes { symmetrise: false, deduplicate, self_loops };
            relations.push(RelationChanges { reversal, changes });
        }
        chosen.check_pairs(&relations)?;
        Ok(Self { relations, float8, regression })
    }
}

/// The relations that options choose from.
struct Chosen<'m> {
    metagraph: &'m Metagraph,
    edges: &'m [RelationMeta],
}

impl Chosen<'_> {
    /// The value of each relation.
    fn values<T: Copy>(&self, option: &str, value: Option<&Scoped<T>>) -> Result<Vec<Option<T>>, GraphError> {
        let find = |name: &str| self.metagraph.find_relation(name).map(|found| found.index());
        value.map_or_else(
            || Ok(vec![None; self.edges.len()]),
            |value| value.values(option, self.edges.len(), find),
        )
    }

    /// Removes the value of each relation that `refusal` says cannot have it; such a relation may not be named.
    fn except<T: Copy>(
        &self,
        option: &str,
        value: Option<&Scoped<T>>,
        refusal: impl Fn(&RelationMeta) -> Option<String>,
    ) -> Result<Vec<Option<T>>, GraphError> {
        let mut values = self.values(option, value)?;
        for (value_of, entry) in values.iter_mut().zip(self.edges) {
            let Some(problem) = refusal(entry).filter(|_| value_of.is_some()) else { continue };
            if value.is_some_and(Scoped::is_named) {
                return Err(GraphError::usage(option, format!("{} {problem}", entry.names.join("__"))));
            }
            *value_of = None;
        }
        Ok(values)
    }

    fn symmetrise(&self, value: Option<&Scoped<bool>>) -> Result<Vec<Option<bool>>, GraphError> {
        self.except("symmetrise", value, |entry| {
            let is_symmetric = entry.reverse.as_ref() == Some(&entry.names);
            of_two_types(entry).or_else(|| is_symmetric.then(|| "has both directions already".to_owned()))
        })
    }

    fn self_loops(&self, value: Option<&Scoped<SelfLoops>>) -> Result<Vec<Option<SelfLoops>>, GraphError> {
        self.except("self_loops", value, of_two_types)
    }

    fn reverse(&self, value: Option<&Scoped<bool>>, rule: ReverseRule) -> Result<Vec<Reversal>, GraphError> {
        let by_default = Scoped::from(true);
        let value = value.or((rule == ReverseRule::ByDefault).then_some(&by_default));
        let values = self.except("reverse", value, |entry| {
            entry.reverse.as_ref().map(|reverse| format!("has the reverse {} already", reverse.join("__")))
        })?;
        let reversal = |(value, entry): (Option<bool>, &RelationMeta)| match value {
            Some(true) if rule == ReverseRule::ByDefault && of_two_types(entry).is_none() => Reversal::Same,
            Some(true) => Reversal::Separate,
            _ => Reversal::None,
        };
        Ok(values.into_iter().zip(self.edges).map(reversal).collect())
    }

    /// Refuses to change one of two relations that are each other's reverse.
    fn check_pairs(&self, changes: &[RelationChanges]) -> Result<(), GraphError> {
        for (entry, change) in self.edges.iter().zip(changes) {
            let Some(reverse) = &entry.reverse else { continue };
            let other = self.edges.iter().position(|other| other.names == *reverse);
            let Some(other) = other.map(|at| changes[at]) else { continue };
            let differs = [
                ("symmetrise", change.reversal != other.reversal),
                ("dedup", change.changes.deduplicate != other.changes.deduplicate),
                ("self_loops", change.changes.self_loops != other.changes.self_loops),
            ];
            if let Some((option, _)) = differs.into_iter().find(|(_, differs)| *differs) {
                let [name, reverse] = [&entry.names, reverse].map(|names| names.join("__"));
                let message =
                    format!("{reverse} is the reverse of {name}: name both, since both have to change");
                return Err(GraphError::usage(option, message));
            }
        }
        Ok(())
    }
}

fn of_two_types(entry: &RelationMeta) -> Option<String> {
    (entry.names[0] != entry.names[2]).then(|| "leads from one node type to another".to_owned())
}

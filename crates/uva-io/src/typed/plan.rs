//! The node types and relations of a dataset to write.

use uva_graph::typed_meta::{ListLayout, NodeTypeMeta, RelationMeta, TYPED_VERSION, TypedMeta};
use uva_graph::{GraphError, Metagraph, MetagraphError, Relation};

/// Prefix of the name of a relation with the edges of another one in the other direction.
const REVERSE: &str = "rev_";

/// The reverse edges to write for a relation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reversal {
    /// No reverse edges.
    #[default]
    None,
    /// A relation `rev_R` with all edges in the other direction.
    Separate,
    /// The reverse of each edge in the relation itself, whose ends are of one type. A self-loop is its own reverse.
    Same,
}

/// A relation to write.
#[derive(Debug, Clone, PartialEq)]
pub struct RelationPlan {
    /// Its entry in `meta.json`. The writer sets the keys that depend on the reverse, the order and the features.
    pub meta: RelationMeta,
    /// The reverse edges to add.
    pub reversal: Reversal,
}

impl RelationPlan {
    /// A relation of this source, name and destination.
    pub fn new(names: [&str; 3], reversal: Reversal) -> RelationPlan {
        let names = names.map(str::to_owned);
        let meta = RelationMeta {
            names,
            reverse: None,
            order: None,
            feat_dtype: None,
            feat_rows: None,
            feat_of: None,
            other: serde_json::Map::new(),
        };
        RelationPlan { meta, reversal }
    }
}

/// The node types and relations of a dataset to write, in their order. Relations that are added as the reverse of others
/// follow all others, in the order of these.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GraphPlan {
    /// The node types.
    pub nodes: Vec<NodeTypeMeta>,
    /// The relations.
    pub relations: Vec<RelationPlan>,
    /// The type whose splits are seeds.
    pub target: Option<String>,
}

/// A plan that has been checked.
#[derive(Debug)]
pub(super) struct CheckedPlan {
    pub(super) typed: TypedMeta,
    pub(super) metagraph: Metagraph,
    pub(super) reversals: Vec<Reversal>,
    /// The relation to write as the reverse of each given one.
    pub(super) added: Vec<Option<Relation>>,
}

impl GraphPlan {
    /// The entry of a node type with this many nodes.
    pub fn node_type(name: impl Into<String>, num: u64) -> NodeTypeMeta {
        let (classes, feat_dtype, other) = (None, None, serde_json::Map::new());
        NodeTypeMeta { name: name.into(), num, classes, feat_dtype, other }
    }

    /// Checks names and ends, and adds the reverse relations.
    pub(super) fn checked(self) -> Result<CheckedPlan, GraphError> {
        let given = self.relations.len();
        let reversals: Vec<Reversal> = self.relations.iter().map(|plan| plan.reversal).collect();
        let mut edges: Vec<RelationMeta> = self.relations.into_iter().map(|plan| plan.meta).collect();
        let mut added = vec![None; given];
        for at in 0..given {
            let [source, name, destination] = edges[at].names.clone();
            match reversals[at] {
                Reversal::None => {}
                Reversal::Same if source != destination => {
                    let message = format!(
                        "{source}__{name}__{destination} cannot have both directions in itself, since its ends are of two \
                         types: write a relation of its own for the other direction"
                    );
                    return Err(GraphError::usage("reverse", message));
                }
                Reversal::Same => edges[at].reverse = Some(edges[at].names.clone()),
                Reversal::Separate => {
                    added[at] = Some(Relation(u16::try_from(edges.len()).unwrap_or(u16::MAX)));
                    let reverse = format!("{REVERSE}{name}");
                    let mut plan = RelationPlan::new([&destination, &reverse, &source], Reversal::None);
                    plan.meta.reverse = Some(edges[at].names.clone());
                    edges[at].reverse = Some(plan.meta.names.clone());
                    edges.push(plan.meta);
                }
            }
        }
        let metagraph = metagraph_of(&self.nodes, &edges)?;
        if let Some(target) = &self.target {
            metagraph
                .find_type(target)
                .map_err(|unknown| GraphError::usage("target", unknown.to_string()))?;
        }
        let typed = TypedMeta {
            version: TYPED_VERSION,
            nodes: self.nodes,
            edges,
            target: self.target,
            layout: Some(ListLayout::Relation),
        };
        Ok(CheckedPlan { typed, metagraph, reversals, added })
    }
}

/// The node types and relations of these entries.
///
/// # Errors
/// If a name is not valid or occurs twice, or an end of a relation is not a node type.
pub(crate) fn metagraph_of(nodes: &[NodeTypeMeta], edges: &[RelationMeta]) -> Result<Metagraph, GraphError> {
    let types = nodes.iter().map(|node_type| node_type.name.as_str());
    let relations = edges.iter().map(|relation| relation.names.each_ref().map(String::as_str));
    Metagraph::new(types, relations).map_err(|problem| {
        let option = match &problem {
            MetagraphError::Name { what, .. } | MetagraphError::LongName { what, .. } => {
                if *what == "relation" { "edges" } else { "nodes" }
            }
            MetagraphError::Count { key, .. } | MetagraphError::Repeated { key, .. } => key,
            MetagraphError::UnknownEnd { .. } => "edges",
        };
        GraphError::usage(option, problem.to_string())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(relations: &[([&str; 3], Reversal)]) -> GraphPlan {
        let nodes = ["paper", "author"].map(|name| GraphPlan::node_type(name, 3)).to_vec();
        let relations =
            relations.iter().map(|&(names, reversal)| RelationPlan::new(names, reversal)).collect();
        GraphPlan { nodes, relations, target: Some("paper".to_owned()) }
    }

    #[test]
    fn reverses_follow_all_given_relations() {
        let cites = (["paper", "cites", "paper"], Reversal::Same);
        let writes = (["author", "writes", "paper"], Reversal::Separate);
        let likes = (["author", "likes", "author"], Reversal::Separate);
        let checked = plan(&[writes, cites, likes]).checked().unwrap();
        let names = |relation: &RelationMeta| relation.names.join(" ");
        let all: Vec<String> = checked.typed.edges.iter().map(names).collect();
        assert_eq!(all[3..], ["paper rev_writes author", "author rev_likes author"]);
        assert_eq!(checked.added, [Some(Relation(3)), None, Some(Relation(4))]);
        let reverses: Vec<Option<String>> = checked
            .typed
            .edges
            .iter()
            .map(|edge| edge.reverse.as_ref().map(|names| names.join(" ")))
            .collect();
        let of = |name: &str| Some(name.to_owned());
        assert_eq!(reverses[..2], [of("paper rev_writes author"), of("paper cites paper")]);
        assert_eq!(reverses[3..], [of("author writes paper"), of("author likes author")]);
    }

    #[test]
    fn wrong_plans_are_refused_with_the_option() {
        let writes = ["author", "writes", "paper"];
        let refusal = |plan: GraphPlan| plan.checked().unwrap_err().to_string();
        let same = refusal(plan(&[(writes, Reversal::Same)]));
        assert!(same.starts_with("`reverse`: author__writes__paper cannot have both"), "{same}");
        let twice =
            plan(&[(writes, Reversal::Separate), (["paper", "rev_writes", "author"], Reversal::None)]);
        assert_eq!(refusal(twice), "`edges`: edges[2] repeats paper__rev_writes__author");
        let unknown = refusal(plan(&[(["author", "writes", "papr"], Reversal::None)]));
        assert!(unknown.contains("did you mean \"paper\"?"), "{unknown}");
        let mut target = plan(&[(writes, Reversal::None)]);
        target.target = Some("papers".to_owned());
        assert!(refusal(target).starts_with("`target`: there is no node type"));
        let mut named = plan(&[(writes, Reversal::None)]);
        named.nodes[1].name = "a.b".to_owned();
        assert!(refusal(named).starts_with("`nodes`: node type \"a.b\": a name has letters"));
    }
}

//! The keys of `meta.json` that describe the types of a graph's nodes and edges: format 2 of a dataset.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use uva_files::quote;

use crate::description::metagraph::{Metagraph, MetagraphError, UnknownName};
use crate::description::schema::{NodeType, Relation};

/// The format that has these keys, as `version` of `meta.json`.
pub const TYPED_VERSION: u64 = 2;

/// The keys of format 2.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TypedMeta {
    /// The format: 2.
    pub version: u64,
    /// The node types, in the order of their numbers.
    pub nodes: Vec<NodeTypeMeta>,
    /// The relations, in the order of their numbers.
    pub edges: Vec<RelationMeta>,
    /// The type whose splits are seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The order of the neighbour lists in files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<ListLayout>,
}

/// A node type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeTypeMeta {
    /// Its name.
    #[serde(rename = "type")]
    pub name: String,
    /// The number of its nodes.
    pub num: u64,
    /// The number of classes; largest label + 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub classes: Option<u64>,
    /// The element type of the features. Only required for `bf16` and `e4m3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feat_dtype: Option<String>,
    /// All other keys.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// A relation. Relations are named by source, name and destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RelationMeta {
    /// Its names.
    #[serde(rename = "type")]
    pub names: [String; 3],
    /// The relation that has the same edges in the other direction; itself, if it has both directions of each edge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<[String; 3]>,
    /// The order of the entries within a list; any, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<EntryOrder>,
    /// The element type of the features. Only required for `bf16` and `e4m3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feat_dtype: Option<String>,
    /// The feature row of an entry; the row of its place, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feat_rows: Option<EdgeRowOf>,
    /// The relation whose features this one has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feat_of: Option<[String; 3]>,
    /// All other keys.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The order of the neighbour lists in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListLayout {
    /// Each relation has its lists.
    Relation,
    /// The lists of all relations into a node lie together.
    Node,
}

/// The order of the entries within a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryOrder {
    /// By `time.npy` of the relation, or else of its source type, ascending.
    Time,
}

/// The feature row of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EdgeRowOf {
    /// The row of the entry's place in the lists.
    Place,
    /// The row that `edge_id.npy` has at the entry's place.
    EdgeId,
}

/// Why the keys are not those of format 2.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TypedMetaProblem {
    #[error("\"version\" is {0}: this program reads 1 and 2")]
    Version(String),
    #[error("\"version\" is 2: typed graphs are not supported here yet, only datasets of version 1")]
    NotYet,
    #[error("\"{0}\" is absent: a dataset of version 2 requires it")]
    Absent(&'static str),
    #[error("\"{0}\" is not an array of objects")]
    NotArray(&'static str),
    #[error("{place}: {message}")]
    Entry { place: String, message: String },
    #[error(
        "\"layout\" is \"node\", which is not supported yet: expected \"relation\", with edges/S__R__D/indices.npy for \
         each relation"
    )]
    NodeLayout,
    #[error(transparent)]
    Metagraph(#[from] MetagraphError),
    #[error("\"target\": {0}")]
    Target(UnknownName),
    #[error("\"{key}\" of {relation}: {unknown}")]
    UnknownRelation { key: &'static str, relation: String, unknown: UnknownName },
    #[error(
        "\"reverse\" of {relation} is {reverse}, whose ends are not those of {relation} in the other order"
    )]
    ReverseEnds { relation: String, reverse: String },
    #[error("\"feat_of\" of {relation} is {other}, which has \"feat_of\" itself")]
    FeatOfTwice { relation: String, other: String },
    #[error("\"feat_of\" of {relation} excludes \"feat_dtype\" and \"feat_rows\", which belong to {other}")]
    FeatOfAndMore { relation: String, other: String },
    #[error("\"{key}\" is a key of version 1: {instead}")]
    OfVersion1 { key: &'static str, instead: &'static str },
}

const IN_NODES: &str = "in version 2 it belongs to an entry of \"nodes\"";
const IN_EDGES: &str = "in version 2 \"feat_dtype\" belongs to an entry of \"edges\"";
const NO_PARTS: &str = "parts of typed graphs are not supported yet";

/// Keys of version 1 that describe the only node type, the only relation, or a part.
const OF_VERSION_1: [(&str, &str); 5] = [
    ("classes", IN_NODES),
    ("feat_dtype", IN_NODES),
    ("edge_feat_dtype", IN_EDGES),
    ("part", NO_PARTS),
    ("ranges", NO_PARTS),
];

impl TypedMeta {
    /// The keys of format 2, which are removed from `keys`; `None` if these are the keys of format 1. A `version` that
    /// is not a number belongs to the user.
    pub(crate) fn take_from(keys: &mut Map<String, Value>) -> Result<Option<Self>, TypedMetaProblem> {
        match keys.get("version") {
            Some(Value::Number(version)) if version.as_u64() == Some(TYPED_VERSION) => {}
            Some(Value::Number(version)) if version.as_u64() != Some(1) => {
                return Err(TypedMetaProblem::Version(version.to_string()));
            }
            _ => return Ok(None),
        }
        if let Some((key, instead)) = OF_VERSION_1.into_iter().find(|(key, _)| keys.contains_key(*key)) {
            return Err(TypedMetaProblem::OfVersion1 { key, instead });
        }
        keys.shift_remove("version");
        let typed = Self {
            version: TYPED_VERSION,
            nodes: entries(keys, "nodes")?,
            edges: entries(keys, "edges")?,
            target: one(keys, "target")?,
            layout: one(keys, "layout")?,
        };
        match typed.layout {
            Some(ListLayout::Node) => Err(TypedMetaProblem::NodeLayout),
            Some(ListLayout::Relation) | None => Ok(Some(typed)),
        }
    }
}

impl TypedMeta {
    /// The node types and relations.
    pub(crate) fn metagraph(&self) -> Result<Metagraph, TypedMetaProblem> {
        let types = self.nodes.iter().map(|node_type| node_type.name.as_str());
        let relations = self.edges.iter().map(|relation| relation.names.each_ref().map(String::as_str));
        let metagraph = Metagraph::new(types, relations)?;
        let mut reverses = Vec::with_capacity(self.edges.len());
        for relation in metagraph.relations() {
            let reverse = self.other(&metagraph, relation, "reverse", |entry| entry.reverse.as_ref())?;
            if let Some(reverse) = reverse
                && (metagraph.source(reverse), metagraph.destination(reverse))
                    != (metagraph.destination(relation), metagraph.source(relation))
            {
                let [relation, reverse] = [relation, reverse].map(|of| metagraph.full_name(of).to_owned());
                return Err(TypedMetaProblem::ReverseEnds { relation, reverse });
            }
            reverses.push(reverse);
        }
        Ok(metagraph.with_reverses(reverses))
    }

    /// The type whose splits are seeds. Where there is one type, it is the target.
    pub(crate) fn target(&self, metagraph: &Metagraph) -> Result<Option<NodeType>, TypedMetaProblem> {
        match &self.target {
            Some(name) => metagraph.find_type(name).map(Some).map_err(TypedMetaProblem::Target),
            None => Ok((metagraph.type_count() == 1).then_some(NodeType::ONLY)),
        }
    }

    /// The relation whose features a relation has: its own, or those of `feat_of`.
    pub(crate) fn features_of(
        &self,
        metagraph: &Metagraph,
        relation: Relation,
    ) -> Result<Relation, TypedMetaProblem> {
        let entry = &self.edges[relation.index()];
        let Some(of) = self.other(metagraph, relation, "feat_of", |entry| entry.feat_of.as_ref())? else {
            return Ok(relation);
        };
        let [name, other] = [relation, of].map(|of| metagraph.full_name(of).to_owned());
        if self.edges[of.index()].feat_of.is_some() {
            return Err(TypedMetaProblem::FeatOfTwice { relation: name, other });
        }
        if entry.feat_dtype.is_some() || entry.feat_rows.is_some() {
            return Err(TypedMetaProblem::FeatOfAndMore { relation: name, other });
        }
        Ok(of)
    }

    /// Another relation that a relation names at `key`.
    fn other(
        &self,
        metagraph: &Metagraph,
        relation: Relation,
        key: &'static str,
        names: impl Fn(&RelationMeta) -> Option<&[String; 3]>,
    ) -> Result<Option<Relation>, TypedMetaProblem> {
        let Some(names) = names(&self.edges[relation.index()]) else { return Ok(None) };
        let found = metagraph.find_triple(names.each_ref().map(String::as_str));
        found.map(Some).map_err(|unknown| TypedMetaProblem::UnknownRelation {
            key,
            relation: metagraph.full_name(relation).to_owned(),
            unknown,
        })
    }
}

/// The entries of an array, each parsed alone so that an error names it.
fn entries<T: DeserializeOwned>(
    keys: &mut Map<String, Value>,
    key: &'static str,
) -> Result<Vec<T>, TypedMetaProblem> {
    let entries = match keys.shift_remove(key) {
        Some(Value::Array(entries)) => entries,
        Some(_) => return Err(TypedMetaProblem::NotArray(key)),
        None => return Err(TypedMetaProblem::Absent(key)),
    };
    (0..).zip(entries).map(|(entry, value)| parse(value, || format!("{key}[{entry}]"))).collect()
}

fn one<T: DeserializeOwned>(
    keys: &mut Map<String, Value>,
    key: &'static str,
) -> Result<Option<T>, TypedMetaProblem> {
    keys.shift_remove(key).map(|value| parse(value, || format!("\"{key}\""))).transpose()
}

fn parse<T: DeserializeOwned>(value: Value, place: impl Fn() -> String) -> Result<T, TypedMetaProblem> {
    serde_json::from_value(value).map_err(|error| TypedMetaProblem::Entry {
        place: place(),
        message: quote::message(&error.to_string()),
    })
}

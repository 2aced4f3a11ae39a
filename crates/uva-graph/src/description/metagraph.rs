//! The types of a graph's nodes and edges, and how the ones lead to the others.

use std::collections::{HashMap, HashSet};

use uva_files::quote::{listed, shown};
use uva_options::nearest;

use crate::description::schema::{NodeType, Relation};

/// The largest number of node types.
pub const MOST_NODE_TYPES: usize = 1024;

/// The largest number of relations.
pub const MOST_RELATIONS: usize = 4096;

/// The largest number of bytes of a name.
const MOST_NAME_BYTES: usize = 64;

/// Separates the three names of a relation's full name, which is also that of its directory.
const SEPARATOR: &str = "__";

/// The type and the relation of a graph whose types have no names.
const HOMOGENEOUS: [&str; 2] = ["node", "to"];

/// Why names do not make a metagraph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetagraphError {
    /// A character or its place is not valid in a name.
    #[error(
        "{what} \"{name}\": a name has letters, digits, _ and -, begins and ends with a letter or digit, and holds no \
         \"{SEPARATOR}\""
    )]
    Name {
        /// `node type`, or `relation`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name is too long for the name of a directory of three.
    #[error("{what} \"{name}\": a name has at most {MOST_NAME_BYTES} bytes, this one has {bytes}")]
    LongName {
        /// `node type`, or `relation`.
        what: &'static str,
        /// The name.
        name: String,
        /// Its length in UTF-8.
        bytes: usize,
    },
    /// There are no node types or relations, or too many.
    #[error("\"{key}\" has {count} entries, expected 1 to {most}")]
    Count {
        /// `nodes`, or `edges`.
        key: &'static str,
        /// The number of entries.
        count: usize,
        /// The largest number.
        most: usize,
    },
    /// Two node types or two relations have the same name.
    #[error("{key}[{entry}] repeats {name}")]
    Repeated {
        /// `nodes`, or `edges`.
        key: &'static str,
        /// The second entry of this name.
        entry: usize,
        /// The name, of a relation the full one.
        name: String,
    },
    /// An end of a relation is not a node type.
    #[error("edges[{entry}] is {name}: {unknown}")]
    UnknownEnd {
        /// The relation's entry.
        entry: usize,
        /// Its full name.
        name: String,
        /// The end.
        unknown: UnknownName,
    },
}

/// A name that no node type, or no single relation, has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownName {
    /// No node type has the name.
    #[error("there is no node type \"{name}\"{}", did_you_mean(nearest.as_ref(), known))]
    NodeType {
        /// The name.
        name: String,
        /// The most similar node type.
        nearest: Option<String>,
        /// The node types.
        known: Vec<String>,
    },
    /// No relation has the name.
    #[error("there is no relation \"{name}\"{}", did_you_mean(nearest.as_ref(), known))]
    Relation {
        /// The name.
        name: String,
        /// The most similar name of a relation, in the form of `name`: full or bare.
        nearest: Option<String>,
        /// The full names of all relations.
        known: Vec<String>,
    },
    /// Several relations have the bare name.
    #[error("\"{name}\" is ambiguous: {}", listed(relations))]
    Ambiguous {
        /// The name.
        name: String,
        /// The full names of the relations that have it.
        relations: Vec<String>,
    },
}

fn did_you_mean(nearest: Option<&String>, known: &[String]) -> String {
    match nearest {
        Some(nearest) => format!(", did you mean \"{nearest}\"?"),
        None => format!(", expected one of {}", listed(known)),
    }
}

/// The node types and relations of a graph, in the order of `meta.json`, which numbers them. A homogeneous graph has one
/// of each, `node` and `(node, to, node)`, and never shows these names.
///
/// ```
/// use uva_graph::Metagraph;
///
/// let graph = Metagraph::new(["paper", "author"], [["author", "writes", "paper"], ["paper", "cites", "paper"]])?;
/// let writes = graph.find_relation("writes")?;
/// assert_eq!(graph.full_name(writes), "author__writes__paper");
/// assert_eq!(graph.type_name(graph.source(writes)), "author");
/// assert_eq!(graph.into_type(graph.find_type("paper")?).len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metagraph {
    types: Vec<String>,
    relations: Vec<NamedRelation>,
    /// The relations that lead into each type.
    into: Vec<Vec<Relation>>,
    named: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct NamedRelation {
    name: String,
    full_name: String,
    source: NodeType,
    destination: NodeType,
    reverse: Option<Relation>,
}

impl Metagraph {
    /// The metagraph of these node types and relations, each a relation's source, name and destination.
    ///
    /// # Errors
    /// If a name is not valid or occurs twice, an end of a relation is not a node type, or there are too few or too many
    /// of them.
    pub fn new<T: Into<String>, R: Into<String>>(
        types: impl IntoIterator<Item = T>,
        relations: impl IntoIterator<Item = [R; 3]>,
    ) -> Result<Self, MetagraphError> {
        let types: Vec<String> = types.into_iter().map(T::into).collect();
        let relations: Vec<[String; 3]> = relations.into_iter().map(|names| names.map(R::into)).collect();
        check_count("nodes", types.len(), MOST_NODE_TYPES)?;
        check_count("edges", relations.len(), MOST_RELATIONS)?;
        let mut numbers = HashMap::new();
        for (entry, name) in types.iter().enumerate() {
            check_name("node type", name)?;
            if numbers.insert(name.as_str(), NodeType(entry as u16)).is_some() {
                return Err(MetagraphError::Repeated { key: "nodes", entry, name: name.clone() });
            }
        }
        let mut seen = HashSet::new();
        let mut named = Vec::with_capacity(relations.len());
        for (entry, names) in relations.into_iter().enumerate() {
            check_name("relation", &names[1])?;
            let full_name = full_name_of(&names);
            let end = |name: &str| {
                numbers.get(name).copied().ok_or_else(|| MetagraphError::UnknownEnd {
                    entry,
                    name: shown(&full_name),
                    unknown: unknown_type(name, &types),
                })
            };
            let (source, destination) = (end(&names[0])?, end(&names[2])?);
            if !seen.insert(full_name.clone()) {
                return Err(MetagraphError::Repeated { key: "edges", entry, name: full_name });
            }
            let [_, name, _] = names;
            named.push(NamedRelation { name, full_name, source, destination, reverse: None });
        }
        Ok(Self::of(types, named, true))
    }

    /// The metagraph of a graph whose nodes and edges are of one kind: one type and one relation.
    #[must_use]
    pub fn homogeneous() -> Self {
        let [node, to] = HOMOGENEOUS;
        let only = NamedRelation {
            name: to.to_owned(),
            full_name: full_name_of(&[node, to, node]),
            source: NodeType::ONLY,
            destination: NodeType::ONLY,
            reverse: None,
        };
        Self::of(vec![node.to_owned()], vec![only], false)
    }

    /// The metagraph of nodes without edges.
    pub(crate) fn of_nodes_alone() -> Self {
        Self::of(vec![HOMOGENEOUS[0].to_owned()], Vec::new(), false)
    }

    fn of(types: Vec<String>, relations: Vec<NamedRelation>, named: bool) -> Self {
        let mut into = vec![Vec::new(); types.len()];
        for (number, relation) in relations.iter().enumerate() {
            into[usize::from(relation.destination.0)].push(Relation(number as u16));
        }
        Self { types, relations, into, named }
    }

    /// The metagraph with the reverse of each relation. The ends have to match.
    pub(crate) fn with_reverses(mut self, reverses: Vec<Option<Relation>>) -> Self {
        for (relation, reverse) in self.relations.iter_mut().zip(reverses) {
            relation.reverse = reverse;
        }
        self
    }

    /// Whether users gave the names. Columns of batches and messages have names only then.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.named
    }

    /// The number of node types.
    #[must_use]
    pub fn type_count(&self) -> usize {
        self.types.len()
    }

    /// The number of relations; 0 for a hop set.
    #[must_use]
    pub fn relation_count(&self) -> usize {
        self.relations.len()
    }

    /// All node types, in their order.
    pub fn types(&self) -> impl ExactSizeIterator<Item = NodeType> + DoubleEndedIterator + Clone + use<> {
        (0..self.types.len() as u16).map(NodeType)
    }

    /// All relations, in their order.
    pub fn relations(&self) -> impl ExactSizeIterator<Item = Relation> + DoubleEndedIterator + Clone + use<> {
        (0..self.relations.len() as u16).map(Relation)
    }

    /// The name of a node type.
    ///
    /// # Panics
    /// If there is not such a type; likewise the methods for a type or relation below.
    #[must_use]
    pub fn type_name(&self, node_type: NodeType) -> &str {
        &self.types[node_type.index()]
    }

    /// The name of a relation alone, which another relation with other ends may have too: `writes`.
    #[must_use]
    pub fn bare_name(&self, relation: Relation) -> &str {
        &self.relations[relation.index()].name
    }

    /// The name of a relation with its ends: `author__writes__paper`.
    #[must_use]
    pub fn full_name(&self, relation: Relation) -> &str {
        &self.relations[relation.index()].full_name
    }

    /// The three names of a relation: source, relation, destination.
    #[must_use]
    pub fn names(&self, relation: Relation) -> [&str; 3] {
        let NamedRelation { name, source, destination, .. } = &self.relations[relation.index()];
        [self.type_name(*source), name, self.type_name(*destination)]
    }

    /// The type of the nodes in the relation's neighbour lists.
    #[must_use]
    pub fn source(&self, relation: Relation) -> NodeType {
        self.relations[relation.index()].source
    }

    /// The type of the nodes that own the relation's neighbour lists.
    #[must_use]
    pub fn destination(&self, relation: Relation) -> NodeType {
        self.relations[relation.index()].destination
    }

    /// The relations that lead into a type, in their order.
    #[must_use]
    pub fn into_type(&self, node_type: NodeType) -> &[Relation] {
        &self.into[node_type.index()]
    }

    /// The relation that has the same edges in the other direction, if `meta.json` names one: the relation itself, if it
    /// has both directions of each edge.
    #[must_use]
    pub fn reverse(&self, relation: Relation) -> Option<Relation> {
        self.relations[relation.index()].reverse
    }

    /// The number of hops from `target` to each type against the direction of the edges, as a sampler goes: 0 for
    /// `target`, `None` for types that it never reaches. \[node types\]
    #[must_use]
    pub fn hops_from(&self, target: NodeType) -> Vec<Option<usize>> {
        let mut hops = vec![None; self.types.len()];
        hops[target.index()] = Some(0);
        let mut found = vec![target];
        for hop in 1.. {
            let mut next = Vec::new();
            for &relation in found.iter().flat_map(|node_type| self.into_type(*node_type)) {
                let source = self.source(relation);
                if hops[source.index()].is_none() {
                    hops[source.index()] = Some(hop);
                    next.push(source);
                }
            }
            if next.is_empty() {
                break;
            }
            found = next;
        }
        hops
    }

    /// The node type of this name.
    ///
    /// # Errors
    /// If there is none, with the most similar name.
    pub fn find_type(&self, name: &str) -> Result<NodeType, UnknownName> {
        let found = self.types().find(|node_type| self.type_name(*node_type) == name);
        found.ok_or_else(|| unknown_type(name, &self.types))
    }

    /// The relation of this name: a full one (`author__writes__paper`, or `author:writes:paper`), or a bare one
    /// (`writes`) that only one relation has.
    ///
    /// # Errors
    /// If no relation has the name, with the most similar one, or several have the bare name, with their full names.
    pub fn find_relation(&self, name: &str) -> Result<Relation, UnknownName> {
        let full_name = name.replace(':', SEPARATOR);
        if let Some(found) = self.relations().find(|relation| self.full_name(*relation) == full_name) {
            return Ok(found);
        }
        let mut of_name = self.relations().filter(|relation| self.bare_name(*relation) == name);
        match (of_name.next(), of_name.next()) {
            (Some(only), None) => Ok(only),
            (Some(first), Some(second)) => {
                let all = [first, second].into_iter().chain(of_name);
                let relations = all.map(|relation| self.full_name(relation).to_owned()).collect();
                Err(UnknownName::Ambiguous { name: shown(name), relations })
            }
            (None, _) => Err(self.unknown_relation(name, &full_name)),
        }
    }

    /// The relation with this source, name and destination.
    ///
    /// # Errors
    /// If there is none, with the most similar full name.
    pub fn find_triple(&self, names: [&str; 3]) -> Result<Relation, UnknownName> {
        let found = self.relations().find(|relation| self.names(*relation) == names);
        let full_name = full_name_of(&names);
        found.ok_or_else(|| self.unknown_relation(&full_name, &full_name))
    }

    fn unknown_relation(&self, name: &str, full_name: &str) -> UnknownName {
        let known: Vec<String> = self.relations.iter().map(|relation| relation.full_name.clone()).collect();
        let nearest = if full_name.contains(SEPARATOR) {
            nearest(full_name, known.iter().map(String::as_str))
        } else {
            nearest(name, self.relations.iter().map(|relation| relation.name.as_str()))
        };
        UnknownName::Relation { name: shown(name), nearest: nearest.map(str::to_owned), known }
    }
}

/// A relation's full name: `author__writes__paper`.
fn full_name_of(names: &[impl AsRef<str>; 3]) -> String {
    let [source, name, destination] = names.each_ref().map(AsRef::as_ref);
    format!("{source}{SEPARATOR}{name}{SEPARATOR}{destination}")
}

fn unknown_type(name: &str, types: &[String]) -> UnknownName {
    let nearest = nearest(name, types.iter().map(String::as_str)).map(str::to_owned);
    UnknownName::NodeType { name: shown(name), nearest, known: types.to_vec() }
}

fn check_count(key: &'static str, count: usize, most: usize) -> Result<(), MetagraphError> {
    match (1..=most).contains(&count) {
        true => Ok(()),
        false => Err(MetagraphError::Count { key, count, most }),
    }
}

/// Checks the name of a type or relation, which is part of the names of directories and columns.
fn check_name(what: &'static str, name: &str) -> Result<(), MetagraphError> {
    let is_inner = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let ends = [name.chars().next(), name.chars().next_back()];
    if !ends.iter().all(|end| end.is_some_and(char::is_alphanumeric))
        || !name.chars().all(is_inner)
        || name.contains(SEPARATOR)
    {
        return Err(MetagraphError::Name { what, name: shown(name) });
    }
    if name.len() > MOST_NAME_BYTES {
        return Err(MetagraphError::LongName { what, name: shown(name), bytes: name.len() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library() -> Metagraph {
        let relations = [
            ["paper", "cites", "paper"],
            ["author", "writes", "paper"],
            ["topic", "covers", "paper"],
            ["paper", "rev", "author"],
            ["paper", "rev", "topic"],
        ];
        Metagraph::new(["paper", "author", "topic", "island"], relations).unwrap()
    }

    fn refusal(types: &[&str], relations: &[[&str; 3]]) -> String {
        Metagraph::new(types.iter().copied(), relations.iter().copied()).unwrap_err().to_string()
    }

    #[test]
    fn types_and_relations_have_the_numbers_of_their_order() {
        let graph = library();
        assert_eq!((graph.type_count(), graph.relation_count()), (4, 5));
        let names: Vec<&str> = graph.types().map(|node_type| graph.type_name(node_type)).collect();
        assert_eq!(names, ["paper", "author", "topic", "island"]);
        let writes = Relation(1);
        assert_eq!(graph.full_name(writes), "author__writes__paper");
        assert_eq!(graph.names(writes), ["author", "writes", "paper"]);
        assert_eq!((graph.source(writes), graph.destination(writes)), (NodeType(1), NodeType(0)));
        assert_eq!(graph.into_type(NodeType(0)), [Relation(0), Relation(1), Relation(2)]);
        assert_eq!(graph.into_type(NodeType(2)), [Relation(4)]);
        assert!(graph.into_type(NodeType(3)).is_empty() && graph.is_named());
    }

    #[test]
    fn a_homogeneous_graph_has_one_type_and_one_relation() {
        let graph = Metagraph::homogeneous();
        assert_eq!((graph.type_count(), graph.relation_count()), (1, 1));
        assert_eq!(graph.full_name(Relation::ONLY), "node__to__node");
        assert_eq!(graph.into_type(NodeType::ONLY), [Relation::ONLY]);
        assert!(!graph.is_named());
        assert_eq!(Metagraph::of_nodes_alone().relation_count(), 0);
    }

    #[test]
    fn a_relation_is_found_by_full_bare_and_separate_names() {
        let graph = library();
        for name in ["author__writes__paper", "author:writes:paper", "writes"] {
            assert_eq!(graph.find_relation(name), Ok(Relation(1)), "{name}");
        }
        assert_eq!(graph.find_triple(["paper", "rev", "topic"]), Ok(Relation(4)));
        assert_eq!(graph.find_type("topic"), Ok(NodeType(2)));
        let relation = |name: &str| graph.find_relation(name).unwrap_err().to_string();
        assert_eq!(relation("writs"), "there is no relation \"writs\", did you mean \"writes\"?");
        let full = relation("author:writs:paper");
        assert!(full.ends_with("did you mean \"author__writes__paper\"?"), "{full}");
        assert_eq!(relation("rev"), "\"rev\" is ambiguous: paper__rev__author, paper__rev__topic");
        assert!(
            relation("qqq").contains("expected one of paper__cites__paper, author__"),
            "{}",
            relation("qqq")
        );
        assert!(relation("author__cites__paper").contains("there is no relation"));
        assert!(graph.find_triple(["paper", "writes", "author"]).is_err(), "the ends count");
        let unknown = graph.find_type("papr").unwrap_err().to_string();
        assert_eq!(unknown, "there is no node type \"papr\", did you mean \"paper\"?");
    }

    #[test]
    fn hops_are_counted_against_the_edges() {
        let graph = library();
        assert_eq!(graph.hops_from(NodeType(0)), [Some(0), Some(1), Some(1), None]);
        assert_eq!(graph.hops_from(NodeType(2)), [Some(1), Some(2), Some(0), None]);
        assert_eq!(graph.hops_from(NodeType(3)), [None, None, None, Some(0)]);
    }

    #[test]
    fn names_follow_the_rule() {
        for name in ["a", "user-item", "rev_writes", "Größe", "作者", "7", "a-_b", "x".repeat(64).as_str()]
        {
            assert_eq!(check_name("node type", name), Ok(()), "{name}");
        }
        for name in ["", "_", "_a", "a_", "-a", "a-", "a__b", "a.b", "a/b", "a:b", "a b", "a#", "<a>", "a\n"]
        {
            let message = check_name("node type", name).unwrap_err().to_string();
            assert!(message.contains("begins and ends with a letter or digit"), "{message}");
        }
        let long = check_name("relation", &"é".repeat(33)).unwrap_err().to_string();
        assert!(long.contains("at most 64 bytes, this one has 66"), "{long}");
    }

    #[test]
    fn wrong_metagraphs_are_refused_by_entry_and_name() {
        let cites = ["paper", "cites", "paper"];
        assert_eq!(
            refusal(&["paper"], &[cites, ["author", "writes", "papr"]]),
            "edges[1] is author__writes__papr: there is no node type \"author\", expected one of paper"
        );
        assert_eq!(
            refusal(&["paper", "author"], &[["author", "writes", "papr"]]),
            "edges[0] is author__writes__papr: there is no node type \"papr\", did you mean \"paper\"?"
        );
        assert_eq!(refusal(&["paper"], &[cites, cites]), "edges[1] repeats paper__cites__paper");
        assert_eq!(refusal(&["paper", "paper"], &[cites]), "nodes[1] repeats paper");
        assert!(
            refusal(&["paper"], &[["paper", "a.b", "paper"]]).starts_with("relation \"a.b\": a name has")
        );
        assert_eq!(refusal(&[], &[cites]), "\"nodes\" has 0 entries, expected 1 to 1024");
        assert_eq!(refusal(&["paper"], &[]), "\"edges\" has 0 entries, expected 1 to 4096");
    }
}

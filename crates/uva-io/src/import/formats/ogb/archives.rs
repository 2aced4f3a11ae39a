//! Typed graphs in archives, as OGB's `DatasetSaver` writes them: each has an array for each node type or relation.
//!
//! | file in `raw` | arrays |
//! |---|---|
//! | `num_nodes_dict.npz`, `num_edges_dict.npz` | `T` and `S___R___D`: their number, of one graph |
//! | `edge_index_dict.npz` | `S___R___D`: [2, edges] |
//! | `node_feat_dict.npz`, `node-label.npz` | `T`: [nodes, columns] |
//! | `NAME.npz` | `T`: times, if `time=NAME` |
//!
//! Types and relations are in the order of their names, as for OGB.

use std::path::PathBuf;
use std::rc::Rc;

use uva_graph::GraphError;

use super::raw::OgbProblem;
use super::values::{OgbFeatures, OgbRelation, OgbType, OgbValues};
use crate::import::reading::stream::Archive;
use crate::import::reading::unread_parts;
use crate::import::request::ImportRequest;

/// The archive of the edges, which only such graphs have.
pub(super) const EDGES: &str = "raw/edge_index_dict.npz";
const NODE_COUNTS: &str = "raw/num_nodes_dict.npz";
const EDGE_COUNTS: &str = "raw/num_edges_dict.npz";
const FEATURES: &str = "raw/node_feat_dict.npz";
const LABELS: &str = "raw/node-label.npz";

/// The node types and relations, and a line about each archive that is not read.
pub(super) fn found(request: &ImportRequest<'_>) -> Result<(Vec<OgbType>, Vec<OgbRelation>), GraphError> {
    let time = request.options.time.as_ref().map(|name| format!("raw/{name}.npz"));
    let counts = Archive::open(&request.file(NODE_COUNTS))?;
    let optional = |file: &str| {
        let path = request.file(file);
        path.is_file().then(|| Archive::open(&path).map(Rc::new)).transpose()
    };
    let (features, labels) = (optional(FEATURES)?, optional(LABELS)?);
    let times = time.as_deref().map_or(Ok(None), &optional)?;
    if let (Some(file), None) = (&time, &times) {
        return Err(GraphError::usage("time", format!("{} does not exist", request.file(file).display())));
    }
    let read = [EDGES, NODE_COUNTS, EDGE_COUNTS, FEATURES, LABELS];
    let read: Vec<PathBuf> = read.into_iter().chain(time.as_deref()).map(|name| request.file(name)).collect();
    let raw = request.file("raw");
    let left = unread_parts::files(&raw, ".npz", |name| read.contains(&raw.join(name)))?;
    unread_parts::say(request.watch.note, &raw, &left);
    let mut types = Vec::new();
    for name in counts.names() {
        let nodes = count(&counts, name, "nodes")?;
        let member = |archive: &Option<Rc<Archive>>| {
            let archive = archive.as_ref().filter(|archive| archive.has(name))?;
            Some(OgbValues::Member { archive: Rc::clone(archive), name: name.to_owned() })
        };
        let features = member(&features).map(|values| OgbFeatures::of(values, nodes)).transpose()?;
        let (labels, times) = (member(&labels), member(&times));
        types.push(OgbType { name: name.to_owned(), nodes, features, labels, times });
    }
    let edges = Rc::new(Archive::open(&request.file(EDGES))?);
    let counts = Archive::open(&request.file(EDGE_COUNTS))?;
    let mut relations = Vec::new();
    for name in counts.names() {
        let parts: Vec<String> = name.split("___").map(str::to_owned).collect();
        let wrong =
            |problem: String| GraphError::usage("SRC", format!("{}: {problem}", counts.path().display()));
        let names: [String; 3] = parts
            .try_into()
            .map_err(|_| wrong(format!("\"{name}\" is not SOURCE___RELATION___DESTINATION")))?;
        let nodes = |name: &String| {
            let found = types.iter().find(|of| of.name == *name).map(|of| of.nodes);
            found.ok_or_else(|| wrong(format!("{NODE_COUNTS} has no type {name}")))
        };
        let ends = [nodes(&names[0])?, nodes(&names[2])?];
        let count = count(&counts, name, "edges")?;
        let edges = OgbValues::Member { archive: Rc::clone(&edges), name: name.to_owned() };
        relations.push(OgbRelation { names, ends, edges, count });
    }
    relations.sort_by(|one, other| one.names.cmp(&other.names));
    Ok((types, relations))
}

/// The number of nodes or edges, of one graph.
fn count(archive: &Archive, name: &str, what: &'static str) -> Result<u64, GraphError> {
    let mut counts = archive.array(name)?;
    match counts.all_integers()?[..] {
        [count] if count >= 0 => Ok(count.cast_unsigned()),
        [count] => Err(counts.wrong_entry(1, count, format!("a number of {what}"))),
        ref counts => {
            let problem = OgbProblem::Count { what: "graphs", found: counts.len() as u64, needed: 1 };
            Err(GraphError::invalid(archive.path(), problem))
        }
    }
}

//! Typed graphs of GraphBolt: nodes and edges with a `type` each, such as `author:writes:paper`.
//!
//! Node types and relations are in the order of the file. Values of edges are in the order of the edges in their file.
//! Arrays have the names of a typed graph in `.npy` files, such as `feat`, `label`, `weight` or `time`; others are kept.
//! An adjacent `meta.json` of format 2, which an export writes, has to describe the same types.

use std::collections::BTreeMap;
use std::path::PathBuf;

use uva_files::disk_space::{self, BytesOnDisk};
use uva_files::quote::{listed, shown};
use uva_graph::npy::NpyArray;
use uva_graph::typed_meta::{EdgeRowOf, NodeTypeMeta, TYPED_VERSION, TypedMeta};
use uva_graph::{GraphError, Meta, Split, names};

use super::labels::Collected;
use super::metadata::{Described, EdgesMetadata, FeatureData, SEEDS, SeedsMetadata};
use super::seeds::seed_ids;
use crate::import::formats::npy::typed::{
    ArrayFiles, FEATURES, ImportedLabels, LABELS, SourceArrays, TypedArrays,
};
use crate::import::reading::stream::ArrayStream;
use crate::import::reading::unread_parts;
use crate::import::request::ImportRequest;
use crate::import::writing::type_names::TypeNames;

/// Names of arrays that the format has in other places.
pub(crate) const OF_NODES: [&str; 9] = [
    "train_idx",
    "valid_idx",
    "val_idx",
    "test_idx",
    "train_mask",
    "valid_mask",
    "val_mask",
    "test_mask",
    "node_names",
];
pub(crate) const OF_EDGES: [&str; 5] = ["indptr", "indices", "edge_index", "src", "dst"];

/// The name of edge features whose rows `edge_id` names: one table for several relations.
pub(crate) const FEATURES_BY_ID: &str = "feat_by_edge_id";

/// The name of times of seeds in a set.
pub(crate) const SEED_TIMES: &str = "timestamp";

/// The files of the arrays of a node type or relation, by name.
type Files = BTreeMap<String, PathBuf>;

/// A node type in the file.
#[derive(Default)]
struct TypeFiles {
    arrays: Files,
    /// The labels of sets, each with the file of its seeds.
    labels: Vec<(PathBuf, PathBuf)>,
}

/// The files of all types and relations, in the order of the file.
struct SourceFiles {
    types: Vec<TypeFiles>,
    relations: Vec<Files>,
    /// The parts that are not read.
    unread: Vec<String>,
}

/// Imports a typed graph.
pub(super) fn import(
    request: &ImportRequest<'_>,
    described: &Described,
    mut meta: Meta,
) -> Result<(), GraphError> {
    let names = Names::of(described)?;
    let beside = meta.typed.take();
    let is_beside = beside.is_some();
    let typed = match beside {
        Some(typed) => names.same_as(typed, described)?,
        None => names.described(request)?,
    };
    meta = of_format_2(meta, described);
    let task = match &described.metadata.tasks {
        Some(tasks) if !tasks.is_empty() => Some(described.task(request.options.variant.as_deref())?),
        _ => None,
    };
    let mut files = names.features(described)?;
    for (split, what, sets) in task.iter().flat_map(|task| task.sets()) {
        names.seeds(described, (split, what, sets), &mut files)?;
    }
    let SourceFiles { types, relations, unread } = files;
    unread_parts::say(request.watch.note, &described.file, &unread);

    let mut arrays = TypedArrays::new(request, typed)?;
    if !is_beside {
        let with_seeds = (0..types.len()).filter(|&at| types[at].arrays.contains_key("train_idx"));
        if let [only] = with_seeds.collect::<Vec<_>>()[..] {
            arrays.typed.target = Some(arrays.typed.nodes[only].name.clone());
        }
    }
    for (at, mut files) in types.into_iter().enumerate() {
        let regression = arrays.is_regression(at);
        let entry = &mut arrays.typed.nodes[at];
        if !is_beside {
            name_features(&mut files.arrays)?;
            if !files.labels.is_empty() && !regression {
                entry.classes = task.and_then(|task| task.num_classes);
            }
        }
        let labels = labels_of(request, entry, &files, regression)?;
        let node_names = match is_beside {
            true => node_names(described, entry)?,
            false => None,
        };
        let source = SourceArrays::of_type(described.file.clone(), ArrayFiles::Listed(files.arrays), entry);
        arrays.open_type(source, labels, node_names)?;
    }
    for (at, mut files) in relations.into_iter().enumerate() {
        if let Some(by_id) = files.remove(FEATURES_BY_ID) {
            files.insert("feat".to_owned(), by_id);
            arrays.typed.edges[at].feat_rows = Some(EdgeRowOf::EdgeId);
        }
        let lines = names.edges(described, at, &mut files)?;
        let entry = &arrays.typed.edges[at];
        let source = SourceArrays::of_relation(described.file.clone(), ArrayFiles::Listed(files), entry);
        arrays.open_relation(source, lines, "metadata.yaml")?;
    }
    arrays.write(meta)
}

/// The keys of an adjacent `meta.json`, without those of format 1 that describe the only type.
fn of_format_2(meta: Meta, described: &Described) -> Meta {
    Meta {
        name: meta.name.or_else(|| described.metadata.dataset_name.clone()),
        classes: None,
        feat_dtype: None,
        edge_feat_dtype: None,
        part: None,
        ranges: None,
        ..meta
    }
}

/// The names of node types and relations in the file.
struct Names<'d> {
    types: Vec<(&'d str, u64)>,
    relations: Vec<([&'d str; 3], &'d EdgesMetadata)>,
}

impl<'d> Names<'d> {
    fn of(described: &'d Described) -> Result<Self, GraphError> {
        let graph = described.all_types()?;
        let mut types = Vec::with_capacity(graph.nodes.len());
        for (number, nodes) in graph.nodes.iter().enumerate() {
            let name = nodes.r#type.as_deref();
            let name = name.ok_or_else(|| described.wrong(format!("nodes[{number}] has no type")))?;
            if types.iter().any(|(other, _)| *other == name) {
                return Err(described.wrong(format!("nodes[{number}] repeats {}", shown(name))));
            }
            types.push((name, nodes.num));
        }
        let mut relations: Vec<([&str; 3], _)> = Vec::with_capacity(graph.edges.len());
        for (number, edges) in graph.edges.iter().enumerate() {
            let text = edges.r#type.as_deref().unwrap_or_default();
            let wrong = |problem: String| {
                described.wrong(format!("the type of edges[{number}], '{}', {problem}", shown(text)))
            };
            let parts: Vec<&str> = text.split(':').collect();
            let Ok(parts) = <[&str; 3]>::try_from(parts) else {
                return Err(wrong("is not SOURCE:RELATION:DESTINATION".to_owned()));
            };
            for end in [parts[0], parts[2]] {
                if !types.iter().any(|(name, _)| *name == end) {
                    let known = listed(types.iter().map(|(name, _)| name));
                    return Err(wrong(format!("names no node type of the file: {known}")));
                }
            }
            if relations.iter().any(|(other, _)| *other == parts) {
                return Err(wrong("occurs twice".to_owned()));
            }
            relations.push((parts, edges));
        }
        Ok(Self { types, relations })
    }

    /// The types as `meta.json` has them, with valid names.
    fn described(&self, request: &ImportRequest<'_>) -> Result<TypedMeta, GraphError> {
        let (mut type_names, note) = (TypeNames::default(), request.watch.note);
        let nodes: Vec<NodeTypeMeta> =
            self.types.iter().map(|&(name, num)| type_names.node_type(name, num, note)).collect();
        let renamed = |name: &str| {
            let at = self.types.iter().position(|(other, _)| *other == name).unwrap_or(0);
            nodes[at].name.as_str()
        };
        let mut edges = Vec::with_capacity(self.relations.len());
        for ([source, name, destination], _) in &self.relations {
            let names = [renamed(source), name, renamed(destination)];
            edges.push(type_names.relation(names, note));
        }
        Ok(TypedMeta { version: TYPED_VERSION, nodes, edges, target: None, layout: None })
    }

    /// The types of an adjacent `meta.json`, which have to be these.
    fn same_as(&self, typed: TypedMeta, described: &Described) -> Result<TypedMeta, GraphError> {
        let types = typed.nodes.iter().map(|entry| (entry.name.as_str(), entry.num));
        let relations = typed.edges.iter().map(|entry| entry.names.each_ref().map(String::as_str));
        if types.eq(self.types.iter().copied())
            && relations.eq(self.relations.iter().map(|(names, _)| *names))
        {
            return Ok(typed);
        }
        let message = "its node types and relations are not those of meta.json next to it: remove meta.json, or \
                       correct it";
        Err(described.wrong(message))
    }

    /// The files of each type and of each relation, and the parts that are not read.
    fn features(&self, described: &Described) -> Result<SourceFiles, GraphError> {
        let graph = described.all_types()?;
        let mut types: Vec<TypeFiles> = self.types.iter().map(|_| TypeFiles::default()).collect();
        let mut relations = vec![Files::new(); self.relations.len()];
        let mut unread = Vec::new();
        let of_graph = graph.feature_data.iter().flatten();
        for data in of_graph.chain(described.metadata.feature_data.iter().flatten()) {
            let FeatureData { domain, r#type, name, format, path } = data;
            let of_type = r#type.as_deref();
            let (files, elsewhere) = match domain.as_str() {
                "node" => (&mut types[self.type_at(described, of_type, name)?].arrays, &OF_NODES[..]),
                "edge" => (&mut relations[self.relation_at(described, of_type, name)?], &OF_EDGES[..]),
                _ => {
                    unread.push(format!("feature_data {name} of the domain {domain}"));
                    continue;
                }
            };
            if !is_file_name(name) || elsewhere.contains(&name.as_str()) || files.contains_key(name) {
                unread.push(format!("feature_data {name} of {}", of_type.unwrap_or(domain)));
                continue;
            }
            files.insert(name.clone(), described.array_file(format, path)?);
        }
        Ok(SourceFiles { types, relations, unread })
    }

    /// The node type of a part of the file; the only one, if the part does not name it.
    fn type_at(&self, described: &Described, name: Option<&str>, part: &str) -> Result<usize, GraphError> {
        let found = match name {
            None => (self.types.len() == 1).then_some(0),
            Some(name) => self.types.iter().position(|(other, _)| *other == name),
        };
        let known = || listed(self.types.iter().map(|(name, _)| name));
        found.ok_or_else(|| unknown(described, "node type", name, part, known()))
    }

    fn relation_at(
        &self,
        described: &Described,
        name: Option<&str>,
        part: &str,
    ) -> Result<usize, GraphError> {
        let found = match name {
            None => (self.relations.len() == 1).then_some(0),
            Some(name) => {
                self.relations.iter().position(|(names, _)| names.iter().copied().eq(name.split(':')))
            }
        };
        let known = || listed(self.relations.iter().map(|(names, _)| names.join(":")));
        found.ok_or_else(|| unknown(described, "type of edges", name, part, known()))
    }

    /// The files of a task's set.
    fn seeds(
        &self,
        described: &Described,
        (split, what, sets): (Split, &str, &[SeedsMetadata]),
        SourceFiles { types, unread, .. }: &mut SourceFiles,
    ) -> Result<(), GraphError> {
        for set in sets {
            let at = self.type_at(described, set.r#type.as_deref(), what)?;
            let of_type = self.types[at].0;
            let files = &mut types[at];
            let mut add = |key: &str, path: PathBuf| {
                let key = key.trim_end_matches(".npy").to_owned();
                match files.arrays.insert(key, path) {
                    None => Ok(()),
                    Some(_) => Err(described.wrong(format!("{what} has the type {} twice", shown(of_type)))),
                }
            };
            let file = |names: &[&str], place| {
                set.named(names, place).map(|data| described.array_file(&data.format, &data.path)).transpose()
            };
            let seeds = file(&SEEDS, 0)?
                .ok_or_else(|| described.wrong(format!("{what} of {} has no seeds", shown(of_type))))?;
            add(split.file_name(), seeds.clone())?;
            if let Some(times) = file(&[SEED_TIMES], usize::MAX)? {
                add(names::split_times(split), times)?;
            }
            if let Some(labels) = file(&["labels"], 1)? {
                files.labels.push((labels, seeds));
            }
            for (place, data) in set.data.iter().enumerate() {
                match data.name.as_deref() {
                    Some(name) if SEEDS.contains(&name) || ["labels", SEED_TIMES].contains(&name) => {}
                    None if place < 2 => {}
                    name => {
                        let name = name.map_or(format!("entry {place}"), str::to_owned);
                        unread.push(format!("{name} of the {what} of {of_type}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the array of a relation's edges, or returns their text.
    fn edges(
        &self,
        described: &Described,
        at: usize,
        files: &mut Files,
    ) -> Result<Option<PathBuf>, GraphError> {
        let EdgesMetadata { format, path, .. } = self.relations[at].1;
        let path = described.inside(path)?;
        match format.as_str() {
            "csv" => Ok(Some(path)),
            "numpy" => {
                let array = NpyArray::open(&path)?;
                if array.shape().first() != Some(&2) || array.shape().len() != 2 {
                    return Err(array.wrong_shape("[2, edges]: sources, then destinations"));
                }
                files.insert("edge_index".to_owned(), path);
                Ok(None)
            }
            other => Err(described.wrong(format!(
                "the edges {} have the format '{}': expected csv or numpy",
                self.relations[at].0.join(":"),
                shown(other)
            ))),
        }
    }
}

fn unknown(described: &Described, what: &str, name: Option<&str>, part: &str, known: String) -> GraphError {
    let (part, name) = (shown(part), name.unwrap_or("(no name)"));
    let name = shown(name);
    described.wrong(format!("{part} belongs to the {what} {name}, expected one of {known}"))
}

/// Whether an array of this name may become a file of that name.
pub(crate) fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && !name.contains(['/', '\0'])
}

/// Calls the only table with several columns `feat`, if no array has the name of features.
fn name_features(files: &mut Files) -> Result<(), GraphError> {
    let others = ["orig_id", "node_id", "time"];
    if FEATURES.iter().any(|name| files.contains_key(*name)) {
        return Ok(());
    }
    let mut tables = Vec::new();
    for (name, path) in files.iter() {
        let is_other = LABELS.contains(&name.as_str()) || others.contains(&name.as_str());
        let is_seeds = OF_NODES.contains(&name.as_str()) || name.ends_with("_time");
        if !is_other && !is_seeds && NpyArray::open(path)?.shape().len() == 2 {
            tables.push(name.clone());
        }
    }
    if let [only] = &tables[..]
        && let Some(path) = files.remove(only)
    {
        files.insert(FEATURES[0].to_owned(), path);
    }
    Ok(())
}

/// The labels of the sets, together with those of all nodes; `None` if no set has labels, or they are targets.
fn labels_of(
    request: &ImportRequest<'_>,
    entry: &NodeTypeMeta,
    files: &TypeFiles,
    regression: bool,
) -> Result<Option<ImportedLabels>, GraphError> {
    let of_all = LABELS.iter().find_map(|name| files.arrays.get(*name));
    if files.labels.is_empty() {
        return Ok(None);
    }
    if regression {
        return match of_all {
            Some(_) => Ok(None),
            None => {
                let message = format!(
                    "{} has no 'label' of all nodes in its feature_data, which targets of regression are read from",
                    entry.name
                );
                Err(GraphError::usage("regression", message))
            }
        };
    }
    let what =
        format!("the labels of {} take {}: make room", entry.name, BytesOnDisk(entry.num.saturating_mul(8)));
    disk_space::check(request.out, entry.num.saturating_mul(8), what)?;
    let mut collected: Option<Collected> = None;
    for (labels, seeds) in &files.labels {
        let labels = ArrayStream::open(labels)?;
        let columns = labels.shape().get(1).copied().unwrap_or(1);
        let ids = seed_ids(&mut ArrayStream::open(seeds)?, entry.num)?;
        let collected = collected.get_or_insert_with(|| Collected::new(entry.num, columns));
        collected.add(labels, Some(&ids), entry.classes)?;
    }
    if let (Some(collected), Some(path)) = (&mut collected, of_all) {
        collected.add(ArrayStream::open(path)?, None, entry.classes)?;
    }
    Ok(collected.map(|labels| labels.finish(request.watch.note)))
}

/// The names of nodes of a type, which an export keeps in the type's directory.
fn node_names(described: &Described, entry: &NodeTypeMeta) -> Result<Option<PathBuf>, GraphError> {
    let path: PathBuf = [names::NODE_TYPES, &entry.name, names::NODE_NAMES].iter().collect();
    match described.directory.join(&path).is_file() {
        true => described.inside(&path).map(Some),
        false => Ok(None),
    }
}

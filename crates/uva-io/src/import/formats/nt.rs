//! N-Triples, plain or compressed: a graph of entities whose predicates are relations.
//!
//! All subjects and objects are nodes of one type `entity`, in the order of their text, which `node_names.txt` keeps.
//! Relations are in the order of their IRIs, and have the name of the last part; `source_name` in `meta.json` has the
//! whole IRI. Literals may be dropped, with their triples. In a directory, `trainingSet.tsv`, `validationSet.tsv` and
//! `testSet.tsv` have splits and labels: the first column is the IRI of an entity, the last one its class, unless the
//! options name them. Another such file may have labels alone.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use uva_graph::csc::{Changes, CscBuilder, Ends};
use uva_graph::npy::{NpyArray, NpyType, write_array};
use uva_graph::typed_meta::{NodeTypeMeta, RelationMeta};
use uva_graph::{GraphError, Meta, NodeType, Relation, Split, names};
use uva_mem::files::write_new;

use crate::import::importer::{Importer, SourceKind};
use crate::import::options::{Extra, Literals};
use crate::import::reading::text::{LineError, each_line};
use crate::import::request::ImportRequest;
use crate::import::writing::type_names::TypeNames;
use crate::import::writing::typed_changes::{ReverseRule, TypedChanges};
use crate::import::writing::typed_output::{self, RelationSizes, TypedSizes};
use crate::typed::{EdgeColumns, GraphPlan, RelationPlan, Reversal};

/// The row in the table.
pub(crate) const IMPORTER: Importer = Importer {
    name: "nt",
    help: "N-Triples: entities, and a relation for each predicate",
    source: SourceKind::Either(
        "a file of N-Triples, or a directory with one, and with trainingSet.tsv and testSet.tsv",
    ),
    takes: &[Extra::Reverse, Extra::Literals, Extra::Labels],
    import,
};

/// The type of all nodes.
const ENTITY: &str = "entity";

/// Files of splits.
const SPLITS: [&str; 3] = ["trainingSet.tsv", "validationSet.tsv", "testSet.tsv"];

/// Nodes fit into half of a 63-bit number.
const MOST_NODES: u64 = 1 << 31;

/// Imports the triples.
fn import(request: &ImportRequest<'_>) -> Result<(), GraphError> {
    let file = triples_file(request)?;
    let Found { nodes, relations, triples } = Found::of(&file, request)?;
    let sets = Sets::read(request, &nodes)?;
    let count = nodes.names.len() as u64;
    let mut entity = GraphPlan::node_type(ENTITY, count);
    if !sets.classes.is_empty() {
        entity.classes = Some(sets.classes.len() as u64);
    }
    let mut type_names = TypeNames::default();
    let planned = relations.names.iter().map(|iri| {
        let local = iri.trim_end_matches('>').rsplit(['#', '/']).next().unwrap_or_default();
        let name = type_names.name("", local);
        if name != local {
            (request.watch.note)(&format!("relation {iri} becomes {name}"));
        }
        let mut meta = RelationPlan::new([ENTITY, &name, ENTITY], Reversal::None).meta;
        meta.other.insert("source_name".to_owned(), json!(iri.trim_matches(['<', '>'])));
        meta
    });
    let (nodes_meta, edges): (Vec<NodeTypeMeta>, Vec<RelationMeta>) = (vec![entity], planned.collect());
    let changes = TypedChanges::of(request.options, &nodes_meta, &edges, ReverseRule::OnRequest)?;
    let planned = edges.into_iter().zip(&changes.relations);
    let planned = planned.map(|(meta, change)| RelationPlan { meta, reversal: change.reversal });
    let plan = GraphPlan { nodes: nodes_meta, relations: planned.collect(), target: Some(ENTITY.to_owned()) };
    let names_bytes: usize = nodes.names.iter().map(|name| name.len() + 1).sum();
    let sizes = TypedSizes {
        nodes: count,
        node_bytes: names_bytes as u64 + count * 8,
        // The entries of single relations are known later; all of them together are sorted by relation first.
        relations: (0..)
            .zip(&changes.relations)
            .map(|(at, change)| {
                let entries = if at == 0 { triples } else { 0 };
                let sizes = RelationSizes {
                    lists: count + 1,
                    entries,
                    temporary_row_bytes: 8,
                    ..RelationSizes::default()
                };
                sizes.changed(count, *change)
            })
            .collect(),
    };
    let mut writer = typed_output::begin(request, plan, &sizes)?;
    let sorted = writer.directory().join("triples");
    fs::create_dir(&sorted).map_err(GraphError::io(&sorted, "create"))?;
    sort_by_relation(&file, request, &nodes, &relations, &sorted)?;
    let ends = NpyArray::open(&sorted.join(names::INDPTR))?;
    let pairs = NpyArray::open(&sorted.join(names::INDICES))?;
    let (ends, pairs) = (ends.elements::<i64>(NpyType::I64)?, pairs.elements::<i64>(NpyType::I64)?);
    for ((number, pair), change) in (0..).zip(ends.windows(2)).zip(&changes.relations) {
        let (table, progress) = (EdgeColumns::default(), request.watch.progress);
        writer.relation_with(Relation(number), change.changes, &table, progress, &mut |lists| {
            pairs[pair[0] as usize..pair[1] as usize].iter().try_for_each(|&packed| {
                let packed = packed.cast_unsigned();
                lists.push(packed / MOST_NODES, packed % MOST_NODES, 0.0)
            })
        })?;
    }
    fs::remove_dir_all(&sorted).map_err(GraphError::io(&sorted, "remove"))?;
    let mut text = nodes.names.join("\n");
    text.push('\n');
    let path = writer.node_file(NodeType::ONLY, names::NODE_NAMES);
    write_new(&path, text.as_bytes()).map_err(GraphError::io(&path, "write"))?;
    let mut meta = Meta::default();
    sets.write(request, &writer, count, &mut meta)?;
    typed_output::finish(request, writer, meta)
}

/// The file of triples: SRC, or the only one in it.
fn triples_file(request: &ImportRequest<'_>) -> Result<PathBuf, GraphError> {
    let source = request.source;
    if !source.is_dir() {
        return Ok(source.to_owned());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(source).map_err(GraphError::io(source, "read"))? {
        let path = entry.map_err(GraphError::io(source, "read"))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if [".nt", ".nt.gz", ".nt.zst"].iter().any(|end| name.ends_with(end)) {
            found.push(path);
        }
    }
    found.sort_unstable();
    match &found[..] {
        [only] => Ok(only.clone()),
        [] => Err(GraphError::usage(
            "SRC",
            format!("{} has no file of triples (.nt, .nt.gz)", source.display()),
        )),
        [first, second, ..] => {
            let message =
                format!("{} and {}: expected one file of triples", first.display(), second.display());
            Err(GraphError::usage("SRC", message))
        }
    }
}

/// Names with their numbers, which are places in the order of their text.
struct Ordered {
    names: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Ordered {
    fn of(mut numbers: HashMap<String, u64>) -> Self {
        let mut names: Vec<String> = numbers.keys().cloned().collect();
        names.sort_unstable();
        for (name, place) in names.iter().zip(0..) {
            if let Some(number) = numbers.get_mut(name) {
                *number = place;
            }
        }
        Self { names, numbers }
    }
}

/// What occurs in the triples.
struct Found {
    nodes: Ordered,
    relations: Ordered,
    triples: u64,
}

impl Found {
    fn of(file: &Path, request: &ImportRequest<'_>) -> Result<Self, GraphError> {
        let (mut nodes, mut relations, mut triples) = (HashMap::new(), HashMap::new(), 0);
        let note = |among: &mut HashMap<String, u64>, name: &str| {
            if !among.contains_key(name) {
                among.insert(name.to_owned(), 0);
            }
        };
        each_line(file, &|position| request.watch.at("names", position), |_, line| {
            if let Some([subject, predicate, object]) = triple(line, request.options.literals)? {
                note(&mut nodes, subject);
                note(&mut relations, predicate);
                note(&mut nodes, object);
                triples += 1;
            }
            Ok(())
        })?;
        if triples == 0 {
            return Err(GraphError::usage("SRC", format!("{} has no triples", file.display())));
        }
        if nodes.len() as u64 > MOST_NODES {
            let message = format!("{} has {} entities, more than {MOST_NODES}", file.display(), nodes.len());
            return Err(GraphError::usage("SRC", message));
        }
        Ok(Self { nodes: Ordered::of(nodes), relations: Ordered::of(relations), triples })
    }
}

/// Sorts the triples by relation, each as a number of both ends, into lists in `directory`.
fn sort_by_relation(
    file: &Path,
    request: &ImportRequest<'_>,
    nodes: &Ordered,
    relations: &Ordered,
    directory: &Path,
) -> Result<(), GraphError> {
    let ends = Ends { sources: MOST_NODES * MOST_NODES, destinations: relations.names.len() as u64 };
    let mut lists = CscBuilder::between(directory, ends, Changes::NONE, false, request.options.memory)?;
    each_line(file, &|position| request.watch.at("edges", position), |_, line| {
        if let Some([subject, predicate, object]) = triple(line, request.options.literals)? {
            let number = |among: &Ordered, name: &str| {
                among
                    .numbers
                    .get(name)
                    .copied()
                    .ok_or_else(|| LineError::Line("the file has changed".to_owned()))
            };
            let packed = number(nodes, subject)? * MOST_NODES + number(nodes, object)?;
            lists.push(packed, number(relations, predicate)?, 0.0)?;
        }
        Ok(())
    })?;
    lists.finish(request.watch.progress).map(drop)
}

/// Subject, predicate and object of a line; `None` for a comment, an empty line or a dropped literal.
fn triple(line: &[u8], literals: Option<Literals>) -> Result<Option<[&str; 3]>, LineError> {
    let wrong = |problem: &str| LineError::Line(problem.to_owned());
    let line = std::str::from_utf8(line).map_err(|_| wrong("it is not UTF-8"))?.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let line = line.strip_suffix('.').ok_or_else(|| wrong("a triple ends with a full stop"))?.trim_end();
    let blank = |c: char| c == ' ' || c == '\t';
    let (subject, rest) = line.split_once(blank).ok_or_else(|| wrong("a triple has three parts"))?;
    let (predicate, object) =
        rest.trim_start_matches(blank).split_once(blank).ok_or_else(|| wrong("a triple has three parts"))?;
    let object = object.trim_start_matches(blank);
    let is_iri = |text: &str| text.starts_with('<') && text.ends_with('>') && !text.contains(blank);
    let is_node = |text: &str| is_iri(text) || text.starts_with("_:") && !text.contains(blank);
    if !is_node(subject) || !is_iri(predicate) {
        return Err(wrong("a subject is <IRI> or _:name, a predicate is <IRI>"));
    }
    let is_literal = object.starts_with('"') && object.len() > 1;
    if !is_node(object) && !is_literal {
        return Err(wrong("an object is <IRI>, _:name or a text in quotes"));
    }
    let is_dropped = is_literal && literals == Some(Literals::Drop);
    Ok((!is_dropped).then_some([subject, predicate, object]))
}

/// Splits and labels.
#[derive(Default)]
struct Sets {
    splits: [Option<Vec<i64>>; 3],
    /// The class of each labelled node.
    labels: BTreeMap<i64, String>,
    /// In the order of their text.
    classes: Vec<String>,
}

impl Sets {
    fn read(request: &ImportRequest<'_>, nodes: &Ordered) -> Result<Self, GraphError> {
        let mut sets = Sets::default();
        if request.source.is_dir() {
            for (at, name) in SPLITS.into_iter().enumerate() {
                let path = request.file(name);
                if path.is_file() {
                    sets.splits[at] = Some(sets.add(&path, request, nodes)?);
                }
            }
        }
        if let Some(path) = &request.options.labels.file {
            sets.add(path, request, nodes)?;
        }
        sets.classes = sets.labels.values().cloned().collect();
        sets.classes.sort_unstable();
        sets.classes.dedup();
        Ok(sets)
    }

    /// Adds the classes of a table, and returns its entities.
    fn add(
        &mut self,
        path: &Path,
        request: &ImportRequest<'_>,
        nodes: &Ordered,
    ) -> Result<Vec<i64>, GraphError> {
        let wrong = |problem: String| LineError::Line(problem);
        let (mut ids, mut places) = (Vec::new(), [0, usize::MAX]);
        each_line(path, &|_| {}, |line, text| {
            let text = std::str::from_utf8(text).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
            let columns: Vec<&str> = text.split('\t').collect();
            if line == 1 {
                if let Some(named) = &request.options.labels.columns {
                    for (place, name) in places.iter_mut().zip(named) {
                        let found = columns.iter().position(|column| column == name);
                        *place = found.ok_or_else(|| wrong(format!("it has no column {name}")))?;
                    }
                }
                return Ok(());
            }
            if text.is_empty() {
                return Ok(());
            }
            let last = columns.len() - 1;
            if last == 0 {
                return Err(wrong("it has one column, two are needed".to_owned()));
            }
            let places = places.map(|place| if place == usize::MAX { last } else { place });
            let [Some(entity), Some(class)] = places.map(|place| columns.get(place)) else {
                return Err(wrong(format!("it has {} columns, fewer than the first line", columns.len())));
            };
            let node = nodes.numbers.get(&format!("<{entity}>"));
            let node = *node.ok_or_else(|| wrong(format!("no triple has the entity {entity}")))?;
            let node = node.cast_signed();
            let known = self.labels.insert(node, (*class).to_owned());
            if let Some(known) = known.filter(|known| known != class) {
                return Err(wrong(format!("{entity} has the class {class} here, and {known} before")));
            }
            ids.push(node);
            Ok(())
        })?;
        Ok(ids)
    }

    fn write(
        &self,
        request: &ImportRequest<'_>,
        writer: &crate::typed::TypedWriter,
        nodes: u64,
        meta: &mut Meta,
    ) -> Result<(), GraphError> {
        let file = |name: &str| writer.node_file(NodeType::ONLY, name);
        let mut labels = vec![-1_i64; nodes as usize];
        for (node, class) in &self.labels {
            labels[*node as usize] = self.classes.binary_search(class).map_or(-1, |class| class as i64);
        }
        if !self.classes.is_empty() {
            write_array(&file(names::LABELS), NpyType::I64, &[], &labels)?;
            meta.class_names = Some(self.classes.clone());
        }
        if request.options.split.is_some() {
            let nodes = (labels.len(), Some(&labels[..]));
            return typed_output::split_by_rule(request, writer, NodeType::ONLY, nodes, meta);
        }
        for (split, ids) in Split::ALL.into_iter().zip(&self.splits) {
            if let Some(ids) = ids {
                write_array(&file(split.file_name()), NpyType::I64, &[], ids)?;
            }
        }
        Ok(())
    }
}

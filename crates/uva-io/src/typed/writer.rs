//! A dataset of format 2 being written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use uva_files::staging::StagedDirectory;
use uva_graph::csc::{Changes, CscBuilder, Ends, SortKey};
use uva_graph::npy::NpyWriter;
use uva_graph::typed_meta::{EdgeRowOf, EntryOrder, RelationMeta, TypedMeta};
use uva_graph::{DATASET, GraphError, Meta, Metagraph, NodeType, Progress, Relation, names};

use super::edge_column::{EdgeColumn, EdgeColumns};
use super::plan::{CheckedPlan, GraphPlan, Reversal};
use super::reverse::WrittenRelation;

/// A dataset of format 2 under its temporary name. It appears at its path by [`finish`](Self::finish), and not at all
/// if the value is dropped before.
///
/// ```
/// use uva_graph::{Meta, Relation, TypedDataset, verify};
/// use uva_io::typed::{EdgeColumns, GraphPlan, RelationPlan, Reversal, TypedWriter};
///
/// let parent = tempfile::tempdir()?;
/// let out = parent.path().join("library");
/// let plan = GraphPlan {
///     nodes: vec![GraphPlan::node_type("paper", 2), GraphPlan::node_type("author", 3)],
///     relations: vec![RelationPlan::new(["author", "writes", "paper"], Reversal::Separate)],
///     target: Some("paper".to_owned()),
/// };
/// let mut writer = TypedWriter::new(&out, plan, 64 << 20)?;
/// writer.relation(Relation(0), &EdgeColumns::default(), &|_| {}, &mut |lists| lists.push(2, 1, 0.0))?;
/// writer.finish(Meta::default(), &verify::directory)?;
/// assert_eq!(TypedDataset::open(&out)?.metagraph().full_name(Relation(1)), "paper__rev_writes__author");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TypedWriter {
    staged: StagedDirectory,
    typed: TypedMeta,
    metagraph: Metagraph,
    reversals: Vec<Reversal>,
    added: Vec<Option<Relation>>,
    memory: u64,
}

/// Passes every edge of a relation to its builder: source, destination, and a weight that is ignored.
pub type PushEdges<'p> = &'p mut dyn FnMut(&mut CscBuilder) -> Result<(), GraphError>;

impl TypedWriter {
    /// Begins a dataset in the directory `out`, which must not exist. Edges take up to `memory` bytes.
    ///
    /// # Errors
    /// If a name of a type or relation is not valid or occurs twice, `out` exists, or the directories cannot be created.
    pub fn new(out: &Path, plan: GraphPlan, memory: u64) -> Result<Self, GraphError> {
        let plan = plan.checked()?;
        Self::begin(StagedDirectory::new(out, &DATASET)?, plan, memory)
    }

    /// Like [`new`](Self::new), and replaces a dataset at `out`.
    ///
    /// # Errors
    /// As [`new`](Self::new), but `out` may be a complete dataset, or an empty directory.
    pub fn replacing(out: &Path, plan: GraphPlan, memory: u64) -> Result<Self, GraphError> {
        let plan = plan.checked()?;
        Self::begin(StagedDirectory::replacing(out, &DATASET)?, plan, memory)
    }

    fn begin(staged: StagedDirectory, plan: CheckedPlan, memory: u64) -> Result<Self, GraphError> {
        let CheckedPlan { typed, metagraph, reversals, added } = plan;
        let writer = Self { staged, typed, metagraph, reversals, added, memory };
        writer.create_directories()?;
        Ok(writer)
    }

    fn create_directories(&self) -> Result<(), GraphError> {
        let create = |path: &Path| fs::create_dir(path).map_err(GraphError::io(path, "create"));
        for group in [names::NODE_TYPES, names::RELATIONS] {
            create(&self.staged.path().join(group))?;
        }
        let types = self.metagraph.types().map(|node_type| self.type_directory(node_type));
        let relations = self.metagraph.relations().map(|relation| self.relation_directory(relation));
        for directory in types.chain(relations) {
            fs::create_dir(&directory).map_err(|error| match error.kind() {
                // Names differ, so the file system does not distinguish them.
                io::ErrorKind::AlreadyExists => {
                    let name = directory.file_name().unwrap_or_default().display();
                    let message = format!(
                        "the file system does not distinguish the directory of {name} from another one: choose names \
                         that differ in more than case"
                    );
                    GraphError::usage("nodes", message)
                }
                _ => GraphError::io(&directory, "create")(error),
            })?;
        }
        Ok(())
    }

    /// The types and relations, with the added ones.
    pub fn metagraph(&self) -> &Metagraph {
        &self.metagraph
    }

    /// The temporary directory.
    pub fn directory(&self) -> &Path {
        self.staged.path()
    }

    /// The path of an array of a node type, which the caller writes.
    pub fn node_file(&self, node_type: NodeType, name: &str) -> PathBuf {
        self.type_directory(node_type).join(name)
    }

    /// The path of a file of a relation, which the caller writes.
    pub fn relation_file(&self, relation: Relation, name: &str) -> PathBuf {
        self.relation_directory(relation).join(name)
    }

    /// The entry of a relation in `meta.json`, for keys that are known only after its edges have been read.
    pub fn relation_meta(&mut self, relation: Relation) -> &mut RelationMeta {
        &mut self.typed.edges[relation.index()]
    }

    /// The relation that is written as the reverse of `relation`.
    pub fn added_reverse(&self, relation: Relation) -> Option<Relation> {
        self.added.get(relation.index()).copied().flatten()
    }

    fn type_directory(&self, node_type: NodeType) -> PathBuf {
        self.staged.path().join(names::NODE_TYPES).join(self.metagraph.type_name(node_type))
    }

    fn relation_directory(&self, relation: Relation) -> PathBuf {
        self.staged.path().join(names::RELATIONS).join(self.metagraph.full_name(relation))
    }

    /// The numbers of nodes at the ends of a relation.
    pub fn ends(&self, relation: Relation) -> Ends {
        let nodes = |node_type: NodeType| self.typed.nodes[node_type.index()].num;
        Ends {
            sources: nodes(self.metagraph.source(relation)),
            destinations: nodes(self.metagraph.destination(relation)),
        }
    }

    /// Writes a relation, and its reverse if the plan has one. `push` passes all edges, whose ends have been checked.
    /// Returns the number of edges of the relation.
    ///
    /// # Errors
    /// If a column has another number of rows than there are edges, a write fails, or the memory is too small.
    pub fn relation(
        &mut self,
        relation: Relation,
        table: &EdgeColumns<'_>,
        progress: &dyn Fn(Progress),
        push: PushEdges<'_>,
    ) -> Result<u64, GraphError> {
        self.relation_with(relation, Changes::NONE, table, progress, push)
    }

    /// Like [`relation`](Self::relation), with changes of the edges. An `EdgeColumns` that is not empty requires unchanged
    /// edges.
    ///
    /// # Errors
    /// As [`relation`](Self::relation).
    pub fn relation_with(
        &mut self,
        relation: Relation,
        changes: Changes,
        table: &EdgeColumns<'_>,
        progress: &dyn Fn(Progress),
        push: PushEdges<'_>,
    ) -> Result<u64, GraphError> {
        let directory = self.relation_directory(relation);
        let reversal = self.reversals[relation.index()];
        let symmetrise = changes.symmetrise || reversal == Reversal::Same;
        let (changes, ends) = (Changes { symmetrise, ..changes }, self.ends(relation));
        let numbered = table.is_numbered();
        let mut lists = CscBuilder::between(&directory, ends, changes, numbered, self.memory)?;
        push(&mut lists)?;
        let pushed = lists.pushed();
        if let Some(wrong) = table.all().find(|column| column.rows() != pushed) {
            let name = self.metagraph.full_name(relation);
            let message = format!("{name} has {pushed} edges, and {wrong:?} needs a row for each");
            return Err(GraphError::usage("edges", message));
        }
        let by_id = reversal != Reversal::None && table.features.is_some();
        let ids = (table.edge_ids || by_id).then(|| EdgeColumns::edge_ids_column(pushed));
        let placed = table.columns.iter().chain(&table.times).chain(&ids);
        let placed: Vec<&EdgeColumn<'_>> = placed.chain(table.features.as_ref().filter(|_| !by_id)).collect();
        let key = table.times.as_ref().map(|times| move |number| times.integer(number));
        let key: Option<SortKey<'_>> = key.as_ref().map(|key| key as SortKey<'_>);
        let edges = write_lists(lists, &directory, key, &placed, progress)?;
        let meta = &mut self.typed.edges[relation.index()];
        if table.times.is_some() {
            meta.order = Some(EntryOrder::Time);
        }
        if let Some(features) = table.features.as_ref().filter(|_| by_id) {
            features.write_in_order(&directory)?;
            meta.feat_rows = Some(EdgeRowOf::EdgeId);
        }
        if let Some(reverse) = self.added_reverse(relation) {
            self.reverse(relation, reverse, by_id, progress)?;
        }
        Ok(edges)
    }

    /// Writes the relation `reverse`, with all edges of `relation` in the other direction.
    fn reverse(
        &mut self,
        relation: Relation,
        reverse: Relation,
        shares_features: bool,
        progress: &dyn Fn(Progress),
    ) -> Result<(), GraphError> {
        let forward = WrittenRelation::open(&self.relation_directory(relation))?;
        let directory = self.relation_directory(reverse);
        let columns: Vec<EdgeColumn<'_>> = forward.columns().collect();
        let (ends, numbered) = (self.ends(reverse), !columns.is_empty());
        let mut lists = CscBuilder::between(&directory, ends, Changes::NONE, numbered, self.memory)?;
        forward.push_reversed(&mut lists)?;
        let key = forward.times()?.map(|times| move |place: u64| times[place as usize]);
        let key: Option<SortKey<'_>> = key.as_ref().map(|key| key as SortKey<'_>);
        write_lists(lists, &directory, key, &columns.iter().collect::<Vec<_>>(), progress)?;
        let names = self.typed.edges[relation.index()].names.clone();
        let meta = &mut self.typed.edges[reverse.index()];
        if key.is_some() {
            meta.order = Some(EntryOrder::Time);
        }
        if shares_features {
            meta.feat_of = Some(names);
        }
        Ok(())
    }

    /// Writes `meta.json`, whose typed keys are the plan's, runs `check` on the whole dataset and gives it its name.
    ///
    /// # Errors
    /// Of `check`, or if a write fails.
    pub fn finish(
        self,
        meta: Meta,
        check: &dyn Fn(&Path) -> Result<(), GraphError>,
    ) -> Result<(), GraphError> {
        let meta = Meta { typed: Some(self.typed), ..meta };
        meta.write(self.staged.path())?;
        check(self.staged.path())?;
        Ok(self.staged.commit()?)
    }
}

/// Writes the lists, and the columns in their order. Returns the number of entries.
fn write_lists(
    lists: CscBuilder,
    directory: &Path,
    key: Option<SortKey<'_>>,
    columns: &[&EdgeColumn<'_>],
    progress: &dyn Fn(Progress),
) -> Result<u64, GraphError> {
    let mut writers: Vec<NpyWriter> =
        columns.iter().map(|column| column.create(directory)).collect::<Result<_, _>>()?;
    let edges = lists.finish_in_order(progress, key, &mut |numbers| {
        let mut columns = columns.iter().zip(&mut writers);
        columns.try_for_each(|(column, writer)| column.write(numbers.iter().copied(), writer))
    })?;
    writers.into_iter().try_for_each(|writer| writer.finish().map(drop))?;
    Ok(edges)
}

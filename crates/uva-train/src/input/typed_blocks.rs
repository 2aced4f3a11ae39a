//! Batches of a typed graph, and the networks over them.

use crate::TrainError;
use crate::block::aggregate::{Block, HostLists};
use crate::input::check::{check_lists, refuse};
use crate::input::model_input::{InputSettings, ModelInput, another_input};
use crate::input::prepared::{ArrayPlace, InputRows, Prepared};
use crate::input::zeros::Zeros;
use crate::step::{Builder, Named};
use crate::torch::borrowed::{Number, values};
use uva_batch::{BatchColumns, BlockSize, Column, ColumnArray, ColumnKey, Element};
use uva_model::{ModelGraph, ModelKind, RelationUse, TrainerOptions, Wiring};

/// Rows of the input nodes of each type, and the blocks of each relation between them and the seeds.
pub(crate) struct TypedBlocks {
    graph: ModelGraph,
    wiring: Wiring,
    /// For each type a relation into it, whose blocks have the number of its nodes that are destinations.
    into: Vec<Option<usize>>,
}

/// A block that the model uses.
#[derive(Clone, Copy)]
struct UsedBlock {
    /// Its number from the seeds.
    level: usize,
    of: RelationUse,
}

impl TypedBlocks {
    pub(crate) fn new(options: &TrainerOptions) -> Result<Self, TrainError> {
        let refused =
            |problem: String| TrainError::Input(format!("`model={}`: {problem}", options.model.name()));
        let (wiring, graph) = (options.wiring().map_err(refused)?, options.graph.clone());
        let (Some(wiring), Some(graph)) = (wiring, graph) else {
            return Err(refused("it needs the types of a graph".to_owned()));
        };
        let into = graph.types.iter();
        let into = into.map(|of_type| graph.relations.iter().position(|[.., to]| *to == of_type.name));
        Ok(Self { into: into.collect(), graph, wiring })
    }

    /// The blocks that the model uses, in the order of its layers.
    fn used(&self) -> impl Iterator<Item = UsedBlock> {
        let layers = self.wiring.layers.iter().rev().enumerate().rev();
        layers.flat_map(|(level, layer)| layer.relations.iter().map(move |&of| UsedBlock { level, of }))
    }

    /// The number of nodes of a type that are destinations of the block at `level`, or below the last block all nodes.
    fn count(&self, batch: &BatchColumns<'_>, level: usize, of_type: usize) -> Result<usize, TrainError> {
        let key = match self.into[of_type] {
            Some(relation) if level < self.wiring.layers.len() => between(Column::Indptr, level, relation),
            _ => self.input_key(of_type),
        };
        let array = batch.get(key).ok_or_else(|| self.missing(key))?;
        Ok(if key.column == Column::Indptr { array.rows.saturating_sub(1) } else { array.rows })
    }

    /// The column with a row for each node of a type: its features, or without features the ids that its table has rows of.
    fn input_key(&self, of_type: usize) -> ColumnKey {
        let has_features = self.graph.types[of_type].columns.is_some();
        (if has_features { Column::X } else { Column::InputNodes }).part(of_type)
    }

    fn missing(&self, key: ColumnKey) -> TrainError {
        TrainError::Input(format!("a batch without {}", self.name(key)))
    }

    /// The name of a column, as a batch of the graph has it.
    fn name(&self, key: ColumnKey) -> String {
        match key.column {
            Column::Indptr | Column::Indices => {
                let relation = self.graph.full_name(key.part);
                format!("block{}.{relation}.{}", key.layer, key.column.spec().name)
            }
            _ => format!("{}.{}", key.column.spec().name, self.graph.types[key.part].name),
        }
    }

    fn values<'a, T: Number>(&self, batch: &BatchColumns<'a>, key: ColumnKey) -> Result<&'a [T], TrainError> {
        values(&batch.get(key).ok_or_else(|| self.missing(key))?, &self.name(key))
    }

    fn lists<'a>(
        &self,
        batch: &BatchColumns<'a>,
        UsedBlock { level, of }: UsedBlock,
    ) -> Result<HostLists<'a>, TrainError> {
        Ok(HostLists {
            destinations: self.count(batch, level, of.destination)?,
            sources: self.count(batch, level + 1, of.source)?,
            indptr: self.values(batch, between(Column::Indptr, level, of.relation))?,
            indices: self.values(batch, between(Column::Indices, level, of.relation))?,
            weights: &[],
        })
    }

    fn check_block(&self, batch: &BatchColumns<'_>, used: UsedBlock) -> Result<(), TrainError> {
        let UsedBlock { level, of } = used;
        let lists = self.lists(batch, used)?;
        let name = self.name(between(Column::Indptr, level, of.relation));
        if lists.indptr.len() != lists.destinations + 1 {
            let found = lists.indptr.len();
            return refuse(format!("{name}: {found} offsets for {} destinations", lists.destinations));
        }
        // A model that does not read the destinations' own rows may get no rows of them.
        if level + 1 < self.wiring.layers.len() || self.wiring.inputs.contains(&of.destination) {
            let below = self.count(batch, level + 1, of.destination)?;
            if lists.destinations > below {
                return refuse(format!(
                    "{name}: {} destinations, where the batch has {below} nodes of their type",
                    lists.destinations
                ));
            }
        }
        if batch.get(between(Column::Weights, level, of.relation)).is_some() {
            return refuse(format!("{name}: weights of edges, which models over relations do not support"));
        }
        check_lists(&lists).or_else(|problem| refuse(format!("{name}: {problem}")))
    }

    fn check_rows(&self, batch: &BatchColumns<'_>, of_type: usize) -> Result<(), TrainError> {
        let key = self.input_key(of_type);
        let rows = batch.get(key).ok_or_else(|| self.missing(key))?;
        match (rows.width, self.graph.types[of_type].columns) {
            // The table checks the ids.
            (_, None) => Ok(()),
            (Some(found), Some(columns)) if found == columns => Ok(()),
            (found, Some(columns)) => {
                refuse(
                    format!("{}: {} columns for a model of {columns}", self.name(key), found.unwrap_or(1),),
                )
            }
        }
    }
}

/// The column of a relation in a block.
fn between(column: Column, level: usize, relation: usize) -> ColumnKey {
    ColumnKey { part: relation, ..column.at(level) }
}

impl ModelInput for TypedBlocks {
    fn steps(&self, _: &mut Builder<'_>, _: (usize, usize)) -> Result<Vec<Named>, TrainError> {
        // The front makes the logits.
        Ok(Vec::new())
    }

    fn labels(&self) -> ColumnKey {
        Column::Labels.part(self.wiring.target)
    }

    fn check(&self, settings: &InputSettings<'_>, batch: &BatchColumns<'_>) -> Result<(), TrainError> {
        if batch.layers.is_empty() {
            return Err(another_input(settings.model, "a hop set", "sampled blocks"));
        }
        if batch.is_on_device() {
            return refuse(format!("a batch on a GPU for `model={}`", settings.model.name()));
        }
        let (found, layers) = (batch.layers.len(), self.wiring.layers.len());
        if found != layers {
            return refuse(format!("a batch of {found} hops for a model of {layers} layers"));
        }
        if batch.padding > 0 {
            return refuse(format!("a batch with padding for `model={}`", settings.model.name()));
        }
        self.wiring.inputs.iter().try_for_each(|&of_type| self.check_rows(batch, of_type))?;
        self.used().try_for_each(|used| self.check_block(batch, used))?;
        let (target, seeds) = (&self.graph.target, self.count(batch, 0, self.wiring.target)?);
        if seeds != batch.seeds {
            return refuse(format!("{} seeds, of which {seeds} are of the type {target}", batch.seeds));
        }
        Ok(())
    }

    fn prepare<'a>(
        &self,
        settings: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
        place: ArrayPlace,
    ) -> Result<Prepared<'a>, TrainError> {
        let ArrayPlace::Host = place else {
            return refuse(format!("`model={}` trains on the CPU only", settings.model.name()));
        };
        let mut trained = 0;
        let table = |&of_type: &usize| {
            let key = self.input_key(of_type);
            if key.column == Column::InputNodes {
                trained += 1;
                return Ok(InputRows::Trained { table: trained - 1, ids: self.values(batch, key)? });
            }
            let array = batch.get(key).ok_or_else(|| self.missing(key))?;
            place.tensor(&array, &self.name(key)).map(InputRows::Given)
        };
        let block = |used| Block::new(settings.model, &self.lists(batch, used)?, &[], settings.kind);
        Ok(Prepared {
            tables: self.wiring.inputs.iter().map(table).collect::<Result<_, _>>()?,
            blocks: self.used().map(block).collect::<Result<_, _>>()?,
        })
    }

    fn zeros<'z>(&self, settings: &InputSettings<'_>, zeros: &'z Zeros) -> BatchColumns<'z> {
        let layers = self.wiring.layers.len();
        let sizes = zeros.rows.windows(2).map(|rows| BlockSize {
            destinations: rows[0],
            sources: rows[1],
            edges: rows[0],
        });
        let mut batch =
            BatchColumns::new(Zeros::SEEDS, sizes.collect()).with_labels(zeros.labels(settings.task));
        if let Some(labels) = batch.get(Column::Labels) {
            batch = batch.without(Column::Labels).with(self.labels(), labels);
        }
        let numbers = |count: usize| ColumnArray::vector(&zeros.offsets[..count], Element::I32);
        for (level, &destinations) in zeros.rows[..layers].iter().enumerate() {
            for relation in 0..self.graph.relations.len() {
                batch = batch
                    .with(between(Column::Indptr, level, relation), numbers(destinations + 1))
                    .with(between(Column::Indices, level, relation), numbers(destinations));
            }
        }
        for &of_type in &self.wiring.inputs {
            let rows = zeros.rows[layers];
            let array = match self.graph.types[of_type].columns {
                Some(columns) => zeros.table(rows, columns),
                None => zeros.ids(rows),
            };
            batch = batch.with(self.input_key(of_type), array);
        }
        batch
    }

    fn check_hidden(&self, model: ModelKind) -> Result<(), TrainError> {
        refuse(format!("hidden rows of `model={}` are not supported yet", model.name()))
    }
}

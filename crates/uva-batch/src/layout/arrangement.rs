//! The arrangement of the columns of a run's batches in a slot.

use uva_graph::{ElementType, Labels, NodeType, TypedDataset};
use uva_sample::{BatchBounds, GraphSize, TypeSize};

use super::batch_layout::{BatchLayout, CACHE_LINE, PAGE};
use super::feature_parts::{FeatureParts, RowShape, of_features};
use crate::schema::{Rows, Scope, Slots, Values};
use crate::{
    Aggregation, BatchHeader, BatchSpec, COLUMNS, Column, ColumnKey, ColumnPlace, ColumnSpec, Element,
    LayoutError,
};

impl BatchLayout {
    /// The layout for batches of this specification over this dataset.
    ///
    /// # Errors
    /// [`LayoutError`] if batches have no bound, the given slot bytes are too few for one batch's seeds, or the table's
    /// values cannot be widened to the requested type.
    pub fn new(dataset: &TypedDataset, spec: &BatchSpec) -> Result<Self, LayoutError> {
        let contents = Contents::of(dataset, spec)?;
        let bounds = bounds_of(dataset, spec, &contents)?;
        let mut places: Vec<ColumnPlace> = Vec::new();
        let header_bytes = BatchHeader::bytes(bounds.types.len(), bounds.blocks.len());
        let (mut batch_bytes, mut arrays_bytes) = (header_bytes, 0);
        let (mut end, mut summed_end) = (header_bytes, 0);
        for key in contents.in_slot_order(spec, bounds.layers()) {
            let column = key.column;
            let of_column = column.spec();
            let (element, width) = contents.values(key);
            let [counted, counted_if_summed] = counted_rows(spec, column);
            let capacity = |counted: Option<Rows>| counted.map_or(0, |rows| most_rows(rows, key, &bounds));
            let of_sums = capacity(counted_if_summed);
            let capacity = capacity(counted).max(of_sums);
            let mut place = ColumnPlace { key, element, width, counted, counted_if_summed, capacity, at: 0 };
            if let Some(whole) = of_column.first_of {
                let whole = ColumnKey { column: whole, ..key };
                place.at = places.iter().find(|other| other.key == whole).map_or(0, |whole| whole.at);
                places.push(place);
                continue;
            }
            if of_features(column) && arrays_bytes == 0 {
                arrays_bytes = end;
                end = end.checked_next_multiple_of(PAGE).ok_or(LayoutError::TooLarge)?;
                summed_end = end;
            }
            // A batch has either all its rows or sums. If a run has both kinds of batches, the sums and their
            // companions begin at the offset of the rows of all nodes.
            let overlaps = spec.chooses_sums && of_features(column);
            place.at = if overlaps { summed_end } else { end };
            let behind = |rows: usize| {
                rows.checked_mul(place.row_bytes())
                    .and_then(|bytes| place.at.checked_add(bytes)?.checked_next_multiple_of(CACHE_LINE))
                    .ok_or(LayoutError::TooLarge)
            };
            end = end.max(behind(capacity)?);
            summed_end = behind(of_sums)?;
            if of_column.lives_in == Slots::Both {
                batch_bytes = end;
            }
            places.push(place);
        }
        if arrays_bytes == 0 {
            // No type has features.
            arrays_bytes = end;
        }
        // Space to round up to whole pages.
        end.checked_add(PAGE).ok_or(LayoutError::TooLarge)?;
        Ok(Self {
            bounds,
            metagraph: dataset.metagraph().clone(),
            target: spec.target,
            feature_parts: FeatureParts::new(spec.tables, &contents.rows),
            places,
            rows: contents.rows,
            edge_attr: contents.edge_attr,
            shapes: spec.shapes.clone(),
            aggregation: spec.aggregation,
            chooses_sums: spec.chooses_sums,
            batch_bytes,
            arrays_bytes,
        })
    }
}

/// What the node types and relations of a dataset have of the columns.
struct Contents<'a> {
    /// Of each type.
    rows: Vec<Option<RowShape>>,
    labels: Vec<Labels<'a>>,
    /// Of each relation, if batches have feature rows of edges.
    edge_attr: Vec<Option<(ElementType, usize)>>,
    /// Tables of feature rows of a hop set.
    tables: Option<usize>,
}

impl<'a> Contents<'a> {
    fn of(dataset: &'a TypedDataset, spec: &BatchSpec) -> Result<Self, LayoutError> {
        let metagraph = dataset.metagraph();
        let shape = |of: NodeType| {
            let Some(table) = dataset.table_of(of) else { return Ok(None) };
            let widened_from = spec.feature_type.widened_from(table.element)?;
            let element = if widened_from.is_some() { ElementType::F32 } else { table.element };
            Ok(Some(RowShape { dim: table.dim, element, widened_from }))
        };
        let has_edge_attr = spec.asked.contains(&Column::EdgeAttr);
        let edge_attr = metagraph
            .relations()
            .map(|relation| if has_edge_attr { dataset.edge_table_of(relation) } else { None });
        let edge_attr: Vec<_> = edge_attr.collect();
        if has_edge_attr && edge_attr.iter().all(Option::is_none) {
            return Err(LayoutError::NoEdgeFeatures);
        }
        Ok(Self {
            rows: metagraph.types().map(shape).collect::<Result<_, LayoutError>>()?,
            labels: metagraph.types().map(|of| dataset.labels_of(of)).collect(),
            edge_attr,
            tables: spec.tables,
        })
    }

    /// The type of an array's values, and their number per row.
    fn values(&self, key: ColumnKey) -> (Element, Option<usize>) {
        // The tables of a hop set have rows of the only type.
        let part = if self.rows.len() == 1 { 0 } else { key.part };
        let dim = self.rows.get(part).copied().flatten().map_or(0, |rows| rows.dim);
        match key.column.spec().values {
            Values::One(element) => (element, None),
            Values::Labels => match self.labels[part] {
                Labels::Single(_) | Labels::Absent => (Element::I64, None),
                Labels::Regression { columns, .. } => (Element::F32, columns),
                Labels::Multi { classes, .. } => (Element::U8, Some(classes)),
            },
            Values::Features => {
                let element = self.rows[part].map_or(Element::F32, |rows| rows.element.into());
                (element, Some(dim))
            }
            Values::Sums => (Element::F32, Some(dim)),
            Values::Places => (Element::I32, Some(dim)),
            Values::EdgeFeatures => self
                .edge_attr
                .get(key.part)
                .copied()
                .flatten()
                .map_or((Element::F32, None), |(element, dim)| (element.into(), Some(dim))),
        }
    }

    /// The arrays of batches in the order of [`COLUMNS`]: neighbouring columns of node types type by type, those of layers
    /// with the same presence layer by layer, and in each relation by relation.
    fn in_slot_order(&self, spec: &BatchSpec, layers: usize) -> Vec<ColumnKey> {
        let beside = |a: &ColumnSpec, b: &ColumnSpec| match (a.scope(), b.scope()) {
            (Scope::Type, Scope::Type) => true,
            (Scope::LayerRelation, Scope::LayerRelation) => a.presence == b.presence,
            _ => false,
        };
        let keys = COLUMNS.chunk_by(beside).flat_map(|group| {
            let (layers, parts) = match group[0].scope() {
                Scope::Batch => (1, 1),
                Scope::Type if group[0].column == Column::X => (1, self.tables.unwrap_or(self.rows.len())),
                Scope::Type => (1, self.rows.len()),
                Scope::LayerRelation => (layers, self.edge_attr.len()),
            };
            (0..layers * parts).flat_map(move |at| {
                group.iter().map(move |of| ColumnKey {
                    column: of.column,
                    layer: at / parts,
                    part: at % parts,
                })
            })
        });
        keys.filter(|key| self.has(*key, spec)).collect()
    }

    fn has(&self, key: ColumnKey, spec: &BatchSpec) -> bool {
        let labelled = |part: usize| self.labels.get(part).is_some_and(Labels::are_there);
        let is_there = match key.column {
            Column::X => self.tables.is_some() || self.rows[key.part].is_some(),
            Column::EdgeAttr => self.edge_attr[key.part].is_some(),
            _ => true,
        };
        is_there && spec.has(key.column, labelled(key.part))
    }
}

/// The maximum sizes of batches.
fn bounds_of(
    dataset: &TypedDataset,
    spec: &BatchSpec,
    contents: &Contents<'_>,
) -> Result<BatchBounds, LayoutError> {
    let bytes = spec.slot_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let mut bounds = match spec.tables {
        None => BatchBounds::for_graph(&spec.sampling, &seeds_of(dataset, spec), &size_of(dataset), bytes)?,
        Some(_) => of_rows(spec.batch_size)?,
    };
    if let Some(bytes) = bytes {
        bounds = match contents.rows[..] {
            [Some(rows)] => limit_rows(bounds, bytes, rows.bytes(), rows.dim, spec)?,
            _ => limit_tables(bounds, bytes, &contents.rows)?,
        };
    }
    for size in &mut bounds.types {
        size.nodes = size.nodes.max(size.seeds);
    }
    if let Some(bytes) = bytes {
        for (block, edge_attr) in bounds.blocks.iter_mut().zip(contents.edge_attr.iter().cycle()) {
            if let Some((element, dim)) = edge_attr {
                block.edges = block.edges.min(bytes / (dim * element.bytes()));
            }
        }
    }
    if let Some(shapes) = &spec.shapes {
        shapes.extend(&mut bounds);
        // Local ids have 32 bits.
        let counts = shapes.counts();
        let most = counts.blocks().iter().map(|block| block.edges).fold(counts.nodes(), usize::max);
        i32::try_from(most).map_err(|_| LayoutError::TooLarge)?;
    }
    Ok(bounds)
}

/// The most seeds of a batch, of each type: a batch may have seeds of one of several types only.
fn seeds_of(dataset: &TypedDataset, spec: &BatchSpec) -> Vec<usize> {
    let is_seed = |of| of == spec.target || dataset.chosen_types().any(|chosen| chosen == of);
    dataset.metagraph().types().map(|of| if is_seed(of) { spec.batch_size } else { 0 }).collect()
}

/// The sizes that bound batches: a repeated seed has its own row and edges.
fn size_of(dataset: &TypedDataset) -> GraphSize {
    let mut size = GraphSize::of(dataset);
    for of in dataset.chosen_types() {
        size.nodes[of.index()] += dataset.repeated_seeds(of);
        for &relation in dataset.metagraph().into_type(of) {
            size.relations[relation.index()].edges += dataset.repeats_in(relation).edges;
        }
    }
    size
}

/// The rows of a column in a batch that is not marked as summed, and in one that is. `None` if the column is absent.
fn counted_rows(spec: &BatchSpec, column: Column) -> [Option<Rows>; 2] {
    let beside_sums = spec.aggregation.keeps_own_rows().then_some(Rows::Outermost);
    match (column, spec.aggregation) {
        (Column::X, Aggregation::None) => [Some(Rows::Nodes); 2],
        (Column::X, _) if spec.chooses_sums => [Some(Rows::Nodes), beside_sums],
        (Column::X, _) => [beside_sums; 2],
        (Column::Aggregated, _) if spec.chooses_sums => [None, Some(Rows::Outermost)],
        _ => [Some(column.spec().rows); 2],
    }
}

/// The bounds of batches of a hop set: one row per seed, and no layers.
fn of_rows(seeds: usize) -> Result<BatchBounds, LayoutError> {
    // Headers count in 32 bits.
    u32::try_from(seeds).map_err(|_| LayoutError::TooLarge)?;
    let types = vec![TypeSize { seeds, nodes: seeds }];
    Ok(BatchBounds {
        types,
        blocks: Vec::new(),
        relations: Vec::new(),
        edge_ids: false,
        weights: false,
        trees: false,
    })
}

/// The maximum number of rows of an array.
fn most_rows(rows: Rows, key: ColumnKey, bounds: &BatchBounds) -> usize {
    // The tables of a hop set have rows of the only type.
    let of_type = || bounds.types[if bounds.types.len() == 1 { 0 } else { key.part }];
    let block = || bounds.blocks[key.layer * bounds.relations.len() + key.part];
    match rows {
        Rows::Seeds => of_type().seeds,
        Rows::Nodes => of_type().nodes,
        Rows::Offsets => block().destinations + 1,
        Rows::Edges => block().edges,
        Rows::Outermost => bounds.blocks.last().map_or(0, |layer| layer.destinations),
    }
}

/// Bounds a slot's feature rows by the given bytes, in addition to its ids. If the producer sums, these are the rows of
/// the outermost layer's destinations, and their sums of `dim` float32, with the places of maxima if these are
/// requested. Rows that are gathered before they are summed have a separate bound of as many bytes outside the slots.
pub(super) fn limit_rows(
    mut bounds: BatchBounds,
    bytes: usize,
    row_bytes: usize,
    dim: usize,
    spec: &BatchSpec,
) -> Result<BatchBounds, LayoutError> {
    let aggregation = spec.aggregation;
    let gathered = bytes / row_bytes.max(1);
    let row_bytes = match aggregation {
        Aggregation::None => row_bytes,
        sums if sums.keeps_own_rows() => row_bytes + dim * Element::F32.bytes(),
        _ => dim * Element::F32.bytes(),
    };
    let of_argmax = if spec.asked.contains(&Column::Argmax) { dim * Element::I32.bytes() } else { 0 };
    let row_bytes = row_bytes + of_argmax;
    let rows = bytes / row_bytes.max(1);
    if rows < bounds.seeds() {
        return Err(LayoutError::RowsBelowSeeds { bytes, rows, row_bytes, seeds: bounds.seeds() });
    }
    let (outermost, nodes) = (bounds.blocks.len().saturating_sub(1), bounds.nodes());
    let whole = aggregation == Aggregation::None || spec.gathers_before_sums;
    if whole {
        bounds.types[0].nodes = nodes.min(gathered);
    }
    for (layer, bounds) in bounds.blocks.iter_mut().enumerate() {
        if layer < outermost {
            bounds.sources = bounds.sources.min(rows);
        } else if whole {
            bounds.sources = bounds.sources.min(gathered);
        }
        bounds.destinations = bounds.destinations.min(rows);
    }
    Ok(bounds)
}

/// Bounds the feature rows of all types together by the given bytes. Seeds keep their rows; the other nodes of all types
/// shrink by one factor.
pub(super) fn limit_tables(
    mut bounds: BatchBounds,
    bytes: usize,
    rows: &[Option<RowShape>],
) -> Result<BatchBounds, LayoutError> {
    let row_bytes: Vec<usize> = rows.iter().map(|rows| rows.map_or(0, |rows| rows.bytes())).collect();
    let all_bytes = |count: fn(&TypeSize) -> usize| {
        let of_types = bounds.types.iter().zip(&row_bytes);
        of_types.map(|(size, bytes)| count(size) as u128 * *bytes as u128).sum::<u128>()
    };
    let (of_seeds, all) = (all_bytes(|size| size.seeds), all_bytes(|size| size.nodes));
    let Some(left) = (bytes as u128).checked_sub(of_seeds) else {
        let seeds = bounds.seeds();
        let row_bytes = (of_seeds / seeds.max(1) as u128) as usize;
        return Err(LayoutError::RowsBelowSeeds { bytes, rows: bytes / row_bytes.max(1), row_bytes, seeds });
    };
    if all - of_seeds <= left {
        return Ok(bounds);
    }
    for (size, row_bytes) in bounds.types.iter_mut().zip(&row_bytes) {
        if *row_bytes > 0 {
            let more = (size.nodes - size.seeds) as u128 * left / (all - of_seeds);
            size.nodes = size.seeds + more as usize;
        }
    }
    for (block, ends) in bounds.blocks.iter_mut().zip(bounds.relations.iter().cycle()) {
        block.destinations = block.destinations.min(bounds.types[ends.destination.index()].nodes);
        block.sources = block.sources.min(bounds.types[ends.source.index()].nodes);
    }
    Ok(bounds)
}

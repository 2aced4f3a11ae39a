//! The resources required to make a hop set, computed before anything is written.

use std::ops::Range;
use std::path::Path;

use uva_files::disk_space::BytesOnDisk;
use uva_graph::csc::LEAST_MEMORY;
use uva_graph::{Dataset, FeatureTable, GraphError};
use uva_model::FeatureNorm;

use crate::operator::Operator;
use crate::options::{Layout, PropagateOptions};
use crate::product::features::FloatFeatures;
use crate::product::sums::{Matrix, OperatorGraph};
use crate::resumption::part::{DATA_OFFSET, WRITE_BYTES};

/// Columns of a panel are a multiple of this, a cache line, unless the panel has all columns.
const COLUMNS: usize = 16;

/// Bytes of the headers of node ids and labels.
const SMALL_HEADER: u64 = 128;

/// Sizes, memory and traffic.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// Rows of the hop set.
    pub rows: u64,
    /// Features per row.
    pub dim: u64,
    /// Number of hops, including the features themselves.
    pub hops: u64,
    /// Bytes of the hop set's arrays.
    pub set_bytes: u64,
    /// The maximum number of bytes on the disk at once, temporary files included.
    pub disk_bytes: u64,
    /// Columns per panel.
    pub columns: u64,
    /// Passes over the lists for each operator and sum, that is, the number of panels.
    pub panels: u64,
    /// Bytes of tables and buffers.
    pub memory_bytes: u64,
    /// Bytes read in all passes: features, lists and the parts to assemble. The system may serve some of these reads
    /// from memory.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Multiply-adds of rows of one column: list entries times columns, in all sums.
    pub multiply_adds: u64,
    /// Seconds that the sums take, from a short measurement. Reading and writing add to this.
    pub seconds: f64,
    /// Bytes of `disk_bytes` for reversing edges, sorting included.
    #[serde(skip)]
    pub(crate) turned_bytes: u64,
}

/// Bytes on the disk that are still to be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// For the hop set.
    pub(crate) set: u64,
    /// For temporary files.
    pub(crate) meanwhile: u64,
}

impl Estimate {
    /// The space still required after this many bytes are finished; `turns`: the transposed graph has to be written.
    pub(crate) fn room(&self, finished: u64, turns: bool) -> Room {
        let all = self.disk_bytes - if turns { 0 } else { self.turned_bytes };
        let set = self.set_bytes.saturating_sub(finished);
        Room { set, meanwhile: all.saturating_sub(finished).saturating_sub(set) }
    }
}

/// The columns of each panel.
pub(crate) fn panels(columns: &Range<usize>, width: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = columns.end;
    columns.clone().step_by(width.max(1)).map(move |first| first..(first + width).min(end))
}

/// The estimate for this many kept rows.
///
/// # Errors
/// [`GraphError::Lacking`] if the memory is too small for the narrowest panel, with the memory required.
pub(crate) fn of(
    dataset: &Dataset,
    options: &PropagateOptions,
    rows: usize,
    out: &Path,
) -> Result<Estimate, GraphError> {
    let (dim, fixed) = (dataset.table().dim, fixed_bytes(dataset, options, rows));
    if dim == 0 {
        return Err(GraphError::usage("DATA", "its nodes have no features to multiply"));
    }
    let least = fixed + column_bytes(dataset, options) * narrowest(dim) as u64;
    if options.memory < least {
        let message = format!(
            "`memory={}` is too small for {} columns of {} nodes: at least {} ({least} bytes) are required",
            BytesOnDisk(options.memory),
            narrowest(dim),
            dataset.nodes(),
            BytesOnDisk(least),
        );
        return Err(GraphError::Lacking { path: out.to_owned(), message });
    }
    Ok(within(dataset, options, rows, fixed))
}

/// The estimate if nothing is left to compute, so that memory need not hold the narrowest panel.
pub(crate) fn of_finished(dataset: &Dataset, options: &PropagateOptions, rows: usize) -> Estimate {
    within(dataset, options, rows, fixed_bytes(dataset, options, rows))
}

/// The estimate with panels as wide as memory permits, or the narrowest if none fits.
fn within(dataset: &Dataset, options: &PropagateOptions, rows: usize, fixed: u64) -> Estimate {
    let (dim, column) = (dataset.table().dim, column_bytes(dataset, options));
    let fit = options.memory.saturating_sub(fixed) / column.max(1);
    let width = match usize::try_from(fit) {
        Ok(fit) if fit < dim => (fit / COLUMNS * COLUMNS).max(narrowest(dim)),
        _ => dim,
    };
    let panels = dim.div_ceil(width.max(1)) as u64;
    with_panels(dataset, options, (rows, width, panels), fixed + column * width as u64)
}

/// Columns of the narrowest panel.
fn narrowest(dim: usize) -> usize {
    COLUMNS.min(dim)
}

/// Bytes that do not depend on the columns of a panel.
fn fixed_bytes(dataset: &Dataset, options: &PropagateOptions, rows: usize) -> u64 {
    let csc = dataset.csc();
    let graph = OperatorGraph { offsets: csc.indptr, indices: csc.indices, weights: None };
    dataset.nodes() as u64 * (8 + FloatFeatures::bytes_a_row(options.feature_norm))
        + 8 * rows as u64
        + WRITE_BYTES
        + options.threads as u64 * Matrix::bytes_a_thread(&graph)
}

/// Bytes of a column in all tables of a panel.
fn column_bytes(dataset: &Dataset, options: &PropagateOptions) -> u64 {
    let tables = options.operators.iter().map(|operator| operator.tables(options.hops)).max().unwrap_or(2);
    dataset.nodes() as u64 * 4 * u64::from(tables)
}

fn with_panels(
    dataset: &Dataset,
    options: &PropagateOptions,
    (rows, width, panels): (usize, usize, u64),
    memory_bytes: u64,
) -> Estimate {
    let (csc, features) = (dataset.csc(), dataset.features());
    let FeatureTable { dim, .. } = features;
    let (nodes, edges) = (csc.nodes() as u64, csc.edges() as u64);
    let operators = options.operators.len() as u64;
    let hops = 1 + operators * u64::from(options.hops);
    let hop_bytes = (rows * dim * options.element.bytes()) as u64;
    let headers = SMALL_HEADER * (1 + u64::from(dataset.labels().are_there()));
    let small = headers + rows as u64 * (8 + dataset.labels().row_bytes() as u64);
    let arrays = if options.layout == Layout::Rows { 1 } else { hops };
    let set_bytes = hops * hop_bytes + arrays * DATA_OFFSET as u64 + small;
    // Parts become files: one hop at a time, or all at once if hops are stored side by side.
    let meanwhile = match options.layout {
        Layout::Rows => hops * hop_bytes,
        Layout::Hops if panels > 1 => hop_bytes,
        Layout::Hops => 0,
    };
    let transposes = options.operators.contains(&Operator::Col);
    let list_bytes =
        8 * (nodes + 1) + edges * (csc.indices.id_bytes() as u64 + if options.weighted { 4 } else { 0 });
    let turned = if transposes { 2 * list_bytes + 8 * edges } else { 0 };
    let sums: u64 = options.operators.iter().map(|operator| u64::from(operator.sums() * options.hops)).sum();
    let norm = if options.feature_norm == FeatureNorm::Row { 1 } else { 0 };
    let table = features.bytes.len() as u64;
    // Rows of features are so short that reading a panel's columns reads all others as well.
    let reads = (operators * panels + norm) * table
        + (rows * features.row_bytes()) as u64
        + sums * panels * list_bytes;
    let again = match options.layout {
        Layout::Hops if panels > 1 => (hops - 1) * hop_bytes,
        Layout::Hops => 0,
        Layout::Rows => hops * hop_bytes,
    };
    Estimate {
        rows: rows as u64,
        dim: dim as u64,
        hops,
        set_bytes,
        disk_bytes: set_bytes + meanwhile + turned,
        columns: width as u64,
        panels,
        memory_bytes: memory_bytes.max(if transposes { LEAST_MEMORY } else { 0 }),
        read_bytes: reads + again + turned,
        write_bytes: set_bytes + again + turned,
        multiply_adds: sums * edges * dim as u64,
        seconds: 0.0,
        turned_bytes: turned,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_left_for_what_is_neither_finished_nor_turned_already() {
        let estimate = Estimate {
            rows: 10,
            dim: 1,
            hops: 2,
            set_bytes: 1000,
            disk_bytes: 1700,
            columns: 1,
            panels: 1,
            memory_bytes: 1,
            read_bytes: 1,
            write_bytes: 1,
            multiply_adds: 1,
            seconds: 0.0,
            turned_bytes: 500,
        };
        assert_eq!(estimate.room(0, true), Room { set: 1000, meanwhile: 700 });
        assert_eq!(estimate.room(0, false), Room { set: 1000, meanwhile: 200 });
        assert_eq!(estimate.room(300, false), Room { set: 700, meanwhile: 200 });
        assert_eq!(estimate.room(1100, false), Room { set: 0, meanwhile: 100 });
        assert_eq!(estimate.room(5000, true), Room { set: 0, meanwhile: 0 });
    }
}

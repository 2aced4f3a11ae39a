//! Settlement of a decision's open choices, by stored figures, by a measurement now, or by the defaults.

use uva_graph::{Dataset, FeatureTable};

use super::figures::{Figures, MeasurementShape};
use super::stored::{FigureFile, Machine};
use super::verdict::{RunRows, chosen, described};
use crate::RuntimeError;
use crate::backend::{Backend, BackendDecision, OpenChoices, TransferChoice};

/// The run that the choices are for.
#[derive(Clone, Copy, Debug)]
pub struct TargetRun {
    /// Bytes of the table that is measured; 0 without one.
    pub table_bytes: usize,
    /// Bytes of a row of that table.
    pub row_bytes: usize,
    /// Threads of the CPU's gather.
    pub gather_threads: usize,
    /// The rows that it reads.
    pub rows: RunRows,
}

impl TargetRun {
    /// A run on this dataset; `cached` states whether it caches rows.
    pub fn of(dataset: &Dataset, gather_threads: usize, cached: bool) -> Self {
        let measured = measured_table(dataset);
        let (table_bytes, row_bytes) =
            measured.map_or((0, 0), |table| (table.bytes.len(), table.row_bytes()));
        let rows = match (cached, dataset.is_homogeneous()) {
            (true, _) => RunRows::Cached,
            (false, true) => RunRows::OneTable,
            (false, false) => RunRows::SeveralTables,
        };
        Self { table_bytes, row_bytes, gather_threads, rows }
    }
}

/// The table whose rows are measured: of several, the one with the most bytes, from which most rows come that do not
/// fit a GPU's cache of address translations. `None` for a hop set, a divided dataset, and a graph without features.
pub(super) fn measured_table(dataset: &Dataset) -> Option<FeatureTable<'_>> {
    if dataset.is_homogeneous() {
        return dataset.feature_rows();
    }
    let tables = dataset.metagraph().types().filter_map(|of| dataset.rows(of));
    tables.max_by_key(|table| table.bytes.len())
}

/// A function that measures for this backend, in a process that may use the GPU.
pub type Measure<'m> = &'m mut dyn FnMut(&Backend) -> Result<Figures, RuntimeError>;

/// Settles the decision. Without `measure`, only stored figures are used. Under the simulator of the tests a
/// measurement is meaningless, so only `remeasure` makes one. `note` receives lines for people: the choices with their
/// figures, and ignored or failed measurements.
///
/// # Errors
/// [`RuntimeError::Interrupted`]; see also [`BackendDecision::settled`]. Other failures of the measurement are noted,
/// and the defaults are in force.
pub fn settle(
    decision: BackendDecision,
    wanted: &TargetRun,
    measure: Option<Measure<'_>>,
    note: &mut dyn FnMut(&str),
) -> Result<BackendDecision, RuntimeError> {
    let (Some(open), Backend::Cuda(cuda)) = (&decision.open, &decision.backend) else { return Ok(decision) };
    if wanted.table_bytes == 0 {
        let chosen = TransferChoice::unmeasured(&open.options);
        return decision.settled(&chosen);
    }
    let shape =
        MeasurementShape::new(wanted.table_bytes, wanted.row_bytes, cuda.kernel, wanted.gather_threads);
    let file = FigureFile::of_user(Machine::with(&open.device, open.driver.as_deref()));
    let stored = if open.options.remeasure { None } else { stored(file.as_ref(), &shape, note) };
    let found = match (stored, measure) {
        (Some(found), _) => Some(found),
        (None, None) => None,
        (None, Some(_)) if open.simulator && !open.options.remeasure => {
            tracing::debug!("no measurement: timings of the simulator are meaningless");
            None
        }
        (None, Some(measure)) => measured(&decision.backend, open, file.as_ref(), measure, note)?,
    };
    let Some((figures, source)) = found else {
        let chosen = TransferChoice::unmeasured(&open.options);
        return decision.settled(&chosen);
    };
    let chosen = chosen(&open.options, &figures, wanted.rows);
    note(&described(&chosen, &open.options, &figures, wanted.rows, &source));
    decision.settled(&chosen)
}

type SourcedFigures = (Figures, String);

/// The stored figures of this shape, and their file.
fn stored(
    file: Option<&FigureFile>,
    shape: &MeasurementShape,
    note: &mut dyn FnMut(&str),
) -> Option<SourcedFigures> {
    let file = file?;
    match file.figures(shape) {
        Ok(figures) => {
            Some((figures?, format!("stored in {}; `remeasure` measures again", file.path().display())))
        }
        Err(why) => {
            note(&format!("the measurement in {} is ignored: {why}", file.path().display()));
            None
        }
    }
}

/// Measures now, and stores the figures.
fn measured(
    backend: &Backend,
    open: &OpenChoices,
    file: Option<&FigureFile>,
    measure: Measure<'_>,
    note: &mut dyn FnMut(&str),
) -> Result<Option<SourcedFigures>, RuntimeError> {
    let figures = match measure(backend) {
        Ok(figures) => figures,
        Err(error @ RuntimeError::Interrupted(_)) => return Err(error),
        Err(error) => {
            let TransferChoice { gather, producer_percentage, table_pages, .. } =
                TransferChoice::unmeasured(&open.options);
            note(&format!(
                "gather {gather}, producer's share {producer_percentage} %, table pages {table_pages}: not measured \
                 ({error}); `uvatrain bench pcie` shows details"
            ));
            return Ok(None);
        }
    };
    let mut source = format!("measured now in {:.1} s", figures.seconds);
    match file.map(|file| (file.path(), file.keep(&figures))) {
        Some((path, Ok(()))) => source += &format!(", kept in {}", path.display()),
        Some((path, Err(error))) => source += &format!(", not kept: {}: {error}", path.display()),
        None => source += ", not kept: neither XDG_CACHE_HOME nor HOME is set",
    }
    Ok(Some((figures, source)))
}

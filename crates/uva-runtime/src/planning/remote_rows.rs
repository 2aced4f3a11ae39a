//! Which rows of other ranks to keep copies of.

use uva_graph::Dataset;
use uva_plan::{count, rank_rows};
use uva_rows::cache::map_bytes;

use super::measure::workload;
use crate::{LoaderOptions, RuntimeError};

/// The rows of other ranks that the most batches of the first training epoch read, of any rank: as many as `bytes` hold beside
/// their map. An epoch's seeds are shuffled, so these are the rows that each rank's own batches will read most.
///
/// # Errors
/// As sampling the epoch.
pub(crate) fn remote_rows(
    dataset: &Dataset,
    options: &LoaderOptions,
    bytes: u64,
) -> Result<Vec<i64>, RuntimeError> {
    let Some(own) = dataset.own_rows() else { return Ok(Vec::new()) };
    let range = own.nodes();
    let row_bytes = dataset.features().row_bytes().max(1) as u64;
    let room = bytes.saturating_sub(map_bytes(dataset.nodes())) / row_bytes;
    let hotness = count(&workload(dataset, options)?, 0..1)?;
    let others = rank_rows(&hotness).into_iter().filter(|&node| !range.contains(&u64::from(node)));
    Ok(others.take(room as usize).map(i64::from).collect())
}

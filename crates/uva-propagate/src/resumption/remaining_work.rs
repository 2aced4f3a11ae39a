//! The work that an earlier run did not finish.

use std::ops::Range;

use uva_graph::GraphError;

use super::journal::Journal;
use super::transpose::TransposedLists;
use crate::hop_sets::description;
use crate::operator::Operator;
use crate::options::{Layout, PropagateOptions};

/// The unfinished work.
pub(crate) struct RemainingWork {
    /// For each operator, the columns out of `dim` for which some hop is unfinished.
    pub(crate) columns: Vec<Vec<Range<usize>>>,
    /// Whether the transposed graph has to be written.
    pub(crate) turns: bool,
}

impl RemainingWork {
    /// Compares the journal with the requested options. Parts of unfinished panels are dropped: a panel is computed
    /// from the features on, so all its hops are computed again. Uses the current rayon pool.
    ///
    /// # Errors
    /// If the journal cannot be written, or dropped files cannot be removed.
    pub(crate) fn of(
        journal: &mut Journal,
        options: &PropagateOptions,
        dim: usize,
    ) -> Result<RemainingWork, GraphError> {
        TransposedLists::remove_unfinished(journal.folder())?;
        let columns = options
            .operators
            .iter()
            .enumerate()
            .map(|(place, &operator)| columns(journal, options, (place, operator), dim))
            .collect::<Result<Vec<_>, _>>()?;
        let needs_turned = options
            .operators
            .iter()
            .zip(&columns)
            .any(|(operator, columns)| *operator == Operator::Col && !columns.is_empty());
        Ok(RemainingWork { columns, turns: needs_turned && !TransposedLists::is_in(journal.folder()) })
    }
}

fn columns(
    journal: &mut Journal,
    options: &PropagateOptions,
    (place, operator): (usize, Operator),
    dim: usize,
) -> Result<Vec<Range<usize>>, GraphError> {
    // The parts of a finished file's hop have been removed.
    let unfinished: Vec<u32> = (1..=options.hops)
        .filter(|hop| journal.file(&file_of(options.layout, operator, *hop)).is_none())
        .collect();
    if unfinished.is_empty() {
        return Ok(Vec::new());
    }
    let columns_of = |hop: u32| journal.parts(Some(place), hop).into_iter().map(|part| part.columns);
    let mut whole: Vec<Range<usize>> = unfinished.iter().flat_map(|&hop| columns_of(hop)).collect();
    let has_all =
        |columns: &Range<usize>| unfinished.iter().all(|&hop| columns_of(hop).any(|other| other == *columns));
    whole.sort_by_key(|columns| (columns.start, columns.end));
    whole.dedup();
    whole.retain(has_all);
    let mut useless = Vec::new();
    for hop in 1..=options.hops {
        let parts = journal.parts(Some(place), hop);
        useless.extend(parts.into_iter().filter(|part| !whole.contains(&part.columns)));
    }
    if !useless.is_empty() {
        journal.forget(&useless)?;
    }
    let (mut missing, mut end) = (Vec::new(), 0);
    for columns in whole {
        missing.push(end..columns.start);
        end = columns.end;
    }
    missing.push(end..dim);
    missing.retain(|columns| !columns.is_empty());
    Ok(missing)
}

/// The file that contains this hop of an operator.
fn file_of(layout: Layout, operator: Operator, hop: u32) -> String {
    match layout {
        Layout::Hops => format!("{}.{hop}.npy", operator.file_stem()),
        Layout::Rows => description::ROWS.to_owned(),
    }
}

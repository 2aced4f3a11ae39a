//! The column of labels: classes by number or by name, or targets of regression.

use std::collections::BTreeSet;

use uva_files::quote::listed;
use uva_graph::npy::{NpyType, NpyWriter};
use uva_graph::{GraphError, names};

use super::table::{CellType, Cells, SourceTable, TableColumn};
use crate::import::reading::values;
use crate::import::writing::array_target::ArrayTarget;
use crate::import::writing::output::{CHUNK, NOT_FINITE};

/// Maximum number of named classes: more are probably names of nodes.
const MOST_NAMES: usize = 1 << 16;

/// Writes labels that are numbers of classes.
pub(super) fn write_classes(
    table: &dyn SourceTable,
    column: &TableColumn,
    place: &dyn ArrayTarget,
) -> Result<(), GraphError> {
    let mut writer = NpyWriter::create(&place.path(names::LABELS), NpyType::I64, &[])?;
    let mut rows = table.read(&[column]);
    loop {
        let first = rows.row();
        let Some(cells) = rows.cells(CHUNK)? else { return writer.finish().map(drop) };
        let labels: Vec<Option<i64>> = match &cells[0] {
            Cells::Integers(cells) => cells.iter().map(|cell| Some(cell.unwrap_or(-1))).collect(),
            Cells::Floats(cells) => cells.iter().map(|cell| cell.map_or(Some(-1), values::class)).collect(),
            // A column without a value.
            Cells::Text(cells) => vec![Some(-1); cells.len()],
        };
        let fits =
            |label: &Option<i64>| label.is_some_and(|label| (-1..i64::from(u32::MAX)).contains(&label));
        if let Some(at) = labels.iter().position(|label| !fits(label)) {
            let problem = "invalid class: expected 0 or more, or −1, NaN or null for no label (`regression` reads it \
                           as a target of regression)";
            return Err(table.wrong_cell(column, first + at as u64, problem.to_owned()));
        }
        writer.write(&labels.into_iter().flatten().collect::<Vec<i64>>())?;
    }
}

/// Writes labels that are names of classes, which are numbered in sorted order. Returns the names.
pub(super) fn write_names(
    table: &dyn SourceTable,
    column: &TableColumn,
    place: &dyn ArrayTarget,
) -> Result<Vec<String>, GraphError> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    let mut rows = table.read(&[column]);
    loop {
        let first = rows.row();
        let cells = rows.cells(CHUNK)?;
        let Some([Cells::Text(cells)]) = cells.as_deref() else { break };
        for (row, name) in (first..).zip(cells.iter()) {
            let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
            let name = std::str::from_utf8(name)
                .map_err(|_| table.wrong_cell(column, row, "the label is not UTF-8".to_owned()))?;
            if !found.contains(name) {
                found.insert(name.to_owned());
            }
            if found.len() > MOST_NAMES {
                let problem = format!(
                    "there are more than {MOST_NAMES} distinct labels: give the column of labels as `label`"
                );
                return Err(table.wrong_cell(column, row, problem));
            }
        }
    }
    let found: Vec<String> = found.into_iter().collect();
    let mut writer = NpyWriter::create(&place.path(names::LABELS), NpyType::I64, &[])?;
    let mut rows = table.read(&[column]);
    while let Some([Cells::Text(cells)]) = rows.cells(CHUNK)?.as_deref() {
        let class = |name: Option<&[u8]>| {
            let place = name.map(|name| found.binary_search_by(|found| found.as_bytes().cmp(name)));
            place.and_then(Result::ok).map_or(-1, |class| class as i64)
        };
        writer.write(&cells.iter().map(class).collect::<Vec<i64>>())?;
    }
    writer.finish()?;
    place.note(&format!(
        "{}: {} classes by name, numbered in sorted order; class_names of meta.json has them: {}",
        table.path().join(&column.name).display(),
        found.len(),
        listed(&found)
    ));
    Ok(found)
}

/// Writes targets of regression.
pub(super) fn write_targets(
    table: &dyn SourceTable,
    column: &TableColumn,
    place: &dyn ArrayTarget,
) -> Result<(), GraphError> {
    let kind = match column.kind {
        CellType::Double => Some("float64"),
        CellType::Integer => Some("integers"),
        CellType::Text | CellType::Empty => {
            return Err(table.wrong_type(column, "numbers, as targets of regression are"));
        }
        _ => None,
    };
    if let Some(kind) = kind {
        let from = table.path().join(&column.name);
        place.note(&format!("{}: targets of {kind} become float32", from.display()));
    }
    let mut writer = NpyWriter::create(&place.path(names::LABELS), NpyType::F32, &[])?;
    let mut rows = table.read(&[column]);
    loop {
        let first = rows.row();
        let Some(cells) = rows.cells(CHUNK)? else { return writer.finish().map(drop) };
        let targets: Vec<f32> = match &cells[0] {
            Cells::Integers(cells) => {
                cells.iter().map(|cell| cell.map_or(f32::NAN, |cell| cell as f32)).collect()
            }
            Cells::Floats(cells) => {
                cells.iter().map(|cell| cell.map_or(f32::NAN, |cell| cell as f32)).collect()
            }
            Cells::Text(_) => Vec::new(),
        };
        if let Some(at) = targets.iter().position(|target| !target.is_finite()) {
            return Err(table.wrong_cell(column, first + at as u64, NOT_FINITE.to_owned()));
        }
        writer.write(&targets)?;
    }
}

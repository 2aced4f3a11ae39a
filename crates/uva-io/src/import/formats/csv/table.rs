//! A table in a file of comma-separated values. The kinds of its columns follow from their values.

use std::path::{Path, PathBuf};

use uva_files::quote::shown;
use uva_graph::GraphError;
use uva_graph::npy::NpyType;

use super::super::tables::{CellType, Cells, SourceTable, TableColumn, TableReader, Texts};
use super::records::{RecordProblem, Records};
use crate::import::reading::text::{Position, float, integer};

/// Records between two reports of progress.
const RECORDS_PER_REPORT: u64 = 1 << 16;

pub(super) struct CsvTable {
    path: PathBuf,
    columns: Vec<TableColumn>,
    /// The line of the first value that is not a number, and its beginning, for each column.
    texts: Vec<Option<(u64, String)>>,
    rows: u64,
    /// Rows whose line does not directly follow that of the previous row.
    lines: Vec<(u64, u64)>,
}

impl CsvTable {
    /// Reads the file once, for the kinds of its columns.
    pub(super) fn open(path: &Path, report: &dyn Fn(Position)) -> Result<CsvTable, GraphError> {
        let mut records = Records::open(path)?;
        if !records.advance()? {
            let problem = "it is empty: the first line must name the columns".to_owned();
            return Err(GraphError::invalid(path, RecordProblem::Line { line: 1, problem }));
        }
        let columns = header(&records)?;
        let mut table = CsvTable {
            path: path.to_owned(),
            texts: vec![None; columns.len()],
            columns,
            rows: 0,
            lines: Vec::new(),
        };
        let mut expected = 0;
        while records.advance()? {
            if records.len() != table.columns.len() {
                return Err(records.wrong_length(table.columns.len()));
            }
            let line = records.line();
            if line != expected {
                table.lines.push((table.rows, line));
            }
            expected = line + 1;
            for (at, column) in table
                .columns
                .iter_mut()
                .enumerate()
                .filter(|(_, column)| !matches!(column.kind, CellType::Text | CellType::Other))
            {
                let field = records.field(at);
                let kind = kind(field);
                column.kind = match (column.kind, kind) {
                    (kind, CellType::Empty) | (CellType::Empty, kind) => kind,
                    (CellType::Integer, CellType::Integer) => CellType::Integer,
                    (_, CellType::Text) => CellType::Text,
                    _ => CellType::Double,
                };
                if column.kind == CellType::Text {
                    table.texts[at] = Some((line, shown(field)));
                }
            }
            table.rows += 1;
            if table.rows.is_multiple_of(RECORDS_PER_REPORT) {
                report(records.position());
            }
        }
        report(records.position());
        Ok(table)
    }

    /// The first line of a row.
    fn line(&self, row: u64) -> u64 {
        let place = self.lines.partition_point(|&(first, _)| first <= row);
        self.lines[..place].last().map_or(0, |&(first, line)| line + (row - first))
    }
}

/// The columns that the first record names.
fn header(records: &Records) -> Result<Vec<TableColumn>, GraphError> {
    let names: Vec<&str> = (0..records.len())
        .map(|at| std::str::from_utf8(records.field(at)).unwrap_or_default().trim_ascii())
        .collect();
    if names.iter().all(|name| float::<f64>(name.as_bytes()).is_some()) {
        return Err(records.wrong("it has numbers: the first line must name the columns"));
    }
    if let [only] = names[..]
        && let Some(separator) = only.chars().find(|c| [';', '\t', '|'].contains(c))
    {
        let problem = format!(
            "its one column is '{}': columns are separated by commas, not by '{}'",
            shown(only),
            shown(separator.to_string())
        );
        return Err(records.wrong(&problem));
    }
    for (at, name) in names.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
        if names[..at].contains(name) {
            return Err(records.wrong(&format!("two columns are called '{}'", shown(name))));
        }
    }
    let column = |(place, name): (usize, &str)| {
        let (name, kind) = match name {
            "" => (format!("column {} (without a name)", place + 1), CellType::Other),
            name => (name.to_owned(), CellType::Empty),
        };
        TableColumn { name, place, kind, lists: false }
    };
    Ok(names.into_iter().enumerate().map(column).collect())
}

/// The type of a single field. Leading zeros are part of a name: `007` is text.
fn kind(field: &[u8]) -> CellType {
    let number = field.trim_ascii();
    match number {
        [] => CellType::Empty,
        _ if whole(number).is_some() => CellType::Integer,
        [b'0', b'0'..=b'9', ..] => CellType::Text,
        _ if number.iter().any(u8::is_ascii_digit) && float::<f64>(number).is_some() => CellType::Double,
        _ if number.eq_ignore_ascii_case(b"nan") => CellType::Double,
        _ => CellType::Text,
    }
}

/// An integer as it is usually written.
fn whole(number: &[u8]) -> Option<i64> {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    let usual = matches!(digits, [b'1'..=b'9', ..]) || number == b"0";
    integer(number).filter(|_| usual)
}

impl SourceTable for CsvTable {
    fn path(&self) -> &Path {
        &self.path
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn columns(&self) -> &[TableColumn] {
        &self.columns
    }

    fn is_text(&self) -> bool {
        true
    }

    fn type_name(&self, column: &TableColumn) -> String {
        match (&self.texts[column.place], self.columns[column.place].kind) {
            (Some((line, text)), _) => format!("text: line {line} has '{text}'"),
            (None, CellType::Empty) => "no values".to_owned(),
            (None, CellType::Integer) => "integers".to_owned(),
            (None, _) => "numbers".to_owned(),
        }
    }

    fn read<'t>(&'t self, columns: &[&TableColumn]) -> Box<dyn TableReader + 't> {
        let columns = columns.iter().map(|&column| column.clone()).collect();
        Box::new(Reader { table: self, columns, records: None, row: 0 })
    }

    /// There are no lists.
    fn width(&self, _: &TableColumn) -> Result<u64, GraphError> {
        Ok(1)
    }

    fn integer_type(&self, _: &TableColumn) -> NpyType {
        NpyType::I64
    }

    fn wrong_cell(&self, column: &TableColumn, row: u64, problem: String) -> GraphError {
        let (line, column) = (self.line(row), shown(&column.name));
        GraphError::invalid(&self.path, RecordProblem::Cell { line, column, problem })
    }
}

/// Columns read side by side.
struct Reader<'t> {
    table: &'t CsvTable,
    columns: Vec<TableColumn>,
    records: Option<Records>,
    row: u64,
}

impl TableReader for Reader<'_> {
    fn row(&self) -> u64 {
        self.row
    }

    fn cells(&mut self, most: usize) -> Result<Option<Vec<Cells>>, GraphError> {
        let records = match &mut self.records {
            Some(records) => records,
            none => {
                let mut records = Records::open(&self.table.path)?;
                records.advance()?;
                none.insert(records)
            }
        };
        let mut cells: Vec<Cells> = (self.columns.iter())
            .map(|column| match column.kind {
                CellType::Integer => Cells::Integers(Vec::new()),
                CellType::Float | CellType::Double => Cells::Floats(Vec::new()),
                CellType::Text | CellType::Empty | CellType::Other => Cells::Text(Texts::default()),
            })
            .collect();
        let first = self.row;
        while self.row - first < most as u64 && records.advance()? {
            if records.len() != self.table.columns.len() {
                return Err(records.wrong_length(self.table.columns.len()));
            }
            for (column, cells) in self.columns.iter().zip(&mut cells) {
                let field = records.field(column.place);
                let number = field.trim_ascii();
                let wrong = |wanted: &str| {
                    let problem = format!("'{}' is not {wanted}", shown(field));
                    self.table.wrong_cell(column, self.row, problem)
                };
                match cells {
                    Cells::Text(cells) => cells.push(Some(field).filter(|_| !number.is_empty())),
                    Cells::Integers(cells) if number.is_empty() => cells.push(None),
                    Cells::Integers(cells) => {
                        cells.push(Some(
                            whole(number).ok_or_else(|| wrong("an integer, as the ids of the nodes are"))?,
                        ));
                    }
                    Cells::Floats(cells) if number.is_empty() => cells.push(None),
                    Cells::Floats(cells) => {
                        cells.push(Some(float(number).ok_or_else(|| wrong("a number"))?));
                    }
                }
            }
            self.row += 1;
        }
        Ok((self.row > first).then_some(cells))
    }

    fn lists(&mut self, _: usize, _: u64) -> Result<Option<Vec<u8>>, GraphError> {
        Ok(None)
    }
}

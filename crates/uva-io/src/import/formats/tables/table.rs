//! A table: columns found by name, read a batch of rows at a time.

use std::ops::Range;
use std::path::Path;

use uva_files::quote::{listed, shown};
use uva_graph::GraphError;
use uva_graph::npy::NpyType;

/// Faults of a table's columns.
#[derive(Debug, thiserror::Error)]
enum ColumnProblem {
    #[error("it has no column {wanted}: it has {found}")]
    NoColumn { wanted: String, found: String },
    #[error("column {column}: its type is {found}, it has to be {wanted}")]
    Type { column: String, found: String, wanted: String },
    #[error("columns {first} and {second} have the same number: rename or drop one")]
    SameNumber { first: String, second: String },
    #[error(
        "it has {found} columns {stem}_0, {stem}_1, …, and at most {most} are read: write one column of lists"
    )]
    TooMany { stem: String, found: usize, most: usize },
}

/// The type of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellType {
    Integer,
    Float,
    Double,
    Text,
    /// A column of text without a value.
    Empty,
    /// Another type, or in a table of text a column without a name.
    Other,
}

/// A column of a table.
#[derive(Debug, Clone)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    /// The index of the column in the table's reader.
    pub(crate) place: usize,
    pub(crate) kind: CellType,
    /// Whether its rows are lists.
    pub(crate) lists: bool,
}

/// Values of some rows of a column; `None` for a null.
#[derive(Debug)]
pub(crate) enum Cells {
    Integers(Vec<Option<i64>>),
    Floats(Vec<Option<f64>>),
    Text(Texts),
}

/// Texts, one after the other in one allocation.
#[derive(Debug, Default)]
pub(crate) struct Texts {
    bytes: Vec<u8>,
    places: Vec<Option<Range<usize>>>,
}

impl Texts {
    pub(crate) fn push(&mut self, text: Option<&[u8]>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(text.unwrap_or_default());
        self.places.push(text.map(|_| start..self.bytes.len()));
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn get(&self, at: usize) -> Option<&[u8]> {
        self.places[at].clone().map(|place| &self.bytes[place])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|at| self.get(at))
    }
}

/// The interface of a table format.
pub(crate) trait SourceTable {
    fn path(&self) -> &Path;

    fn rows(&self) -> u64;

    /// All columns, in the table's order.
    fn columns(&self) -> &[TableColumn];

    /// Whether all values are text, and the kinds of the columns follow from them. Such a column may be read as
    /// [`CellType::Text`] regardless of its type.
    fn is_text(&self) -> bool;

    /// A column's type in the table's own words.
    fn type_name(&self, column: &TableColumn) -> String;

    /// Reads these columns side by side from their first row.
    fn read<'t>(&'t self, columns: &[&TableColumn]) -> Box<dyn TableReader + 't>;

    /// The number of values in each row of a column of lists.
    fn width(&self, column: &TableColumn) -> Result<u64, GraphError>;

    /// The array type for a column of integers.
    fn integer_type(&self, column: &TableColumn) -> NpyType;

    /// The error about a value.
    fn wrong_cell(&self, column: &TableColumn, row: u64, problem: String) -> GraphError;
}

/// Columns read side by side.
pub(crate) trait TableReader {
    /// The number of the next row.
    fn row(&self) -> u64;

    /// The next rows, at most `most`, as the cells of each column; nothing at the end.
    fn cells(&mut self, most: usize) -> Result<Option<Vec<Cells>>, GraphError>;

    /// The next rows of one column of lists, each of `width` values, as the bytes of their type; nothing at the end.
    fn lists(&mut self, most: usize, width: u64) -> Result<Option<Vec<u8>>, GraphError>;
}

impl dyn SourceTable + '_ {
    /// The first of `names` that exists: exactly, else in other letter case.
    pub(super) fn find(&self, names: &[&str]) -> Option<TableColumn> {
        let exact = names.iter().find_map(|name| self.columns().iter().find(|column| column.name == *name));
        let found = exact.or_else(|| {
            names
                .iter()
                .find_map(|name| self.columns().iter().find(|column| column.name.eq_ignore_ascii_case(name)))
        });
        found.cloned()
    }

    /// As [`find`](Self::find), or an error.
    pub(super) fn required(&self, names: &[&str]) -> Result<TableColumn, GraphError> {
        self.find(names).ok_or_else(|| self.missing(&names.join(" or ")))
    }

    /// The error about a column that does not exist.
    pub(super) fn missing(&self, wanted: &str) -> GraphError {
        let found = listed(self.columns().iter().map(|column| column.name.as_str()));
        GraphError::invalid(self.path(), ColumnProblem::NoColumn { wanted: wanted.to_owned(), found })
    }

    /// The columns named `stem` and a number, in the order of the numbers: any first number, gaps and padding with zeros
    /// are fine, with `_`, `-`, `.` or nothing before the number.
    ///
    /// # Errors
    /// If two have the same number, or there are more than `most`.
    pub(super) fn numbered(&self, stem: &str, most: usize) -> Result<Vec<TableColumn>, GraphError> {
        let mut found: Vec<(Number<'_>, &TableColumn)> = (self.columns().iter())
            .filter_map(|column| Some((number_behind(stem, &column.name)?, column)))
            .collect();
        found.sort_by(|a, b| (a.0, &a.1.name).cmp(&(b.0, &b.1.name)));
        if let Some(pair) = found.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let (first, second) = (shown(&pair[0].1.name), shown(&pair[1].1.name));
            return Err(GraphError::invalid(self.path(), ColumnProblem::SameNumber { first, second }));
        }
        if found.len() > most {
            let problem = ColumnProblem::TooMany { stem: stem.to_owned(), found: found.len(), most };
            return Err(GraphError::invalid(self.path(), problem));
        }
        Ok(found.into_iter().map(|(_, column)| column.clone()).collect())
    }

    /// The names of the other columns, for a message.
    pub(super) fn others(&self, read: &[&TableColumn]) -> Vec<String> {
        let columns = self.columns().iter();
        let others = columns.filter(|column| !read.iter().any(|read| read.place == column.place));
        let described = |column: &TableColumn| match self.is_text()
            && matches!(column.kind, CellType::Text | CellType::Empty)
        {
            true => format!("{} ({})", shown(&column.name), self.type_name(column)),
            false => column.name.clone(),
        };
        others.map(described).collect()
    }

    /// The column, if its rows are single values of one of these kinds.
    pub(super) fn of_kind(
        &self,
        column: TableColumn,
        kinds: &[CellType],
        wanted: &'static str,
    ) -> Result<TableColumn, GraphError> {
        if !column.lists && kinds.contains(&column.kind) {
            Ok(column)
        } else {
            Err(self.wrong_type(&column, wanted))
        }
    }

    pub(crate) fn wrong_type(&self, column: &TableColumn, wanted: impl Into<String>) -> GraphError {
        let wanted = wanted.into();
        let (found, column) = (self.type_name(column), shown(&column.name));
        GraphError::invalid(self.path(), ColumnProblem::Type { column, found, wanted })
    }
}

/// A whole number of any length: the number of digits, and the digits.
type Number<'n> = (usize, &'n str);

/// The number of a column named `stem`, a separator and digits.
fn number_behind<'n>(stem: &str, name: &'n str) -> Option<Number<'n>> {
    let rest = name.strip_prefix(stem)?;
    let digits = rest.strip_prefix(['_', '-', '.']).unwrap_or(rest);
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    Some((digits.len(), digits))
}

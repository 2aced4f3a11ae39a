//! Tables for other programs: CSV and Parquet, written in pieces of rows.

mod csv;
#[cfg(feature = "parquet")]
mod parquet;
mod values;

use std::io::{self, Write};
use std::path::Path;

pub use values::{ColumnType, ColumnValues};

/// The format of a table, by its file's suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    /// Comma-separated text with a header, quoted as in RFC 4180. Lines end with `\n`.
    Csv,
    /// Parquet, a row group for each piece of rows, uncompressed.
    Parquet,
}

impl TableFormat {
    /// The format of a file's suffix, `.csv` or `.parquet`; `None` for another.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "csv" => Some(Self::Csv),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }

    /// Whether this build supports the format: Parquet requires the feature `parquet`.
    #[must_use]
    pub fn is_supported(self) -> bool {
        self == Self::Csv || cfg!(feature = "parquet")
    }
}

/// A table that is being written.
pub struct FileTableWriter<W: Write + Send> {
    columns: Vec<ColumnType>,
    format: Format<W>,
}

enum Format<W: Write + Send> {
    Csv(csv::CsvWriter<W>),
    #[cfg(feature = "parquet")]
    Parquet(parquet::ParquetWriter<W>),
}

impl<W: Write + Send> FileTableWriter<W> {
    /// Begins a table of these columns, each a name and a type. Names are distinct.
    ///
    /// # Errors
    /// If `out` cannot be written. [`io::ErrorKind::Unsupported`] for a format that this build does not support.
    pub fn new(out: W, format: TableFormat, columns: &[(String, ColumnType)]) -> io::Result<Self> {
        let format = match format {
            TableFormat::Csv => Format::Csv(csv::CsvWriter::new(out, columns)?),
            #[cfg(feature = "parquet")]
            TableFormat::Parquet => Format::Parquet(parquet::ParquetWriter::new(out, columns)?),
            #[cfg(not(feature = "parquet"))]
            TableFormat::Parquet => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Self { columns: columns.iter().map(|column| column.1).collect(), format })
    }

    /// Writes the next rows: the same number of values in each column.
    ///
    /// # Errors
    /// If the output cannot be written.
    ///
    /// # Panics
    /// For other columns than those of the table, or columns of different lengths.
    pub fn write(&mut self, values: &[ColumnValues<'_>]) -> io::Result<()> {
        assert!(
            values.iter().map(ColumnValues::column_type).eq(self.columns.iter().copied()),
            "the table's columns"
        );
        assert!(values.windows(2).all(|pair| pair[0].len() == pair[1].len()), "columns of one length");
        match &mut self.format {
            Format::Csv(writer) => writer.write(values),
            #[cfg(feature = "parquet")]
            Format::Parquet(writer) => writer.write(values),
        }
    }

    /// Writes the end of the file.
    ///
    /// # Errors
    /// If the output cannot be written.
    pub fn finish(self) -> io::Result<()> {
        match self.format {
            Format::Csv(writer) => writer.finish(),
            #[cfg(feature = "parquet")]
            Format::Parquet(writer) => writer.finish(),
        }
    }
}

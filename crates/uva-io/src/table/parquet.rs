//! A table as Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use ::parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use ::parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int64Type};
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;

use super::values::{ColumnType, ColumnValues};

pub(super) struct ParquetWriter<W: Write + Send> {
    file: SerializedFileWriter<W>,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(super) fn new(out: W, columns: &[(String, ColumnType)]) -> io::Result<Self> {
        let field = |(name, kind): &(String, ColumnType)| {
            let (physical, logical) = match kind {
                ColumnType::Integer => (PhysicalType::INT64, None),
                ColumnType::Real => (PhysicalType::FLOAT, None),
                ColumnType::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
            };
            Type::primitive_type_builder(name, physical)
                .with_repetition(Repetition::REQUIRED)
                .with_logical_type(logical)
                .build()
                .map(Arc::new)
        };
        let fields = columns.iter().map(field).collect::<Result<_, _>>().map_err(of_parquet)?;
        let schema = Type::group_type_builder("table").with_fields(fields).build().map_err(of_parquet)?;
        let properties = Arc::new(WriterProperties::builder().build());
        let file = SerializedFileWriter::new(out, Arc::new(schema), properties).map_err(of_parquet)?;
        Ok(Self { file })
    }

    pub(super) fn write(&mut self, columns: &[ColumnValues<'_>]) -> io::Result<()> {
        self.group(columns).map_err(of_parquet)
    }

    fn group(&mut self, columns: &[ColumnValues<'_>]) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for values in columns {
            let Some(mut column) = group.next_column()? else { break };
            match values {
                ColumnValues::Integers(values) => {
                    column.typed::<Int64Type>().write_batch(values, None, None)?
                }
                ColumnValues::Reals(values) => column.typed::<FloatType>().write_batch(values, None, None)?,
                ColumnValues::Texts(values) => {
                    let values: Vec<ByteArray> = values.iter().map(|&value| value.into()).collect();
                    column.typed::<ByteArrayType>().write_batch(&values, None, None)?
                }
            };
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    pub(super) fn finish(self) -> io::Result<()> {
        self.file.close().map(drop).map_err(of_parquet)
    }
}

/// Converts an error of the parquet crate to the system's error, if possible.
fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        other => io::Error::other(other),
    }
}

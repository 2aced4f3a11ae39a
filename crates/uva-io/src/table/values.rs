//! The columns of a table.

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Whole numbers; in Parquet INT64.
    Integer,
    /// Real numbers; in Parquet FLOAT. CSV uses the shortest digits that parse to the same float32.
    Real,
    /// Text; in Parquet a STRING.
    Text,
}

/// The values of one column in a piece of rows.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnValues<'t> {
    /// Values of [`ColumnType::Integer`].
    Integers(Vec<i64>),
    /// Values of [`ColumnType::Real`].
    Reals(Vec<f32>),
    /// Values of [`ColumnType::Text`].
    Texts(Vec<&'t str>),
}

impl ColumnValues<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Integers(values) => values.len(),
            Self::Reals(values) => values.len(),
            Self::Texts(values) => values.len(),
        }
    }

    pub(super) fn column_type(&self) -> ColumnType {
        match self {
            Self::Integers(_) => ColumnType::Integer,
            Self::Reals(_) => ColumnType::Real,
            Self::Texts(_) => ColumnType::Text,
        }
    }
}

//! The name of one array of a batch.

use std::fmt;

use crate::{COLUMNS, Column, ColumnError};

/// The name of one array of a batch: a column, and the layer for a column of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ColumnKey {
    /// The column.
    pub column: Column,
    /// The layer, from the seeds; 0 for a column that has no layers.
    pub layer: usize,
    /// Its index among the arrays of this column and layer. The feature rows of a hop set have one array for each table
    /// that the model reads; every other column has one array, 0.
    pub part: usize,
}

impl Column {
    /// The column's array in a layer. A column without layers has one array for all of them.
    #[must_use]
    pub const fn at(self, layer: usize) -> ColumnKey {
        let layer = if self.spec().is_of_layers() { layer } else { 0 };
        ColumnKey { column: self, layer, part: 0 }
    }

    /// One of the column's arrays, if it has several.
    #[must_use]
    pub const fn part(self, part: usize) -> ColumnKey {
        ColumnKey { column: self, layer: 0, part }
    }
}

impl ColumnKey {
    /// Parses the full name of an array, such as `labels` or `block0.indptr`.
    ///
    /// # Errors
    /// [`ColumnError::Unknown`] with the nearest name, or [`ColumnError::NoSuchLayer`].
    pub fn parse(name: &str, layers: usize) -> Result<Self, ColumnError> {
        let of_layer = name.strip_prefix("block").and_then(|rest| rest.split_once('.'));
        let found = match of_layer {
            Some((layer, name)) => {
                layer.parse().ok().and_then(|layer: usize| Some((Column::from_name(name)?, layer)))
            }
            None => Column::from_name(name).map(|column| (column, 0)),
        };
        match found {
            Some((column, layer)) if column.spec().is_of_layers() == of_layer.is_some() => {
                if column.spec().is_of_layers() && layer >= layers {
                    return Err(ColumnError::NoSuchLayer { layer, layers });
                }
                Ok(column.at(layer))
            }
            _ => Err(ColumnError::Unknown { name: name.to_owned(), nearest: nearest(name, layers) }),
        }
    }
}

impl From<Column> for ColumnKey {
    fn from(column: Column) -> Self {
        column.at(0)
    }
}

impl fmt::Display for ColumnKey {
    /// Writes the name of Python and of the wire protocol: `labels`, `block0.indptr`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.column.spec().full_name(self.layer))
    }
}

/// The full name closest to `name`, if any is close. Both the full name and the part after the layer are compared.
fn nearest(name: &str, layers: usize) -> Option<String> {
    let behind = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    COLUMNS
        .iter()
        .flat_map(|spec| (0..if spec.is_of_layers() { layers } else { 1 }).map(|layer| spec.full_name(layer)))
        .map(|full| (strsim::jaro(name, &full).max(strsim::jaro(&behind(name), &behind(&full))), full))
        .filter(|(likeness, _)| *likeness > 0.7)
        // The first of equally close names, which has the layer at the seeds.
        .reduce(|best, other| if other.0 > best.0 { other } else { best })
        .map(|(_, full)| full)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_ones_report_the_nearest() {
        for spec in &COLUMNS {
            assert_eq!(Column::from_name(spec.name), Some(spec.column));
            let layer = if spec.is_of_layers() { 1 } else { 0 };
            assert_eq!(ColumnKey::parse(&spec.full_name(layer), 2), Ok(spec.column.at(layer)));
        }
        let refused = |name: &str| ColumnKey::parse(name, 2).unwrap_err().to_string();
        assert!(refused("label").contains("`labels`"), "{}", refused("label"));
        assert!(refused("indcies").contains("`block0.indices`"));
        assert!(refused("indptr").contains("`block0.indptr`"), "{}", refused("indptr"));
        assert!(refused("block0.labels").contains("is `labels`"));
        assert!(!refused("@@").contains("nearest"), "{}", refused("@@"));
        assert_eq!(
            ColumnKey::parse("block2.indptr", 2),
            Err(ColumnError::NoSuchLayer { layer: 2, layers: 2 })
        );
        for odd in ["block.indptr", "block-1.indptr", "blockx.indptr", "block", ""] {
            assert!(matches!(ColumnKey::parse(odd, 2), Err(ColumnError::Unknown { .. })), "{odd}");
        }
    }
}

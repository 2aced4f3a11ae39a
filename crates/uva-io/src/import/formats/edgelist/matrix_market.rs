//! The head of a MatrixMarket file (Boisvert, Pozo and Remington 1996): a banner, comments, and a line with the sizes.
//!
//! Row i, column j is an edge from i to j, and nodes are numbered from 1. A symmetric matrix has one of the two entries
//! of each pair.

use std::path::Path;

use uva_files::quote::shown;
use uva_graph::GraphError;

use crate::import::reading::text::{LineError, each_line_until};

/// The banner's first word, in lower case.
const BANNER: &[u8] = b"%%matrixmarket";

/// The sizes of a square matrix.
pub(super) struct MatrixMarket {
    pub(super) nodes: u64,
    pub(super) entries: u64,
    pub(super) symmetric: bool,
    /// The number of the line with the sizes.
    pub(super) size_line: u64,
}

impl MatrixMarket {
    /// The head of `file`; nothing if it does not begin with the banner.
    pub(super) fn read(file: &Path) -> Result<Option<MatrixMarket>, GraphError> {
        let mut symmetric = None;
        let mut found = None;
        each_line_until(file, &|_| {}, |line, text| {
            let Some(symmetric) = symmetric else {
                if !text.trim_ascii_start().to_ascii_lowercase().starts_with(BANNER) {
                    return Ok(false);
                }
                symmetric = Some(is_symmetric(text).map_err(LineError::Line)?);
                return Ok(true);
            };
            if text.trim_ascii().is_empty() || text.starts_with(b"%") {
                return Ok(true);
            }
            let (nodes, entries) = sizes(text).map_err(LineError::Line)?;
            found = Some(MatrixMarket { nodes, entries, symmetric, size_line: line });
            Ok(false)
        })?;
        match (symmetric, found) {
            (Some(_), None) => {
                let message = format!("{} is a MatrixMarket file without a line of sizes", file.display());
                Err(GraphError::usage("SRC", message))
            }
            (_, found) => Ok(found),
        }
    }
}

/// Reads the banner.
fn is_symmetric(banner: &[u8]) -> Result<bool, String> {
    let banner = String::from_utf8_lossy(banner).to_lowercase();
    let words: Vec<&str> = banner.split_whitespace().collect();
    match words[..] {
        [_, "matrix", "coordinate", "real" | "double" | "integer" | "pattern", "general"] => Ok(false),
        [_, "matrix", "coordinate", "real" | "double" | "integer" | "pattern", "symmetric"] => Ok(true),
        _ => Err("of MatrixMarket files, matrix coordinate real, integer or pattern are read, general or symmetric"
            .to_owned()),
    }
}

/// Reads rows, columns and entries.
fn sizes(text: &[u8]) -> Result<(u64, u64), String> {
    let text = String::from_utf8_lossy(text);
    let numbers: Vec<Option<u64>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [Some(rows), Some(columns), Some(entries)] if rows == columns => Ok((rows, entries)),
        [Some(_), Some(_), Some(_)] => {
            Err("the matrix is not square, and a graph of one type of node has one row and one column a node"
                .to_owned())
        }
        _ => Err(format!("'{}' is not the line of sizes: rows, columns and entries", shown(text.trim()))),
    }
}

//! Features and other arrays, which types and relations have in common.

use std::path::Path;

use uva_graph::GraphError;
use uva_graph::npy::NpyArray;

use super::super::source::{FeatureArray, SourceArrays};
use crate::import::options::Float8;
use crate::import::reading::features::{FeatureSource, FeatureWriter};
use crate::import::reading::unread_parts;
use crate::import::request::ImportWatch;
use crate::import::writing::output::CHUNK;

/// The arrays with `rows` rows that no other code reads, to be kept as files of these names; a line about each other
/// one.
pub(super) fn others(
    source: &SourceArrays,
    rows: usize,
    watch: &ImportWatch<'_>,
) -> Result<Vec<(String, NpyArray)>, GraphError> {
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    for (name, path) in source.unread()? {
        let array = NpyArray::open(&path)?;
        match array.shape() {
            [count] | [count, _] if *count == rows && array.shape().get(1) != Some(&0) => {
                kept.push((name, array));
            }
            _ => left.push(name),
        }
    }
    unread_parts::say(watch.note, &source.directory, &left);
    Ok(kept)
}

/// Writes features at `path`, and reports their conversion.
pub(super) fn write_features(
    features: &FeatureArray,
    path: &Path,
    float8: Option<Float8>,
    watch: &ImportWatch<'_>,
) -> Result<(), GraphError> {
    let FeatureArray { array, element } = features;
    let source = FeatureSource {
        place: array.path().to_owned(),
        data_offset: Some(array.header().data_offset as u64),
    };
    let kind = array.kind();
    let mut writer = FeatureWriter::create(path, source, (kind, Some(*element)), features.columns(), float8)?;
    if let Some(line) = writer.conversion() {
        (watch.note)(&line);
    }
    for chunk in array.bytes().chunks(CHUNK * kind.bytes()) {
        writer.write(chunk)?;
    }
    if let Some(line) = writer.finish()?.1 {
        (watch.note)(&line);
    }
    Ok(())
}

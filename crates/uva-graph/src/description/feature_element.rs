//! The element type of feature values: from the array's type, and from the metadata if that is ambiguous.

use std::path::Path;

use crate::description::{meta, names};
use crate::npy::{NpyArray, NpyType};
use crate::{ElementType, GraphError, Meta};
use uva_files::quote::shown;

#[derive(Debug, thiserror::Error)]
enum ElementProblem {
    #[error("\"{key}\" is \"{said}\", it has to be one of f32, f16, bf16, u8, i8")]
    UnknownElement { key: &'static str, said: String },
    #[error("\"{key}\" is \"{said}\", but {file} holds {found}")]
    OtherElement { key: &'static str, said: String, file: &'static str, found: NpyType },
}

/// The element type of `features`, from its `.npy` type and from `meta`, the metadata of the dataset in `directory`.
///
/// # Errors
/// If a dataset cannot have features of that type, or the metadata contradict the array.
pub fn feature_element(
    directory: &Path,
    meta: &Meta,
    features: &NpyArray,
) -> Result<ElementType, GraphError> {
    element_of(directory, ("feat_dtype", &meta.feat_dtype), names::FEATURES, features)
}

/// The element type of `features` of the edges.
///
/// # Errors
/// As [`feature_element`].
pub fn edge_feature_element(
    directory: &Path,
    meta: &Meta,
    features: &NpyArray,
) -> Result<ElementType, GraphError> {
    element_of(directory, ("edge_feat_dtype", &meta.edge_feat_dtype), names::EDGE_FEATURES, features)
}

/// The element type of the array in the file `name`; the metadata have it at `key`.
fn element_of(
    directory: &Path,
    (key, said): (&'static str, &Option<String>),
    name: &'static str,
    features: &NpyArray,
) -> Result<ElementType, GraphError> {
    let file = directory.join(meta::FILE_NAME);
    let said = match said {
        Some(text) => Some((
            text,
            ElementType::from_name(text).ok_or_else(|| {
                GraphError::invalid(&file, ElementProblem::UnknownElement { key, said: shown(text) })
            })?,
        )),
        None => None,
    };
    let found = match features.kind() {
        NpyType::F32 => ElementType::F32,
        NpyType::F16 => ElementType::F16,
        // `.npy` has no float8 either, so uint8 is used instead.
        NpyType::U8 if matches!(said, Some((_, ElementType::E4m3))) => ElementType::E4m3,
        NpyType::U8 => ElementType::U8,
        NpyType::I8 => ElementType::I8,
        // `.npy` has no bfloat16, so uint16 is used instead, and only `meta.json` distinguishes the two.
        NpyType::U16 if matches!(said, Some((_, ElementType::Bf16))) => ElementType::Bf16,
        NpyType::U16 => {
            return Err(features.wrong_type(format!(
                "float32, float16, uint8 or int8 (uint16 holds bfloat16 only where meta.json says \"{key}\": \"bf16\")"
            )));
        }
        _ => return Err(features.wrong_type("float32, float16, uint8 or int8, or bfloat16 as uint16")),
    };
    match said {
        Some((text, said)) if said != found => {
            let (said, found) = (text.clone(), features.kind());
            Err(GraphError::invalid(&file, ElementProblem::OtherElement { key, said, file: name, found }))
        }
        _ => Ok(found),
    }
}

//! The element type of feature values: from the array's type, and from the metadata if that is ambiguous.

use std::path::{Path, PathBuf};

use crate::description::meta;
use crate::npy::{NpyArray, NpyType};
use crate::{ElementType, GraphError, Meta};
use uva_files::quote::shown;

#[derive(Debug, thiserror::Error)]
enum ElementProblem {
    #[error("{key} is \"{said}\", it has to be one of f32, f16, bf16, u8, i8")]
    UnknownElement { key: String, said: String },
    #[error("{key} is \"{said}\", but {file} holds {found}")]
    OtherElement { key: String, said: String, file: String, found: NpyType },
}

/// What `meta.json` says of the element type of an array.
#[derive(Debug)]
pub(crate) struct SaidElement<'m> {
    /// `meta.json`.
    pub(crate) meta_file: PathBuf,
    /// The key with its quotes, and the name of its entry in format 2.
    pub(crate) key: String,
    /// The key alone.
    pub(crate) bare_key: &'static str,
    /// Its value.
    pub(crate) said: Option<&'m String>,
}

impl<'m> SaidElement<'m> {
    fn in_format_1(directory: &Path, bare_key: &'static str, said: Option<&'m String>) -> Self {
        Self { meta_file: directory.join(meta::FILE_NAME), key: format!("\"{bare_key}\""), bare_key, said }
    }
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
    element_of(&SaidElement::in_format_1(directory, "feat_dtype", meta.feat_dtype.as_ref()), features)
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
    let said = meta.edge_feat_dtype.as_ref();
    element_of(&SaidElement::in_format_1(directory, "edge_feat_dtype", said), features)
}

/// The element type of the array, of which `meta.json` says `element`.
pub(crate) fn element_of(element: &SaidElement<'_>, features: &NpyArray) -> Result<ElementType, GraphError> {
    let SaidElement { meta_file, key, bare_key, said } = element;
    let said = match said {
        Some(text) => Some((
            text,
            ElementType::from_name(text).ok_or_else(|| {
                let problem = ElementProblem::UnknownElement { key: key.clone(), said: shown(text) };
                GraphError::invalid(meta_file, problem)
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
                "float32, float16, uint8 or int8 (uint16 holds bfloat16 only where meta.json says \"{bare_key}\": \"bf16\")"
            )));
        }
        _ => return Err(features.wrong_type("float32, float16, uint8 or int8, or bfloat16 as uint16")),
    };
    match said {
        Some((text, said)) if said != found => {
            let (said, found) = ((*text).clone(), features.kind());
            let file = features.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            let problem = ElementProblem::OtherElement { key: key.clone(), said, file, found };
            Err(GraphError::invalid(meta_file, problem))
        }
        _ => Ok(found),
    }
}

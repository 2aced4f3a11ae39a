//! The element type of feature values: from the array's type, and from the metadata if that is ambiguous.

use std::path::Path;

use crate::npy::{NpyArray, NpyType};
use crate::quote::shown;
use crate::{ElementType, GraphError, Meta, meta};

#[derive(Debug, thiserror::Error)]
enum ElementProblem {
    #[error("\"feat_dtype\" is \"{0}\", it has to be one of f32, f16, bf16, u8, i8")]
    UnknownElement(String),
    #[error("\"feat_dtype\" is \"{said}\", but feat.npy holds {found}")]
    OtherElement { said: String, found: NpyType },
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
    let file = directory.join(meta::FILE_NAME);
    let said = match &meta.feat_dtype {
        Some(name) => Some((
            name,
            ElementType::from_name(name)
                .ok_or_else(|| GraphError::invalid(&file, ElementProblem::UnknownElement(shown(name))))?,
        )),
        None => None,
    };
    let found = match features.kind() {
        NpyType::F32 => ElementType::F32,
        NpyType::F16 => ElementType::F16,
        NpyType::U8 => ElementType::U8,
        NpyType::I8 => ElementType::I8,
        // `.npy` has no bfloat16, so uint16 stands in, and only `meta.json` distinguishes them.
        NpyType::U16 if matches!(said, Some((_, ElementType::Bf16))) => ElementType::Bf16,
        NpyType::U16 => {
            return Err(features.wrong_type(
                "float32, float16, uint8 or int8 (uint16 holds bfloat16 only where meta.json says \"feat_dtype\": \"bf16\")",
            ));
        }
        _ => return Err(features.wrong_type("float32, float16, uint8 or int8, or bfloat16 as uint16")),
    };
    match said {
        Some((name, said)) if said != found => Err(GraphError::invalid(
            &file,
            ElementProblem::OtherElement { said: name.clone(), found: features.kind() },
        )),
        _ => Ok(found),
    }
}

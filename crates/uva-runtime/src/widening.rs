//! The half-precision type that the gather widens a table's values from.

use uva_graph::ElementType;
use uva_rows::HalfFloat;

/// The type in the gather's terms; `None` where it widens nothing.
pub(crate) fn half_float(table: Option<ElementType>) -> Option<HalfFloat> {
    match table? {
        ElementType::F16 => Some(HalfFloat::F16),
        ElementType::Bf16 => Some(HalfFloat::Bf16),
        ElementType::F32 | ElementType::U8 | ElementType::I8 => None,
    }
}

//! The narrow type that the gather widens a table's values from.

use uva_graph::ElementType;
use uva_rows::NarrowFloat;

/// The type in the gather's terms; `None` if no values are widened.
pub(crate) fn narrow_float(table: Option<ElementType>) -> Option<NarrowFloat> {
    match table? {
        ElementType::F16 => Some(NarrowFloat::F16),
        ElementType::Bf16 => Some(NarrowFloat::Bf16),
        ElementType::E4m3 => Some(NarrowFloat::E4m3),
        ElementType::F32 | ElementType::U8 | ElementType::I8 => None,
    }
}

//! The elements of batches and tables, as DLPack has them.

use uva_batch::Element;
use uva_graph::ElementType;

use crate::arrays::dlpack;

/// The element of a batch's array.
pub fn of_batch(element: Element) -> dlpack::Element {
    match element {
        Element::I64 => dlpack::Element::I64,
        Element::I32 => dlpack::Element::I32,
        Element::F32 => dlpack::Element::F32,
        Element::F16 => dlpack::Element::F16,
        Element::Bf16 => dlpack::Element::BF16,
        Element::E4m3 => dlpack::Element::E4M3,
        Element::U8 => dlpack::Element::U8,
        Element::I8 => dlpack::Element::I8,
    }
}

/// The element of a feature table.
pub fn of_features(element: ElementType) -> dlpack::Element {
    of_batch(element.into())
}

//! The elements of batches and tables, as DLPack types.

use uva_batch::Element;
use uva_graph::ElementType;

use crate::arrays::dlpack;

/// The element of a batch's array.
pub fn of_batch(element: Element) -> dlpack::DlpackType {
    match element {
        Element::I64 => dlpack::DlpackType::I64,
        Element::I32 => dlpack::DlpackType::I32,
        Element::F32 => dlpack::DlpackType::F32,
        Element::F16 => dlpack::DlpackType::F16,
        Element::Bf16 => dlpack::DlpackType::BF16,
        Element::E4m3 => dlpack::DlpackType::E4M3,
        Element::U16 => dlpack::DlpackType::U16,
        Element::U8 => dlpack::DlpackType::U8,
        Element::I8 => dlpack::DlpackType::I8,
    }
}

/// The element of a feature table.
pub fn of_features(element: ElementType) -> dlpack::DlpackType {
    of_batch(element.into())
}

//! Options, declared once ([`uva_runtime::spec`]), as Python's keywords and as arguments of `python -m uvatrain.train`.

pub mod described;
pub mod keywords;
pub mod ranks;
pub mod trainer;

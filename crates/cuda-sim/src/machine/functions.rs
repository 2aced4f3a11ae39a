//! An exported function as used by the modules that do not depend on the table.

use std::ffi::c_void;
use std::sync::atomic::AtomicU64;

/// An exported function.
pub struct Exported {
    pub name: &'static str,
    /// Its address, for `cuGetProcAddress`.
    pub address: fn() -> *const c_void,
    /// Calls so far.
    pub calls: AtomicU64,
}

/// A function's place in the table, by its exported name or that name without its version.
pub fn place(functions: &[Exported], name: &str) -> Option<usize> {
    let exact = functions.iter().position(|function| function.name == name);
    exact.or_else(|| {
        functions.iter().position(|function| {
            function.name.strip_prefix(name).is_some_and(|rest| rest.starts_with("_v") && rest.len() <= 3)
        })
    })
}

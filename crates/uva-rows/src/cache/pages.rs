//! Memory for a cache: separate zeroed pages, huge pages if the system provides them.

use uva_mem::ZeroedPages;

use crate::error::GatherError;

/// Allocates `each * count` zeroed bytes.
///
/// # Errors
/// [`GatherError::CacheMemory`] if there is too little memory, or the size exceeds the address space.
pub(crate) fn zeroed_pages(each: usize, count: usize) -> Result<ZeroedPages, GatherError> {
    let wanted = each as u128 * count as u128;
    let lack = |reason: String| GatherError::CacheMemory { bytes: wanted, reason };
    let bytes = each.checked_mul(count).ok_or_else(|| lack("more than an address can count".to_owned()))?;
    ZeroedPages::new(bytes).map_err(|error| lack(error.to_string()))
}

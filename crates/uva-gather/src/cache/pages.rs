//! Memory for a cache: zeroed pages of its own, large ones where the system gives them.

use memmap2::{Advice, MmapMut};

use crate::GatherError;

/// Anonymous memory that begins on a page. Random reads of a large array miss the processor's translations on 4 KiB
/// pages, so the system is asked to merge them.
#[derive(Debug)]
pub(super) struct CachePages {
    /// `None` for no bytes, which the system does not map.
    memory: Option<MmapMut>,
}

impl CachePages {
    /// `each * count` zeroed bytes.
    ///
    /// # Errors
    /// [`GatherError::CacheMemory`] when there are not so many, or an address can't count them.
    pub fn new(each: usize, count: usize) -> Result<Self, GatherError> {
        let wanted = each as u128 * count as u128;
        let lack = |reason: String| GatherError::CacheMemory { bytes: wanted, reason };
        let bytes =
            each.checked_mul(count).ok_or_else(|| lack("more than an address can count".to_owned()))?;
        if bytes == 0 {
            return Ok(Self { memory: None });
        }
        let memory = MmapMut::map_anon(bytes).map_err(|error| lack(error.to_string()))?;
        // A wish: a system without huge pages keeps to small ones.
        let _ = memory.advise(Advice::HugePage);
        Ok(Self { memory: Some(memory) })
    }

    pub fn bytes(&self) -> &[u8] {
        self.memory.as_deref().unwrap_or_default()
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.memory.as_deref_mut().unwrap_or_default()
    }
}

//! A page of words shared by all roles of a run: stop requests, the early-stopping cut, counters.

use std::mem::size_of;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::region::{RegionError, SharedRegion};

/// Shared 64-bit words, initially zero. The users of the page define the meaning of each word.
///
/// Words are independent. A load that sees a store sees everything that the writer did before the store (release;
/// partner: [`ControlPage::load`], acquire). Stores wake no waiter: waiting roles poll the page from a
/// [`Liveness`](crate::ring::Liveness) check.
#[derive(Debug)]
pub struct ControlPage {
    region: SharedRegion,
    words: usize,
}

impl ControlPage {
    /// Creates a page of `words` words (at least one), all zero.
    ///
    /// # Errors
    /// As [`SharedRegion::create`].
    pub fn create(name: &str, words: usize) -> Result<Self, RegionError> {
        let region = SharedRegion::create(name, words.saturating_mul(size_of::<u64>()))?;
        Ok(Self { region, words })
    }

    /// Maps a page that another process created with as many `words`.
    ///
    /// # Errors
    /// As [`SharedRegion::from_fd`].
    pub fn open(name: &str, fd: OwnedFd, words: usize) -> Result<Self, RegionError> {
        let region = SharedRegion::from_fd(name, fd, words.saturating_mul(size_of::<u64>()))?;
        Ok(Self { region, words })
    }

    /// The memfd, to hand over to another process.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd().expect("both constructors make or take one")
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.words, "word {index} of a control page of {}", self.words);
        // SAFETY: this type accesses its region only through atomics of this size, at multiples of it.
        unsafe { self.region.at(index * size_of::<u64>()) }
    }

    /// Reads a word (acquire: partner of every other method here).
    ///
    /// # Panics
    /// When `index` is not below the number of words, here and in the other methods.
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Acquire)
    }

    /// Writes a word (release: partner of [`ControlPage::load`]).
    pub fn store(&self, index: usize, value: u64) {
        self.word(index).store(value, Ordering::Release);
    }

    /// Adds to a word, wrapping, and returns the previous value.
    pub fn fetch_add(&self, index: usize, value: u64) -> u64 {
        self.word(index).fetch_add(value, Ordering::AcqRel)
    }

    /// Raises a word to `value` unless it is higher, and returns the previous value.
    pub fn fetch_max(&self, index: usize, value: u64) -> u64 {
        self.word(index).fetch_max(value, Ordering::AcqRel)
    }

    /// Lowers a word to `value` unless it is lower, and returns the previous value.
    pub fn fetch_min(&self, index: usize, value: u64) -> u64 {
        self.word(index).fetch_min(value, Ordering::AcqRel)
    }

    /// Writes `new` if the word is `current`; otherwise changes nothing.
    ///
    /// # Errors
    /// The value found, if it was not `current`.
    pub fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<u64, u64> {
        self.word(index).compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

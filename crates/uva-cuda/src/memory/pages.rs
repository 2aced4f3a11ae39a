//! The pages of a table that the device reads.

use uva_options::named;

named! {
    /// The pages of a pinned table.
    pub enum PinPages = InPlace {
        /// Those that it is mapped on: for a dataset the page cache's, of 4 KiB.
        InPlace = "in-place",
        /// A copy on 4 KiB pages that the kernel merges to 2 MiB where it can.
        Thp = "thp",
        /// A copy on reserved pages of 2 MiB.
        Hugetlb = "hugetlb",
        /// A copy in memory that the driver allocates.
        HostAlloc = "hostalloc",
    }
}

impl PinPages {
    /// The pages to try, in order, for a table of `bytes` bytes. `others`: whether the pages may be others than these.
    /// `huge_pages`: bytes of reserved huge pages that are free.
    pub(super) fn attempts(self, others: bool, bytes: u64, huge_pages: u64) -> Vec<Self> {
        let mut attempts = vec![self];
        if others {
            let reserved = (bytes <= huge_pages).then_some(Self::Hugetlb);
            let others = [Some(Self::InPlace), reserved, Some(Self::Thp)];
            attempts.extend(others.into_iter().flatten().filter(|pages| *pages != self));
        }
        attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_pages_are_tried_alone_and_others_have_fallbacks() {
        let tried = |pages: PinPages, others, reserved| pages.attempts(others, 4 << 20, reserved);
        for pages in PinPages::ALL {
            assert_eq!(tried(pages, false, 0), [pages]);
        }
        assert_eq!(tried(PinPages::InPlace, true, 0), [PinPages::InPlace, PinPages::Thp]);
        let enough = [PinPages::InPlace, PinPages::Hugetlb, PinPages::Thp];
        assert_eq!(tried(PinPages::InPlace, true, 4 << 20), enough);
        assert_eq!(tried(PinPages::Thp, true, 0), [PinPages::Thp, PinPages::InPlace]);
        let all = [PinPages::HostAlloc, PinPages::InPlace, PinPages::Thp];
        assert_eq!(tried(PinPages::HostAlloc, true, (4 << 20) - 1), all);
    }
}

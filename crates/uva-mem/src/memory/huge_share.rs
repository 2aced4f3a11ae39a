//! The page sizes that memory is mapped with.

/// The fraction of `memory`'s resident pages that are mapped as 2 MiB pages, by `/proc/self/smaps`. `None` if the
/// kernel does not report it. The kernel counts whole mappings, which may include adjacent memory of the same kind.
pub fn huge_share(memory: &[u8]) -> Option<f64> {
    let start = memory.as_ptr().addr();
    share_in(&crate::files::read_kernel_text("/proc/self/smaps").ok()?, start..start + memory.len())
}

/// The fraction from the text of `smaps`, for the mappings that overlap the addresses.
fn share_in(smaps: &str, addresses: std::ops::Range<usize>) -> Option<f64> {
    let (mut within, mut there, mut huge) = (false, 0_u64, 0_u64);
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        let Some(field) = first.strip_suffix(':') else {
            // `start-end permissions …`: a mapping begins.
            let (start, end) = first.split_once('-')?;
            let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
            within = start < addresses.end && addresses.start < end;
            continue;
        };
        let mut kibibytes = || words.next().and_then(|number| number.parse::<u64>().ok());
        match field {
            "Rss" if within => there += kibibytes()?,
            "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" | "Shared_Hugetlb" | "Private_Hugetlb"
                if within =>
            {
                let mapped = kibibytes()?;
                huge += mapped;
                // Rss does not include these.
                there += if field.ends_with("Hugetlb") { mapped } else { 0 };
            }
            _ => {}
        }
    }
    (there > 0).then(|| huge as f64 / there as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PageSize, ZeroedPages};

    const SMAPS: &str = "\
10000-20000 rw-p 00000000 00:00 0 \n\
Size:                 64 kB\n\
Rss:                  40 kB\n\
AnonHugePages:        10 kB\n\
VmFlags: rd wr mr mw me ac hg\n\
20000-30000 r--s 00000000 08:01 42                /data/feat.npy\n\
Rss:                  40 kB\n\
FilePmdMapped:        40 kB\n\
VmFlags: rd sh mr mw me ms\n\
40000-50000 rw-p 00000000 00:00 0 \n\
Rss:                   0 kB\n\
AnonHugePages:         0 kB\n\
60000-70000 rw-p 00000000 00:00 0 \n\
Rss:                   0 kB\n\
Private_Hugetlb:      64 kB\n\
80000-90000 rw-p 00000000 00:00 0 \n\
Rss:                  64 kB\n\
AnonHugePages:         0 kB\n";

    #[test]
    fn huge_pages_are_counted_of_the_mappings_that_hold_the_memory() {
        assert_eq!(share_in(SMAPS, 0x10000..0x11000), Some(0.25));
        assert_eq!(share_in(SMAPS, 0x21000..0x22000), Some(1.0));
        assert_eq!(share_in(SMAPS, 0x1ffff..0x20001), Some(0.625));
        assert_eq!(share_in(SMAPS, 0x60000..0x70000), Some(1.0));
        assert_eq!(share_in(SMAPS, 0x80000..0x90000), Some(0.0));
        // No resident pages, and no mapping.
        assert_eq!(share_in(SMAPS, 0x40000..0x50000), None);
        assert_eq!(share_in(SMAPS, 0x30000..0x40000), None);
    }

    #[test]
    fn memory_that_is_to_be_on_small_pages_is() {
        let mut pages = ZeroedPages::on(PageSize::Base, 4 << 20).unwrap();
        pages.bytes_mut().fill(1);
        assert_eq!(huge_share(pages.bytes()), Some(0.0));
    }
}

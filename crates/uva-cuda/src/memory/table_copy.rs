//! A copy of a table in separate memory, on pages of a chosen kind.

use std::sync::Arc;

use uva_mem::{PageKind, Pages, SharedRegion, ZeroedPages};

use crate::devices::context::Context;
use crate::error::CudaError;
use crate::memory::bytes::ByteCount;
use crate::memory::host_memory::HostMemory;
use crate::memory::pages::PinPages;
use crate::memory::pinned_memory::PinnedBuffer;
use crate::memory::registration::{page_bytes, read_ahead};

const HUGE_PAGE: usize = 2 << 20;

/// Bytes that a thread copies at a time: enough to read a file in one stream, and few enough that threads finish
/// together.
const COPY_PIECE: usize = 32 << 20;

/// The switch of transparent huge pages for anonymous memory.
const THP_SWITCH: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// A copy of a table.
pub(super) struct TableCopy {
    memory: Memory,
    bytes: usize,
}

enum Memory {
    Anonymous(ZeroedPages),
    Region(SharedRegion),
    Driver(PinnedBuffer),
}

impl TableCopy {
    /// Copies `bytes` to pages of this kind. With `named`, the user chose them, so switched-off transparent huge pages
    /// are an error.
    ///
    /// # Errors
    /// [`CudaError::Unsupported`] if this system has no such pages, or too few; [`CudaError::System`] if there is too
    /// little memory; [`CudaError::Call`].
    pub fn new(
        context: &Arc<Context>,
        bytes: &[u8],
        pages: PinPages,
        named: bool,
        what: &str,
    ) -> Result<Self, CudaError> {
        let mut copy =
            Self { memory: allocate(context, bytes.len(), pages, named, what)?, bytes: bytes.len() };
        copy_by_threads(bytes, copy.as_mut_slice());
        Ok(copy)
    }

    /// The kind of its pages, for reports.
    pub fn pages(&self) -> &'static str {
        match &self.memory {
            Memory::Anonymous(_) if transparent_huge_pages() => "transparent-huge",
            Memory::Anonymous(_) => "base",
            Memory::Region(_) => "hugetlb",
            Memory::Driver(_) => "hostalloc",
        }
    }

    /// The device address and the pinned bytes, if the driver has pinned the copy already.
    pub fn pinned_already(&self) -> Option<(u64, usize)> {
        match &self.memory {
            Memory::Driver(buffer) => Some((buffer.address(), buffer.bytes())),
            _ => None,
        }
    }

    /// The first byte, and the whole mapped pages from there on.
    pub fn whole_pages(&self) -> (*mut u8, usize) {
        match &self.memory {
            Memory::Anonymous(pages) => {
                (pages.bytes().as_ptr().cast_mut(), self.bytes.next_multiple_of(page_bytes()))
            }
            Memory::Region(region) => (region.as_ptr(), region.len().next_multiple_of(HUGE_PAGE)),
            Memory::Driver(buffer) => (buffer.as_ptr().cast_mut(), buffer.bytes()),
        }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.memory {
            Memory::Anonymous(pages) => pages.bytes(),
            // SAFETY: `bytes` bytes, written before `new` returned. The region is ours alone: its descriptor was not
            // shared, and it is not written from then on.
            Memory::Region(region) => unsafe { std::slice::from_raw_parts(region.as_ptr(), self.bytes) },
            Memory::Driver(buffer) => buffer.as_slice(),
        }
    }

    fn as_mut_slice(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Anonymous(pages) => pages.bytes_mut(),
            // SAFETY: `bytes` zeroed bytes, which are not shared.
            Memory::Region(region) => unsafe { std::slice::from_raw_parts_mut(region.as_ptr(), self.bytes) },
            Memory::Driver(buffer) => buffer.as_mut_slice(),
        }
    }
}

/// Memory for a copy, with all its pages: a lack of memory is an error here, and not a signal during the copy.
fn allocate(
    context: &Arc<Context>,
    bytes: usize,
    pages: PinPages,
    named: bool,
    what: &str,
) -> Result<Memory, CudaError> {
    let system = |error: &dyn std::error::Error| {
        CudaError::System(format!("copying {what} ({}) to be pinned: {error}", ByteCount(bytes as u64)))
    };
    match pages {
        PinPages::InPlace => Err(CudaError::Refused(format!("{what}: in place there is no copy"))),
        PinPages::Thp if named && !transparent_huge_pages() => Err(CudaError::Unsupported(format!(
            "`table_pages=thp`: transparent huge pages are off on this system; `echo madvise | sudo tee {THP_SWITCH}` \
             enables them; `table_pages=in-place` does not need them"
        ))),
        PinPages::Thp => {
            let mut memory = ZeroedPages::new(bytes).map_err(|error| system(&error))?;
            memory.keep_from_children();
            memory.populate().map_err(|error| system(&error))?;
            Ok(Memory::Anonymous(memory))
        }
        PinPages::Hugetlb => {
            let region = SharedRegion::create_with("uvatrain-table", bytes, Pages::Hugetlb)
                .map_err(|error| system(&error))?;
            if region.pages() != PageKind::Hugetlb {
                return Err(no_hugetlb(bytes, what));
            }
            region.populate().map_err(|error| system(&error))?;
            Ok(Memory::Region(region))
        }
        PinPages::HostAlloc => PinnedBuffer::unwritten(context, bytes, what).map(Memory::Driver),
    }
}

/// The error for missing reserved huge pages, with the command that reserves them.
fn no_hugetlb(bytes: usize, what: &str) -> CudaError {
    let free = HostMemory::read().map_or(0, |memory| memory.huge_pages as usize / HUGE_PAGE);
    let needed = bytes.div_ceil(HUGE_PAGE);
    CudaError::Unsupported(format!(
        "`table_pages=hugetlb`: {what} needs {needed} reserved pages of 2 MiB, and {free} are free; `echo {needed} | sudo \
         tee /proc/sys/vm/nr_hugepages` reserves them; `table_pages=in-place` does not need them"
    ))
}

/// Whether the kernel gives anonymous memory transparent huge pages to programs that request them.
fn transparent_huge_pages() -> bool {
    uva_mem::files::read_kernel_text(THP_SWITCH)
        .is_ok_and(|text| text.contains("[always]") || text.contains("[madvise]"))
}

fn copy_by_threads(bytes: &[u8], copy: &mut [u8]) {
    let pieces = std::sync::Mutex::new(bytes.chunks(COPY_PIECE).zip(copy.chunks_mut(COPY_PIECE)));
    // More than a few threads gain nothing against one memory bus.
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    // The lock is held to take a piece, not to copy it, and can't be poisoned: taking a piece doesn't panic.
    let take = || pieces.lock().ok().and_then(|mut pieces| pieces.next());
    let work = || {
        while let Some((from, to)) = take() {
            read_ahead(from);
            to.copy_from_slice(from);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // A thread that fails to start is one less: this one copies too.
            let _ = std::thread::Builder::new().name("table-copy".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
}

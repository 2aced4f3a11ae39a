//! A table in host memory that the device reads in place: pinned where it's mapped, or else in a copy.
//!
//! Only one process of a run pins the table: page tables for pinned memory cost device memory in each that does.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys::{CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_READ_ONLY};
use serde::Serialize;
use uva_mem::{MappedFile, PageKind, Pages, SharedRegion};

use crate::context::Context;
use crate::device::Feature;
use crate::error::{CudaError, OUT_OF_MEMORY};
use crate::memory::bytes::Bytes;
use crate::memory::host_memory::HostMemory;
use crate::memory::preflight::{PinWay, PreflightPolicy, preflight};
use crate::memory::registered::{Registered, page_bytes, read_ahead};

/// Bytes pinned by one call by default. Drivers since R580 refuse one call for 512 GiB of 4 KiB pages, and a refusal
/// after 64 GiB comes sooner than one at the end.
pub const CHUNK_BYTES: usize = 64 << 30;

const HUGE_PAGE: usize = 2 << 20;

/// Bytes that a thread copies at a time: enough to read a file in one stream, and few enough that threads finish
/// together.
const COPY_PIECE: usize = 32 << 20;

/// The owner of a table's bytes: it keeps them in place while the device reads them.
///
/// The slice is used until the pinned table is dropped, which holds the owner for as long.
pub trait TableBytes: Send + Sync {
    /// The bytes: the same slice each time.
    fn bytes(&self) -> &[u8];

    /// Whether the pages are mapped writable too. Any device and driver can pin these. The pages of a file mapped
    /// read-only need a device and a driver that support read-only registration.
    fn is_writable(&self) -> bool {
        false
    }
}

impl TableBytes for MappedFile {
    fn bytes(&self) -> &[u8] {
        MappedFile::bytes(self)
    }
}

impl TableBytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn is_writable(&self) -> bool {
        true
    }
}

/// How a table is to be pinned.
#[derive(Clone, Debug)]
pub struct PinOptions {
    /// Its name in messages: "the feature table …/feat.npy".
    pub what: String,
    /// Whether to try the owner's own pages first. Otherwise they're copied at once.
    pub in_place: bool,
    /// Whether a copy asks for reserved huge pages (2 MiB). If there are none, it gets ordinary pages.
    pub huge_pages: bool,
    /// The most bytes pinned by one call, rounded down to whole pages, at least one.
    pub chunk_bytes: usize,
    /// Reaction to memory that seems too short. Use [`PreflightPolicy::Off`] for pages that are already in memory and
    /// cannot be dropped: they don't count as available, and pinning needs nothing more.
    pub preflight: PreflightPolicy,
    /// Called with a shortage before anything is pinned.
    pub warn: fn(&str),
}

impl Default for PinOptions {
    fn default() -> Self {
        Self {
            what: "the feature table".to_owned(),
            in_place: true,
            huge_pages: true,
            chunk_bytes: CHUNK_BYTES,
            preflight: PreflightPolicy::default(),
            warn: |_| {},
        }
    }
}

/// How a table was pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinHow {
    /// In place, for the device to read only.
    InPlaceReadOnly,
    /// In place.
    InPlace,
    /// In a copy in shared memory.
    Copied,
    /// Nothing was pinned: the table has no bytes.
    Empty,
}

/// The cost of pinning a table.
#[derive(Clone, Debug, Serialize)]
pub struct PinReport {
    /// Bytes of the table.
    pub bytes: u64,
    /// Bytes of the pages that were pinned for it.
    pub pinned_bytes: u64,
    /// Wall-clock time, copying included.
    pub seconds: f64,
    /// How it was done.
    pub how: PinHow,
    /// `base`, `transparent-huge` or `hugetlb`; `None` in place, where the pages are the owner's.
    pub pages: Option<&'static str>,
    /// Registration calls.
    pub chunks: usize,
    /// Why the owner's own pages were not pinned, if that was tried.
    pub refused: Option<String>,
}

/// A table with pinned pages, and the owner of these pages.
///
/// The device reads it at [`PinnedTable::address`], the CPU at [`PinnedTable::host`]. Callers that let a kernel read it
/// drop it only after the kernel has run. Dropping it unpins the pages before it releases their owner.
pub struct PinnedTable {
    // Fields drop in this order: first unpinned, then unmapped.
    registered: Registered,
    backing: Backing,
    address: u64,
    report: PinReport,
}

/// Keeps the pinned pages mapped.
enum Backing {
    Owner(Arc<dyn TableBytes>),
    Copy(SharedRegion),
}

impl PinnedTable {
    /// Pins the bytes of `owner`.
    ///
    /// Unless the options say otherwise, it first tries to pin in place. It registers read-only if the device supports
    /// that, which is the only way for a file mapped read-only; else normally, if the pages are writable. If that is
    /// refused (file systems and kernels differ in what they let a driver pin), it pins a copy. Any other refusal, such
    /// as a lost device, ends the attempt at once. Chunks of a table pinned before a refusal are unpinned again, the
    /// last first.
    ///
    /// # Errors
    /// - [`CudaError::Preflight`] before anything is pinned, as the [`PreflightPolicy`] decides.
    /// - [`CudaError::System`] if there are no pages for a copy.
    /// - [`CudaError::Unsupported`] if the device can't read host memory at all, or would see the parts of the table at
    ///   addresses that don't join.
    /// - [`CudaError::Call`].
    pub fn new(
        context: &Arc<Context>,
        owner: Arc<dyn TableBytes>,
        options: &PinOptions,
    ) -> Result<Self, CudaError> {
        let start = Instant::now();
        let bytes: *const [u8] = owner.bytes();
        // SAFETY: the slice borrows from `*owner`. The Arc keeps that in place and shared for as long as it's held: no
        // safe code can end such a borrow or change bytes under it. The slice is used only while `owner` is held: in
        // this function and, in `host`, while `backing` is.
        let bytes: &[u8] = unsafe { &*bytes };
        let chunk = options.chunk_bytes;
        if bytes.is_empty() {
            return Ok(Self::pinned(
                Registered::none(context),
                Backing::Owner(owner),
                0,
                PinHow::Empty,
                None,
                0,
                None,
                start,
            ));
        }
        let device = context.device();
        if !device.supports(Feature::HostRegister)? {
            return Err(CudaError::Unsupported(format!(
                "device {} ({}) cannot read host memory in place, so {} cannot be pinned for it; --gather cpu gathers on \
                 the CPU",
                device.ordinal(),
                device.name(),
                options.what
            )));
        }
        let mut refused = None;
        if options.in_place {
            let doubts = check_room(options, bytes.len(), PinWay::InPlace)?;
            match pin_in_place(context, &*owner, bytes, chunk, &options.what) {
                Ok((registered, how)) => {
                    let address = registered.address_of(bytes);
                    return Ok(Self::pinned(
                        registered,
                        Backing::Owner(owner),
                        address,
                        how,
                        None,
                        bytes.len(),
                        None,
                        start,
                    ));
                }
                Err(error) if may_be_copied(&error) => refused = Some((error.to_string(), doubts)),
                Err(error) => return Err(error),
            }
        }
        let doubts = check_room(options, bytes.len(), PinWay::Copy { huge_pages: options.huge_pages })?;
        let pages = if options.huge_pages { Pages::Hugetlb } else { Pages::Normal };
        let region = copy_of(bytes, pages, &options.what)?;
        let unit = if region.pages() == PageKind::Hugetlb { HUGE_PAGE } else { page_bytes() };
        // SAFETY: the region has whole pages of that size from its start on, all mapped. It lives longer than the
        // registration (`Backing::Copy`, after it).
        let registered = unsafe {
            Registered::new(
                context,
                region.as_ptr(),
                region.len().next_multiple_of(unit),
                chunk,
                CU_MEMHOSTREGISTER_DEVICEMAP,
                &options.what,
            )
        }
        .map_err(|error| {
            // The same limits blocked both attempts, and are named once.
            let before = refused.as_ref().map(|(error, _)| error.as_str());
            explain_refusal(error, before, &doubts)
        })?;
        let address = registered.address();
        let page_kind = match region.pages() {
            PageKind::Base => "base",
            PageKind::TransparentHuge => "transparent-huge",
            PageKind::Hugetlb => "hugetlb",
        };
        let bytes = bytes.len();
        // The owner isn't needed any more: from now on the device and the CPU read the copy.
        drop(owner);
        Ok(Self::pinned(
            registered,
            Backing::Copy(region),
            address,
            PinHow::Copied,
            Some(page_kind),
            bytes,
            refused.map(|(error, doubts)| with_doubts(error, &doubts)),
            start,
        ))
    }

    #[allow(clippy::too_many_arguments, reason = "one place that puts the report together")]
    fn pinned(
        registered: Registered,
        backing: Backing,
        address: u64,
        how: PinHow,
        pages: Option<&'static str>,
        bytes: usize,
        refused: Option<String>,
        start: Instant,
    ) -> Self {
        let report = PinReport {
            bytes: bytes as u64,
            pinned_bytes: registered.bytes() as u64,
            seconds: start.elapsed().as_secs_f64(),
            how,
            pages,
            chunks: registered.chunks(),
            refused,
        };
        Self { registered, backing, address, report }
    }

    /// The device address of the first byte; 0 for a table without bytes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// How many bytes the table has.
    pub fn bytes(&self) -> usize {
        self.report.bytes as usize
    }

    /// The bytes, for the CPU.
    pub fn host(&self) -> &[u8] {
        match &self.backing {
            Backing::Owner(owner) => owner.bytes(),
            // SAFETY: `bytes` bytes, written before this value was made. The region is ours alone: its descriptor was
            // given to nobody, and nothing writes it from then on.
            Backing::Copy(region) => unsafe { std::slice::from_raw_parts(region.as_ptr(), self.bytes()) },
        }
    }

    /// The cost of pinning it.
    pub fn report(&self) -> &PinReport {
        &self.report
    }

    /// The context of its registration.
    pub fn context(&self) -> &Arc<Context> {
        self.registered.context()
    }
}

impl std::fmt::Debug for PinnedTable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PinnedTable")
            .field("address", &self.address)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

/// Checks for room, and returns the limits that may still interfere.
fn check_room(options: &PinOptions, bytes: usize, way: PinWay) -> Result<Vec<String>, CudaError> {
    // Without /proc nothing is known, and a failed registration reports itself.
    let Ok(memory) = HostMemory::read() else { return Ok(Vec::new()) };
    let found = preflight(&options.what, bytes as u64, way, &memory, options.preflight)
        .map_err(|error| CudaError::Preflight(error.to_string()))?;
    if let Some(warning) = &found.warning {
        (options.warn)(warning);
    }
    Ok(found.doubts)
}

/// Pins the pages that hold `bytes` where they are.
fn pin_in_place(
    context: &Arc<Context>,
    owner: &dyn TableBytes,
    bytes: &[u8],
    chunk: usize,
    what: &str,
) -> Result<(Registered, PinHow), CudaError> {
    let device = context.device();
    let page = page_bytes();
    let lead = bytes.as_ptr() as usize % page;
    let from = bytes.as_ptr().wrapping_sub(lead).cast_mut();
    let length = (lead + bytes.len()).next_multiple_of(page);
    let register = |flags| {
        // SAFETY: whole pages, each of which holds a byte of `bytes` and so is mapped. The owner keeps them mapped for
        // longer than the registration (`Backing::Owner`, after it).
        unsafe { Registered::new(context, from, length, chunk, CU_MEMHOSTREGISTER_DEVICEMAP | flags, what) }
    };
    let mut first = None;
    if device.supports(Feature::ReadOnlyHostRegister)? {
        match register(CU_MEMHOSTREGISTER_READ_ONLY) {
            Ok(registered) => return Ok((registered, PinHow::InPlaceReadOnly)),
            Err(error) if may_be_copied(&error) => first = Some(error),
            Err(error) => return Err(error),
        }
    }
    if owner.is_writable() {
        return register(0).map(|registered| (registered, PinHow::InPlace));
    }
    Err(first.unwrap_or_else(|| {
        CudaError::Unsupported(format!(
            "device {} ({}) cannot pin memory that is mapped read-only",
            device.ordinal(),
            device.name()
        ))
    }))
}

/// Whether a refusal to pin pages in place may be due to these pages, so that a copy is worth a try.
fn may_be_copied(error: &CudaError) -> bool {
    // CUDA_ERROR_INVALID_VALUE, OUT_OF_MEMORY, OPERATING_SYSTEM, HOST_MEMORY_ALREADY_REGISTERED, NOT_PERMITTED,
    // NOT_SUPPORTED.
    const OF_THE_PAGES: [u32; 6] = [1, OUT_OF_MEMORY, 304, 712, 800, 801];
    match error {
        CudaError::Unsupported(_) => true,
        error => error.code().is_some_and(|code| OF_THE_PAGES.contains(&code)),
    }
}

fn with_doubts(mut text: String, doubts: &[String]) -> String {
    for doubt in doubts {
        text.push_str("; ");
        text.push_str(doubt);
    }
    text
}

/// Adds the known limits and the earlier attempt to the refusal of the last attempt.
fn explain_refusal(error: CudaError, before: Option<&str>, doubts: &[String]) -> CudaError {
    match error {
        CudaError::Call { call, code, name, mut doing } => {
            if let Some(before) = before {
                doing.push_str(&format!(" (a copy, since in place it was refused: {before})"));
            }
            CudaError::Call { call, code, name, doing: with_doubts(doing, doubts) }
        }
        other => other,
    }
}

/// A copy in memory of our own, made by several threads.
fn copy_of(bytes: &[u8], pages: Pages, what: &str) -> Result<SharedRegion, CudaError> {
    let system = |error: &dyn std::error::Error| {
        CudaError::System(format!("copying {what} ({}) to be pinned: {error}", Bytes(bytes.len() as u64)))
    };
    let region =
        SharedRegion::create_with("uvatrain-table", bytes.len(), pages).map_err(|error| system(&error))?;
    // Allocated now, so that a lack of memory is an error here and not a SIGBUS in the middle of the copy.
    region.populate().map_err(|error| system(&error))?;
    // SAFETY: the region has `bytes.len()` zeroed bytes, and nobody else knows of it yet.
    let copy = unsafe { std::slice::from_raw_parts_mut(region.as_ptr(), bytes.len()) };
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
    Ok(region)
}

//! A table in host memory that the device reads in place: pinned in place, or else in a copy.
//!
//! Only one process of a run pins the table: page tables for pinned memory use device memory in each process.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::sys::{CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_READ_ONLY};
use serde::Serialize;
use uva_mem::MappedFile;

use crate::devices::context::Context;
use crate::devices::device::Feature;
use crate::error::{CudaError, OUT_OF_MEMORY};
use crate::memory::host_memory::HostMemory;
use crate::memory::pages::PinPages;
use crate::memory::preflight::{PinRequest, PinWay, PreflightPolicy, preflight};
use crate::memory::registration::{RegisteredPages, page_bytes};
use crate::memory::table_copy::TableCopy;

/// Bytes pinned by one call by default. Drivers since R580 refuse one call for 512 GiB of 4 KiB pages, and a refusal
/// after 64 GiB comes sooner than one at the end.
pub const CHUNK_BYTES: usize = 64 << 30;

/// The owner of a table's bytes: it keeps them in place while the device reads them.
///
/// The slice is used until the pinned table is dropped, which keeps the owner until then.
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

/// Options of pinning a table.
#[derive(Clone, Debug)]
pub struct PinOptions {
    /// The table's name in messages: "the feature table …/feat.npy".
    pub what: String,
    /// The pages to pin.
    pub pages: PinPages,
    /// Whether to fall back to other pages if these are not available: the owner's own, then a copy.
    pub others: bool,
    /// The maximum number of bytes pinned by one call, rounded down to whole pages, at least one.
    pub chunk_bytes: usize,
    /// Reaction to memory that seems too short. Use [`PreflightPolicy::Off`] for pages that are already in memory and
    /// cannot be dropped: they don't count as available, and pinning needs no more memory.
    pub preflight: PreflightPolicy,
    /// What needs less pinned memory, in words, for a message about a shortage.
    pub remedies: &'static str,
    /// Called with a shortage before anything is pinned.
    pub warn: fn(&str),
}

impl Default for PinOptions {
    fn default() -> Self {
        Self {
            what: "the feature table".to_owned(),
            pages: PinPages::InPlace,
            others: true,
            chunk_bytes: CHUNK_BYTES,
            preflight: PreflightPolicy::default(),
            remedies: "halve the table with `uvatrain import --feat-dtype f16`, keep the rows that are read most on \
                       the GPU with `gpu_cache`, gather on the CPU with `gather=cpu`",
            warn: |_| {},
        }
    }
}

/// The method used to pin a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinHow {
    /// In place, for the device to read only.
    InPlaceReadOnly,
    /// In place.
    InPlace,
    /// In a copy of the table.
    Copied,
    /// No memory was pinned: the table is empty.
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
    /// The method used.
    pub how: PinHow,
    /// `base`, `transparent-huge`, `hugetlb` or `hostalloc`; `None` in place, with the owner's pages.
    pub pages: Option<&'static str>,
    /// The fraction of transparent huge pages, if they were requested and the kernel reports it.
    pub huge_share: Option<f64>,
    /// Registration calls.
    pub chunks: usize,
    /// Why earlier attempts with other pages failed.
    pub refused: Option<String>,
}

/// A table with pinned pages, and the owner of these pages.
///
/// The device reads it at [`PinnedTable::address`], the CPU at [`PinnedTable::host`]. Callers that let a kernel read it
/// drop it only after the kernel has run. Dropping it unpins the pages before it releases their owner.
pub struct PinnedTable {
    // Fields drop in this order: first unpinned, then unmapped.
    registered: RegisteredPages,
    backing: Backing,
    address: u64,
    report: PinReport,
}

/// Keeps the pinned pages mapped.
enum Backing {
    Owner(Arc<dyn TableBytes>),
    Copy(TableCopy),
}

/// A table whose pages are pinned, before its report.
struct Pinned {
    registered: RegisteredPages,
    backing: Backing,
    address: u64,
    how: PinHow,
}

impl PinnedTable {
    /// Pins the bytes of `owner`.
    ///
    /// In place it registers read-only if the device supports that, which is the only way for a file mapped read-only;
    /// else normally, if the pages are writable. File systems and kernels differ in the pages that a driver can pin.
    /// Pages that are rejected or not available on this system are replaced by others if the options allow it. Any
    /// other failure, such as a lost device, ends the attempt immediately. Chunks of a table pinned before a refusal
    /// are unpinned again, the last first.
    ///
    /// # Errors
    /// - [`CudaError::Preflight`] before anything is pinned, as the [`PreflightPolicy`] decides.
    /// - [`CudaError::System`] if there are no pages for a copy.
    /// - [`CudaError::Unsupported`] if the device can't read host memory at all, or would see the parts of the table at
    ///   addresses that don't join; if this system has no pages of the requested kind.
    /// - [`CudaError::Call`].
    pub fn new(
        context: &Arc<Context>,
        owner: Arc<dyn TableBytes>,
        options: &PinOptions,
    ) -> Result<Self, CudaError> {
        let start = Instant::now();
        let bytes = owner.bytes().len();
        if bytes == 0 {
            let registered = RegisteredPages::none(context);
            let pinned =
                Pinned { registered, backing: Backing::Owner(owner), address: 0, how: PinHow::Empty };
            return Ok(pinned.reported(0, None, start));
        }
        let device = context.device();
        if !device.supports(Feature::HostRegister)? {
            return Err(CudaError::Unsupported(format!(
                "device {} ({}) cannot read host memory in place, so {} cannot be pinned for it; `gather=cpu` gathers on \
                 the CPU",
                device.ordinal(),
                device.name(),
                options.what
            )));
        }
        // Without /proc nothing is known, and a failed registration reports itself.
        let memory = HostMemory::read().ok();
        let huge_pages = memory.as_ref().map_or(0, |memory| memory.huge_pages);
        let attempts = options.pages.attempts(options.others, bytes as u64, huge_pages);
        let mut refusals = Refusals::default();
        for (number, &pages) in attempts.iter().enumerate() {
            let is_last = number + 1 == attempts.len();
            let checked = check_room(options, memory.as_ref(), bytes, pages, is_last);
            let pinned = match checked {
                Ok(doubts) => {
                    refusals.doubts = doubts;
                    pin(context, &owner, options, pages)
                }
                Err(error) => Err(error),
            };
            match pinned {
                Ok(pinned) => return Ok(pinned.reported(bytes, refusals.text(), start)),
                Err(error) if !is_last && may_be_others(&error, pages) => refusals.add(pages, &error),
                Err(error) => return Err(refusals.explain(error, pages)),
            }
        }
        Err(CudaError::Refused(format!("{}: there are no pages to try", options.what)))
    }

    /// The device address of the first byte; 0 for a table without bytes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The size of the table in bytes.
    pub fn bytes(&self) -> usize {
        self.report.bytes as usize
    }

    /// The bytes, for the CPU.
    pub fn host(&self) -> &[u8] {
        match &self.backing {
            Backing::Owner(owner) => owner.bytes(),
            Backing::Copy(copy) => copy.bytes(),
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

impl Pinned {
    fn reported(self, bytes: usize, refused: Option<String>, start: Instant) -> PinnedTable {
        let Self { registered, backing, address, how } = self;
        let (pages, driver) = match &backing {
            Backing::Owner(_) => (None, None),
            Backing::Copy(copy) => (Some(copy.pages()), copy.pinned_already()),
        };
        let huge_share = match &backing {
            Backing::Copy(copy) if pages == Some("transparent-huge") => uva_mem::huge_share(copy.bytes()),
            _ => None,
        };
        let report = PinReport {
            bytes: bytes as u64,
            pinned_bytes: driver.map_or(registered.bytes(), |(_, bytes)| bytes) as u64,
            seconds: start.elapsed().as_secs_f64(),
            how,
            pages,
            huge_share,
            chunks: registered.chunks(),
            refused,
        };
        PinnedTable { registered, backing, address, report }
    }
}

/// The attempts that failed, for the report or for the last error.
#[derive(Default)]
struct Refusals {
    /// The pages, each with the refusal.
    tried: Vec<(PinPages, String)>,
    /// Limits that may have interfered with the last attempt.
    doubts: Vec<String>,
}

impl Refusals {
    fn add(&mut self, pages: PinPages, error: &CudaError) {
        self.tried.push((pages, with_doubts(error.to_string(), &self.doubts)));
    }

    fn text(&self) -> Option<String> {
        let tried: Vec<String> =
            self.tried.iter().map(|(pages, error)| format!("{pages}: {error}")).collect();
        (!tried.is_empty()).then(|| tried.join("; "))
    }

    /// Adds the known limits and the earlier attempts to the refusal of the last one, for pages of this kind. The same
    /// limits blocked all attempts, and are named once.
    fn explain(mut self, error: CudaError, pages: PinPages) -> CudaError {
        let CudaError::Call { call, code, name, mut doing } = error else { return error };
        for (tried, error) in &self.tried {
            let this = if pages == PinPages::InPlace { "in place" } else { "a copy" };
            let other = if *tried == PinPages::InPlace { "in place" } else { tried.name() };
            doing.push_str(&format!(" ({this}, since {other} it was refused: {error})"));
        }
        if self.tried.is_empty() {
            doing = with_doubts(doing, &std::mem::take(&mut self.doubts));
        }
        CudaError::Call { call, code, name, doing }
    }
}

/// Checks for available memory, and returns the limits that may still interfere.
fn check_room(
    options: &PinOptions,
    memory: Option<&HostMemory>,
    bytes: usize,
    pages: PinPages,
    is_last: bool,
) -> Result<Vec<String>, CudaError> {
    let Some(memory) = memory else { return Ok(Vec::new()) };
    let way = match pages {
        PinPages::InPlace => PinWay::InPlace,
        pages => PinWay::Copy { huge_pages: pages == PinPages::Hugetlb },
    };
    // A copy that has alternatives is not worth the risk of a shortage.
    let policy = match options.preflight {
        PreflightPolicy::Warn if way != PinWay::InPlace && !is_last => PreflightPolicy::Refuse,
        policy => policy,
    };
    let request = PinRequest { what: &options.what, bytes: bytes as u64, way, remedies: options.remedies };
    let found =
        preflight(&request, memory, policy).map_err(|error| CudaError::Preflight(error.to_string()))?;
    if let Some(warning) = &found.warning {
        (options.warn)(warning);
    }
    Ok(found.doubts)
}

/// Pins these pages.
fn pin(
    context: &Arc<Context>,
    owner: &Arc<dyn TableBytes>,
    options: &PinOptions,
    pages: PinPages,
) -> Result<Pinned, CudaError> {
    let bytes: *const [u8] = owner.bytes();
    // SAFETY: the slice borrows from `**owner`. The Arc keeps that in place and shared for as long as it's held: no safe
    // code can end such a borrow or change bytes under it. The slice is used in this function only, and the caller
    // holds the Arc.
    let bytes: &[u8] = unsafe { &*bytes };
    if pages == PinPages::InPlace {
        let (registered, how) = pin_in_place(context, &**owner, bytes, options.chunk_bytes, &options.what)?;
        let address = registered.address_of(bytes);
        return Ok(Pinned { registered, backing: Backing::Owner(Arc::clone(owner)), address, how });
    }
    let copy = TableCopy::new(context, bytes, pages, !options.others, &options.what)?;
    let (registered, address) = match copy.pinned_already() {
        Some((address, _)) => (RegisteredPages::none(context), address),
        None => {
            let (start, length) = copy.whole_pages();
            let flags = CU_MEMHOSTREGISTER_DEVICEMAP;
            // SAFETY: whole pages of the copy, all mapped. It lives longer than the registration (`Backing::Copy`,
            // after it).
            let registered = unsafe {
                RegisteredPages::new(context, start, length, options.chunk_bytes, flags, &options.what)
            }?;
            let address = registered.address();
            (registered, address)
        }
    };
    // The owner isn't needed any more: from now on the device and the CPU read the copy.
    Ok(Pinned { registered, backing: Backing::Copy(copy), address, how: PinHow::Copied })
}

/// Pins the pages of `bytes` in place.
fn pin_in_place(
    context: &Arc<Context>,
    owner: &dyn TableBytes,
    bytes: &[u8],
    chunk: usize,
    what: &str,
) -> Result<(RegisteredPages, PinHow), CudaError> {
    let device = context.device();
    let page = page_bytes();
    let lead = bytes.as_ptr() as usize % page;
    let from = bytes.as_ptr().wrapping_sub(lead).cast_mut();
    let length = (lead + bytes.len()).next_multiple_of(page);
    let register = |flags| {
        // SAFETY: whole pages, each of which holds a byte of `bytes` and so is mapped. The owner keeps them mapped for
        // longer than the registration (`Backing::Owner`, after it).
        unsafe {
            RegisteredPages::new(context, from, length, chunk, CU_MEMHOSTREGISTER_DEVICEMAP | flags, what)
        }
    };
    let mut first = None;
    if device.supports(Feature::ReadOnlyHostRegister)? {
        match register(CU_MEMHOSTREGISTER_READ_ONLY) {
            Ok(registered) => return Ok((registered, PinHow::InPlaceReadOnly)),
            Err(error) if may_be_the_pages(&error) => first = Some(error),
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

/// Whether a failure may be due to these pages, so that other pages may work.
fn may_be_others(error: &CudaError, pages: PinPages) -> bool {
    match error {
        CudaError::Preflight(_) | CudaError::System(_) => pages != PinPages::InPlace,
        error => may_be_the_pages(error),
    }
}

/// Whether the driver may have rejected these pages, but would accept others.
fn may_be_the_pages(error: &CudaError) -> bool {
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

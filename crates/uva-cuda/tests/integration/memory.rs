//! Device, pinned and shared memory, pinned tables and green partitions, under the simulator.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use uva_cuda::memory::{
    DeviceBuffer, Exported, HostMemory, IpcKind, JoinedMemory, PinHow, PinOptions, PinPages, PinnedBuffer,
    PinnedTable, PreflightPolicy, Share, SharedBuffer, SharedKind, SharedMetadata, TableBytes,
    device_to_device, device_to_host, fill, host_to_device,
};
use uva_cuda::partition::GreenPartition;
use uva_cuda::{Context, CudaError, CudaEvent, CudaStream, Signal, StampSignal, clear_stamps};
use uva_mem::MappedFile;

/// As `cuda_sim::in_process`, on the machine that the variables describe.
fn under(test: &str, variables: &[(&str, &str)]) -> bool {
    const INSIDE: &str = "UVA_CUDA_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--include-ignored"]).env(INSIDE, "1");
    command.envs(variables.iter().copied());
    cuda_sim::environment(&mut command);
    let output = command.output().unwrap();
    let text =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{test}: {}\n{text}", output.status);
    false
}

fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[6] ^ seed).collect()
}

fn to_device(stream: &CudaStream, from: &[u8], to: u64) {
    // SAFETY: every caller owns both ends, and this function waits.
    unsafe { host_to_device(stream, from, to) }.unwrap();
    stream.synchronize().unwrap();
}

fn from_device(stream: &CudaStream, from: u64, length: usize) -> Vec<u8> {
    let mut out = vec![0; length];
    // SAFETY: every caller owns the range, and this function waits.
    unsafe { device_to_host(stream, from, &mut out) }.unwrap();
    stream.synchronize().unwrap();
    out
}

#[test]
fn bytes_are_copied_to_the_device_and_back() {
    if !under("memory::bytes_are_copied_to_the_device_and_back", &[("CUDA_SIM_DELAY_US", "200")]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let stream = CudaStream::new(&context).unwrap();
    let mut pinned = PinnedBuffer::new(&context, 5000, "a test").unwrap();
    assert!(pinned.as_slice().iter().all(|&byte| byte == 0), "page-locked memory begins zeroed");
    pinned.as_mut_slice().copy_from_slice(&bytes(5000, 1));
    let (first, second) =
        (DeviceBuffer::new(&context, 5000, "a").unwrap(), DeviceBuffer::new(&context, 5000, "b").unwrap());
    let mut back = vec![0; 5000];
    // SAFETY: all buffers live until the synchronisation below, and are not used before.
    unsafe {
        host_to_device(&stream, pinned.as_slice(), first.address()).unwrap();
        device_to_device(&stream, first.address(), second.address(), 5000).unwrap();
        fill(&stream, second.address() + 100, 0xee, 50).unwrap();
        device_to_host(&stream, second.address(), &mut back).unwrap();
        // An empty copy is not enqueued, whatever its target.
        host_to_device(&stream, &[], 0).unwrap();
        fill(&stream, 0, 0, 0).unwrap();
    }
    stream.synchronize().unwrap();
    let mut expected = bytes(5000, 1);
    expected[100..150].fill(0xee);
    assert!(back == expected);
    assert_eq!(DeviceBuffer::new(&context, 0, "nothing").unwrap().slice().bytes(), 0);
}

// --- shared buffers ---

/// The bytes that the maker and the importer write, in a buffer whose size is not a multiple of any unit.
const SHARED_BYTES: usize = (2 << 20) + 77;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

/// Imports the buffer described by its environment, reads the maker's bytes after a word on stdin, and writes its own.
#[test]
#[ignore = "a role of the tests below, started by them"]
fn importer() {
    let Ok(described) = std::env::var("UVA_CUDA_TEST_SHARED") else { return };
    let fields: Vec<&str> = described.split(' ').collect();
    let [kind, bytes_, allocated, device, fd, handle] = fields[..] else { panic!("{described}") };
    let metadata = SharedMetadata {
        kind: if kind == "vmm" { SharedKind::Vmm } else { SharedKind::Legacy },
        bytes: bytes_.parse().unwrap(),
        allocated: allocated.parse().unwrap(),
        device: device.to_owned(),
        handle: from_hex(handle.trim_start_matches('-')),
    };
    let fd: i32 = fd.parse().unwrap();
    // SAFETY: inherited from the parent for this purpose, and not used elsewhere here.
    let fd = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) });
    let context = Context::primary(0).unwrap();
    let stream = CudaStream::new(&context).unwrap();
    let buffer = SharedBuffer::import(&context, Exported { metadata, fd }, "the test's buffer").unwrap();
    println!("mapped");
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    assert!(
        from_device(&stream, buffer.address(), SHARED_BYTES) == bytes(SHARED_BYTES, 3),
        "the maker's bytes"
    );
    to_device(&stream, &bytes(SHARED_BYTES, 9), buffer.address());
    drop(buffer);
    println!("written");
}

/// Shares a buffer of that kind with another process, which reads it and writes it. With `leaves`, the maker's own
/// mapping is dropped before the other reads.
fn share_with_another_process(kind: IpcKind, expected: SharedKind, leaves: bool) {
    let context = Context::primary(0).unwrap();
    let stream = CudaStream::new(&context).unwrap();
    let buffer = SharedBuffer::create(&context, SHARED_BYTES, kind, "the test's buffer").unwrap();
    assert_eq!(buffer.kind(), expected);
    assert!(buffer.allocated() >= SHARED_BYTES && buffer.allocated().is_multiple_of(2 << 20));
    assert_eq!(buffer.slice(0..SHARED_BYTES).unwrap().bytes(), SHARED_BYTES);
    assert!(buffer.slice(1..SHARED_BYTES + 1).is_err(), "bytes added by rounding must not be readable");
    to_device(&stream, &bytes(SHARED_BYTES, 3), buffer.address());

    let Exported { metadata, fd } = buffer.export().unwrap();
    if let Some(fd) = &fd {
        let flags = rustix::io::fcntl_getfd(fd).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC), "no child inherits it by accident");
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).unwrap();
    }
    let described = format!(
        "{} {} {} {} {} -{}",
        metadata.kind.name(),
        metadata.bytes,
        metadata.allocated,
        metadata.device,
        fd.as_ref().map_or(-1, AsRawFd::as_raw_fd),
        hex(&metadata.handle)
    );
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::importer", "--nocapture", "--include-ignored"])
        .env("UVA_CUDA_TEST_SHARED", described)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(fd);
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut wait_for = |word: &str| {
        let mut line = String::new();
        while said.read_line(&mut line).unwrap() > 0 {
            // The test harness writes its own words at the beginning of the line.
            if line.trim_end().ends_with(word) {
                return;
            }
            line.clear();
        }
        panic!("the importer ended before it said `{word}`");
    };
    wait_for("mapped");
    let buffer = if leaves {
        drop(buffer);
        None
    } else {
        Some(buffer)
    };
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    wait_for("written");
    assert!(child.wait().unwrap().success());
    if let Some(buffer) = buffer {
        let seen = from_device(&stream, buffer.address(), SHARED_BYTES);
        assert!(seen == bytes(SHARED_BYTES, 9), "the importer's bytes");
    }
}

#[test]
fn memory_shared_by_descriptor_is_one_memory_in_two_processes() {
    if under("memory::memory_shared_by_descriptor_is_one_memory_in_two_processes", &[]) {
        share_with_another_process(IpcKind::Vmm, SharedKind::Vmm, false);
        share_with_another_process(IpcKind::Auto, SharedKind::Vmm, false);
    }
}

#[test]
fn memory_shared_by_descriptor_outlives_its_maker() {
    if under("memory::memory_shared_by_descriptor_outlives_its_maker", &[]) {
        share_with_another_process(IpcKind::Vmm, SharedKind::Vmm, true);
    }
}

#[test]
fn memory_shared_by_handle_is_one_memory_in_two_processes() {
    if under("memory::memory_shared_by_handle_is_one_memory_in_two_processes", &[]) {
        share_with_another_process(IpcKind::Legacy, SharedKind::Legacy, false);
    }
}

#[test]
fn without_descriptors_auto_takes_handles_and_vmm_is_refused() {
    let lacks = [("CUDA_SIM_LACKS", "vmm")];
    if !under("memory::without_descriptors_auto_takes_handles_and_vmm_is_refused", &lacks) {
        return;
    }
    share_with_another_process(IpcKind::Auto, SharedKind::Legacy, false);
    let context = Context::primary(0).unwrap();
    let error = SharedBuffer::create(&context, 1, IpcKind::Vmm, "the slots").unwrap_err();
    assert!(matches!(error, CudaError::Unsupported(_)), "{error:?}");
    assert!(error.to_string().contains("`ipc=legacy`"), "{error}");
}

#[test]
fn where_an_export_is_not_permitted_auto_takes_handles() {
    let fail = [("CUDA_SIM_FAIL", "cuMemExportToShareableHandle:*=800"), ("CUDA_SIM_MEMORY", "4194304")];
    if !under("memory::where_an_export_is_not_permitted_auto_takes_handles", &fail) {
        return;
    }
    let context = Context::primary(0).unwrap();
    // The whole device: the memory of earlier attempts has been given back.
    let buffer = SharedBuffer::create(&context, 4 << 20, IpcKind::Auto, "the slots").unwrap();
    assert_eq!(buffer.kind(), SharedKind::Legacy);
}

#[test]
fn a_buffer_that_does_not_fit_is_refused_with_what_is_free() {
    let small = [("CUDA_SIM_MEMORY", "67108864")];
    if !under("memory::a_buffer_that_does_not_fit_is_refused_with_what_is_free", &small) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let taken = DeviceBuffer::new(&context, 16 << 20, "something").unwrap();
    for kind in [IpcKind::Vmm, IpcKind::Legacy, IpcKind::Auto] {
        let error = SharedBuffer::create(&context, 60 << 20, kind, "2 feature slots of 30 MiB").unwrap_err();
        let CudaError::OutOfMemory { bytes, free, total, .. } = error else { panic!("{error:?}") };
        assert_eq!((bytes, free, total), (60 << 20, 48 << 20, 64 << 20));
        let text = error.to_string();
        for part in [
            "2 feature slots of 30 MiB",
            "60 MiB",
            "48 MiB of the device's 64 MiB",
            "`batch_size`",
            "`fanouts`",
            "`slots`",
        ] {
            assert!(text.contains(part), "`{part}` is missing in: {text}");
        }
    }
    assert!(matches!(DeviceBuffer::new(&context, 49 << 20, "x"), Err(CudaError::OutOfMemory { .. })));
    // A refusal allocates nothing: the free memory is still available.
    for kind in [IpcKind::Vmm, IpcKind::Legacy] {
        drop(SharedBuffer::create(&context, 48 << 20, kind, "the rest").unwrap());
    }
    drop(taken);
    SharedBuffer::create(&context, 64 << 20, IpcKind::Auto, "all").unwrap();
}

#[test]
fn a_mapping_that_fails_half_way_gives_everything_back() {
    // Each step once, one after another: the n-th create fails at the n-th step.
    let fail = "cuMemAddressReserve:1=2,cuMemMap:1=1,cuMemSetAccess:1=101";
    let machine = [("CUDA_SIM_FAIL", fail), ("CUDA_SIM_MEMORY", "4194304")];
    if !under("memory::a_mapping_that_fails_half_way_gives_everything_back", &machine) {
        return;
    }
    let context = Context::primary(0).unwrap();
    for (call, code) in [("cuMemAddressReserve", 2), ("cuMemMap", 1), ("cuMemSetAccess", 101)] {
        let error = SharedBuffer::create(&context, 4 << 20, IpcKind::Vmm, "the slots").unwrap_err();
        assert_eq!(error.code(), Some(code), "{error}");
        assert!(error.to_string().contains(call) && error.to_string().contains("the slots"), "{error}");
        assert_eq!(context.memory().unwrap().0, 4 << 20, "after {call}");
    }
    SharedBuffer::create(&context, 4 << 20, IpcKind::Vmm, "the slots").unwrap();
}

#[test]
fn what_arrives_broken_is_refused_before_it_is_mapped() {
    if !under("memory::what_arrives_broken_is_refused_before_it_is_mapped", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let buffer = SharedBuffer::create(&context, 100, IpcKind::Vmm, "the slots").unwrap();
    let good = buffer.export().unwrap();
    let refused = |metadata: SharedMetadata, fd: Option<OwnedFd>, part: &str| {
        let error = SharedBuffer::import(&context, Exported { metadata, fd }, "the slots").unwrap_err();
        assert!(error.to_string().contains(part), "`{part}` is missing in: {error}");
        error
    };
    let fd = || Some(good.fd.as_ref().unwrap().try_clone().unwrap());
    let metadata = &good.metadata;
    refused(SharedMetadata { device: "0000:99:00.0".to_owned(), ..metadata.clone() }, fd(), "0000:99:00.0");
    refused(metadata.clone(), None, "file descriptor");
    refused(SharedMetadata { bytes: 0, ..metadata.clone() }, fd(), "0 bytes");
    refused(SharedMetadata { bytes: metadata.allocated + 1, ..metadata.clone() }, fd(), "allocation of");
    let legacy = SharedMetadata { kind: SharedKind::Legacy, handle: vec![0; 63], ..metadata.clone() };
    refused(legacy.clone(), None, "63 bytes");
    // The driver's own refusals name the call.
    refused(SharedMetadata { handle: vec![0; 64], ..legacy }, None, "cuIpcOpenMemHandle");
    refused(
        metadata.clone(),
        Some(std::fs::File::open("/dev/null").unwrap().into()),
        "cuMemImportFromShareableHandle",
    );
    let larger = SharedMetadata { allocated: metadata.allocated * 2, ..metadata.clone() };
    refused(larger, fd(), "cuMemMap");
    // The complete one is mapped; and this process may import its own buffer.
    let again = SharedBuffer::import(&context, good, "the slots").unwrap();
    let stream = CudaStream::new(&context).unwrap();
    to_device(&stream, &bytes(100, 5), again.address());
    assert!(from_device(&stream, buffer.address(), 100) == bytes(100, 5));
}

// --- pinned tables ---

const PAGE: usize = 4096;

/// A file with some bytes before its table, as a .npy file has, mapped read-only.
struct FileTable {
    file: MappedFile,
    lead: usize,
}

impl TableBytes for FileTable {
    fn bytes(&self) -> &[u8] {
        &self.file.bytes()[self.lead..]
    }
}

fn file_table(length: usize, lead: usize) -> Arc<FileTable> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("feat.npy");
    let mut contents = vec![0x11; lead];
    contents.extend(bytes(length, 7));
    std::fs::write(&path, contents).unwrap();
    // The mapping outlives the name.
    Arc::new(FileTable { file: MappedFile::open(&path).unwrap(), lead })
}

fn chunks_of(pages: usize) -> PinOptions {
    PinOptions {
        chunk_bytes: pages * PAGE,
        what: "the feature table feat.npy".to_owned(),
        ..PinOptions::default()
    }
}

#[test]
fn a_mapped_file_is_pinned_in_place_in_chunks_that_start_on_pages() {
    if !under("memory::a_mapped_file_is_pinned_in_place_in_chunks_that_start_on_pages", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    for (length, lead, chunk_pages, chunks) in [
        (10 * PAGE, 128, 4, 3),
        (10 * PAGE, 0, 5, 2),
        (10 * PAGE, PAGE - 1, 1, 11),
        (1, 128, 1, 1),
        (3 * PAGE, 2 * PAGE + 5, 1 << 20, 1),
    ] {
        let owner = file_table(length, lead);
        let table = PinnedTable::new(&context, owner.clone(), &chunks_of(chunk_pages)).unwrap();
        let case =
            format!("{length} bytes after {lead} in chunks of {chunk_pages} pages: {:?}", table.report());
        assert_eq!((table.report().how, table.report().chunks), (PinHow::InPlaceReadOnly, chunks), "{case}");
        assert_eq!(table.report().bytes, length as u64, "{case}");
        assert!(
            table.report().pinned_bytes >= length as u64
                && table.report().pinned_bytes.is_multiple_of(PAGE as u64)
        );
        assert_eq!(table.report().refused, None, "{case}");
        // In the simulator, device addresses of host memory are host addresses.
        assert_eq!(table.address(), owner.bytes().as_ptr() as u64, "{case}");
        assert!(table.host() == bytes(length, 7), "{case}");
        // Pinned twice at once it can't be in place; once the first is released, it can.
        let second = PinnedTable::new(&context, owner.clone(), &chunks_of(chunk_pages)).unwrap();
        assert_eq!(second.report().how, PinHow::Copied);
        assert!(
            second.report().refused.as_ref().unwrap().contains("ALREADY_REGISTERED"),
            "{:?}",
            second.report()
        );
        drop(table);
        let third = PinnedTable::new(&context, owner, &chunks_of(chunk_pages)).unwrap();
        assert_eq!(third.report().how, PinHow::InPlaceReadOnly);
    }
}

#[test]
fn a_table_without_bytes_needs_no_pages() {
    if !under("memory::a_table_without_bytes_needs_no_pages", &[("CUDA_SIM_LACKS", "host_register")]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let table = PinnedTable::new(&context, Arc::new(Vec::new()), &PinOptions::default()).unwrap();
    assert_eq!((table.report().how, table.address(), table.bytes()), (PinHow::Empty, 0, 0));
    assert!(table.host().is_empty());
    // A table with bytes isn't available on such a device, and is refused before it's copied unnecessarily.
    let error = PinnedTable::new(&context, Arc::new(vec![1]), &chunks_of(1)).unwrap_err();
    assert!(matches!(error, CudaError::Unsupported(_)), "{error:?}");
    assert!(error.to_string().contains("`gather=cpu`") && error.to_string().contains("feat.npy"), "{error}");
}

/// Pins its bytes again when it's dropped: in place that only works if nothing has them pinned any longer.
struct LastWord {
    inner: Arc<Vec<u8>>,
    context: Arc<Context>,
    how: Arc<Mutex<Option<PinHow>>>,
}

impl TableBytes for LastWord {
    fn bytes(&self) -> &[u8] {
        &self.inner
    }

    fn is_writable(&self) -> bool {
        true
    }
}

impl Drop for LastWord {
    fn drop(&mut self) {
        let again = PinnedTable::new(&self.context, self.inner.clone(), &chunks_of(1)).unwrap();
        *self.how.lock().unwrap() = Some(again.report().how);
    }
}

#[test]
fn pages_are_unpinned_before_their_owner_is_dropped() {
    if !under("memory::pages_are_unpinned_before_their_owner_is_dropped", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let how = Arc::new(Mutex::new(None));
    let owner = LastWord { inner: Arc::new(bytes(9 * PAGE, 1)), context: context.clone(), how: how.clone() };
    let table = PinnedTable::new(&context, Arc::new(owner), &chunks_of(2)).unwrap();
    assert_eq!(*how.lock().unwrap(), None, "the table keeps its owner");
    drop(table);
    assert_eq!(*how.lock().unwrap(), Some(PinHow::InPlaceReadOnly));
}

#[test]
fn where_read_only_pages_cannot_be_pinned_a_copy_is() {
    let lacks = [("CUDA_SIM_LACKS", "read_only_register")];
    if !under("memory::where_read_only_pages_cannot_be_pinned_a_copy_is", &lacks) {
        return;
    }
    let context = Context::primary(0).unwrap();
    // More than a thread copies at a time.
    let length = (70 << 20) + 13;
    let owner = file_table(length, 128);
    let weak = Arc::downgrade(&owner);
    let table = PinnedTable::new(&context, owner, &chunks_of(5000)).unwrap();
    let report = table.report();
    assert_eq!(report.how, PinHow::Copied);
    assert_eq!(report.chunks, (length.div_ceil(PAGE)).div_ceil(5000), "{report:?}");
    assert!(report.refused.as_ref().unwrap().contains("read-only"), "{report:?}");
    assert!(report.pages.is_some());
    assert!(table.host() == bytes(length, 7), "the copy has the file's bytes");
    assert_eq!(table.address(), table.host().as_ptr() as u64);
    assert!(weak.upgrade().is_none(), "the file is no longer used");
    // Writable memory is pinned in place.
    let writable: Arc<Vec<u8>> = Arc::new(bytes(3 * PAGE, 2));
    let table = PinnedTable::new(&context, writable.clone(), &chunks_of(1)).unwrap();
    assert_eq!(table.report().how, PinHow::InPlace);
    assert_eq!(table.address(), writable.as_ptr() as u64);
    // And copied if requested.
    let copied = PinOptions { pages: PinPages::Thp, ..chunks_of(1) };
    let table = PinnedTable::new(&context, writable, &copied).unwrap();
    assert_eq!((table.report().how, table.report().chunks), (PinHow::Copied, 3));
    assert_eq!(table.report().refused, None);
}

#[test]
fn a_table_is_copied_to_the_requested_kind_of_pages() {
    if !under("memory::a_table_is_copied_to_the_requested_kind_of_pages", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let length = 3 * PAGE + 7;
    for (pages, name) in [
        (PinPages::InPlace, None),
        (PinPages::HostAlloc, Some("hostalloc")),
        (PinPages::Thp, Some("transparent-huge")),
    ] {
        let options = PinOptions { pages, others: false, ..chunks_of(2) };
        let table = match PinnedTable::new(&context, file_table(length, 128), &options) {
            // A system without transparent huge pages says so; there is nothing to compare then.
            Err(error) if pages == PinPages::Thp => {
                let text = error.to_string();
                assert!(
                    text.contains("`table_pages=thp`") && text.contains("transparent_hugepage"),
                    "{text}"
                );
                continue;
            }
            table => table.unwrap(),
        };
        let report = table.report();
        assert_eq!((report.pages, report.refused.as_deref()), (name, None), "{report:?}");
        assert_eq!(report.how == PinHow::Copied, pages != PinPages::InPlace, "{report:?}");
        assert!(report.pinned_bytes >= length as u64, "{report:?}");
        assert!(table.host() == bytes(length, 7), "{pages}");
        assert_eq!(table.address(), table.host().as_ptr() as u64, "{pages}");
    }
}

/// More than any machine has reserved, in a file of no pages.
#[test]
fn huge_pages_that_were_not_reserved_are_refused_by_name_or_replaced() {
    let test = "memory::huge_pages_that_were_not_reserved_are_refused_by_name_or_replaced";
    if !under(test, &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let length = HostMemory::read().unwrap().huge_pages as usize + PAGE;
    let pin = |others| {
        let options = PinOptions { pages: PinPages::Hugetlb, others, ..chunks_of(1 << 20) };
        PinnedTable::new(&context, file_table(length, 128), &options)
    };
    let error = pin(false).unwrap_err();
    assert_eq!(error.kind(), uva_cuda::ErrorKind::Missing, "{error:?}");
    let text = error.to_string();
    for part in
        ["`table_pages=hugetlb`", "feat.npy", "reserved pages", "nr_hugepages", "`table_pages=in-place`"]
    {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
    let table = pin(true).unwrap();
    let report = table.report();
    assert_eq!(report.how, PinHow::InPlaceReadOnly, "{report:?}");
    assert!(report.refused.as_ref().unwrap().starts_with("hugetlb: "), "{report:?}");
}

#[test]
fn pages_in_place_that_a_driver_refuses_are_not_copied_where_named() {
    let fail = [("CUDA_SIM_FAIL", "cuMemHostRegister:*=304")];
    if !under("memory::pages_in_place_that_a_driver_refuses_are_not_copied_where_named", &fail) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let options = PinOptions { others: false, ..chunks_of(2) };
    let error = PinnedTable::new(&context, file_table(3 * PAGE, 0), &options).unwrap_err();
    assert_eq!(error.to_string().matches("cuMemHostRegister").count(), 1, "{error}");
    // Memory that the driver allocates needs no registration.
    let options = PinOptions { pages: PinPages::HostAlloc, ..options };
    PinnedTable::new(&context, file_table(3 * PAGE, 0), &options).unwrap();
}

#[test]
fn without_memory_from_the_driver_the_tables_own_pages_are_used() {
    let fail = [("CUDA_SIM_FAIL", "cuMemHostAlloc:*=2")];
    if !under("memory::without_memory_from_the_driver_the_tables_own_pages_are_used", &fail) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let options = PinOptions { pages: PinPages::HostAlloc, ..chunks_of(2) };
    let table = PinnedTable::new(&context, file_table(3 * PAGE, 0), &options).unwrap();
    let report = table.report();
    assert_eq!(report.how, PinHow::InPlaceReadOnly, "{report:?}");
    assert!(report.refused.as_ref().unwrap().contains("hostalloc: cuMemHostAlloc"), "{report:?}");
    let named = PinOptions { others: false, ..options };
    assert!(PinnedTable::new(&context, file_table(3 * PAGE, 0), &named).is_err());
}

/// Fails the given call of cuMemHostRegister with the code, for tables of 6 chunks.
fn fault_in_a_chunk(test: &str, call: usize, code: u32, body: impl FnOnce(&Arc<Context>, Arc<FileTable>)) {
    if under(test, &[("CUDA_SIM_FAIL", &format!("cuMemHostRegister:{call}={code}"))]) {
        body(&Context::primary(0).unwrap(), file_table(12 * PAGE, 0));
    }
}

/// Expects that error, and no page of `owner` still pinned: otherwise it couldn't be pinned in place now.
fn fails_and_rolls_back(context: &Arc<Context>, owner: Arc<FileTable>, name: &str, part: &str) {
    let error = PinnedTable::new(context, owner.clone(), &chunks_of(2)).unwrap_err();
    let text = error.to_string();
    for expected in ["cuMemHostRegister", name, part, "feat.npy"] {
        assert!(text.contains(expected), "`{expected}` is missing in: {text}");
    }
    assert_eq!(Arc::strong_count(&owner), 1);
    let table = PinnedTable::new(context, owner, &chunks_of(2)).unwrap();
    assert_eq!(table.report().how, PinHow::InPlaceReadOnly, "{:?}", table.report());
}

#[test]
fn a_fault_in_the_first_chunk_leaves_nothing_pinned() {
    fault_in_a_chunk("memory::a_fault_in_the_first_chunk_leaves_nothing_pinned", 1, 999, |context, owner| {
        fails_and_rolls_back(context, owner, "CUDA_ERROR_UNKNOWN", "part 1 of 6");
    });
}

#[test]
fn a_fault_in_a_middle_chunk_leaves_nothing_pinned() {
    fault_in_a_chunk("memory::a_fault_in_a_middle_chunk_leaves_nothing_pinned", 4, 999, |context, owner| {
        fails_and_rolls_back(context, owner, "CUDA_ERROR_UNKNOWN", "part 4 of 6");
    });
}

#[test]
fn a_fault_in_the_last_chunk_leaves_nothing_pinned() {
    fault_in_a_chunk("memory::a_fault_in_the_last_chunk_leaves_nothing_pinned", 6, 999, |context, owner| {
        fails_and_rolls_back(context, owner, "CUDA_ERROR_UNKNOWN", "part 6 of 6");
    });
}

#[test]
fn pages_that_a_driver_refuses_are_copied_and_the_refusal_is_reported() {
    let test = "memory::pages_that_a_driver_refuses_are_copied_and_the_refusal_is_reported";
    fault_in_a_chunk(test, 4, 304, |context, owner| {
        let table = PinnedTable::new(context, owner.clone(), &chunks_of(2)).unwrap();
        let report = table.report();
        assert_eq!((report.how, report.chunks), (PinHow::Copied, 6), "{report:?}");
        let refused = report.refused.as_ref().unwrap();
        assert!(
            refused.contains("CUDA_ERROR_OPERATING_SYSTEM") && refused.contains("part 4 of 6"),
            "{refused}"
        );
        assert!(table.host() == owner.bytes());
        // The chunks before the fourth aren't pinned any more.
        let in_place = PinnedTable::new(context, owner, &chunks_of(2)).unwrap();
        assert_eq!(in_place.report().how, PinHow::InPlaceReadOnly);
    });
}

#[test]
fn a_refused_copy_reports_both_refusals() {
    let fail = [("CUDA_SIM_FAIL", "cuMemHostRegister:*=2")];
    if !under("memory::a_refused_copy_reports_both_refusals", &fail) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let error = PinnedTable::new(&context, file_table(3 * PAGE, 0), &chunks_of(2)).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("a copy, since in place it was refused"), "{text}");
    assert_eq!(text.matches("cuMemHostRegister").count(), 2, "{text}");
}

#[test]
fn a_table_larger_than_memory_is_refused_before_anything_is_pinned() {
    // A sparse file maps to any size; the preflight must refuse it before a page of it is touched.
    let fail = [("CUDA_SIM_FAIL", "cuMemHostRegister:*=999")];
    if !under("memory::a_table_larger_than_memory_is_refused_before_anything_is_pinned", &fail) {
        return;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(2 * HostMemory::read().unwrap().total).unwrap();
    let owner = Arc::new(FileTable { file: MappedFile::open(file.path()).unwrap(), lead: 0 });
    let error = PinnedTable::new(&Context::primary(0).unwrap(), owner, &chunks_of(1)).unwrap_err();
    assert!(matches!(error, CudaError::Preflight(_)), "{error:?}");
    let text = error.to_string();
    for part in ["feat.npy", "this machine's memory", "--feat-dtype f16", "`gpu_cache`"] {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// As on a guest whose memory grows, or with large caches of other processes: little is free, and the table would have
/// fitted.
#[test]
fn a_table_that_seems_too_large_is_pinned_with_a_warning_or_refused() {
    static WARNED: AtomicUsize = AtomicUsize::new(0);
    let test = "memory::a_table_that_seems_too_large_is_pinned_with_a_warning_or_refused";
    if !under(test, &[]) {
        return;
    }
    // A sparse file whose pages the simulator never reads: smaller than all memory, and larger than free memory ever
    // is.
    let bytes = (HostMemory::read().unwrap().total - (64 << 20)) / PAGE as u64 * PAGE as u64;
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(bytes).unwrap();
    let context = Context::primary(0).unwrap();
    let pin = |preflight| {
        let owner = Arc::new(FileTable { file: MappedFile::open(file.path()).unwrap(), lead: 0 });
        let warn = |text: &str| {
            assert!(text.contains("may not fit") && text.contains("`preflight="), "{text}");
            WARNED.fetch_add(1, Ordering::Relaxed);
        };
        let options = PinOptions { what: "feat.npy".to_owned(), preflight, warn, ..PinOptions::default() };
        PinnedTable::new(&context, owner, &options)
    };
    assert_eq!(pin(PreflightPolicy::default()).unwrap().report().how, PinHow::InPlaceReadOnly);
    assert_eq!(WARNED.load(Ordering::Relaxed), 1);
    let error = pin(PreflightPolicy::Refuse).unwrap_err();
    assert!(matches!(&error, CudaError::Preflight(text) if text.contains("may not fit")), "{error:?}");
    pin(PreflightPolicy::Off).unwrap();
    assert_eq!(WARNED.load(Ordering::Relaxed), 1, "a warning without a check");
}

// --- partitions ---

#[test]
fn a_green_partition_gets_whole_steps_of_multiprocessors_and_runs_work() {
    if !under("memory::a_green_partition_gets_whole_steps_of_multiprocessors_and_runs_work", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    for (asked, got) in [(1, 8), (8, 8), (9, 16), (13, 16)] {
        let partition = GreenPartition::new(&context, asked).unwrap();
        assert_eq!((partition.asked(), partition.multiprocessors()), (asked, got));
        let stream = partition.stream().unwrap();
        // The stream keeps the green context.
        drop(partition);
        let buffer = DeviceBuffer::new(&context, 100, "a test").unwrap();
        to_device(&stream, &bytes(100, 4), buffer.address());
        assert!(from_device(&stream, buffer.address(), 100) == bytes(100, 4));
    }
    for asked in [0, 133] {
        let error = GreenPartition::new(&context, asked).unwrap_err();
        assert!(error.to_string().contains("has 132"), "{error}");
    }
}

#[test]
fn partitions_of_one_split_have_no_multiprocessor_in_common() {
    let test = "memory::partitions_of_one_split_have_no_multiprocessor_in_common";
    if !under(test, &[("CUDA_SIM_STRICT", "green_groups")]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let split = GreenPartition::split(&context, &[13, 20]).unwrap();
    let counts: Vec<u32> = split.partitions.iter().map(GreenPartition::multiprocessors).collect();
    assert_eq!(counts, [16, 24]);
    // The rest is available to other contexts.
    let rest = split.rest.unwrap();
    assert_eq!(rest.multiprocessors(), 92);
    let rest = rest.partition(&context).unwrap();
    assert_eq!((rest.asked(), rest.multiprocessors()), (92, 92));
    rest.check_events().unwrap();
    // A separate split begins with the same multiprocessors again.
    let error = GreenPartition::new(&context, 8).unwrap_err();
    assert_eq!(error.code(), Some(915), "{error}");
    drop((split.partitions, rest));
    GreenPartition::new(&context, 8).unwrap();
    let error = GreenPartition::split(&context, &[100, 33]).unwrap_err();
    assert!(error.to_string().contains("100 and 33"), "{error}");
}

#[test]
fn an_event_of_a_partitions_stream_is_made_in_the_streams_own_context() {
    let test = "memory::an_event_of_a_partitions_stream_is_made_in_the_streams_own_context";
    if !under(test, &[("CUDA_SIM_STRICT", "green_events")]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let (partition, outside) =
        (GreenPartition::new(&context, 8).unwrap(), CudaStream::new(&context).unwrap());
    partition.check_events().unwrap();
    let inside = partition.stream().unwrap();
    let error = CudaEvent::local(&context).unwrap().record(&inside).unwrap_err();
    assert_eq!(error.code(), Some(400), "{error}");
    for (stream, other) in [(&inside, &outside), (&outside, &inside)] {
        let (local, timing) =
            (CudaEvent::local(stream.made_in()).unwrap(), CudaEvent::timing(stream.made_in()).unwrap());
        timing.record(stream).unwrap();
        local.record(stream).unwrap();
        other.wait(&local).unwrap();
        other.synchronize().unwrap();
        assert!(local.query().unwrap() && CudaEvent::elapsed_ms(&timing, &timing).unwrap() >= 0.0);
    }
    // The events' context is kept by them, and the thread is back in the primary one with the next call.
    let event = CudaEvent::local(inside.made_in()).unwrap();
    drop((partition, inside));
    assert!(event.query().unwrap());
    drop(event);
    outside.synchronize().unwrap();
}

#[test]
fn a_stamp_is_a_signal_between_streams_and_is_within_its_buffer() {
    if !under("memory::a_stamp_is_a_signal_between_streams_and_is_within_its_buffer", &[]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let buffer = SharedBuffer::create(&context, 256, IpcKind::Auto, "the slots").unwrap();
    clear_stamps(&buffer, 128..256).unwrap();
    StampSignal::check(&context, &buffer, 128).unwrap();
    let (one, other) = (CudaStream::new(&context).unwrap(), CudaStream::new(&context).unwrap());
    let second = StampSignal::new(&buffer, 136, 2).unwrap();
    second.wait(&other).unwrap();
    StampSignal::new(&buffer, 136, 1).unwrap().record(&one).unwrap();
    one.synchronize().unwrap();
    assert!(!other.query().unwrap());
    // The host can end the wait for a writer that has died.
    StampSignal::new(&buffer, 136, i64::MAX as u64).unwrap().write_now().unwrap();
    other.synchronize().unwrap();
    for at in [132, 252, 256] {
        assert!(StampSignal::new(&buffer, at, 1).is_err(), "{at}");
    }
}

#[test]
fn a_device_without_stream_memory_operations_says_so() {
    let test = "memory::a_device_without_stream_memory_operations_says_so";
    if !under(test, &[("CUDA_SIM_LACKS", "stream_memory_operations")]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let buffer = SharedBuffer::create(&context, 64, IpcKind::Auto, "the slots").unwrap();
    let error = StampSignal::check(&context, &buffer, 0).unwrap_err();
    assert!(error.to_string().contains("stream memory operations"), "{error}");
}

#[test]
fn a_device_without_green_contexts_says_so() {
    if !under("memory::a_device_without_green_contexts_says_so", &[("CUDA_SIM_LACKS", "green")]) {
        return;
    }
    let error = GreenPartition::new(&Context::primary(0).unwrap(), 8).unwrap_err();
    assert_eq!((error.code(), error.kind()), (Some(801), uva_cuda::ErrorKind::Missing), "{error}");
}

#[test]
fn shares_of_two_devices_are_one_range_and_outlive_who_made_them() {
    const TEST: &str = "memory::shares_of_two_devices_are_one_range_and_outlive_who_made_them";
    if !under(TEST, &[("CUDA_SIM_DEVICES", "2")]) {
        return;
    }
    const MIB: usize = 1 << 20;
    let contexts = [0, 1].map(|device| Context::primary(device).unwrap());
    let [first, second] = contexts.each_ref().map(|context| Share::new(context, 3 * MIB, "a test").unwrap());
    assert_eq!((first.bytes(), second.bytes()), (4 * MIB, 4 * MIB));
    let (of_first, of_second) = (first.export().unwrap(), second.export().unwrap());
    let first = JoinedMemory::new(first, 0, vec![of_second]).unwrap();
    let second = JoinedMemory::new(second, 1, vec![of_first]).unwrap();
    assert_eq!((first.bytes(), second.bytes()), (8 * MIB, 8 * MIB));
    let [on_first, on_second] = contexts.each_ref().map(|context| CudaStream::new(context).unwrap());
    // Across the border of the two.
    let data = bytes(6 * MIB, 3);
    to_device(&on_first, &data, first.address() + MIB as u64);
    drop(first);
    assert!(from_device(&on_second, second.address() + MIB as u64, data.len()) == data);
}

fn check_reach(of_another: bool) {
    let [first, second] = [0, 1].map(|device| Context::primary(device).unwrap());
    let (first, second) = (first.device(), second.device());
    assert_eq!(first.can_read_memory_of(first.uuid()).unwrap(), Some(true));
    assert_eq!(first.can_read_memory_of(second.uuid()).unwrap(), Some(of_another));
    assert_eq!(first.can_read_memory_of("GPU-of-nobody").unwrap(), None);
}

#[test]
fn a_device_reads_visible_memory_of_other_devices_where_supported() {
    const TEST: &str = "memory::a_device_reads_visible_memory_of_other_devices_where_supported";
    if under(TEST, &[("CUDA_SIM_DEVICES", "2")]) {
        check_reach(true);
    }
}

#[test]
fn a_machine_without_peer_access_says_so() {
    let lacks = [("CUDA_SIM_DEVICES", "2"), ("CUDA_SIM_LACKS", "peer_access")];
    if under("memory::a_machine_without_peer_access_says_so", &lacks) {
        check_reach(false);
    }
}

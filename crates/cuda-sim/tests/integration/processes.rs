//! The simulated driver between processes: shared events and memory, faults by the environment, MPS, and deaths.
//!
//! A test starts its peer as another test of this executable, marked `ignore`, with a channel for messages. Messages
//! are a word each; shared objects are sent with them.

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command};
use std::ptr::null_mut;
use std::time::Duration;

use crate::common::*;
use crate::{code, ok};
use uva_mem::handover::Channel;
use uva_mem::spawn::Inherit;

/// The variable with the number of a peer's channel.
const CHANNEL: &str = "CUDA_SIM_TEST_CHANNEL";

/// Starts the test `role` of this executable as a peer, under the simulator. Dropping the value ends it.
struct Peer {
    child: Child,
    channel: Channel,
}

impl Peer {
    fn start(role: &str, variables: &[(&str, &str)]) -> Self {
        let (channel, theirs) = Channel::pair().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", role, "--nocapture", "--include-ignored"]).envs(variables.iter().copied());
        cuda_sim::environment(&mut command);
        let inherit = Inherit { channel: Some(theirs), ..Inherit::default() };
        let number = inherit.apply(&mut command).unwrap();
        command.env(CHANNEL, number.to_string());
        let child = command.spawn().unwrap();
        Self { child, channel }
    }

    fn finish(mut self) {
        assert!(self.child.wait().unwrap().success());
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The channel of a peer; `None` if its test was started by hand.
fn channel() -> Option<Channel> {
    let number = std::env::var(CHANNEL).ok()?;
    Some(Channel::from_inherited(number.parse().unwrap()).unwrap())
}

fn say(channel: &Channel, word: &[u8]) {
    channel.send(word, &[]).unwrap();
}

fn hear(channel: &Channel) -> Vec<u8> {
    channel.recv_within(Duration::from_secs(60)).unwrap().payload
}

fn event_handle(event: CUevent) -> [u8; 64] {
    let mut handle = sys::CUipcEventHandle { reserved: [0; 64] };
    ok!(cuIpcGetEventHandle(&mut handle, event));
    handle.reserved.map(|byte| byte as u8)
}

fn open_event(bytes: &[u8]) -> Result<CUevent, CUresult> {
    let mut handle = sys::CUipcEventHandle { reserved: [0; 64] };
    for (to, from) in handle.reserved.iter_mut().zip(bytes) {
        *to = *from as _;
    }
    let mut event = null_mut();
    match code!(cuIpcOpenEventHandle(&mut event, handle)) {
        CUresult::CUDA_SUCCESS => Ok(event),
        code => Err(code),
    }
}

fn memory_handle(address: CUdeviceptr) -> [u8; 64] {
    let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
    ok!(cuIpcGetMemHandle(&mut handle, address));
    handle.reserved.map(|byte| byte as u8)
}

fn open_memory(bytes: &[u8], flags: u32) -> Result<CUdeviceptr, CUresult> {
    let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
    for (to, from) in handle.reserved.iter_mut().zip(bytes) {
        *to = *from as _;
    }
    let mut address = 0;
    match code!(cuIpcOpenMemHandle_v2(&mut address, handle, flags)) {
        CUresult::CUDA_SUCCESS => Ok(address),
        code => Err(code),
    }
}

/// Fills its memory in a stream that it holds, and releases the stream on request; stays until requested to end.
#[test]
#[ignore = "the peer of other tests"]
fn peer_that_fills_memory() {
    let Some(channel) = channel() else { return };
    start();
    let (stream, address, done) = (stream(), device_memory(5000), event(INTERPROCESS));
    say(&channel, &[&memory_handle(address)[..], &event_handle(done)[..]].concat());
    for round in 1.. {
        let gate = Gate::close(stream);
        ok!(cuMemsetD8Async(address, round, 5000, stream));
        ok!(cuEventRecord(done, stream));
        say(&channel, b"recorded");
        match &hear(&channel)[..] {
            b"go" => gate.open(),
            _ => return,
        }
        hear(&channel);
    }
}

#[test]
fn a_stream_waits_for_another_processs_event_and_sees_its_bytes() {
    if !cuda_sim::in_process("processes::a_stream_waits_for_another_processs_event_and_sees_its_bytes") {
        return;
    }
    start();
    let peer = Peer::start("processes::peer_that_fills_memory", &[("CUDA_SIM_DELAY_US", "100")]);
    let handles = hear(&peer.channel);
    // The flag is required, as by the driver.
    assert_eq!(open_memory(&handles[..64], 0), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
    let address = open_memory(&handles[..64], 1).unwrap();
    let filled = open_event(&handles[64..]).unwrap();
    let (stream, copy) = (stream(), device_memory(5000));
    for round in 1..4 {
        assert_eq!(hear(&peer.channel), b"recorded");
        ok!(cuStreamWaitEvent(stream, filled, 0));
        ok!(cuMemcpyDtoDAsync_v2(copy, address, 5000, stream));
        assert_eq!(code!(cuEventQuery(filled)), CUresult::CUDA_ERROR_NOT_READY);
        assert_eq!(code!(cuStreamQuery(stream)), CUresult::CUDA_ERROR_NOT_READY);
        say(&peer.channel, b"go");
        ok!(cuStreamSynchronize(stream));
        ok!(cuEventQuery(filled));
        assert_eq!(read(copy, 5000), [round; 5000]);
        say(&peer.channel, b"next");
    }
    // Opened twice, it has one address, and is closed as often. Imported memory is not exported again.
    assert_eq!(open_memory(&handles[..64], 1), Ok(address));
    let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
    assert_eq!(code!(cuIpcGetMemHandle(&mut handle, address)), CUresult::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuMemFree_v2(address)), CUresult::CUDA_ERROR_INVALID_VALUE);
    ok!(cuIpcCloseMemHandle(address));
    ok!(cuIpcCloseMemHandle(address));
    assert_eq!(code!(cuIpcCloseMemHandle(address)), CUresult::CUDA_ERROR_INVALID_VALUE);
    hear(&peer.channel);
    say(&peer.channel, b"end");
    peer.finish();
}

#[test]
fn nothing_completes_the_events_of_a_killed_process() {
    if !cuda_sim::in_process("processes::nothing_completes_the_events_of_a_killed_process") {
        return;
    }
    start();
    let mut peer = Peer::start("processes::peer_that_fills_memory", &[]);
    let handles = hear(&peer.channel);
    let address = open_memory(&handles[..64], 1).unwrap();
    let filled = open_event(&handles[64..]).unwrap();
    hear(&peer.channel);
    let (waiting, own) = (stream(), stream());
    ok!(cuStreamWaitEvent(waiting, filled, 0));
    peer.kill();
    assert_eq!(code!(cuEventQuery(filled)), CUresult::CUDA_ERROR_NOT_READY);
    assert_eq!(code!(cuStreamQuery(waiting)), CUresult::CUDA_ERROR_NOT_READY);
    // Nothing else is blocked: not other streams, not destroying the waiting one, not the end of this process.
    ok!(cuMemsetD8Async(address, 1, 5000, own));
    ok!(cuStreamSynchronize(own));
    ok!(cuStreamDestroy_v2(waiting));
    ok!(cuEventDestroy_v2(filled));
    ok!(cuIpcCloseMemHandle(address));
    // Handles of a dead process are invalid.
    assert_eq!(open_memory(&handles[..64], 1), Err(CUresult::CUDA_ERROR_MAP_FAILED));
    assert_eq!(open_event(&handles[64..]), Err(CUresult::CUDA_ERROR_MAP_FAILED));
    ok!(cuDevicePrimaryCtxRelease_v2(0));
}

#[test]
fn a_process_does_not_open_its_own_handles() {
    if !cuda_sim::in_process("processes::a_process_does_not_open_its_own_handles") {
        return;
    }
    start();
    let address = device_memory(100);
    // An address inside refers to the whole allocation.
    let handle = memory_handle(address + 50);
    assert_eq!(handle, memory_handle(address));
    assert_eq!(open_memory(&handle, 1), Err(CUresult::CUDA_ERROR_INVALID_CONTEXT));
    let handle = event_handle(event(INTERPROCESS));
    assert_eq!(open_event(&handle), Err(CUresult::CUDA_ERROR_INVALID_CONTEXT));
    assert_eq!(open_event(&[0; 64]), Err(CUresult::CUDA_ERROR_INVALID_VALUE));
    let mut handle = sys::CUipcEventHandle { reserved: [0; 64] };
    assert_eq!(code!(cuIpcGetEventHandle(&mut handle, event(2))), CUresult::CUDA_ERROR_INVALID_HANDLE);
}

const VMM_BYTES: usize = 2 << 20;
const FD: sys::CUmemAllocationHandleType =
    sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

fn map_physical(handle: u64) -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAddressReserve(&mut address, VMM_BYTES, 0, 0, 0));
    ok!(cuMemMap(address, VMM_BYTES, 0, handle, 0));
    let location = sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: 0 };
    let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ok!(cuMemSetAccess(address, VMM_BYTES, &sys::CUmemAccessDesc { location, flags }, 1));
    address
}

/// Receives memory over the channel, fills it, and reports that.
#[test]
#[ignore = "the peer of other tests"]
fn peer_that_takes_a_descriptor() {
    let Some(channel) = channel() else { return };
    start();
    let received = channel.recv_within(Duration::from_secs(60)).unwrap();
    let number = received.fds[0].as_raw_fd() as usize as *mut c_void;
    let mut handle = 0;
    ok!(cuMemImportFromShareableHandle(&mut handle, number, FD));
    let address = map_physical(handle);
    ok!(cuMemsetD8Async(address, 99, VMM_BYTES, null_mut()));
    ok!(cuStreamSynchronize(null_mut()));
    say(&channel, b"filled");
}

#[test]
fn physical_memory_passes_over_a_socket_and_outlives_both_processes() {
    if !cuda_sim::in_process("processes::physical_memory_passes_over_a_socket_and_outlives_both_processes") {
        return;
    }
    start();
    let peer = Peer::start("processes::peer_that_takes_a_descriptor", &[]);
    let location = sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: 0 };
    let property = sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: FD,
        location,
        win32HandleMetaData: null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    };
    let (mut handle, mut fd) = (0, -1_i32);
    ok!(cuMemCreate(&mut handle, VMM_BYTES, &property, 0));
    ok!(cuMemExportToShareableHandle((&raw mut fd).cast(), handle, FD, 0));
    // SAFETY: the driver has just passed on ownership of the descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let address = map_physical(handle);
    ok!(cuMemRelease(handle));
    peer.channel.send(b"take", &[fd.as_fd()]).unwrap();
    drop(fd);
    assert_eq!(hear(&peer.channel), b"filled");
    peer.finish();
    assert_eq!(read(address, VMM_BYTES), vec![99; VMM_BYTES]);
}

#[test]
fn the_nth_call_fails_and_a_fault_stays() {
    let faults = "cuMemAlloc:2=OUT_OF_MEMORY,cuStreamQuery:1=719,someone-else:cuInit:*=100";
    if !cuda_sim::in_process_with(
        "processes::the_nth_call_fails_and_a_fault_stays",
        &[("CUDA_SIM_FAIL", faults)],
    ) {
        return;
    }
    start();
    let mut address = 0;
    ok!(cuMemAlloc_v2(&mut address, 1));
    assert_eq!(code!(cuMemAlloc_v2(&mut address, 1)), CUresult::CUDA_ERROR_OUT_OF_MEMORY);
    ok!(cuMemAlloc_v2(&mut address, 1));
    let lost = CUresult::CUDA_ERROR_LAUNCH_FAILED;
    assert_eq!(code!(cuStreamQuery(null_mut())), lost);
    assert_eq!(code!(cuStreamQuery(null_mut())), lost);
    assert_eq!(code!(cuMemFree_v2(address)), lost);
}

#[test]
fn a_wrong_environment_is_refused_by_cu_init() {
    if !cuda_sim::in_process_with(
        "processes::a_wrong_environment_is_refused_by_cu_init",
        &[("CUDA_SIM_LACKS", "warp")],
    ) {
        return;
    }
    assert_eq!(code!(cuInit(0)), CUresult::CUDA_ERROR_INVALID_VALUE);
    let mut count = 0;
    assert_eq!(code!(cuDeviceGetCount(&mut count)), CUresult::CUDA_ERROR_NOT_INITIALIZED);
}

/// The counts that processes left in a folder, added up.
fn counts(folder: &Path) -> Vec<(String, u64)> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let texts = files.map(|path| std::fs::read_to_string(path).unwrap()).collect::<Vec<_>>();
    let lines = texts.iter().flat_map(|text| text.lines());
    lines
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, n)| (name.to_owned(), n.parse().unwrap()))
        .collect()
}

#[test]
fn counts_are_exact_in_a_killed_process_too_and_nothing_else_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let listed = |path: &str| {
        let mut names: Vec<_> =
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        // PyTorch's workers create and remove files there, among them those of our Python tests.
        names.retain(|name| !name.as_encoded_bytes().starts_with(b"torch_"));
        names.sort();
        names
    };
    let before = listed("/dev/shm");
    let mut peer = Peer::start(
        "processes::peer_that_fills_memory",
        &[("CUDA_SIM_COUNTS", folder.path().to_str().unwrap())],
    );
    hear(&peer.channel);
    assert_eq!(hear(&peer.channel), b"recorded");
    peer.kill();
    let counts = counts(folder.path());
    let count = |name: &str| counts.iter().find(|(known, _)| known == name).map(|(_, n)| *n);
    assert_eq!(count("cuInit"), Some(1));
    assert_eq!(count("cuMemAlloc_v2"), Some(1));
    assert_eq!(count("cuEventRecord"), Some(1));
    assert_eq!(count("cuMemFree_v2"), None);
    assert_eq!(listed("/dev/shm"), before);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Prints the number of multiprocessors, and whether MPS is in use.
#[test]
#[ignore = "the peer of other tests"]
fn peer_that_requests_multiprocessors() {
    let Some(channel) = channel() else { return };
    ok!(cuInit(0));
    use sys::CUdevice_attribute as A;
    let (mut count, mut mps) = (-1, -1);
    ok!(cuDeviceGetAttribute(&mut count, A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    ok!(cuDeviceGetAttribute(&mut mps, A::CU_DEVICE_ATTRIBUTE_MPS_ENABLED, 0));
    say(&channel, format!("{count} {mps}").as_bytes());
}

#[test]
fn a_percentage_counts_only_while_an_mps_daemon_lives() {
    let ask = |folder: &Path, percentage: &str| {
        let variables = [
            ("CUDA_MPS_PIPE_DIRECTORY", folder.to_str().unwrap()),
            ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percentage),
        ];
        let peer = Peer::start("processes::peer_that_requests_multiprocessors", &variables);
        let answer = String::from_utf8(hear(&peer.channel)).unwrap();
        peer.finish();
        answer
    };
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("nvidia-cuda-mps-control.pid");
    assert_eq!(ask(folder.path(), "10"), "132 0");
    std::fs::write(folder.path().join("control"), "").unwrap();
    std::fs::write(&pid_file, std::process::id().to_string()).unwrap();
    assert_eq!(ask(folder.path(), "10"), "13 1");
    assert_eq!(ask(folder.path(), "100"), "132 1");
    // A daemon that has ended does not count, even if it is a zombie.
    let mut ended = Command::new("true").spawn().unwrap();
    std::fs::write(&pid_file, ended.id().to_string()).unwrap();
    let stat = format!("/proc/{}/stat", ended.id());
    eventually("the process ends", || std::fs::read_to_string(&stat).unwrap().contains(") Z"));
    assert_eq!(ask(folder.path(), "10"), "132 0");
    ended.wait().unwrap();
    assert_eq!(ask(folder.path(), "10"), "132 0");
}

/// A client with work in flight that never ends: it reports that, and then waits to be killed, or ends on request.
#[test]
#[ignore = "the peer of other tests"]
fn peer_that_is_a_client_of_mps() {
    let Some(channel) = channel() else { return };
    // SAFETY: as for every call of the tests.
    let code = unsafe { sys::cuInit(0) } as u32;
    say(&channel, code.to_string().as_bytes());
    if code != 0 {
        return;
    }
    start();
    let (stream, word) = (stream(), device_memory(64));
    if hear(&channel) == b"work" {
        ok!(cuMemsetD8Async(word, 0, 64, stream));
        ok!(cuStreamWaitValue64_v2(stream, word, 1, 0));
    }
    say(&channel, b"ready");
    hear(&channel);
}

#[test]
fn a_killed_client_of_mps_with_work_in_flight_takes_the_server_down() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("control"), "").unwrap();
    let pid_file = folder.path().join("nvidia-cuda-mps-control.pid");
    std::fs::write(&pid_file, std::process::id().to_string()).unwrap();
    let client = |strict: &str| {
        let variables =
            [("CUDA_MPS_PIPE_DIRECTORY", folder.path().to_str().unwrap()), ("CUDA_SIM_STRICT", strict)];
        let peer = Peer::start("processes::peer_that_is_a_client_of_mps", &variables);
        let code: u32 = String::from_utf8(hear(&peer.channel)).unwrap().parse().unwrap();
        (peer, code)
    };
    let working = |work: &str| {
        let (peer, code) = client("mps");
        assert_eq!(code, 0);
        say(&peer.channel, work.as_bytes());
        assert_eq!(hear(&peer.channel), b"ready");
        peer
    };
    // Killed while idle; ended with work in flight; killed with work in flight, after the daemon was notified.
    working("none").kill();
    let peer = working("work");
    say(&peer.channel, b"end");
    peer.finish();
    let mut released = working("work");
    std::fs::write(folder.path().join(format!("terminated-{}", released.child.id())), "").unwrap();
    released.kill();
    let mut lost = working("work");
    lost.kill();
    assert_eq!(client("mps").1, CUresult::CUDA_ERROR_MPS_RPC_FAILURE as u32);
    // Where the rule does not hold, no check is made, and another daemon does not apply it.
    let (lenient, code) = client("");
    assert_eq!(code, 0);
    drop(lenient);
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    std::fs::write(&pid_file, other.id().to_string()).unwrap();
    assert_eq!(client("mps").1, 0);
    other.kill().unwrap();
    other.wait().unwrap();
}

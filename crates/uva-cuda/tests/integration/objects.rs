//! Contexts, streams and events, under the simulator.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::Arc;

use uva_cuda::memory::{DeviceBuffer, PinnedBuffer, device_to_host, fill};
use uva_cuda::{Context, CudaError, CudaEvent, CudaStream, Device, ErrorKind, Feature, probe};

use crate::common::{Hold, kernels, simulated};

#[test]
fn a_device_reports_its_properties() {
    if !cuda_sim::in_process("objects::a_device_reports_its_properties") {
        return;
    }
    let report = probe();
    assert_eq!(report.unavailable, None);
    assert_eq!(report.driver.as_deref(), Some("13.0"));
    assert!(report.simulator);
    let [device] = report.devices.as_slice() else { panic!("{report:?}") };
    assert_eq!((device.ordinal, device.capability, device.multiprocessors), (0, (9, 0), 132));
    assert!(
        device.total_memory > 0 && !device.name.is_empty() && device.uuid.starts_with("GPU-"),
        "{device:?}"
    );
    assert!(!device.mps_enabled);
    let device = Device::new(0).unwrap();
    for feature in Feature::ALL {
        assert!(device.supports(feature).unwrap(), "{feature:?}");
    }
}

#[test]
fn a_missing_device_is_refused_by_its_number() {
    if !cuda_sim::in_process("objects::a_missing_device_is_refused_by_its_number") {
        return;
    }
    let error = Context::primary(3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("no CUDA device 3"), "{error}");
}

#[test]
fn objects_work_on_threads_that_never_saw_their_context() {
    if !cuda_sim::in_process("objects::objects_work_on_threads_that_never_saw_their_context") {
        return;
    }
    let context = Context::primary(0).unwrap();
    let stream = CudaStream::new(&context).unwrap();
    let event = CudaEvent::local(&context).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            event.record(&stream).unwrap();
            event.synchronize().unwrap();
            assert!(event.query().unwrap());
            assert!(stream.query().unwrap());
            context.synchronize().unwrap();
            let (free, total) = context.memory().unwrap();
            assert!(free <= total && total > 0);
        });
    });
    // Dropped on a thread that has no context current either.
    std::thread::spawn(move || drop((event, stream, context))).join().unwrap();
}

#[test]
fn a_wait_orders_two_streams() {
    if !cuda_sim::in_process_with("objects::a_wait_orders_two_streams", &[("CUDA_SIM_WATCHDOG", "1")]) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    let (writer, reader) = (CudaStream::new(&context).unwrap(), CudaStream::new(&context).unwrap());
    let written = CudaEvent::local(&context).unwrap();
    let memory = DeviceBuffer::new(&context, 1 << 16, "a test").unwrap();
    let mut seen = PinnedBuffer::new(&context, 1 << 16, "a test").unwrap();
    let other = CudaStream::new(&context).unwrap();
    let scratch = DeviceBuffer::new(&context, 1 << 16, "a test").unwrap();
    // From here on nothing is allocated or freed: a driver may let that wait for the writer, which waits for this test.
    let hold = Hold::new(&context, &kernels, &writer);
    // SAFETY: the buffer has this many bytes and lives until both streams have been waited for.
    unsafe { fill(&writer, memory.address(), 7, memory.bytes()) }.unwrap();
    written.record(&writer).unwrap();
    reader.wait(&written).unwrap();
    // SAFETY: as above; `seen` is not read before.
    unsafe { device_to_host(&reader, memory.address(), seen.as_mut_slice()) }.unwrap();
    // Everything is enqueued, and nothing may happen: the writer is held. Other streams make progress meanwhile, and so
    // would the reader if it did not wait.
    for _ in 0..100 {
        // SAFETY: the buffer has this many bytes and lives until the stream has been waited for.
        unsafe { fill(&other, scratch.address(), 1, scratch.bytes()) }.unwrap();
        other.synchronize().unwrap();
        assert!(!writer.query().unwrap());
        assert!(!reader.query().unwrap());
        assert!(!written.query().unwrap());
    }
    hold.let_go();
    reader.synchronize().unwrap();
    assert!(seen.as_slice().iter().all(|byte| *byte == 7));
    writer.synchronize().unwrap();
}

#[test]
fn a_wait_sees_only_what_was_recorded_before_it() {
    if !cuda_sim::in_process_with(
        "objects::a_wait_sees_only_what_was_recorded_before_it",
        &[("CUDA_SIM_WATCHDOG", "1")],
    ) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    let (held, free) = (CudaStream::new(&context).unwrap(), CudaStream::new(&context).unwrap());
    let event = CudaEvent::local(&context).unwrap();
    assert!(event.query().unwrap(), "never recorded");
    let hold = Hold::new(&context, &kernels, &held);
    free.wait(&event).unwrap();
    event.record(&held).unwrap();
    // Would never return if the wait saw the later record.
    free.synchronize().unwrap();
    assert!(!event.query().unwrap());
    hold.let_go();
    event.synchronize().unwrap();
}

#[test]
fn only_events_with_timing_measure_time() {
    if !cuda_sim::in_process("objects::only_events_with_timing_measure_time") {
        return;
    }
    let context = Context::primary(0).unwrap();
    let stream = CudaStream::new(&context).unwrap();
    let (start, end) = (CudaEvent::timing(&context).unwrap(), CudaEvent::timing(&context).unwrap());
    let never = CudaEvent::timing(&context).unwrap();
    let timeless = CudaEvent::local(&context).unwrap();
    for event in [&start, &end, &timeless] {
        event.record(&stream).unwrap();
    }
    stream.synchronize().unwrap();
    assert!(CudaEvent::elapsed_ms(&start, &end).unwrap() >= 0.0);
    for (one, other) in [(&start, &timeless), (&start, &never)] {
        let error = CudaEvent::elapsed_ms(one, other).unwrap_err();
        assert_eq!(error.code(), Some(400), "{error}");
    }
}

#[test]
fn a_foreign_stream_outlives_its_value() {
    if !cuda_sim::in_process("objects::a_foreign_stream_outlives_its_value") {
        return;
    }
    let context = Context::primary(0).unwrap();
    let own = CudaStream::new(&context).unwrap();
    for raw in [own.raw(), std::ptr::null_mut()] {
        // SAFETY: `own` lives longer; null is the legacy default stream.
        let foreign = unsafe { CudaStream::foreign(&context, raw) };
        assert_eq!(foreign.raw(), raw);
        foreign.synchronize().unwrap();
    }
    own.synchronize().unwrap();
    assert!(own.query().unwrap());
}

#[test]
fn an_event_without_the_flag_for_it_cannot_be_exported() {
    if !cuda_sim::in_process("objects::an_event_without_the_flag_for_it_cannot_be_exported") {
        return;
    }
    let context = Context::primary(0).unwrap();
    let error = CudaEvent::local(&context).unwrap().export().unwrap_err();
    assert!(error.to_string().starts_with("cuIpcGetEventHandle failed while exporting an event"), "{error}");
    assert!(matches!(error, CudaError::Call { .. }));
}

/// One end of a conversation in lines over pipes.
struct Lines<R, W> {
    from: R,
    to: W,
}

impl<R: BufRead, W: Write> Lines<R, W> {
    fn say(&mut self, line: &str) {
        writeln!(self.to, "SAYS {line}").unwrap();
        self.to.flush().unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.from.read_line(&mut line).unwrap(), 0, "the other side has ended");
            if let Some((_, said)) = line.trim_end().split_once("SAYS ") {
                return said.to_owned();
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> [u8; 64] {
    std::array::from_fn(|index| u8::from_str_radix(&text[2 * index..][..2], 16).unwrap())
}

#[test]
#[ignore = "run by another test, which talks to it"]
fn opens_an_event_of_its_parent() {
    let mut parent = Lines { from: std::io::stdin().lock(), to: std::io::stdout() };
    let context = Context::primary(0).unwrap();
    let stream = CudaStream::new(&context).unwrap();
    let ready = CudaEvent::import(&context, from_hex(&parent.hear())).unwrap();
    let free = CudaEvent::interprocess(&context).unwrap();
    parent.say(&hex(&free.export().unwrap()));

    assert_eq!(parent.hear(), "recorded");
    assert!(!ready.query().unwrap());
    stream.wait(&ready).unwrap();
    free.record(&stream).unwrap();
    assert!(!free.query().unwrap());
    parent.say("enqueued");

    stream.synchronize().unwrap();
    assert!(ready.query().unwrap());
    parent.say("done");
    assert_eq!(parent.hear(), "opened and waited for");
}

#[test]
fn events_order_the_streams_of_two_processes() {
    if !cuda_sim::in_process_with(
        "objects::events_order_the_streams_of_two_processes",
        &[("CUDA_SIM_WATCHDOG", "1")],
    ) {
        return;
    }
    let context = Context::primary(0).unwrap();
    let kernels = kernels(&context);
    let stream = CudaStream::new(&context).unwrap();
    let ready = CudaEvent::interprocess(&context).unwrap();
    let mut child = simulated("objects::opens_an_event_of_its_parent")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut peer =
        Lines { from: BufReader::new(child.stdout.take().unwrap()), to: child.stdin.take().unwrap() };
    peer.say(&hex(&ready.export().unwrap()));
    let free = CudaEvent::import(&context, from_hex(&peer.hear())).unwrap();
    assert!(free.query().unwrap(), "never recorded");

    let later = CudaStream::new(&context).unwrap();
    let hold = Hold::new(&context, &kernels, &stream);
    ready.record(&stream).unwrap();
    peer.say("recorded");
    // The child's stream waits for ours, which is held, and the child's record waits after that.
    assert_eq!(peer.hear(), "enqueued");
    assert!(!free.query().unwrap());
    later.wait(&free).unwrap();
    assert!(!later.query().unwrap());
    hold.let_go();
    later.synchronize().unwrap();
    assert_eq!(peer.hear(), "done");
    assert!(free.query().unwrap());
    drop(free);
    peer.say("opened and waited for");
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_event_of_a_dead_peer_is_dropped_without_a_call() {
    if !cuda_sim::in_process("objects::an_event_of_a_dead_peer_is_dropped_without_a_call") {
        return;
    }
    let context = Context::primary(0).unwrap();
    let holders = Arc::strong_count(&context);
    let event = CudaEvent::interprocess(&context).unwrap();
    assert_eq!(Arc::strong_count(&context), holders + 1);
    event.forget();
    // Not even the context is retained.
    assert_eq!(Arc::strong_count(&context), holders);
}

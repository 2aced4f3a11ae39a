//! The ring between threads of one process, and misuse of its handles.

use std::sync::atomic::{AtomicBool, Ordering};

use uva_mem::PageKind;
use uva_mem::ring::{AlwaysAlive, PeerGone, Ring, RingError, RingShape};

fn ring(slots: u32, payload_bytes: usize) -> Ring {
    Ring::create("test", RingShape { slots, payload_bytes }).expect("a small ring")
}

/// The payload of a sequence, whose length and bytes follow from the number.
fn pattern(sequence: u64, capacity: usize) -> Vec<u8> {
    let length = (sequence as usize * 37) % (capacity + 1);
    (0..length).map(|i| (sequence as usize * 131 + i * 7) as u8).collect()
}

#[test]
fn batches_of_several_writers_arrive_whole_and_in_order() {
    const CAPACITY: usize = 5000;
    const BATCHES: u64 = 4000;
    let shapes = [(1u64, 1u32), (1, 2), (2, 4), (3, 5), (4, 2)];
    let makers = [Ring::create, Ring::for_threads];
    for (make, (writers, slots)) in makers.iter().flat_map(|make| shapes.map(|shape| (make, shape))) {
        let ring = make("test", RingShape { slots, payload_bytes: CAPACITY }).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let mut handle = ring.writer();
                scope.spawn(move || {
                    for sequence in (writer..BATCHES).step_by(writers as usize) {
                        let mut slot = handle.acquire(sequence, &AlwaysAlive).unwrap();
                        let bytes = pattern(sequence, CAPACITY);
                        slot.payload_mut()[..bytes.len()].copy_from_slice(&bytes);
                        slot.publish(bytes.len() as u64).unwrap();
                    }
                });
            }
            let mut reader = ring.reader();
            for sequence in 0..BATCHES {
                let slot = reader.acquire(sequence, &AlwaysAlive).unwrap();
                assert_eq!(
                    slot.payload(),
                    pattern(sequence, CAPACITY),
                    "sequence {sequence}, {writers} writers"
                );
                slot.release().unwrap();
            }
        });
    }
}

#[test]
fn rings_of_a_set_share_one_descriptor_and_no_byte() {
    const CAPACITY: usize = 5000;
    let shape = RingShape { slots: 2, payload_bytes: CAPACITY };
    let rings = Ring::create_set("set", shape, 3).unwrap();
    let fd = || rings[2].fd().unwrap().try_clone_to_owned().unwrap();
    let opened = Ring::open_set("set", fd(), shape, 3).unwrap();
    assert_eq!(opened.iter().map(Ring::name).collect::<Vec<_>>(), ["set 0", "set 1", "set 2"]);
    // All slots of all rings are full before any is read.
    for sequence in 0..2 {
        for (index, ring) in rings.iter().enumerate() {
            let mut writer = ring.writer();
            let mut slot = writer.acquire(sequence, &AlwaysAlive).unwrap();
            slot.payload_mut().fill(10 * index as u8 + sequence as u8);
            slot.publish(CAPACITY as u64).unwrap();
        }
    }
    for (index, ring) in opened.iter().enumerate() {
        let mut reader = ring.reader();
        for sequence in 0..2 {
            let slot = reader.acquire(sequence, &AlwaysAlive).unwrap();
            assert_eq!(slot.payload(), [10 * index as u8 + sequence as u8; CAPACITY], "ring {index}");
        }
    }
    for (shape, count) in [(shape, 2), (shape, 4), (RingShape { payload_bytes: CAPACITY + 1, ..shape }, 3)] {
        assert!(Ring::open_set("set", fd(), shape, count).is_err(), "{count} rings of {shape:?}");
    }
    for count in [0, usize::MAX] {
        assert!(matches!(Ring::create_set("set", shape, count), Err(RingError::Shape { .. })));
    }
}

#[test]
fn a_ring_for_threads_has_no_descriptor_and_uses_huge_pages_if_any() {
    let ring = Ring::for_threads("test", RingShape { slots: 2, payload_bytes: 16 << 20 }).unwrap();
    assert!(ring.fd().is_none());
    ring.populate().unwrap();
    let mut writer = ring.writer();
    let mut slot = writer.acquire(0, &AlwaysAlive).unwrap();
    let memory = slot.payload_mut();
    // As the kernel counts them; a machine with fragmented memory has fewer, but not none.
    if let Some(share) = uva_mem::huge_share(memory).filter(|_| ring.pages() == PageKind::TransparentHuge) {
        assert!(share > 0.0, "{share}");
    }
    assert!(memory.iter().all(|&byte| byte == 0));
}

#[test]
fn a_ring_may_be_larger_than_memory_while_most_of_it_is_unused() {
    if std::fs::read_to_string("/proc/sys/vm/overcommit_memory").is_ok_and(|mode| mode.trim() == "2") {
        return eprintln!("skipped: this system reserves memory for every mapping");
    }
    let shape = RingShape { slots: 4, payload_bytes: 1 << 40 };
    for ring in [Ring::create("test", shape).unwrap(), Ring::for_threads("test", shape).unwrap()] {
        let mut writer = ring.writer();
        let mut slot = writer.acquire(3, &AlwaysAlive).unwrap();
        slot.payload_mut()[0] = 7;
    }
}

#[test]
fn a_slot_dropped_unpublished_is_free_for_the_same_sequence() {
    let ring = ring(2, 10);
    let mut writer = ring.writer();
    let mut slot = writer.acquire(0, &AlwaysAlive).unwrap();
    slot.payload_mut()[0] = 1;
    drop(slot);
    assert_eq!(ring.state(0).to_string(), "free in generation 0");
    let mut slot = writer.acquire(0, &AlwaysAlive).unwrap();
    slot.payload_mut()[0] = 2;
    slot.publish(1).unwrap();
    assert_eq!(ring.reader().acquire(0, &AlwaysAlive).unwrap().payload(), [2]);
}

#[test]
fn a_batch_longer_than_its_slot_is_refused_and_the_slot_stays_usable() {
    let ring = ring(1, 10);
    let mut writer = ring.writer();
    let error = writer.acquire(0, &AlwaysAlive).unwrap().publish(11).unwrap_err();
    assert!(matches!(error, RingError::TooLong { length: 11, capacity: 10, .. }), "{error}");
    writer.acquire(0, &AlwaysAlive).unwrap().publish(10).unwrap();
    assert_eq!(ring.reader().acquire(0, &AlwaysAlive).unwrap().payload().len(), 10);
}

#[test]
fn a_sequence_written_twice_or_read_twice_is_an_error_and_no_wait() {
    let ring = ring(2, 10);
    let (mut writer, mut reader) = (ring.writer(), ring.reader());
    writer.acquire(0, &AlwaysAlive).unwrap().publish(1).unwrap();
    let error = writer.acquire(0, &AlwaysAlive).unwrap_err().to_string();
    assert!(error.contains("ready in generation 0") && error.contains("free in generation 0"), "{error}");
    reader.acquire(0, &AlwaysAlive).unwrap().abandon();
    let error = ring.reader().acquire(0, &AlwaysAlive).unwrap_err().to_string();
    assert!(error.contains("ring test ") && error.contains("slot 0") && error.contains("reading"), "{error}");
}

#[test]
fn what_is_published_is_taken_without_waiting_and_nothing_else() {
    let ring = ring(2, 10);
    let (mut writer, mut reader) = (ring.writer(), ring.reader());
    assert!(reader.acquire_if_ready(0).unwrap().is_none());
    let slot = writer.acquire(0, &AlwaysAlive).unwrap();
    assert!(reader.acquire_if_ready(0).unwrap().is_none());
    slot.publish(3).unwrap();
    writer.acquire(1, &AlwaysAlive).unwrap().publish(4).unwrap();
    let first = reader.acquire_if_ready(0).unwrap().unwrap();
    let second = reader.acquire_if_ready(1).unwrap().unwrap();
    assert_eq!((first.sequence(), first.payload().len(), second.payload().len()), (0, 3, 4));
    // Acquired already, and the next turn of a slot that is still held.
    assert!(reader.acquire_if_ready(1).unwrap().is_none() && reader.acquire_if_ready(2).unwrap().is_none());
    first.release().unwrap();
    writer.acquire(2, &AlwaysAlive).unwrap().publish(5).unwrap();
    assert_eq!(reader.acquire_if_ready(2).unwrap().unwrap().payload().len(), 5);
    // A sequence in the slot other than the requested one.
    second.release().unwrap();
    writer.acquire(3, &AlwaysAlive).unwrap().publish(6).unwrap();
    assert!(reader.acquire_if_ready(1).unwrap().is_none());
    assert_eq!(reader.acquire(3, &AlwaysAlive).unwrap().payload().len(), 6);
}

#[test]
fn a_waiter_is_notified_in_every_state_that_its_peer_has_exited() {
    let gone = || Err(PeerGone::new("the peer was ended by the test"));
    let says_so = |result: Result<(), RingError>| {
        let error = result.unwrap_err();
        assert!(
            matches!(&error, RingError::PeerDied { reason, .. } if reason.contains("by the test")),
            "{error}"
        );
    };
    // Free: nothing was ever written. Filling: the writer was killed while it wrote.
    let ring = ring(1, 10);
    says_so(ring.reader().acquire(0, &gone).map(drop));
    ring.writer().acquire(0, &AlwaysAlive).unwrap().abandon();
    says_so(ring.reader().acquire(0, &gone).map(drop));

    // Ready: the batch is there although its writer is not; a writer that waits for the reader is notified.
    let ring = self::ring(1, 10);
    ring.writer().acquire(0, &AlwaysAlive).unwrap().publish(3).unwrap();
    says_so(ring.writer().acquire(1, &gone).map(drop));
    let mut reader = ring.reader();
    let slot = reader.acquire(0, &gone).unwrap();
    assert_eq!(slot.payload().len(), 3);
    // Reading: the reader was killed while it read.
    slot.abandon();
    says_so(ring.writer().acquire(1, &gone).map(drop));
}

#[test]
fn a_batch_published_just_before_its_writer_died_is_still_taken() {
    let ring = ring(1, 10);
    // The writer publishes after the reader has begun to wait, and is gone at the reader's liveness check.
    let asked = AtomicBool::new(false);
    let published_then_gone = || {
        if !asked.swap(true, Ordering::Relaxed) {
            ring.writer().acquire(0, &AlwaysAlive).unwrap().publish(7).unwrap();
        }
        Err(PeerGone::new("gone"))
    };
    let mut reader = ring.reader();
    assert_eq!(reader.acquire(0, &published_then_gone).unwrap().payload().len(), 7);
    assert!(asked.load(Ordering::Relaxed));
}

#[test]
fn waking_the_ring_makes_waiting_sides_ask_at_once() {
    let ring = ring(1, 10);
    let stop = AtomicBool::new(false);
    let (waits, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let mut reader = ring.reader();
        let stop_ref = &stop;
        scope.spawn(move || {
            let ask = || {
                let _ = waits.send(());
                if stop_ref.load(Ordering::Acquire) { Err(PeerGone::new("stopped")) } else { Ok(()) }
            };
            let error = reader.acquire(0, &ask).map(drop).unwrap_err();
            assert!(error.to_string().contains("stopped"), "{error}");
        });
        told.recv().unwrap();
        stop.store(true, Ordering::Release);
        ring.wake_all();
    });
}

#[test]
fn shapes_that_memory_cannot_hold_are_refused() {
    for (slots, payload_bytes) in
        [(0, 1), (1, 0), (u32::MAX, usize::MAX), (1, usize::MAX), (2, usize::MAX / 2 - 9000)]
    {
        let error = Ring::create("big", RingShape { slots, payload_bytes }).map(drop).unwrap_err();
        assert!(matches!(error, RingError::Shape { .. }), "{slots} x {payload_bytes}: {error}");
    }
}

#[test]
fn payloads_start_on_pages_and_do_not_overlap() {
    let ring = ring(3, 4097);
    let mut writers: Vec<_> = (0..3).map(|_| ring.writer()).collect();
    let mut slots: Vec<_> =
        writers.iter_mut().enumerate().map(|(b, w)| w.acquire(b as u64, &AlwaysAlive).unwrap()).collect();
    for (b, slot) in slots.iter_mut().enumerate() {
        assert_eq!(slot.payload_mut().as_ptr() as usize % 4096, 0);
        slot.payload_mut().fill(b as u8 + 1);
    }
    for (b, slot) in slots.iter_mut().enumerate() {
        assert!(slot.payload_mut().iter().all(|&byte| byte == b as u8 + 1));
    }
}

#[test]
fn opening_a_ring_of_another_shape_is_refused_with_both_values() {
    let ring = ring(4, 8192);
    let fd = || ring.fd().unwrap().try_clone_to_owned().unwrap();
    Ring::open("test", fd(), ring.shape()).unwrap();
    // The same total number of bytes, but divided differently.
    let error = Ring::open("test", fd(), RingShape { slots: 8, payload_bytes: 4096 }).map(drop).unwrap_err();
    assert!(error.to_string().contains("number of slots is 0x4 instead of 0x8"), "{error}");
    let error = Ring::open("test", fd(), RingShape { slots: 4, payload_bytes: 8191 }).map(drop).unwrap_err();
    assert!(error.to_string().contains("payload size"), "{error}");
    let error = Ring::open("test", fd(), RingShape { slots: 5, payload_bytes: 8192 }).map(drop).unwrap_err();
    let text = format!("{error}: {:?}", error);
    assert!(text.contains("were agreed"), "{text}");
}

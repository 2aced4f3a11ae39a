//! Access of a forked child to the memory of its parent. A separate program, because a child inherits the sockets and
//! files that other tests have open.

use std::os::fd::AsFd;
use std::process::Command;
use std::ptr::{null_mut, read_volatile};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, setrlimit, waitpid};
use uva_mem::{FrozenBytes, Pages, SharedRegion, ZeroedPages};

const BYTES: usize = 1 << 20;

/// The end of a child.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    By(Signal),
    With(i32),
}

const SEGV: Ended = Ended::By(Signal::SEGV);

/// Forks a child that runs `work` and exits with its result, and returns how it ended, within 60 s.
fn in_child(work: impl FnOnce() -> i32) -> Ended {
    // SAFETY: the child runs `work`, which uses no lock that a thread of the test program may hold, and ends.
    match unsafe { libc::fork() } {
        0 => {
            // An expected SIGSEGV leaves no core file.
            let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
            // SAFETY: neither call accesses memory of this program; the signal ends the child.
            unsafe {
                libc::alarm(60);
                libc::_exit(work())
            }
        }
        child => {
            let child = Pid::from_raw(child).expect("fork has made a child");
            let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
            match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Ended::With(code),
                (None, Some(signal)) => Ended::By(Signal::from_named_raw(signal).unwrap()),
                other => panic!("a child that neither exited nor was killed: {other:?}"),
            }
        }
    }
}

fn byte_at(at: *const u8) -> i32 {
    // SAFETY: mapped, or the process ends by SIGSEGV, which the test expects.
    i32::from(unsafe { read_volatile(at) })
}

fn set_byte(at: *mut u8, value: u8) {
    // SAFETY: as above; each test has its region to itself.
    unsafe { at.write_volatile(value) };
}

fn mapped(bytes: usize) -> *mut u8 {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    unsafe { mmap_anonymous(null_mut(), bytes, protection, MapFlags::PRIVATE) }.unwrap().cast()
}

/// A region of each kind.
fn regions() -> Vec<SharedRegion> {
    let created = SharedRegion::create("forks", BYTES).unwrap();
    let fd = created.fd().unwrap().as_fd().try_clone_to_owned().unwrap();
    let opened = SharedRegion::from_fd("forks", fd, BYTES).unwrap();
    let on_huge_pages = SharedRegion::create_with("forks", BYTES, Pages::Hugetlb).unwrap();
    vec![created, opened, on_huge_pages, SharedRegion::for_threads("forks", BYTES).unwrap()]
}

#[test]
fn a_child_cannot_access_a_region_of_its_parent() {
    for region in regions() {
        for at in [0, BYTES / 2, BYTES - 1] {
            let at = region.as_ptr().wrapping_add(at);
            set_byte(at, 7);
            assert_eq!(in_child(|| byte_at(at)), SEGV, "{region:?}");
            assert_eq!(
                in_child(|| {
                    set_byte(at, 8);
                    0
                }),
                SEGV,
                "{region:?}"
            );
            assert_eq!(byte_at(at), 7);
        }
    }
}

#[test]
fn a_child_cannot_access_pages_that_are_kept_from_it() {
    // Not a whole number of pages.
    let mut pages = ZeroedPages::new(BYTES + 1).unwrap();
    pages.bytes_mut()[BYTES] = 7;
    let at = pages.bytes().as_ptr().wrapping_add(BYTES);
    assert_eq!(in_child(|| byte_at(at)), Ended::With(7));
    pages.keep_from_children();
    pages.keep_from_children();
    assert_eq!(in_child(|| byte_at(at)), SEGV);
    assert_eq!(pages.bytes()[BYTES], 7);
}

#[test]
fn a_child_reads_frozen_bytes() {
    let frozen = FrozenBytes::create("forks", BYTES, |bytes| bytes.fill(7)).unwrap();
    assert_eq!(in_child(|| i32::from(frozen.bytes().iter().all(|byte| *byte == 7))), Ended::With(1));
}

#[test]
fn bytes_are_sealed_while_a_child_forked_during_the_filling_lives() {
    let mut child = None;
    let frozen = FrozenBytes::create("forks", BYTES, |bytes| {
        bytes.fill(7);
        // SAFETY: the child makes system calls only, and ends by a signal.
        child = Pid::from_raw(unsafe { libc::fork() });
        if child.is_none() {
            // SAFETY: neither call accesses memory of this program.
            unsafe {
                libc::alarm(60);
                libc::pause();
            }
        }
    });
    let lived = waitpid(child, WaitOptions::NOHANG).unwrap().is_none();
    kill_process(child.unwrap(), Signal::KILL).unwrap();
    waitpid(child, WaitOptions::empty()).unwrap();
    assert!(lived);
    assert!(frozen.unwrap().bytes().iter().all(|byte| *byte == 7));
}

#[test]
fn no_mapping_of_a_child_overlaps_a_region_of_its_parent() {
    let regions = regions();
    let overlaps = |at: *mut u8, bytes: usize| {
        regions.iter().any(|region| {
            let own = region.as_ptr().addr();
            at.addr() < own + BYTES && own < at.addr() + bytes
        })
    };
    let found = in_child(|| {
        let sizes = [4096, BYTES, BYTES / 2, 3 * BYTES].into_iter().cycle();
        i32::from(sizes.take(4000).any(|bytes| overlaps(mapped(bytes), bytes)))
    });
    assert_eq!(found, Ended::With(0));
}

#[test]
fn a_region_dropped_in_a_child_unmaps_only_itself() {
    for region in regions() {
        let at = region.as_ptr();
        set_byte(at, 7);
        let mut region = Some(region);
        let ended = in_child(|| {
            let others: Vec<*mut u8> = (0..64).map(|_| mapped(BYTES)).collect();
            others.iter().for_each(|&other| set_byte(other, 9));
            drop(region.take());
            i32::from(others.iter().all(|&other| byte_at(other) == 9))
        });
        assert_eq!(ended, Ended::With(1));
        assert_eq!(byte_at(at), 7);
    }
}

#[test]
fn memory_at_the_address_of_a_dropped_region_reaches_a_child() {
    for region in regions() {
        let at = region.as_ptr();
        drop(region);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: it replaces no mapping.
        let Ok(other) = (unsafe { mmap_anonymous(at.cast(), 4096, protection, flags) }) else {
            // Another test has mapped something there meanwhile.
            continue;
        };
        set_byte(other.cast(), 7);
        assert_eq!(in_child(|| byte_at(other.cast())), Ended::With(7));
        // SAFETY: mapped above.
        unsafe { munmap(other, 4096) }.unwrap();
    }
}

#[test]
fn a_child_of_a_child_is_guarded_too() {
    for region in regions() {
        let at = region.as_ptr();
        set_byte(at, 7);
        let ended = in_child(|| {
            let own = SharedRegion::for_threads("forks", BYTES).unwrap();
            set_byte(own.as_ptr(), 8);
            let of_first = in_child(|| byte_at(at)) == SEGV;
            let of_second = in_child(|| byte_at(own.as_ptr())) == SEGV;
            i32::from(of_first && of_second && byte_at(own.as_ptr()) == 8)
        });
        assert_eq!(ended, Ended::With(1));
        assert_eq!(byte_at(at), 7);
    }
}

#[test]
fn a_started_process_does_not_change_regions() {
    for region in regions() {
        set_byte(region.as_ptr(), 7);
        // Without a fork: posix_spawn, whose child shares the memory until it calls exec.
        assert!(Command::new("true").status().unwrap().success());
        assert_eq!(byte_at(region.as_ptr()), 7);
        set_byte(region.as_ptr(), 8);
        assert_eq!(byte_at(region.as_ptr()), 8);
    }
}

#[test]
fn forks_while_threads_make_and_drop_regions_stay_guarded() {
    let kept = regions();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                // Relaxed: no other data depends on the flag.
                while !ends.load(Ordering::Relaxed) {
                    drop(SharedRegion::create("forks", 1 << 14).unwrap());
                    drop(SharedRegion::for_threads("forks", 1 << 14).unwrap());
                }
            });
        }
        let well = kept.iter().cycle().take(200).all(|region| {
            // The child can use memory that was freed.
            let ended = in_child(|| {
                let own: Vec<*mut u8> = (0..64).map(|_| mapped(1 << 14)).collect();
                own.iter().for_each(|&at| set_byte(at, 9));
                i32::from(own.iter().all(|&at| byte_at(at) == 9))
            });
            ended == Ended::With(1) && in_child(|| byte_at(region.as_ptr())) == SEGV
        });
        ends.store(true, Ordering::Relaxed);
        assert!(well);
    });
}

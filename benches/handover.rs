//! The cost of a hand-over alone: a batch of 512 bytes, the size of a header, passes from a sampler's process through
//! the batch ring to a producer's and through the feature ring to a consumer's, without sampling, gathering or
//! training.
//!
//!     cargo bench -p uva-mem --bench handover
//!
//! Two figures, on one core and on two. *Back to back*: each side is always busy, so the time per batch is the cost at
//! the pipeline's highest rate. *Alone*: a batch arrives when all sides sleep, so the time is the latency from its
//! sampler's publishing to its consumer, with two wake-ups. Rounds alternate; medians.

use std::env;
use std::mem::size_of;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use uva_mem::handover::Channel;
use uva_mem::ring::{AlwaysAlive, Ring, RingShape};
use uva_mem::spawn::Inherit;
use uva_mem::{PidFd, Signal};

/// The default slots of a run: three for one sampler, and two for the consumer.
const BATCH_RING: RingShape = RingShape { slots: 3, payload_bytes: PAYLOAD };
const FEATURE_RING: RingShape = RingShape { slots: 2, payload_bytes: PAYLOAD };
const PAYLOAD: usize = 512;

const ROUNDS: usize = 9;
const BACK_TO_BACK: u64 = 100_000;
const ALONE: u64 = 300;
/// Long enough for every side to sleep.
const PAUSE: Duration = Duration::from_micros(500);

const ROLE: &str = "UVA_HANDOVER_ROLE";

fn main() {
    if let Ok(role) = env::var(ROLE) {
        return role_process(&role);
    }
    // Arguments that cargo adds, such as --bench, are ignored.
    let cores: Vec<usize> = {
        let allowed = sched_getaffinity(None).expect("this process's cores");
        (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
    };
    let mut settings = vec![(1, "back to back"), (1, "alone")];
    if cores.len() > 1 {
        settings.extend([(2, "back to back"), (2, "alone")]);
    } else {
        println!("one core is all there is here: nothing on two");
    }
    let mut figures = vec![Vec::new(); settings.len()];
    for _ in 0..ROUNDS {
        for ((count, mode), figures) in settings.iter().zip(&mut figures) {
            figures.push(round(&cores[..*count], *mode == "alone"));
        }
    }
    println!("microseconds a batch through both rings, median of {ROUNDS} rounds (smallest, largest)");
    for ((count, mode), mut figures) in settings.into_iter().zip(figures) {
        figures.sort_by(f64::total_cmp);
        let cores = if count == 1 { "1 core " } else { "2 cores" };
        let (least, median, most) = (figures[0], figures[ROUNDS / 2], figures[ROUNDS - 1]);
        println!("{cores}  {mode:<12}  {median:7.2}  ({least:.2}, {most:.2})");
    }
}

/// Starts the three processes, and returns the consumer's microseconds per batch.
fn round(cores: &[usize], alone: bool) -> f64 {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    let batches = Ring::create("batch", BATCH_RING).expect("the batch ring");
    let features = Ring::create("feature", FEATURE_RING).expect("the feature ring");
    let started: Vec<(Child, Channel)> = ["sampler", "producer", "consumer"]
        .into_iter()
        .map(|role| {
            let (ours, theirs) = Channel::pair().expect("a channel");
            let mut command = Command::new(env::current_exe().expect("this program"));
            let inherit =
                Inherit { channel: Some(theirs), death_signal: Some(Signal::KILL), ..Inherit::default() };
            let number = inherit.apply(&mut command).expect("a descriptor");
            let child = command.env(ROLE, format!("{role} {number}")).stdin(Stdio::null()).spawn();
            let child = child.expect("a process");
            let pidfd = PidFd::open(child.id()).expect("the process is there");
            let pid = rustix::process::Pid::from_raw(pidfd.pid() as i32);
            sched_setaffinity(pid, &set).expect("it may run on these cores");
            let rings = [&batches, &features].map(|ring| ring.fd().expect("a memfd"));
            ours.send(&[u8::from(alone)], &rings).expect("the role receives");
            (child, ours)
        })
        .collect();
    let said = started[2].1.recv().expect("the consumer says what it measured").payload;
    for (mut child, _) in started {
        assert!(child.wait().expect("the process ends").success());
    }
    f64::from_le_bytes(said.try_into().expect("eight bytes"))
}

fn role_process(role: &str) {
    let (role, number) = role.split_once(' ').expect("a role and a number");
    let channel = Channel::from_inherited(number.parse().expect("a number")).expect("the channel");
    let received = channel.recv().expect("a word");
    let alone = received.payload == [1];
    let mut fds = received.fds.into_iter();
    let batches = Ring::open("batch", fds.next().expect("a ring"), BATCH_RING).expect("the batch ring");
    let features =
        Ring::open("feature", fds.next().expect("a ring"), FEATURE_RING).expect("the feature ring");
    let count = if alone { ALONE } else { BACK_TO_BACK };
    match role {
        "sampler" => {
            let mut writer = batches.writer();
            for sequence in 0..count {
                if alone {
                    thread::sleep(PAUSE);
                }
                let mut slot = writer.acquire(sequence, &AlwaysAlive).expect("a slot");
                slot.payload_mut()[..size_of::<u64>()].copy_from_slice(&nanoseconds().to_le_bytes());
                slot.publish(PAYLOAD as u64).expect("it is published");
            }
        }
        "producer" => {
            let (mut reader, mut writer) = (batches.reader(), features.writer());
            for sequence in 0..count {
                let from = reader.acquire(sequence, &AlwaysAlive).expect("a batch");
                let mut to = writer.acquire(sequence, &AlwaysAlive).expect("a slot");
                to.payload_mut().copy_from_slice(from.payload());
                to.publish(PAYLOAD as u64).expect("it is published");
                from.release().expect("it is given back");
            }
        }
        _ => {
            let mut reader = features.reader();
            let (mut begun, mut waits) = (None, Vec::new());
            for sequence in 0..count {
                let slot = reader.acquire(sequence, &AlwaysAlive).expect("a batch");
                let now = nanoseconds();
                let stamp = slot.payload()[..size_of::<u64>()].try_into().expect("eight bytes");
                waits.push(now - u64::from_le_bytes(stamp));
                slot.release().expect("it is given back");
                // The first batch waits until all processes run.
                begun.get_or_insert_with(Instant::now);
            }
            let elapsed = begun.expect("there was a batch").elapsed();
            waits.sort_unstable();
            let microseconds = if alone {
                waits[waits.len() / 2] as f64 / 1e3
            } else {
                elapsed.as_secs_f64() * 1e6 / (count - 1) as f64
            };
            channel.send(&microseconds.to_le_bytes(), &[]).expect("the result is sent");
        }
    }
}

/// Nanoseconds of the clock that all processes share.
fn nanoseconds() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

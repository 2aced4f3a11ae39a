//! Ranks that are processes: this test program starts itself again as a rank, kills and stops it, and checks the errors
//! of the other ranks. Every wait has a watchdog; no other time is asserted.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use uva_exchange::conformance::rounds;
use uva_exchange::{Cause, Exchange, ExchangeError, Group, Settings, SharedMemory};
use uva_mem::handover::Channel;
use uva_mem::spawn::Inherit;
use uva_mem::{PidFd, Signal};

const CHANNEL: &str = "UVA_EXCHANGE_TEST_CHANNEL";
const ROLE: &str = "UVA_EXCHANGE_TEST_ROLE";
const RANK: &str = "UVA_EXCHANGE_TEST_RANK";
const WATCHDOG: Duration = Duration::from_secs(60);
const RANKS: usize = 3;
const ROUNDS: u64 = 30;

/// A timeout that no test waits for, so an error after it has another cause.
fn patient() -> Settings {
    Settings { timeout: WATCHDOG, ..Settings::new(RANKS) }
}

/// A timeout that detects a stopped rank, which nothing else detects.
fn impatient() -> Settings {
    Settings { timeout: Duration::from_secs(1), ..Settings::new(RANKS) }
}

fn settings(role: &str) -> Settings {
    if role == "stopped" { impatient() } else { patient() }
}

/// A process that is a rank, ended with the test in every case.
struct Rank {
    child: Child,
    pidfd: PidFd,
    channel: Channel,
}

impl Rank {
    fn start(role: &str, rank: usize, group: &Group) -> Self {
        let (channel, theirs) = Channel::pair().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        let inherit =
            Inherit { channel: Some(theirs), death_signal: Some(Signal::KILL), ..Inherit::default() };
        let number = inherit.apply(&mut command).unwrap();
        let child = command
            .args(["--exact", "processes::a_rank_of_its_own", "--nocapture", "--test-threads=1"])
            .env(CHANNEL, number.to_string())
            .env(ROLE, role)
            .env(RANK, rank.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        drop(command);
        let pidfd = PidFd::open(child.id()).unwrap();
        channel.send(b"group", &group.fds()).unwrap();
        let started = Self { child, pidfd, channel };
        assert_eq!(started.hears(), "joined");
        started
    }

    fn hears(&self) -> String {
        String::from_utf8(self.channel.recv_within(WATCHDOG).unwrap().payload).unwrap()
    }

    fn signal(&self, signal: Signal) {
        self.pidfd.send_signal(signal).unwrap();
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls until the exchange fails.
fn until_it_fails(exchange: &mut SharedMemory) -> ExchangeError {
    let zeros = vec![0; exchange.ranks()];
    loop {
        if let Err(error) = exchange.counts(&zeros) {
            return error;
        }
    }
}

/// The code of a started process. In a normal test run it does nothing.
#[test]
fn a_rank_of_its_own() {
    let Ok(number) = std::env::var(CHANNEL) else { return };
    let role = std::env::var(ROLE).unwrap();
    let rank = std::env::var(RANK).unwrap().parse().unwrap();
    let channel = Channel::from_inherited(number.parse().unwrap()).unwrap();
    let fds = channel.recv_within(WATCHDOG).unwrap().fds.try_into().unwrap();
    let group = Group::open(&settings(&role), fds).unwrap();
    let mut exchange = SharedMemory::join(&group, rank).unwrap();
    let say = |what: &str| channel.send(what.as_bytes(), &[]).unwrap();
    say("joined");
    match role.as_str() {
        "whole" => {
            rounds(&mut exchange, 11, ROUNDS);
            say("done");
        }
        // Until the test kills a rank.
        "killed" => {
            rounds(&mut exchange, 12, 2);
            say("calls");
            say(&until_it_fails(&mut exchange).to_string());
        }
        "stopped" => {
            // Rank 1 calls when all have joined, rank 2 when the others have given up.
            channel.recv_within(WATCHDOG).unwrap();
            say(&until_it_fails(&mut exchange).to_string());
        }
        other => panic!("no role is called {other}"),
    }
    // Until the test ends this process, or its end of the channel is closed.
    drop(channel.recv());
}

fn start(role: &str) -> (SharedMemory, Vec<Rank>) {
    let group = Group::create(&settings(role)).unwrap();
    let exchange = SharedMemory::join(&group, 0).unwrap();
    (exchange, (1..RANKS).map(|rank| Rank::start(role, rank, &group)).collect())
}

#[test]
fn ranks_of_several_processes_exchange_every_byte() {
    let (mut exchange, others) = start("whole");
    rounds(&mut exchange, 11, ROUNDS);
    assert!(others.iter().all(|rank| rank.hears() == "done"));
}

#[test]
fn a_rank_that_is_killed_during_its_calls_is_named_on_all_others() {
    for _ in 0..5 {
        let (mut exchange, others) = start("killed");
        rounds(&mut exchange, 12, 2);
        assert!(others.iter().all(|rank| rank.hears() == "calls"));
        // It makes calls as long as the others do, so it is killed at some point of one.
        others[1].signal(Signal::KILL);
        let error = until_it_fails(&mut exchange);
        assert_eq!((error.culprit(), error.cause()), (Some(2), Some(Cause::Ended)), "{error}");
        let process = format!("(process {})", others[1].child.id());
        assert!(error.to_string().ends_with(&process), "{error}");
        let theirs = others[0].hears();
        assert!(theirs.starts_with("rank 1, call ") && theirs.ends_with(&process), "{theirs}");
        assert!(theirs.contains("rank 2 has ended without leaving the group"), "{theirs}");
    }
}

#[test]
fn a_stopped_rank_is_named_on_all_others_and_learns_it_when_it_continues() {
    let (mut exchange, others) = start("stopped");
    others[1].signal(Signal::STOP);
    others[0].channel.send(b"continue", &[]).unwrap();
    let error = until_it_fails(&mut exchange);
    assert_eq!((error.culprit(), error.cause()), (Some(2), Some(Cause::Silent)), "{error}");
    let theirs = others[0].hears();
    assert!(theirs.contains("rank 2 does not respond for 1 s"), "{theirs}");
    others[1].signal(Signal::CONT);
    others[1].channel.send(b"continue", &[]).unwrap();
    let own = others[1].hears();
    assert!(own.starts_with("rank 2, call 1 of the exchange: rank "), "{own}");
    assert!(own.ends_with("ended it, since rank 2 does not respond for 1 s"), "{own}");
}

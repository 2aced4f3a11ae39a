//! Kills and stops at random moments, in every state of a slot, and one long training that survives them all: each
//! round resumes from the last good checkpoint of the round before.
//!
//! Forty rounds, about two and a half seconds each, mostly for starting four processes and loading libtorch twice.
//! `UVATRAIN_FAULT_ROUNDS=200 UVATRAIN_FAULT_RESULTS=FILE.json cargo test --test integration random_faults` runs more
//! rounds, and writes how each ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use crate::support::extent::all_tests;
use crate::support::runs::{
    Metrics, Process, Traces, checkpoint_files, processes_of, wait_for_batches, wait_until,
};
use crate::support::slots::{RINGS, Rings, STATES};
use crate::support::{Running, Uvatrain, directory, uvatrain};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use uva_graph::mix;

const ROLES: [&str; 4] = ["sampler", "producer", "consumer", "launcher"];
/// Kills of each role in each state of each ring's slots, then the same number of stops.
const KILLS: usize = ROLES.len() * RINGS.len() * STATES.len();
const STOPS: usize = 8;

/// One round, decided by its number.
struct Round {
    number: usize,
    role: &'static str,
    ring: usize,
    state: usize,
    /// Stopped for this time and continued, instead of killed.
    stopped: Option<Duration>,
    random: Random,
}

impl Round {
    fn new(number: usize) -> Round {
        let mut random = Random(number as u64);
        let kind = number % (KILLS + STOPS);
        let stopped = (kind >= KILLS).then(|| Duration::from_millis(random.below(1500)));
        let place = if kind < KILLS { kind } else { random.below(KILLS as u64) as usize };
        Round {
            number,
            role: ROLES[place % ROLES.len()],
            ring: place / ROLES.len() % RINGS.len(),
            state: place / ROLES.len() / RINGS.len(),
            stopped,
            random,
        }
    }

    fn name(&self) -> String {
        let what = if self.stopped.is_some() { "stop" } else { "kill" };
        format!("{what} {} while a {} slot is {}", self.role, RINGS[self.ring], STATES[self.state])
    }
}

/// The same numbers every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        // splitmix64's step: consecutive states are far apart.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0) % bound
    }
}

/// Training whose stages take about as long as each other, so that slots are seen in all their states.
fn train(directory: &Path, metrics: &str, extra: &str) -> Uvatrain {
    let common = "train graph --fanouts 10,10 --batch-size 300 --hidden 8 --train-threads 1 --gather-threads 1 \
                  --samplers 2 --eval full";
    uvatrain(directory, format!("{common} --metrics {metrics} {extra}").split_whitespace())
}

/// Batches trained so far in any round: epoch and batch, with hash and the loss's exact digits.
#[derive(Default)]
struct Trained(BTreeMap<(u64, u64), (String, String)>);

impl Trained {
    /// Adds a round's metrics. A batch that was trained before must be identical.
    fn add(&mut self, metrics: &Path, round: &str) -> usize {
        let trained = Metrics::read(metrics).trained();
        let count = trained.len();
        for (epoch, batch, hash, loss) in trained {
            let now = (hash, loss);
            let before = self.0.entry((epoch, batch)).or_insert_with(|| now.clone());
            assert_eq!(*before, now, "epoch {epoch}, batch {batch}, trained again in round {round}");
        }
        count
    }
}

/// Stops all roles at moments when the round's slot is in the round's state.
fn stop_all_in_state(round: &mut Round, roles: &[&Process], rings: &Rings) {
    let since = Instant::now();
    loop {
        for role in roles {
            role.signal(Signal::STOP);
        }
        for role in roles {
            wait_until(&format!("the {} is stopped", role.role), || role.is_stopped());
        }
        if rings.states(round.ring).contains(&round.state) {
            return;
        }
        // Not yet: the roles continue, one of them slightly later than the others, so that queues run empty and full.
        assert!(since.elapsed() < Duration::from_secs(60), "no moment was found to {}", round.name());
        let late = round.random.below(2 * roles.len() as u64) as usize;
        for (_, role) in roles.iter().enumerate().filter(|(number, _)| *number != late) {
            role.signal(Signal::CONT);
        }
        thread::sleep(Duration::from_micros(round.random.below(12_000)));
        if let Some(role) = roles.get(late) {
            role.signal(Signal::CONT);
        }
        thread::sleep(Duration::from_micros(round.random.below(3_000)));
    }
}

/// Plays a round. Returns how many batches it trained and its exit code.
fn play(directory: &Path, round: &mut Round, trained: &mut Trained) -> (usize, i32) {
    let temporary = directory.join("tmp");
    fs::create_dir_all(&temporary).unwrap();
    let before = Traces::now(&temporary);
    let metrics = format!("{}.jsonl", round.number);
    let options = "--epochs 100000 --checkpoint kept --checkpoint-every 2 --resume";
    let mut run = train(directory, &metrics, options).env("TMPDIR", &temporary).start();
    let processes = processes_of(&run, 2);
    wait_for_batches(&mut run, &directory.join(&metrics), 1 + round.random.below(12) as usize);

    let roles: Vec<&Process> = processes.iter().filter(|process| process.role != "janitor").collect();
    let producer = roles.iter().find(|process| process.role == "producer").expect("a producer");
    let rings = Rings::of(producer, &RINGS);
    stop_all_in_state(round, &roles, &rings);
    let code = match round.stopped {
        None => kill(round, run, &roles),
        Some(pause) => stop_for(round, run, &roles, &directory.join(&metrics), pause),
    };
    for process in &processes {
        wait_until(&format!("the {} (process {}) ends", process.role, process.pid), || process.has_ended());
    }
    assert_eq!(before, Traces::now(&temporary), "round {}", round.name());
    let kept = checkpoint_files(&directory.join("kept")).len();
    assert!(kept == 2 || kept == 0, "a checkpoint is two files, not {kept}: round {}", round.name());
    (trained.add(&directory.join(&metrics), &round.name()), code)
}

fn kill(round: &mut Round, run: Running, roles: &[&Process]) -> i32 {
    let go_on = |struck: Option<&Process>| {
        for role in roles.iter().filter(|role| struck.is_none_or(|struck| struck.pid != role.pid)) {
            // A role that its parent's death has ended meanwhile cannot be continued.
            let _ = role.try_signal(Signal::CONT);
        }
    };
    let outcome = if round.role == "launcher" {
        kill_process(Pid::from_child(&run.child), Signal::KILL).unwrap();
        go_on(None);
        run.wait().ends_with(128 + 9)
    } else {
        let of_role: Vec<_> = roles.iter().filter(|process| process.role == round.role).collect();
        let struck = of_role[round.random.below(of_role.len() as u64) as usize];
        struck.signal(Signal::KILL);
        go_on(Some(struck));
        let name = format!("the {}", round.role);
        run.wait().refuses(1, &[&name, "killed by SIGKILL ", "epoch ", "--resume"])
    };
    assert!(!outcome.stderr.contains("panicked"), "round {}\n{outcome}", round.name());
    outcome.code()
}

/// Continues all roles except one, which follows later; then some batches are trained, and the run is interrupted.
fn stop_for(round: &mut Round, mut run: Running, roles: &[&Process], metrics: &Path, pause: Duration) -> i32 {
    let launcher = Pid::from_child(&run.child);
    let stopped = roles.iter().find(|process| process.role == round.role);
    if stopped.is_none() {
        kill_process(launcher, Signal::STOP).unwrap();
    }
    let so_far = Metrics::read(metrics).trained().len();
    for role in roles.iter().filter(|process| stopped.is_none_or(|stopped| stopped.pid != process.pid)) {
        role.signal(Signal::CONT);
    }
    thread::sleep(pause);
    match stopped {
        Some(role) => role.signal(Signal::CONT),
        None => kill_process(launcher, Signal::CONT).unwrap(),
    }
    wait_for_batches(&mut run, metrics, so_far + 5);
    kill_process(launcher, Signal::INT).unwrap();
    let outcome = run.wait().refuses(130, &["finishing this batch"]);
    outcome.code()
}

#[test]
fn after_any_kill_or_stop_in_any_state_the_next_run_has_the_same_losses() {
    let temp = directory();
    let graph = "generate graph --nodes 6000 --avg-degree 15 --feat-dim 200 --classes 4 --seed 7";
    uvatrain(temp.path(), graph.split(' ')).run().succeeds();
    let rounds = env::var("UVATRAIN_FAULT_ROUNDS").map_or(KILLS + STOPS, |number| number.parse().unwrap());
    let (mut trained, mut ended) = (Trained::default(), BTreeMap::<String, usize>::new());
    let since = Instant::now();
    // 3 shares no factor with the numbers of roles, rings and states: each of them occurs.
    for number in (0..rounds).step_by(if all_tests() { 1 } else { 3 }) {
        let mut round = Round::new(number);
        println!("round {number}: {}", round.name());
        let (batches, code) = play(temp.path(), &mut round, &mut trained);
        println!("round {number}: ended with {code} after {batches} batches");
        *ended.entry(format!("{} -> {code}", round.name())).or_default() += 1;
    }
    let seconds = since.elapsed().as_secs();

    let (&(last, _), _) = trained.0.last_key_value().expect("batches were trained");
    train(temp.path(), "whole.jsonl", &format!("--epochs {}", last + 1)).run().succeeds();
    let mut whole = Trained::default();
    whole.add(&temp.path().join("whole.jsonl"), "none");
    // Only batches that had not been reported to the launcher when it was killed are missing.
    assert!(!trained.0.is_empty());
    for (at, batch) in &trained.0 {
        assert_eq!(Some(batch), whole.0.get(at), "epoch and batch {at:?}");
    }
    if let Some(path) = env::var_os("UVATRAIN_FAULT_RESULTS") {
        let results = json!({
            "about": "Made by tests/integration/faults/random_faults.rs: how many rounds ended how, with nothing left, every batch of them \
                      equal to that of a run that nothing disturbed.",
            "rounds": rounds, "seconds": seconds, "epochs": last + 1, "batches": trained.0.len(), "ended": ended,
        });
        fs::write(path, serde_json::to_string_pretty(&results).unwrap() + "\n").unwrap();
    }
}

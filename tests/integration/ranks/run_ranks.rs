//! `uvatrain run --ranks N`: one launcher for all ranks of a machine, each of which attaches and has its part of every
//! epoch. A shell replaces torchrun here; `crates/uva-py/tests` tests torchrun itself.

use std::path::Path;

use crate::support::command::{self, recorded, run};
use crate::support::ranks::{self, expected, nothing_is_left, process_of, traces};
use crate::support::runs::{Metrics, Process, role_of, samplers_of, small_graph, wait_until};
use crate::support::{self, Running, directory};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use uva_runtime::options::part::Part;

/// Two concurrent ranks.
const TWO: &str = ranks::OF_TWO;

/// Two ranks, with separate steps for rank 1.
fn two(steps_of_the_second: &str) -> String {
    let steps = format!(r#"test $rank = 0 || export {}="{steps_of_the_second}"; cd r$rank"#, command::STEPS);
    TWO.replace("cd r$rank", &steps)
}

/// A run whose two ranks take batches endlessly, after some batches.
fn long_run(directory: &Path, shell: &str, steps: &str) -> (Running, Vec<Process>) {
    for rank in ["r0", "r1"] {
        let _ = std::fs::remove_dir_all(directory.join(rank));
    }
    let run = command::run_with(directory, "--samplers 1 --ranks 2", Some(shell), steps);
    let run = run.env("TMPDIR", directory.join("tmp")).start();
    wait_until("both ranks take batches", || {
        ["r0", "r1"].iter().all(|rank| recorded(&directory.join(rank)).len() >= 5)
    });
    let mut roles = samplers_of(&run, 2);
    roles.extend(["producer", "janitor"].map(|role| role_of(&run, role)));
    (run, roles)
}

#[test]
fn each_rank_gets_the_batches_of_its_loader_and_metrics_of_its_own() {
    let temp = directory();
    small_graph(temp.path());
    let steps = "attach; pass train 0; pass valid 0; pass train 1; pass valid 1; pass test 0; close";
    for options in ["", "--prepare whole", "--pin-samplers --drop-last"] {
        let options = format!("--ranks 2 --json --metrics run.jsonl {options}");
        let outcome = command::run_with(temp.path(), &options, Some(TWO), steps).run().succeeds();
        let mut trained = Vec::new();
        for rank in [0, 1] {
            let folder = temp.path().join(format!("r{rank}"));
            let part = Part { index: rank, of: 2 };
            let all = expected(temp.path(), 2, part, options.contains("--drop-last"));
            assert_eq!(recorded(&folder), all, "{options}\n{outcome}");
            let metrics = Metrics::read(&temp.path().join(format!("run.{rank}.jsonl")));
            let start = metrics.of("start").next().expect("a start");
            assert_eq!(start["in_force"]["rank"], serde_json::json!({ "index": rank, "of": 2 }), "{start}");
            let told = metrics.of("batch").map(|line| line["hash"].as_str().unwrap().to_owned());
            let of_train = all.into_iter().filter(|(split, ..)| split == "train").map(|(.., hash)| hash);
            let (told, of_train): (Vec<_>, Vec<_>) = (told.collect(), of_train.collect());
            assert_eq!(told, of_train);
            let end = metrics.of("end").next().expect("an end");
            assert_eq!((&end["batches"], &end["epochs"]), (&told.len().into(), &2.into()), "{end}");
            assert_eq!(outcome.json()["ranks"][rank as usize]["batches"], told.len(), "{outcome}");
            trained.push(told.len());
            std::fs::remove_dir_all(folder).unwrap();
        }
        assert_eq!(trained[0], trained[1]);
        assert!(!temp.path().join("run.jsonl").exists());
    }
}

#[test]
fn what_starts_ranks_may_close_every_descriptor() {
    let temp = directory();
    small_graph(temp.path());
    let calls = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))";
    let closes = &format!("RANK=0 WORLD_SIZE=1 python3 -c '{calls}' \"$@\"");
    run(temp.path(), "--ranks 1 --metrics run.jsonl", Some(closes), "attach; pass train 0; close")
        .run()
        .succeeds();
    let all = expected(temp.path(), 1, Part::default(), false);
    assert_eq!(recorded(temp.path()), all[..recorded(temp.path()).len()]);
    assert!(temp.path().join("run.jsonl").exists());
    // Without ranks the message has the remedy.
    let outcome = run(temp.path(), "", Some(closes), "attach").run().ends_with(1);
    assert!(outcome.stderr.contains("--ranks N"), "{outcome}");
}

#[test]
fn a_killed_rank_is_named_and_the_others_end_with_their_next_batch() {
    let temp = directory();
    small_graph(temp.path());
    for rank in [0, 1] {
        let before = traces(temp.path());
        let (run, processes) = long_run(temp.path(), TWO, "attach; pid pid; take");
        let launcher = run.child.id();
        kill_process(process_of(temp.path(), rank), Signal::KILL).unwrap();
        let outcome = run.wait().ends_with(1);
        for part in [
            &format!("uvatrain: rank {rank} (process "),
            "ended without a message",
            "at train batch",
            "command: ",
        ] {
            assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
        }
        nothing_is_left(temp.path(), launcher, &processes, &before);
    }
}

#[test]
fn a_killed_role_is_named_with_its_rank_and_ends_every_rank() {
    let temp = directory();
    small_graph(temp.path());
    for role in ["sampler", "producer"] {
        let before = traces(temp.path());
        let (run, processes) = long_run(temp.path(), TWO, "attach; take");
        let launcher = run.child.id();
        let victim = processes.iter().find(|process| process.role == role).unwrap();
        let of = std::fs::read_to_string(format!("/proc/{}/cmdline", victim.pid)).unwrap();
        assert!(of.contains(role));
        victim.signal(Signal::KILL);
        let outcome = run.wait().ends_with(1);
        assert!(outcome.stderr.contains(&format!("uvatrain: the {role} of rank ")), "{outcome}");
        assert_eq!(outcome.stderr.matches("command: ").count(), 2, "{outcome}");
        nothing_is_left(temp.path(), launcher, &processes, &before);
    }
}

#[test]
fn a_launcher_that_is_killed_takes_all_ranks_with_it() {
    let temp = directory();
    small_graph(temp.path());
    for without_janitor in [false, true] {
        let before = traces(temp.path());
        let (run, processes) = long_run(temp.path(), TWO, "attach; take");
        if without_janitor {
            processes.iter().find(|process| process.role == "janitor").unwrap().signal(Signal::KILL);
        }
        let launcher = run.child.id();
        kill_process(Pid::from_child(&run.child), Signal::KILL).unwrap();
        run.wait().ends_with(128 + 9);
        nothing_is_left(temp.path(), launcher, &processes, &before);
    }
}

#[test]
fn a_command_that_is_killed_leaves_no_rank() {
    let temp = directory();
    small_graph(temp.path());
    let before = traces(temp.path());
    let shell = format!("echo $$ > shell\n{TWO}");
    let (run, processes) = long_run(temp.path(), &shell, "ignore; attach; take 5; linger");
    let launcher = run.child.id();
    let shell = std::fs::read_to_string(temp.path().join("shell")).unwrap();
    kill_process(shell.trim().parse().ok().and_then(Pid::from_raw).unwrap(), Signal::KILL).unwrap();
    let outcome = run.wait().ends_with(1);
    assert!(outcome.stderr.contains("was killed by SIGKILL at train batch"), "{outcome}");
    nothing_is_left(temp.path(), launcher, &processes, &before);
}

#[test]
fn an_interrupt_ends_every_rank() {
    let temp = directory();
    small_graph(temp.path());
    for (group, signal, code) in
        [(true, Signal::INT, 130), (false, Signal::INT, 130), (false, Signal::TERM, 143)]
    {
        // One rank requests its next batch long after the other has ended.
        let (run, _) = long_run(temp.path(), &two("attach; hold 200; take"), "attach; take");
        let launcher = Pid::from_child(&run.child);
        let sent = if group { kill_process_group(launcher, signal) } else { kill_process(launcher, signal) };
        sent.unwrap();
        let outcome = run.wait().ends_with(code);
        // Two processes write at once, so their lines may be mixed. The launcher reports it as well.
        let told = |words: &str| outcome.stderr.matches(words).count();
        assert!(group || (told("command: ") == 2 && told("interrupted by") == 3), "{outcome}");
    }
}

#[test]
fn more_ranks_than_training_batches_are_refused_with_both_numbers() {
    let temp = directory();
    small_graph(temp.path());
    let steps = "attach; pass train 0; close";
    let outcome = command::run_with(temp.path(), "--ranks 40", Some(TWO), steps).run();
    outcome.refuses(2, &["--batch-size 100", "17 batches", "40 ranks"]);
}

#[test]
fn a_rank_that_ends_early_is_named_where_the_command_fails() {
    let temp = directory();
    small_graph(temp.path());
    // Its roles end, and the other rank continues until it has its batches.
    let outcome = run(
        temp.path(),
        "--ranks 2",
        Some(&two("attach; take 3; close; file out")),
        "attach; take 3; await ../r1/out; take 60",
    )
    .run()
    .succeeds();
    assert_eq!(recorded(&temp.path().join("r0")).len(), 63, "{outcome}");
    // The rank has ended before the other one ends silently.
    let failing = two("attach; take 3; await ../r0/gone; exit 7");
    let outcome =
        run(temp.path(), "--ranks 2", Some(&failing), "attach; take 3; close; file gone").run().ends_with(1);
    // Batches are numbered through all ranks: the third one of the first is the fifth of the epoch.
    for part in [
        "ended with exit code 7",
        "the first of its ranks to end: rank 0 (process",
        "at train batch 5 of epoch 1",
    ] {
        assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
    }
}

#[test]
fn a_command_in_which_fewer_attach_than_there_are_ranks_has_failed() {
    let temp = directory();
    small_graph(temp.path());
    let outcome =
        run(temp.path(), "--ranks 2", Some(&two("exit 0")), "attach; take 3; close").run().ends_with(1);
    for part in ["ended without having attached as rank 1", "uvatrain.attach()"] {
        assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
    }
    let outcome = run(temp.path(), "--ranks 2", Some(TWO), "exit 4").run().ends_with(1);
    assert!(outcome.stderr.contains("exit code 4 before it had attached as rank 0"), "{outcome}");
}

#[test]
fn a_rank_outside_the_run_is_refused_by_its_number() {
    let temp = directory();
    small_graph(temp.path());
    let alone = |variables: &str| format!(r#"{variables} "$@""#);
    for (shell, parts) in [
        (alone("RANK=2 WORLD_SIZE=2"), ["is rank 2", "2 ranks: expected 0 to 1"]),
        (alone("RANK=1 WORLD_SIZE=4"), ["is rank 1 of 4", "2 ranks (UVATRAIN_RANKS)"]),
        (alone("env -u RANK -u WORLD_SIZE"), ["is rank 0 of 1", "WORLD_SIZE"]),
        (alone("RANK=some WORLD_SIZE=2"), ["RANK=some", "expected a number"]),
        (TWO.replace("RANK=$rank", "RANK=1"), ["attached to this run as rank 1", "attached after it"]),
    ] {
        let outcome = run(temp.path(), "--ranks 2", Some(&shell), "attach; close").run();
        let outcome = outcome.ends_with(1);
        for part in parts.into_iter().chain(["uvatrain: "]) {
            assert!(outcome.stderr.contains(part), "{shell}: {part}\n{outcome}");
        }
    }
}

/// Sends to the launcher's socket what any user of the machine could send: it has the name, and not the secret.
const STRANGER: &str = r#"
import array, json, os, socket, struct
name, knock = os.environ["UVATRAIN_ATTACH"].split(":")[3:5]
version, protocol = os.environ["UVATRAIN_ATTACH"].split(":")[:2]
door = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
door.connect("\0" + name[1:])
for nonsense in (b"", b"nonsense", b"uva-hand" + bytes(16)):
    door.send(nonsense)
for secret in (None, int(knock, 16) ^ 1):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    part = {"index": 0, "of": 2}
    words = {"version": version, "protocol": int(protocol), "pid": os.getpid(), "part": part, "secret": secret}
    words = json.dumps(words).encode()
    rights = array.array("i", [os.pidfd_open(os.getpid()), theirs.fileno()]).tobytes()
    message = b"uva-hand" + struct.pack("<IIQ", 1, 2, len(words)) + words
    door.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    theirs.close()
    assert ours.recv(1 << 17) == b"", "it was answered"
"#;

#[test]
fn the_name_of_the_socket_alone_gets_no_answer_and_disturbs_no_rank() {
    let temp = directory();
    small_graph(temp.path());
    let shell = format!("python3 -c '{STRANGER}' || exit 9\n{TWO}");
    run(temp.path(), "--ranks 2", Some(&shell), "attach; take 3; close").run().succeeds();
}

#[test]
fn a_process_without_the_answers_secret_is_not_fooled_by_another_launcher() {
    let temp = directory();
    small_graph(temp.path());
    // The launcher's answer then comes from another process.
    let other =
        r#"export RANK=0 WORLD_SIZE=1 UVATRAIN_ATTACH="${UVATRAIN_ATTACH%:*}:0123456789abcdef"; "$@""#;
    let outcome = run(temp.path(), "--ranks 1", Some(other), "attach; take 3").run().ends_with(1);
    for part in ["another process answers in the launcher's place", "exit code 70"] {
        assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
    }
    assert!(recorded(temp.path()).is_empty());
}

#[test]
fn what_several_ranks_cannot_have_is_refused_with_both_options() {
    let temp = directory();
    small_graph(temp.path());
    for (options, parts) in [
        ("--metrics-listen 0", ["--ranks 2", "--metrics-listen"]),
        ("--device cuda:0", ["--ranks 2", "--device cuda:0"]),
        ("--gpu-cache 1MiB", ["2 ranks", "--gpu-cache"]),
        ("--host-cache 1MiB", ["--ranks 2", "--host-cache"]),
        ("--plan plan.json", ["--ranks 2", "--plan"]),
    ] {
        let args = format!("run graph --fanouts 5,4 --ranks 2 {options} -- touch started");
        support::uvatrain(temp.path(), args.split(' ')).run().refuses(2, &parts);
    }
    for none in ["0", "-1", "65", "some"] {
        let args = ["run", "graph", &format!("--ranks={none}"), "--", "touch", "started"];
        support::uvatrain(temp.path(), args).run().refuses(2, &["--ranks"]);
    }
    assert!(!temp.path().join("started").exists());
}

#[test]
fn a_dry_run_shows_the_stages_of_every_rank_and_their_memory() {
    let temp = directory();
    small_graph(temp.path());
    let dry = |ranks: &str| {
        let args = format!("run graph --fanouts 4,3 --samplers 2 {ranks} --dry-run --json -- true");
        support::uvatrain(temp.path(), args.split_whitespace()).run().succeeds().json()
    };
    let (one, two) = (dry(""), dry("--ranks 2"));
    let column = |dry: &serde_json::Value, list: &str, name: &str| -> Vec<String> {
        let lines = dry[list].as_array().unwrap().iter();
        lines.map(|line| line[name].as_str().unwrap().to_owned()).collect()
    };
    let stages = ["sampler 0", "sampler 1", "producer", "consumer"];
    let of = |rank: usize| stages.map(|stage| format!("{stage} of rank {rank}"));
    assert_eq!(column(&two, "stages", "stage"), [of(0), of(1)].concat());
    let numbers: Vec<_> = (1..=8).map(|number| format!("process {number}")).collect();
    assert_eq!(column(&two, "stages", "runs"), numbers);
    assert_eq!((&one["ranks"], &two["ranks"]), (&serde_json::Value::Null, &2.into()));
    let bytes = |dry: &serde_json::Value| dry["memory"][0]["bytes"].as_u64().unwrap();
    assert_eq!(bytes(&two), 2 * bytes(&one));
    // The cores are shared by the ranks, so the default is divided.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let args = "run graph --fanouts 4,3 --ranks 2 --dry-run --json -- true";
    let told = support::uvatrain(temp.path(), args.split(' ')).run().succeeds().json();
    let samplers =
        column(&told, "stages", "stage").iter().filter(|stage| stage.starts_with("sampler")).count();
    assert_eq!(samplers, 2 * (cores / 8).clamp(1, 8));
}

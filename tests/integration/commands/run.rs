//! `uvatrain run`: a user's command takes the batches. The command here is this test executable ([`command`]), so that
//! a test can specify how it ends.

use std::path::Path;

use crate::support::command::{self, recorded, run};
use crate::support::ranks;
use crate::support::runs::{Metrics, samplers_of, small_graph, wait_until};
use crate::support::{self, Running, directory};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use uva_launch::launcher::protocol;
use uva_runtime::options::part::Part;
use uva_runtime::{LoaderOptions, Runtime};

/// The batches of this many epochs, as made by roles that are threads.
fn expected(directory: &Path, epochs: u32) -> Vec<(String, u64, u64, String)> {
    ranks::expected(directory, epochs, Part::default(), false)
}

fn wait_for_record(run: &mut Running, directory: &Path, batches: usize) {
    wait_until("the command takes batches", || {
        if let Ok(Some(status)) = run.child.try_wait() {
            panic!("the run ended ({status}) before {batches} batches were taken");
        }
        recorded(directory).len() >= batches
    });
}

#[test]
fn every_pass_that_the_command_requests_has_the_batches_of_a_plain_run() {
    let temp = directory();
    small_graph(temp.path());
    let steps = "attach; pass train 0; pass valid 0; pass train 1; pass valid 1; pass test 0; close";
    let outcome = run(temp.path(), "--metrics run.jsonl", None, steps).run().succeeds();
    let all = expected(temp.path(), 2);
    assert_eq!(recorded(temp.path()), all);
    let metrics = Metrics::read(&temp.path().join("run.jsonl"));
    let told: Vec<_> = metrics
        .of("batch")
        .map(|line| {
            assert!(line.get("loss").is_none(), "{line}");
            assert_eq!(line["edges"].as_array().map(Vec::len), Some(2));
            let number = |name: &str| line[name].as_u64().unwrap_or_else(|| panic!("{name} in {line}"));
            for positive in ["sample_us", "gather_us", "seeds", "input_nodes"] {
                assert!(number(positive) > 0, "{positive} in {line}");
            }
            (number("epoch"), number("batch"), line["hash"].as_str().unwrap().to_owned())
        })
        .collect();
    let trained: Vec<_> = all
        .into_iter()
        .filter(|(split, ..)| split == "train")
        .map(|(_, epoch, batch, hash)| (epoch, batch, hash))
        .collect();
    assert_eq!(told, trained);
    let start = metrics.of("start").next().expect("a start");
    assert_eq!(start["options"]["loader"]["slots"], 3);
    let own = std::env::current_exe().unwrap();
    assert_eq!(start["in_force"]["command"][0], own.to_str().unwrap(), "{start}");
    let end = metrics.of("end").next().expect("an end");
    assert_eq!((&end["batches"], &end["epochs"]), (&trained.len().into(), &2.into()), "{outcome}");
    assert!(end["roles"]["consumer"]["peak_rss_bytes"].as_u64() > Some(0), "{end}");
}

#[cfg(feature = "train")]
#[test]
fn the_hashes_are_those_of_uvatrain_train() {
    let temp = directory();
    small_graph(temp.path());
    support::runs::train(temp.path(), "train.jsonl", "--epochs 2").run().succeeds();
    run(temp.path(), "--metrics run.jsonl", None, "attach; pass train 0; pass train 1").run().succeeds();
    let hashes = |name: &str| {
        let read = Metrics::read(&temp.path().join(name));
        read.trained().into_iter().map(|(epoch, batch, hash, _)| (epoch, batch, hash)).collect::<Vec<_>>()
    };
    assert_eq!(hashes("train.jsonl"), hashes("run.jsonl"));
}

#[test]
fn a_command_may_take_any_number_of_batches_and_succeed() {
    let temp = directory();
    small_graph(temp.path());
    for steps in ["attach", "attach; take 3", "attach; take 3; close; say later", "attach; take 90"] {
        let _ = std::fs::remove_file(temp.path().join(command::RECORD));
        let outcome = run(temp.path(), "--json", None, steps).run().succeeds();
        let end = outcome.json();
        let taken =
            steps.split("take ").nth(1).map_or(0, |rest| rest.split(';').next().unwrap().parse().unwrap());
        // With --json, the command's own output is not on stdout.
        assert_eq!(end["event"], "end", "{outcome}");
        assert_eq!(end["batches"], taken, "{outcome}");
        assert_eq!(recorded(temp.path()).len(), taken);
        if steps.contains("say") {
            assert!(outcome.stderr.contains("later\n"), "{outcome}");
        }
    }
    let plain = run(temp.path(), "", None, "attach; say here").run().succeeds();
    assert!(plain.stdout.contains("here\n"), "its stdout is the user's: {plain}");
}

#[test]
fn feature_values_come_in_the_tables_type_or_widened_on_request() {
    let temp = directory();
    let args =
        "generate graph --nodes 4000 --avg-degree 12 --feat-dim 25 --classes 4 --seed 7 --feat-dtype f16";
    support::uvatrain(temp.path(), args.split(' ')).run().succeeds();
    let options = LoaderOptions { fanouts: [5, 4].into(), batch_size: 100, ..LoaderOptions::default() };
    let mut runtime = Runtime::builder(temp.path().join("graph")).options(options).build().unwrap();
    let batch = runtime.next_batch().unwrap().expect("a batch");
    let narrow = batch.features().bytes;
    let halves = narrow.chunks_exact(2).map(|half| half::f16::from_le_bytes(half.try_into().unwrap()));
    let wide: Vec<u8> = halves.flat_map(|half| half.to_f32().to_le_bytes()).collect();
    for (options, values, bytes) in [
        ("", "f16", narrow),
        ("--feature-type table", "f16", narrow),
        ("--feature-type float32", "f32", &wide),
        ("--feature-type float32 --gpu-cache 64KiB --cache-policy degree", "f32", &wide),
    ] {
        let outcome = run(temp.path(), options, None, "attach; features").run().succeeds();
        let told = format!("{values} {:016x}\n", command::hash(bytes));
        assert!(outcome.stdout.contains(&told), "{options}: {told} in {outcome}");
    }
}

#[test]
fn integers_are_not_widened_and_the_refusal_says_what_to_write_instead() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let header = support::arrays::header("|u1", &[4000, 24], false);
    std::fs::write(graph.join("feat.npy"), [header, vec![7; 4000 * 24]].concat()).unwrap();
    std::fs::remove_file(graph.join("meta.json")).unwrap();
    let parts = ["--feature-type float32", "u8", "Omit --feature-type", "batch.x.float()"];
    run(temp.path(), "--feature-type float32", None, "file started").run().refuses(2, &parts);
    assert!(!temp.path().join("started").exists());
    let outcome = run(temp.path(), "", None, "attach; features").run().succeeds();
    assert!(outcome.stdout.contains("u8 "), "{outcome}");
}

#[test]
fn a_command_that_never_attaches_is_reported_with_how_to_attach() {
    let temp = directory();
    small_graph(temp.path());
    let outcome = run(temp.path(), "", None, "exit 0").run().ends_with(1);
    for part in ["the command (", "ended without having attached", "uvatrain.attach()"] {
        assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
    }
}

#[test]
fn a_command_that_fails_is_named_with_its_code_or_signal_and_the_batch() {
    let temp = directory();
    small_graph(temp.path());
    for (steps, parts) in [
        ("exit 7", ["ended with exit code 7", "before it had attached"]),
        ("attach; take 2; exit 3", ["ended with exit code 3", "at train batch 2 of epoch 1"]),
        ("attach; take 2; kill", ["was killed by SIGKILL", "at train batch 2 of epoch 1"]),
        ("kill", ["was killed by SIGKILL", "before it had attached"]),
    ] {
        let outcome = run(temp.path(), "", None, steps).run().ends_with(1);
        for part in parts.into_iter().chain(["the command ("]) {
            assert!(outcome.stderr.contains(part), "{steps}: {part}\n{outcome}");
        }
        assert!(!outcome.stderr.contains("panicked"), "{outcome}");
    }
}

#[test]
fn a_command_that_cannot_be_started_is_bad_usage_and_named() {
    let temp = directory();
    small_graph(temp.path());
    std::fs::write(temp.path().join("script.py"), "print()").unwrap();
    for (words, parts) in [
        ("no-such-program", ["no-such-program", "not found in PATH"]),
        ("./none", ["./none", "no such file"]),
        ("./script.py", ["./script.py", "not executable"]),
        ("./graph", ["./graph", "is a directory"]),
    ] {
        let args = ["run", "graph", "--metrics", "x.jsonl", "--", words];
        support::uvatrain(temp.path(), args).run().refuses(2, &parts);
    }
    // Values that only the system sees.
    let odd = temp.path().join("odd");
    std::fs::write(&odd, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&odd, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let args = ["run", "graph", "--fanouts", "5,4", "--", "./odd"];
    support::uvatrain(temp.path(), args).run().refuses(2, &["./odd", "interpreter"]);
}

#[test]
fn one_process_attaches_and_a_second_is_refused_with_the_reason() {
    let temp = directory();
    small_graph(temp.path());
    // In one process.
    let twice = run(temp.path(), "", None, "attach; attach").run().ends_with(1);
    assert!(twice.stderr.contains("is already attached"), "{twice}");
    // Two commands of a shell: the second starts while the first takes batches.
    let both = r#""$@" & wait; UVATRAIN_TEST_STEPS="attach" "$@"; test $? = 70"#;
    let outcome = run(temp.path(), "", Some(both), "attach; take 2").run().succeeds();
    for part in ["has attached to this run and has ended", "attached after it"] {
        assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
    }
    let at_once = r#""$@" & while ! test -e attached; do :; done; UVATRAIN_TEST_STEPS="attach" "$@"; code=$?
        touch over; wait; test $code = 70"#;
    let steps = "attach; file attached; await over; take 3";
    let outcome = run(temp.path(), "", Some(at_once), steps).run().succeeds();
    assert!(outcome.stderr.contains("attached after it: one process"), "{outcome}");
}

#[test]
fn a_module_of_another_version_is_refused_with_both() {
    let temp = directory();
    small_graph(temp.path());
    let other = r#"UVATRAIN_ATTACH="0.0.7:${UVATRAIN_ATTACH#*:}" "$@""#;
    let outcome = run(temp.path(), "", Some(other), "attach").run().ends_with(1);
    for part in ["0.0.7", env!("CARGO_PKG_VERSION"), "exit code 70"] {
        assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
    }
}

#[test]
fn a_module_of_another_build_is_refused_with_both_protocols() {
    let temp = directory();
    small_graph(temp.path());
    // The launcher's variable as a build with another number would have written it.
    let rest = "${UVATRAIN_ATTACH#*:*:}";
    let version = env!("CARGO_PKG_VERSION");
    let own = format!("protocol {};", protocol());
    let other = format!(r#"UVATRAIN_ATTACH="{version}:77:{rest}" "$@""#);
    let outcome = run(temp.path(), "", Some(&other), "attach").run().ends_with(1);
    for part in ["protocol 77", own.as_str(), "pip install", "exit code 70"] {
        assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
    }
    assert!(!outcome.stderr.contains("of hand-over is unknown"), "{outcome}");
}

#[test]
fn attaching_outside_of_a_run_says_how_to_start_one() {
    let temp = directory();
    let command = |variable: Option<&str>| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args([command::NAME, "--exact", "--nocapture"]).current_dir(temp.path());
        command.env(command::STEPS, "attach");
        if let Some(variable) = variable {
            command.env("UVATRAIN_ATTACH", variable);
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = command(None);
    assert!(code == Some(70) && said.contains("uvatrain run DATA"), "{code:?} {said}");
    let version = env!("CARGO_PKG_VERSION");
    // A launcher's variable without its socket: closed by a program between, or another file by now.
    for number in [99, 1] {
        let (code, said) = command(Some(&format!("{version}:{}:1:{number}:5", protocol())));
        assert!(
            code == Some(70) && said.contains("did not inherit the launcher's socket"),
            "{code:?} {said}"
        );
    }
    let (code, said) = command(Some("nonsense"));
    assert_eq!(code, Some(70), "{said}");
}

#[test]
fn a_shell_may_be_between_but_not_a_program_that_closes_the_socket() {
    let temp = directory();
    small_graph(temp.path());
    for shell in [r#"exec "$@""#, r#""$@"; exit $?"#, r#"env -u HOME nohup "$@""#] {
        run(temp.path(), "", Some(shell), "attach; take 3").run().succeeds();
    }
    // The number is the second-last part of the variable.
    let closed = r#"exec bash -c 'rest=${UVATRAIN_ATTACH%:*}; eval "exec ${rest##*:}>&-"; "$@"' bash "$@""#;
    let outcome = run(temp.path(), "", Some(closed), "attach").run().ends_with(1);
    assert!(outcome.stderr.contains("did not inherit the launcher's socket"), "{outcome}");
}

#[test]
fn options_that_cannot_work_are_refused_before_the_command_is_started() {
    let temp = directory();
    small_graph(temp.path());
    for (options, code, part) in [
        ("--in-process", 2, "uvatrain.Loader"),
        ("--fanouts -1", 2, "--slot-bytes"),
        ("--slots 0", 2, "--slots"),
        ("--device cuda:0", 3, "--device cuda:0"),
        ("--plan none.json", 2, "none.json"),
    ] {
        let args = format!("run graph {options} -- touch started");
        let outcome = support::uvatrain(temp.path(), args.split(' ')).run().refuses(code, &[part]);
        assert!(!temp.path().join("started").exists(), "{outcome}");
    }
}

#[test]
fn an_interrupt_of_the_launcher_reaches_the_command_with_its_next_batch() {
    let temp = directory();
    small_graph(temp.path());
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let _ = std::fs::remove_file(temp.path().join(command::RECORD));
        let mut run = run(temp.path(), "", None, "attach; take").start();
        wait_for_record(&mut run, temp.path(), 5);
        kill_process(Pid::from_child(&run.child), signal).unwrap();
        let outcome = run.wait().ends_with(code);
        assert!(outcome.stderr.contains("notified with its next batch"), "{outcome}");
        // The command ended on its own: with the code for a stop request.
        assert!(outcome.stderr.contains("command: interrupted by SIGINT"), "{outcome}");
    }
}

#[test]
fn an_interrupt_of_the_whole_group_ends_command_and_run() {
    let temp = directory();
    small_graph(temp.path());
    for steps in ["attach; take", "attach; file attached; linger", "file attached; linger"] {
        let _ = std::fs::remove_file(temp.path().join(command::RECORD));
        let _ = std::fs::remove_file(temp.path().join("attached"));
        let mut run = run(temp.path(), "", None, steps).start();
        if steps.contains("take") {
            wait_for_record(&mut run, temp.path(), 5);
        } else {
            wait_until("the command lingers", || temp.path().join("attached").exists());
        }
        kill_process_group(Pid::from_child(&run.child), Signal::INT).unwrap();
        run.wait().ends_with(130);
    }
}

#[test]
fn a_command_that_has_not_attached_gets_the_launchers_signals() {
    let temp = directory();
    small_graph(temp.path());
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let _ = std::fs::remove_file(temp.path().join("there"));
        let run = run(temp.path(), "", None, "file there; linger").start();
        wait_until("the command is there", || temp.path().join("there").exists());
        kill_process(Pid::from_child(&run.child), signal).unwrap();
        let outcome = run.wait().ends_with(code);
        assert!(outcome.stderr.contains("passed on to the command"), "{outcome}");
    }
}

#[test]
fn a_second_interrupt_ends_a_command_that_does_not_listen() {
    let temp = directory();
    small_graph(temp.path());
    let run = run(temp.path(), "", None, "ignore; attach; file there; linger").start();
    wait_until("the command is there", || temp.path().join("there").exists());
    let launcher = Pid::from_child(&run.child);
    for signal in [Signal::INT, Signal::INT, Signal::TERM] {
        kill_process(launcher, signal).unwrap();
    }
    let outcome = run.wait();
    assert!([130, 143].contains(&outcome.code()), "{outcome}");
}

/// The roles prepare such a batch in a fraction of a millisecond: they wait for a command that holds each batch for 30
/// ms, and a command that does not hold batches takes them as they arrive. In the second case the scheduler determines
/// who waits, so this is not checked.
#[test]
fn a_far_slower_or_faster_command_gets_the_same_batches_from_the_slots() {
    let temp = directory();
    small_graph(temp.path());
    for hold in [0, 30] {
        let _ = std::fs::remove_file(temp.path().join(command::RECORD));
        let steps = format!("attach; hold {hold}; take 60; close");
        let outcome = run(temp.path(), "--metrics run.jsonl", None, &steps).run().succeeds();
        let taken = recorded(temp.path());
        assert_eq!(taken.len(), 60, "{outcome}");
        let epochs = u32::try_from(taken.last().unwrap().1).unwrap() + 1;
        let train: Vec<_> =
            expected(temp.path(), epochs).into_iter().filter(|batch| batch.0 == "train").collect();
        assert_eq!(taken, train[..60]);
        if hold > 0 {
            let metrics = Metrics::read(&temp.path().join("run.jsonl"));
            assert_eq!(metrics.of("end").next().expect("an end")["bottleneck"], "consumer", "{outcome}");
        }
    }
}

#[test]
fn a_process_of_another_user_does_not_get_the_batches() {
    if !rustix::process::getuid().is_root() {
        println!("skipped: only root can become another user");
        return;
    }
    let temp = directory();
    small_graph(temp.path());
    // Another real user, as which it is known to others; still allowed to read what root's cache has of libtorch.
    let become_nobody = "import os, sys; os.setresuid(65534, 0, 0); os.execv(sys.argv[1], sys.argv[1:])";
    let shell = format!("python3 -c '{become_nobody}' \"$@\"; exit $?");
    let outcome = run(temp.path(), "", Some(&shell), "attach; take").run().ends_with(1);
    assert!(outcome.stderr.contains("of user 65534, and this one is of user 0"), "{outcome}");
    assert!(recorded(temp.path()).is_empty());
}

/// A process of the command that connects with the pidfd of another process: the launcher's, or that of its argument.
/// It prints the answer, and ends with 5 if it was accepted.
const KNOCKS_FOR_ANOTHER: &str = r#"
import array, json, os, socket, struct, sys
version, protocol, launcher, descriptor, _ = os.environ["UVATRAIN_ATTACH"].split(":")
who = int(sys.argv[1]) if len(sys.argv) > 1 else int(launcher)
door = socket.socket(fileno=int(descriptor))
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
part = {"index": 0, "of": 1}
words = json.dumps({"version": version, "protocol": int(protocol), "pid": who, "part": part}).encode()
message = b"uva-hand" + struct.pack("<IIQ", 1, 2, len(words)) + words
rights = array.array("i", [os.pidfd_open(who), theirs.fileno()]).tobytes()
door.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
theirs.close()
answer = ours.recv(1 << 17)[24:].decode()
print("answered", answer[:400], file=sys.stderr, flush=True)
sys.exit(5 if "Welcome" in answer else 0)
"#;

#[test]
fn a_process_that_attaches_in_anothers_name_is_rejected_and_ends_no_other() {
    let temp = directory();
    small_graph(temp.path());
    let mut bystander = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    for named in [None, Some(bystander.id().to_string())] {
        let mut words = "run graph --fanouts 5,4 --batch-size 100 --samplers 1 -- python3 -c"
            .split(' ')
            .chain([KNOCKS_FOR_ANOTHER])
            .collect::<Vec<_>>();
        words.extend(named.as_deref());
        // Not ended by a signal: the launcher did not mistake itself for the attached process.
        let outcome = support::uvatrain(temp.path(), words).run().ends_with(1);
        for part in ["answered", "sent the pidfd of process", "ended without having attached"] {
            assert!(outcome.stderr.contains(part), "{part}\n{outcome}");
        }
        assert!(bystander.try_wait().unwrap().is_none(), "it was ended\n{outcome}");
    }
    // The next process to connect is accepted.
    let shell = format!("python3 -c '{KNOCKS_FOR_ANOTHER}' && exec \"$@\"");
    run(temp.path(), "", Some(&shell), "attach; take 3; close").run().succeeds();
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

/// The cores that the first thread of a process may use.
fn cores_of(pid: i32) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or_default().trim().to_owned()
}

#[test]
fn pinned_samplers_have_a_core_each_and_make_the_same_batches() {
    let temp = directory();
    small_graph(temp.path());
    let mut run =
        run(temp.path(), "--pin-samplers", None, "attach; take 1; await seen; pass train 0; close").start();
    wait_for_record(&mut run, temp.path(), 1);
    let mut cores: Vec<String> = samplers_of(&run, 2).iter().map(|sampler| cores_of(sampler.pid)).collect();
    std::fs::write(temp.path().join("seen"), "").unwrap();
    run.wait().succeeds();
    for core in &cores {
        assert!(core.parse::<usize>().is_ok(), "{cores:?} are not one core each");
    }
    cores.sort();
    cores.dedup();
    let there = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(cores.len(), there.min(2), "{cores:?}");
    let all = expected(temp.path(), 1);
    let trained = all.iter().filter(|(split, ..)| split == "train").count();
    assert_eq!(recorded(temp.path())[1..=trained], all[..trained]);
}

//! `uvatrain top`: a run watched by another process, and addresses with anything else. The real binary on both sides.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::support::runs::{small_graph, train, wait_until};
use crate::support::{Running, directory, uvatrain};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

/// A run that does not end on its own, and its port.
fn watched_run(directory: &std::path::Path, options: &str) -> (Running, u16) {
    // A port that was just free; the system does not assign such a number again for a while.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = format!("--epochs 100000 --metrics-listen {port} {options}");
    let run = train(directory, "run.jsonl", &options).start();
    wait_until("the loss of an epoch is published", || figures(port).contains("uvatrain_epoch_loss "));
    (run, port)
}

/// The figures of the run; empty while it does not listen yet.
fn figures(port: u16) -> String {
    let mut answer = String::new();
    if let Ok(mut client) = TcpStream::connect(("127.0.0.1", port)) {
        let _ = client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        let _ = client.read_to_string(&mut answer);
    }
    answer
}

fn interrupt(run: Running) {
    kill_process(Pid::from_child(&run.child), Signal::INT).unwrap();
    run.wait().ends_with(130);
}

/// The words of the line that begins with these.
fn row<'f>(frame: &'f str, name: &str) -> Vec<&'f str> {
    let line =
        frame.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in\n{frame}"));
    line.split_whitespace().collect()
}

#[test]
fn one_view_of_a_run_shows_roles_slots_speed_loss_and_memory() {
    let temp = directory();
    small_graph(temp.path());
    let (run, port) = watched_run(temp.path(), "--samplers 2 --slots 3 --batch-slots 5 --gpu-cache 64KiB");
    // Stdout is a pipe, so no view is drawn, with --once or without.
    let port_alone = port.to_string();
    let printed = format!("http://127.0.0.1:{port}/metrics");
    for args in [["top", &port_alone, "--once"], ["top", &printed, "--interval=500ms"]] {
        let outcome = uvatrain(temp.path(), args).run().succeeds();
        let frame = &outcome.stdout;
        assert!(!frame.contains('\x1b') && outcome.stderr.is_empty(), "{outcome}");
        assert!(row(frame, "run").starts_with(&["run", "graph", "at"]), "{outcome}");
        let epoch = row(frame, "epoch");
        assert!(epoch[1].parse::<u32>().unwrap() >= 1 && epoch.contains(&"100000,"), "{outcome}");
        for name in ["loss", "accuracy"] {
            assert!(row(frame, name).len() > 3, "{name}: {outcome}");
        }
        assert!(frame.contains("% validation accuracy"), "{outcome}");
        let speed = row(frame, "speed");
        // From the second between its two samples; on a busy machine the speed may be 0.
        assert!(speed[1].parse::<f64>().unwrap() >= 0.0 && speed[2] == "batches/s,", "{outcome}");
        assert!(frame.contains("/s gathered") && frame.contains(" training batches, "), "{outcome}");
        // The shares of each role add up to its whole time, and the role with the largest working share is the
        // bottleneck.
        let (mut most, mut named) = (0, Vec::new());
        for (role, processes) in [("sampler ", "2"), ("producer", "1"), ("consumer", "1")] {
            let words = row(frame, role);
            assert_eq!(words[1], processes, "{outcome}");
            let shares: Vec<i32> = words[2..].iter().filter_map(|word| word.parse().ok()).collect();
            assert!(shares.len() == 3 && (98..=102).contains(&shares.iter().sum::<i32>()), "{outcome}");
            most = most.max(shares[0]);
            named.extend((words.last() == Some(&"bottleneck")).then_some(shares[0]));
        }
        assert!(named.iter().all(|share| *share == most) && (most == 0 || !named.is_empty()), "{outcome}");
        // Every slot is in one of the four states.
        for (ring, slots) in [("batch", 5), ("feature", 3)] {
            let words = row(frame, ring);
            let numbers: Vec<i32> = words[1..].iter().map(|word| word.parse().unwrap()).collect();
            assert_eq!(
                (numbers[0], numbers[1..].iter().sum(), numbers.len()),
                (slots, slots, 5),
                "{outcome}"
            );
        }
        assert!(row(frame, "rows").last() == Some(&"%") && row(frame, "lists").len() > 3, "{outcome}");
        let launcher = row(frame, "launcher");
        assert_eq!(launcher[1], run.child.id().to_string(), "{outcome}");
        for process in ["sampler 0", "sampler 1"] {
            assert!(row(frame, process).last().unwrap().ends_with('B'), "{outcome}");
        }
    }
    interrupt(run);
    // After the run's end no process listens.
    uvatrain(temp.path(), ["top", &port_alone])
        .run()
        .refuses(2, &["no process listens", &port_alone, "--metrics-listen"]);
}

#[test]
fn its_figures_are_served_in_the_format_of_prometheus() {
    let temp = directory();
    small_graph(temp.path());
    for (options, processes) in [("--samplers 2", 5), ("--samplers 2 --in-process", 1)] {
        let (run, port) = watched_run(temp.path(), options);
        let body = figures(port);
        let of = |name: &str| body.lines().filter(|line| line.starts_with(&format!("{name}{{"))).count();
        assert_eq!(of("uvatrain_role_seconds_total"), 9, "{body}");
        assert_eq!(of("uvatrain_slots"), 8, "{body}");
        assert_eq!(of("uvatrain_resident_bytes"), processes, "{body}");
        for line in body.lines().filter(|line| line.starts_with("uvatrain_")) {
            let name = line.split(['{', ' ']).next().unwrap();
            assert_eq!(body.matches(&format!("# TYPE {name} ")).count(), 1, "{line}");
        }
        interrupt(run);
    }
}

/// Reads an answer that has a minute to come.
fn answer_to(mut client: TcpStream) -> String {
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer within a minute");
    answer
}

fn connected(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).unwrap()
}

#[test]
fn a_client_that_sends_byte_by_byte_delays_no_other_and_is_dropped() {
    let temp = directory();
    small_graph(temp.path());
    let (run, port) = watched_run(temp.path(), "");
    let mut slow = connected(port);
    let (begun, first) = mpsc::channel();
    let (over, until) = mpsc::channel::<()>();
    let drips = std::thread::spawn(move || {
        loop {
            if slow.write_all(b"G").is_err() {
                return true;
            }
            let _ = begun.send(());
            match until.recv_timeout(Duration::from_millis(200)) {
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                _ => return false,
            }
        }
    });
    first.recv().unwrap();
    assert!(answer_to(connected(port)).contains("uvatrain_batches_total"));
    // Its time is over although it keeps sending.
    wait_until("the slow client is let go", || drips.is_finished());
    drop(over);
    assert!(drips.join().unwrap());
    interrupt(run);
}

#[test]
fn many_clients_that_say_nothing_do_not_keep_another_from_its_answer() {
    let temp = directory();
    small_graph(temp.path());
    let (run, port) = watched_run(temp.path(), "");
    let idle: Vec<_> = (0..130).map(|_| connected(port)).collect();
    assert!(answer_to(connected(port)).contains("uvatrain_batches_total"));
    drop(idle);
    interrupt(run);
}

/// How many descriptors the run has open.
fn open_descriptors(run: &Running) -> u64 {
    fs::read_dir(format!("/proc/{}/fd", run.child.id())).unwrap().count() as u64
}

fn limit_descriptors(run: &Running, most: u64) {
    let limit = Rlimit { current: Some(most), maximum: Some(1024) };
    prlimit(Some(Pid::from_child(&run.child)), Resource::Nofile, limit).unwrap();
}

/// Clock ticks that the run's process has used, and its thread that answers.
fn ticks(run: &Running) -> (u64, u64) {
    let of = |stat: String| -> u64 {
        // After the name: the state, then numbers, of which the terminal's group is -1 without a terminal. User and
        // system time are fields 14 and 15 of proc(5), whose third is the state.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let process = format!("/proc/{}", run.child.id());
    let tasks = fs::read_dir(format!("{process}/task")).unwrap().flatten();
    let answers = tasks
        .map(|task| fs::read_to_string(task.path().join("stat")).unwrap())
        .find(|stat| stat.contains("(metrics)"));
    (of(fs::read_to_string(format!("{process}/stat")).unwrap()), of(answers.unwrap()))
}

#[test]
fn without_descriptors_no_client_is_answered_and_nothing_spins() {
    let temp = directory();
    small_graph(temp.path());
    let (run, port) = watched_run(temp.path(), "--in-process");
    let open = open_descriptors(&run);
    // Enough for the files that the run itself opens occasionally, and not for the clients.
    limit_descriptors(&run, open + 3);
    let idle: Vec<_> = (0..130).map(|_| connected(port)).collect();
    assert!(answer_to(connected(port)).contains("uvatrain_batches_total"));
    drop(idle);
    wait_until("the clients are let go", || open_descriptors(&run) <= open);
    limit_descriptors(&run, open);
    let waiting: Vec<_> = (0..8).map(|_| connected(port)).collect();
    let before = ticks(&run);
    wait_until("the run has worked for two seconds", || ticks(&run).0 >= before.0 + 200);
    let used = ticks(&run).1 - before.1;
    assert!(used <= 40, "the idle thread that answers has used {used} ticks");
    limit_descriptors(&run, open + 100);
    drop(waiting);
    assert!(answer_to(connected(port)).contains("uvatrain_batches_total"));
    interrupt(run);
}

/// Answers each client with this, and counts them.
fn server(answer: &'static [u8], clients: usize) -> (u16, JoinHandle<()>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let serve = move || {
        for client in socket.incoming().take(clients) {
            let mut client = client.unwrap();
            let mut request = [0; 1024];
            let asked = client.read(&mut request).unwrap();
            assert!(request[..asked].starts_with(b"GET /metrics HTTP/1.1\r\n"));
            let _ = client.write_all(answer);
        }
    };
    (port, std::thread::spawn(serve))
}

#[test]
fn a_response_that_is_not_of_a_run_is_refused_and_quoted() {
    let temp = directory();
    let cases: [(&[u8], &str); 6] = [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH-2.0"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404 Not Found"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "<html>"),
        (b"HTTP/1.1 200 OK\r\n\r\n# TYPE node_load1 gauge\nnode_load1 0.5\n", "another program"),
        (b"\xff\xfe\x00\x80", "is not a run of uvatrain"),
        (b"", "without an answer"),
    ];
    for (answer, part) in cases {
        let (port, served) = server(answer, 1);
        let port = port.to_string();
        uvatrain(temp.path(), ["top", &port]).run().refuses(2, &[&format!("127.0.0.1:{port}"), part]);
        served.join().unwrap();
    }
    // A server that accepts connections but never sends.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    uvatrain(temp.path(), ["top", &port]).run().refuses(2, &["no answer", "no answer within"]);
}

#[test]
fn an_invalid_address_is_refused_and_a_file_is_distinguished_from_it() {
    let temp = directory();
    fs::write(temp.path().join("run.jsonl"), "{}\n").unwrap();
    uvatrain(temp.path(), ["top", "run.jsonl"])
        .run()
        .refuses(2, &["run.jsonl is a file", "--metrics-listen"]);
    uvatrain(temp.path(), ["top", "nowhere"]).run().refuses(2, &["'nowhere'", "HOST:PORT"]);
    uvatrain(temp.path(), ["top", "--interval", "1ms"]).run().refuses(2, &["--interval", "from 100ms to 1m"]);
}

/// Runs `uvatrain top` on a terminal of `script` with the given keys. Returns the drawn output, with the exit code as
/// the last line.
fn on_a_terminal(directory: &std::path::Path, port: u16, columns: u16, keys: Keys<'_>) -> Option<String> {
    // Ctrl-C reaches all processes on the terminal: a shell without a trap for it ends before it prints the code.
    let top = format!(
        "trap : INT; stty cols {columns} rows 40; '{}' top {port} --interval 200ms; echo \"code $?\"; stty -a | tr ' ' '\\n' | grep icanon",
        env!("CARGO_BIN_EXE_uvatrain")
    );
    let mut command = std::process::Command::new("script");
    command.args(["-qfec", &top, "/dev/null"]).current_dir(directory);
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    // The same shell wherever the tests run: script(1) takes the caller's own.
    command.env("TERM", "xterm").env("SHELL", "/bin/sh");
    let Ok(mut terminal) = command.spawn() else {
        println!("skipped: there is no script(1)");
        return None;
    };
    let mut drawn = terminal.stdout.take().unwrap();
    let (mut seen, mut chunk, mut typed) = (Vec::new(), [0; 4096], false);
    loop {
        match drawn.read(&mut chunk).unwrap() {
            0 => break,
            count => seen.extend_from_slice(&chunk[..count]),
        }
        // A second frame: it is drawn in place.
        if !typed && seen.windows(3).filter(|bytes| bytes == b"\x1b[H").count() >= 2 {
            typed = true;
            match keys {
                Keys::Typed(keys) => terminal.stdin.as_mut().unwrap().write_all(keys).unwrap(),
                Keys::EndOf(run) => kill_process(Pid::from_child(&run.child), Signal::INT).unwrap(),
            }
        }
    }
    terminal.wait().unwrap();
    Some(String::from_utf8_lossy(&seen).into_owned())
}

/// What ends the view.
#[derive(Clone, Copy)]
enum Keys<'r> {
    Typed(&'r [u8]),
    EndOf(&'r Running),
}

#[test]
fn on_a_terminal_it_is_drawn_in_place_until_q_ctrl_c_or_the_runs_end() {
    let temp = directory();
    small_graph(temp.path());
    let (run, port) = watched_run(temp.path(), "");
    for keys in [Keys::Typed(b"q"), Keys::Typed(b"\x03"), Keys::EndOf(&run)] {
        let Some(seen) = on_a_terminal(temp.path(), port, 80, keys) else { break };
        let (drawn, behind) = seen.split_once("\x1b[?1049l").unwrap_or_else(|| panic!("it stays in: {seen}"));
        assert!(drawn.starts_with("\x1b[?1049h\x1b[?25l"), "{seen}");
        assert!(drawn.matches("waiting for output").count() >= 2, "{seen}");
        // The last view stays, and the terminal is restored.
        assert!(behind.contains("waiting for output") && behind.contains("code 0"), "{seen}");
        assert!(behind.lines().any(|line| line.trim() == "icanon"), "{seen}");
        assert_eq!(behind.contains("has ended"), matches!(keys, Keys::EndOf(_)), "{seen}");
    }
    // The last of them has ended it, if script(1) exists.
    let _ = kill_process(Pid::from_child(&run.child), Signal::INT);
    run.wait().ends_with(130);
}

#[test]
fn a_wide_terminal_is_used_and_what_answers_cannot_command_it() {
    let temp = directory();
    let mut text = String::from(
        "uvatrain_batches_total 40\nuvatrain_info{version=\"1\",dataset=\"\x1b]0;owned\x07\u{9b}2J\"} 1\n",
    );
    for role in ["sampler", "producer", "consumer"] {
        for doing in ["working", "waiting_input", "waiting_output"] {
            text += &format!("uvatrain_role_seconds_total{{role=\"{role}\",doing=\"{doing}\"}} 1\n");
        }
    }
    for ring in ["batch", "feature"] {
        for state in ["free", "filling", "ready", "reading"] {
            text += &format!("uvatrain_slots{{ring=\"{ring}\",state=\"{state}\"}} 1\n");
        }
    }
    let answer: &'static str = format!("HTTP/1.1 200 OK\r\n\r\n{text}").leak();
    for (columns, side_by_side) in [(80, false), (160, true)] {
        let (port, _) = server(answer.as_bytes(), usize::MAX);
        let Some(seen) = on_a_terminal(temp.path(), port, columns, Keys::Typed(b"q")) else { return };
        let both = |line: &str| line.contains("40 training batches") && line.contains("sampler");
        assert_eq!(seen.lines().any(both), side_by_side, "{seen}");
        assert!(!seen.contains("\x1b]0;") && !seen.contains('\u{9b}'), "{seen}");
        assert!(seen.contains("\\x1b]0;owned\\x07\\u{9b}2J"), "{seen}");
    }
}

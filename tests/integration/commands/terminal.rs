//! Names, errors and answers from outside on a terminal: their control characters are never printed.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

use crate::support::runs::small_graph;
use crate::support::{Outcome, Uvatrain, directory, uvatrain};
use serde_json::Value;

/// Sets a title, colours, deletes, and reverses the direction of writing, in seven bits and in eight.
const PLANTED: &str = "\x1b]0;owned\x07\x1b[31mred\x7f\u{9b}1m\u{202e}evil";
/// The escaped form of its beginning.
const SHOWN: &str = "\\x1b]0;owned\\x07\\x1b[31mred\\x7f\\u{9b}1m\\u{202e}evil";

fn is_command(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
}

#[track_caller]
fn assert_fit(what: &str, outcome: &Outcome) {
    for stream in [&outcome.stdout, &outcome.stderr] {
        if let Some(at) = stream.find(is_command) {
            panic!("{what}: {:?}\n{outcome}", &stream[at..].chars().take(20).collect::<String>());
        }
    }
}

/// A graph whose name and licence are planted.
fn planted_graph(directory: &Path) {
    let file = small_graph(directory).join("meta.json");
    let mut meta: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    meta["name"] = format!("{PLANTED}\nforged line").into();
    meta["licence"] = PLANTED.into();
    fs::write(&file, serde_json::to_vec(&meta).unwrap()).unwrap();
}

#[test]
fn no_command_passes_on_control_characters_of_names_words_or_errors() {
    let temp = directory();
    planted_graph(temp.path());
    let write = |name: &str, text: &str| fs::write(temp.path().join(name), text).unwrap();
    write("key.toml", "[train]\n\"\\u001b[31mx\\u009b1m\\u202e\" = 1\n");
    let escaped: String = PLANTED.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
    write("value.toml", &format!("[train]\nmodel = \"{escaped}\"\n"));
    write("section.toml", "[\"tr\\u001b[31m\\u009bain\"]\nmodel = \"sage\"\n");
    write("garbage.jsonl", &format!("{{\"event\":\"{PLANTED}\"}}\n"));
    write("raw.toml", &format!("[train]\n{PLANTED}\n"));
    let call = |words: &[&str]| -> Uvatrain { uvatrain(temp.path(), words) };
    let run = ["run", "graph", "--fanouts", "5,4", "--", "sh", "-c", "exit 3", PLANTED];
    let train =
        "train graph --fanouts 5,4 --hidden 8 --epochs 1 --train-threads 1".split(' ').collect::<Vec<_>>();
    let dashed = format!("--{PLANTED}");
    let port = format!("{PLANTED}:9");
    let report = ["report", "garbage.jsonl", "--out", PLANTED];
    // The call, its exit code, and whether the planted text is visible in escaped form.
    let cases: Vec<(&str, Uvatrain, i32, bool)> = vec![
        ("a dataset's name and licence", call(&["info", "graph"]), 0, true),
        ("in JSON", call(&["info", "graph", "--json"]), 0, false),
        ("a run's dataset", call(&train), 0, true),
        ("a path that is not there", call(&["info", PLANTED]), 2, true),
        ("a path to import", call(&["import", "--from", "npy", PLANTED, "out"]), 2, true),
        ("an option", call(&["info", &dashed]), 2, true),
        ("a value", call(&["train", "graph", "--model", PLANTED]), 2, true),
        ("a command", call(&[PLANTED]), 2, true),
        ("a path to write", call(&["generate", PLANTED, "--nodes", "50"]), 0, true),
        ("an address", call(&["top", &port]), 2, true),
        ("a file of options", call(&["train", "graph", "--config", PLANTED]), 2, true),
        ("a key in it", call(&["train", "graph", "--config", "key.toml"]), 2, false),
        ("a section of it", call(&["train", "graph", "--config", "section.toml"]), 2, false),
        ("a value in it", call(&["train", "graph", "--config", "value.toml"]), 2, true),
        ("invalid TOML", call(&["train", "graph", "--config", "raw.toml"]), 2, false),
        ("a filter", call(&["info", "graph"]).env("UVATRAIN_LOG", PLANTED), 0, true),
        ("a format", call(&["info", "graph"]).env("UVATRAIN_LOG_FORMAT", PLANTED), 0, true),
        (
            "a line of the log",
            call(&["train", "graph", "--config", "value.toml"]).env("UVATRAIN_LOG", "debug"),
            2,
            true,
        ),
        (
            "a line of the log in JSON",
            call(&["train", "graph", "--config", "value.toml"])
                .env("UVATRAIN_LOG", "debug")
                .env("UVATRAIN_LOG_FORMAT", "json"),
            2,
            true,
        ),
        ("metrics", call(&report), 2, false),
        ("a command of the user's", call(&run), 1, true),
        ("an MPS daemon's place", call(&["mps", "stop"]).env("CUDA_MPS_PIPE_DIRECTORY", PLANTED), 0, false),
    ];
    for (what, call, code, is_shown) in cases {
        let outcome = call.run();
        assert!(outcome.code() == code || what.contains("MPS"), "{what}\n{outcome}");
        assert_fit(what, &outcome);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(!is_shown || said.contains(SHOWN), "{what}\n{outcome}");
        assert!(!outcome.stdout.lines().any(|line| line.starts_with("forged")), "{what}\n{outcome}");
    }
}

#[test]
fn json_without_control_characters_means_the_same() {
    let temp = directory();
    planted_graph(temp.path());
    let facts = uvatrain(temp.path(), ["info", "graph", "--json"]).run().succeeds();
    assert_fit("info --json", &facts);
    assert_eq!(facts.json()["name"], format!("{PLANTED}\nforged line"));
    assert_eq!(facts.json()["licence"], PLANTED);
}

#[test]
fn our_own_colours_stay_where_a_word_of_the_command_line_has_some_too() {
    let temp = directory();
    let coloured = |words: &[&str]| {
        uvatrain(temp.path(), words).env("NO_COLOR", "").env("CLICOLOR_FORCE", "1").run().ends_with(2)
    };
    let plain = coloured(&["train", "graph", "--model", "none"]);
    assert!(plain.stderr.contains("\x1b[1m"), "{plain}");
    let planted = coloured(&["train", "graph", "--model", PLANTED]);
    assert!(planted.stderr.contains(SHOWN), "{planted}");
    assert_eq!(planted.stderr.replace(SHOWN, "none").split('[').count(), plain.stderr.split('[').count());
}

#[test]
fn what_answers_top_says_nothing_to_the_terminal() {
    let temp = directory();
    let info =
        format!("uvatrain_batches_total 7\nuvatrain_info{{version=\"{PLANTED}\",dataset=\"{PLANTED}\"}} 1\n");
    let answers = [
        (0, format!("HTTP/1.1 200 OK\r\n\r\n{info}")),
        (2, format!("HTTP/1.1 {PLANTED}\r\n\r\n")),
        (2, PLANTED.to_owned()),
        (2, format!("HTTP/1.1 200 OK\r\n\r\n{PLANTED}\n")),
    ];
    for (code, answer) in answers {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port().to_string();
        let reply = answer.clone();
        std::thread::spawn(move || {
            for client in socket.incoming() {
                let mut client = client.unwrap();
                let _ = client.read(&mut [0; 1024]);
                let _ = client.write_all(reply.as_bytes());
            }
        });
        let outcome =
            uvatrain(temp.path(), ["top", &port, "--once", "--interval", "100ms"]).run().ends_with(code);
        assert_fit(&answer, &outcome);
        assert!(code != 0 || outcome.stdout.contains(SHOWN), "{outcome}");
    }
}

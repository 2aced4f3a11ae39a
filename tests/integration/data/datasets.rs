//! The commands that make datasets from users' files: their refusals, their messages, and their end after a signal. The
//! real binary throughout; only the last tests need libtorch.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::arrays::{header, npy, six_nodes};
use crate::support::stamps::{change_behind_a_stamp, settle};
use crate::support::{Outcome, assert_same_contents, contents, directory, uvatrain, uvatrain_behind};
use rustix::process::{Pid, Signal, kill_process};

fn run(directory: &Path, words: &str) -> Outcome {
    uvatrain(directory, words.split_whitespace()).run()
}

fn generate(directory: &Path, out: &str, more: &str) {
    run(directory, &format!("generate {out} --nodes 3000 --avg-degree 8 --feat-dim 12 --classes 4 {more}"))
        .succeeds();
}

// ---- refusals

/// Matrices and labels of a Planetoid graph of three nodes, by the ends of their files' names.
const PLANETOID: [(&str, &[u8]); 6] = [
    ("x", include_bytes!("../../../fuzz/seeds/csr_2x2.pickle")),
    ("allx", include_bytes!("../../../fuzz/seeds/csr_2x2.pickle")),
    ("tx", include_bytes!("../../../fuzz/seeds/csr_1x2.pickle")),
    ("y", include_bytes!("../../../fuzz/seeds/labels_2x2.pickle")),
    ("ally", include_bytes!("../../../fuzz/seeds/labels_2x2.pickle")),
    ("ty", include_bytes!("../../../fuzz/seeds/labels_1x2.pickle")),
];

#[test]
fn a_path_without_a_file_ends_with_2_whatever_its_error() {
    let temp = directory();
    let at = |name: &str| temp.path().join(name);
    six_nodes(&at("folders"));
    fs::remove_file(at("folders/feat.npy")).unwrap();
    fs::create_dir(at("folders/feat.npy")).unwrap();
    symlink("loop", at("loop")).unwrap();
    six_nodes(&at("loops"));
    fs::remove_file(at("loops/label.npy")).unwrap();
    symlink("label.npy", at("loops/label.npy")).unwrap();
    fs::create_dir(at("index")).unwrap();
    let own: [(&str, &[u8]); 2] = [
        ("test.index", b"2\n\xff\n"),
        ("graph", b"(dp0\nI0\n(lp1\nI1\nasI1\n(lp2\nI0\naI2\nasI2\n(lp3\nI1\nas."),
    ];
    for (part, bytes) in PLANETOID.into_iter().chain(own) {
        fs::write(at(&format!("index/ind.small.{part}")), bytes).unwrap();
    }
    let long = "x".repeat(300);
    let cases = [
        ("info folders", "folders/feat.npy"),
        ("import --from npy folders out", "folders/feat.npy"),
        ("info loop", "loop"),
        ("info loops", "loops/label.npy"),
        ("export loop out --to npy", "loop"),
        ("import --from npy loop out", "loop"),
        ("import --from gnn-npz loop out", "loop"),
        ("import --from edgelist loop out", "loop"),
        ("import --from graphbolt loop out", "loop"),
        ("import --from igb loop out", "loop"),
        ("import --from planetoid index out", "ind.small.test.index"),
        ("info LONG", "xxx"),
        ("generate LONG --nodes 100", "xxx"),
        ("import --from npy folders LONG", ""),
    ];
    let before = contents_of_regular(temp.path());
    for (words, file) in cases {
        run(temp.path(), &words.replace("LONG", &long)).refuses(2, &[file]);
        assert_eq!(before, contents_of_regular(temp.path()), "{words}");
    }
}

/// The names of everything in a directory; links are not followed, so that loops of them do no harm.
fn contents_of_regular(directory: &Path) -> BTreeSet<OsString> {
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name != "cache")
        .collect()
}

#[test]
fn a_source_that_does_not_exist_is_named_with_what_the_format_reads() {
    let temp = directory();
    for (format, reads) in [
        ("npy", "a directory of .npy files"),
        ("ogb", "with raw and split"),
        ("planetoid", "ind.NAME.x"),
        ("gnn-npz", "one .npz file"),
        ("graphbolt", "metadata.yaml"),
        ("edgelist", "one edge per line"),
        ("igb", "processed/paper/node_feat.npy"),
        ("csv", "edges.csv"),
        ("parquet", "edges.parquet"),
    ] {
        let from = format!("--from {format} reads");
        run(temp.path(), &format!("import --from {format} nosuch out")).refuses(2, &["nosuch", &from, reads]);
    }
    assert_same_contents(&Default::default(), &contents(temp.path()));
}

/// 270 KB in which 30,000 nodes share a list of 30,000: 7 GB of ids when they are taken apart.
#[test]
fn a_pickle_whose_lists_share_their_items_is_refused_in_little_memory() {
    let temp = directory();
    let at = |name: &str| temp.path().join(format!("graph/ind.small.{name}"));
    fs::create_dir(temp.path().join("graph")).unwrap();
    let own: [(&str, &[u8]); 1] = [("test.index", b"2\n")];
    for (part, bytes) in PLANETOID.into_iter().chain(own) {
        fs::write(at(part), bytes).unwrap();
    }
    let mut pickle = b"\x80\x02}(J\0\0\0\0]q\x01(".to_vec();
    pickle.extend(b"K\x01".repeat(30_000));
    pickle.push(b'e');
    for node in 1..30_000_u32 {
        pickle.push(b'J');
        pickle.extend(node.to_le_bytes());
        pickle.extend(b"h\x01");
    }
    pickle.extend(b"u.");
    fs::write(at("graph"), pickle).unwrap();
    let limit = format!("ulimit -d {}", 211 << 10);
    let args = ["import", "--from", "planetoid", "graph", "out"];
    uvatrain_behind(temp.path(), &limit, args).run().refuses(2, &["ind.small.graph", "share their items"]);
}

#[test]
fn an_export_refuses_ids_that_were_changed_after_stamping() {
    let temp = directory();
    generate(temp.path(), "graph", "");
    let graph = temp.path().join("graph");
    settle(&graph);
    run(temp.path(), "info graph").succeeds();
    let ids = graph.join("indices.npy");
    let mut bytes = fs::read(&ids).unwrap();
    bytes[128..132].copy_from_slice(&3000_i32.to_le_bytes());
    change_behind_a_stamp(&ids, &bytes);
    run(temp.path(), "info graph").succeeds();
    for target in ["npy", "edgelist", "graphbolt"] {
        let words = format!("export graph out --to {target}");
        run(temp.path(), &words)
            .refuses(2, &["indices.npy: entry 0 at offset 128", "is 3000, outside the ids 0 to 2999"]);
        assert!(!temp.path().join("out").exists());
    }
}

#[test]
fn a_name_that_is_not_text_is_refused_first_and_with_its_argument() {
    let temp = directory();
    let name = OsStr::from_bytes(b"caf\xe9");
    six_nodes(&temp.path().join(name));
    let words = |words: &[&'static str]| -> Vec<OsString> {
        words.iter().map(|&word| if word == "NAME" { name.to_owned() } else { word.into() }).collect()
    };
    six_nodes(&temp.path().join("six"));
    for (args, option) in [
        (&["run", "NAME", "--", "true"][..], "DATA"),
        (&["run", "six", "--metrics", "NAME", "--", "true"], "--metrics"),
    ] {
        let before = contents(&temp.path().join("six"));
        uvatrain(temp.path(), words(args)).run().refuses(2, &[option, r"caf\xE9", "not valid UTF-8"]);
        assert_same_contents(&before, &contents(&temp.path().join("six")));
    }
    // Commands that start no processes accept it.
    uvatrain(temp.path(), words(&["info", "NAME"])).run().succeeds();
}

// ---- messages

#[test]
fn an_import_without_labels_proposes_what_works_and_all_but_training_does() {
    let temp = directory();
    fs::write(temp.path().join("graph.txt"), "10 20\n30 10\n20 10\n").unwrap();
    let said = run(temp.path(), "import --from edgelist graph.txt el").succeeds();
    for part in ["no node has a label", "label.npy", "train_idx.npy", "next: uvatrain info el\n"] {
        assert!(said.stderr.contains(part), "{part} is missing\n{said}");
    }
    assert!(!said.stderr.contains("uvatrain train el"), "{said}");

    fs::create_dir(temp.path().join("arrays")).unwrap();
    let write = |name: &str, bytes: Vec<u8>| fs::write(temp.path().join("arrays").join(name), bytes).unwrap();
    write("x.npy", npy::<f64>(&[4, 2], false, &[0.5; 8]));
    write("src.npy", npy::<i64>(&[4], false, &[0, 1, 2, 3]));
    write("dst.npy", npy::<i64>(&[4], false, &[1, 2, 3, 0]));
    write("train_idx.npy", npy::<i64>(&[2], false, &[0, 1]));
    write("val_idx.npy", npy::<i64>(&[0], false, &[]));
    write("test_idx.npy", npy::<i64>(&[0], false, &[]));
    let said = run(temp.path(), "import --from npy arrays mine").succeeds();
    for part in [
        "arrays has no labels (none of label.npy",
        "arrays/x.npy: float64 becomes float32\n",
        "next: uvatrain info mine, uvatrain bench pipeline mine, uvatrain run mine -- COMMAND\n",
    ] {
        assert!(said.stderr.contains(part), "{part} is missing\n{said}");
    }
    for words in [
        "info mine --verify",
        "bench pipeline mine --fanouts 2 --batch-size 1",
        "bench sample mine --fanouts 2 --batch-size 1",
        "plan mine --fanouts 2 --batch-size 1 --gpu-cache 1KiB",
        "export mine out --to graphbolt",
    ] {
        run(temp.path(), words).succeeds();
    }
}

#[test]
fn splits_with_nodes_in_common_are_reported_by_import_info_and_train() {
    let temp = directory();
    let six = temp.path().join("six");
    six_nodes(&six);
    for words in ["import --from npy six mine", "info six"] {
        let said = run(temp.path(), words).succeeds();
        assert!(!format!("{said}").contains("in common"), "{said}");
    }
    fs::write(six.join("test_idx.npy"), npy::<i64>(&[4], false, &[3, 0, 1, 2])).unwrap();
    let lines = ["train and test have 2 nodes in common", "valid and test have 1 node in common"];
    let said = run(temp.path(), "import --from npy six other").succeeds();
    let info = run(temp.path(), "info six").succeeds();
    for line in lines {
        assert!(said.stderr.contains(line) && info.stdout.contains(line), "{said}{info}");
    }
    let json = run(temp.path(), "info six --json").succeeds().json();
    assert_eq!(json["overlaps"][0], serde_json::json!({"splits": ["train", "test"], "nodes": 2}));
    #[cfg(feature = "train")]
    {
        let said = run(temp.path(), "train six --fanouts 2 --batch-size 1 --epochs 1 --hidden 4").succeeds();
        assert!(lines.iter().all(|line| said.stderr.contains(line)), "{said}");
    }
}

#[test]
fn types_of_edges_are_counted_and_batches_without_the_file_are_refused() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    let file = temp.path().join("six/edge_type.npy");
    assert!(run(temp.path(), "info six --json").succeeds().json().get("edge_types").is_none());
    let started = "run six --fanouts 2 --batch-size 1 --edge-type -- touch started";
    run(temp.path(), started).refuses(2, &["--edge-type", "edge_type.npy"]);
    assert!(!temp.path().join("started").exists());

    fs::write(&file, npy::<u16>(&[8], false, &[0, 3, 40, 3, 0, 1, 1, 2])).unwrap();
    assert_eq!(run(temp.path(), "info six --json").succeeds().json()["edge_types"], 41);
    assert!(run(temp.path(), "info six").succeeds().stdout.contains("edge types"));
    run(temp.path(), &started.replace("fanouts", "sampler-kind walk --fanouts"))
        .refuses(2, &["--edge-type", "walk"]);
    assert!(!temp.path().join("started").exists());
    run(temp.path(), "bench pipeline six --fanouts 2 --batch-size 1 --edge-type").succeeds();
    #[cfg(feature = "train")]
    run(temp.path(), "train six --fanouts 2 --edge-type")
        .refuses(2, &["--edge-type", "not supported by built-in models"]);
    let said = run(temp.path(), "export six out --to graphbolt").succeeds();
    assert!(said.stderr.contains("edge_type.npy is not exported"), "{said}");

    fs::write(&file, npy::<u16>(&[7], false, &[0; 7])).unwrap();
    run(temp.path(), "info six").refuses(2, &["edge_type.npy", "[7]", "[8]"]);
    fs::write(&file, npy::<i64>(&[8], false, &[0; 8])).unwrap();
    run(temp.path(), "info six").refuses(2, &["edge_type.npy", "int64", "uint16"]);
}

#[test]
fn what_an_export_prints_imports_the_same_dataset_again() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    let six = temp.path().join("six");
    fs::write(six.join("label.npy"), npy::<f32>(&[6], false, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])).unwrap();
    fs::write(six.join("meta.json"), r#"{"name": "six"}"#).unwrap();
    fs::write(six.join("edge_feat.npy"), npy::<f32>(&[8, 1], false, &[0.5; 8])).unwrap();
    fs::write(six.join("node_names.txt"), "source\ntarget\n#go\nSmith, J\n\"q\"\nx\ty\n").unwrap();
    fs::write(six.join("plan.json"), "{}").unwrap();
    for target in ["npy", "edgelist", "graphbolt"] {
        let said = run(temp.path(), &format!("export six {target} --to {target}")).succeeds();
        assert!(said.stderr.contains("plan.json is not exported"), "{said}");
        let back = said.stderr.lines().find_map(|line| line.strip_prefix("back: uvatrain ")).unwrap();
        run(temp.path(), &back.replace("DIRECTORY", &format!("{target}-back"))).succeeds();
        for name in [
            "indptr.npy",
            "indices.npy",
            "feat.npy",
            "label.npy",
            "edge_feat.npy",
            "node_names.txt",
            "train_idx.npy",
        ] {
            let read = |directory: &str| fs::read(temp.path().join(directory).join(name)).unwrap();
            assert!(read("six") == read(&format!("{target}-back")), "{name} after {target}");
        }
    }
}

#[test]
fn lists_of_names_are_read_by_the_options_of_the_command() {
    let temp = directory();
    let write = |text: &str| fs::write(temp.path().join("names.txt"), text).unwrap();
    let import = |out: &str, options: &str| {
        run(temp.path(), &format!("import --from edgelist names.txt {out} --ids name {options}"))
    };
    let names = |out: &str| fs::read_to_string(temp.path().join(out).join("node_names.txt")).unwrap();
    write("source\ttarget\nWashington, DC\tBoston\n#go\tBoston\n");
    let said = import("plain", "").succeeds();
    assert_eq!(names("plain"), "Washington, DC\nBoston\n");
    for part in ["line 1 ('source' and 'target') is skipped as a header", "line 3 begins with # or %"] {
        assert!(said.stderr.contains(part), "{part} is missing\n{said}");
    }
    import("all", "--comments=false --skip-lines 0").succeeds();
    assert_eq!(names("all"), "source\ntarget\nWashington, DC\nBoston\n#go\n");
    write("Washington, DC\tBoston\nParis, TX\tBoston\n");
    import("tie", "").refuses(2, &["--separator", "names.txt: both comma and tab split every line"]);
    import("tab", "--separator tab").succeeds();
    assert_eq!(names("tab"), "Washington, DC\nBoston\nParis, TX\n");
    import("wrong", "--separator x").refuses(2, &["--separator", "expected comma, tab"]);
    write("\"a\"\tb\n");
    import("quotes", "--quotes=false").succeeds();
    assert_eq!(names("quotes"), "\"a\"\nb\n");
}

#[test]
fn fewer_edges_than_the_options_say_are_noted_with_the_reason() {
    let temp = directory();
    for (kind, reason) in [("rmat", "among few nodes"), ("web", "passes its host's end")] {
        let words = format!("generate {kind} --kind {kind} --nodes 5000 --avg-degree 31 --feat-dim 1");
        let said = run(temp.path(), &words).succeeds();
        let facts = run(temp.path(), &format!("info {kind} --json")).succeeds().json();
        let came =
            format!("{:.1} in-neighbours on average, not 31: ", facts["average_degree"].as_f64().unwrap());
        for part in [came.as_str(), reason, "--avg-degree"] {
            assert!(said.stderr.contains(part), "{part} is missing\n{said}");
        }
    }
    let said =
        run(temp.path(), "generate sbm --kind sbm --nodes 5000 --avg-degree 31 --feat-dim 1").succeeds();
    assert!(!said.stderr.contains("on average"), "{said}");
}

// ---- signals

/// Everything in a directory whose name is not one of `before`.
fn new_in(directory: &Path, before: &BTreeSet<OsString>) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let new = entries
        .flatten()
        .filter(|entry| !before.contains(&entry.file_name()) && entry.file_name() != "cache");
    new.map(|entry| entry.path()).collect()
}

/// Runs a command that writes `out`, signals it once `moment` has come, and checks its end: by the signal and without
/// leftovers, or with its whole output, of which `last` is the last file.
fn signalled(directory: &Path, words: &str, signal: Signal, last: &str, moment: &str) {
    let before = contents_of_regular(directory);
    let running = uvatrain(directory, words.split_whitespace()).start();
    let alive = PathBuf::from(format!("/proc/{}/exe", running.child.id()));
    // A process that has ended is a zombie, whose link leads nowhere.
    let comes =
        || new_in(directory, &before).iter().any(|path| moment.is_empty() || path.join(moment).exists());
    while !comes() && fs::read_link(&alive).is_ok() {
        // Checks again soon, and leaves the core to the command meanwhile.
        std::thread::sleep(Duration::from_micros(200));
    }
    let _ = kill_process(Pid::from_child(&running.child), signal);
    let outcome = running.wait();
    let code = outcome.code();
    assert!(
        code == 128 + signal.as_raw() || code == 0,
        "{signal:?} at {moment:?} ended it with {code}\n{outcome}"
    );
    let out = directory.join("out");
    let whole = out.join(last).exists();
    assert!(whole || !out.exists(), "{signal:?} at {moment:?}: there is no {last}\n{outcome}");
    assert!(whole || code != 0, "{outcome}");
    let left: Vec<PathBuf> = new_in(directory, &before).into_iter().filter(|path| *path != out).collect();
    assert!(left.is_empty(), "{signal:?} at {moment:?} left {left:?}\n{outcome}");
    if whole {
        fs::remove_dir_all(out).unwrap();
    } else {
        assert!(outcome.stderr.contains("stopped by SIG"), "{outcome}");
    }
}

const SIGNALS: [Signal; 3] = [Signal::TERM, Signal::HUP, Signal::INT];

#[test]
fn a_signal_ends_generate_and_import_with_its_code_and_leaves_nothing() {
    let temp = directory();
    let words = "generate out --nodes 4000000 --avg-degree 8 --feat-dim 1";
    for signal in SIGNALS {
        signalled(temp.path(), words, signal, "meta.json", "");
    }
    signalled(temp.path(), words, Signal::HUP, "meta.json", "indices.npy");
    // A million nodes without edges; of the files only the headers are on the disk.
    let source = temp.path().join("source");
    fs::create_dir(&source).unwrap();
    let sparse = |name: &str, dtype: &str, shape: &[u64], bytes: u64| {
        let header = header(dtype, shape, false);
        fs::write(source.join(name), &header).unwrap();
        let file = fs::File::options().write(true).open(source.join(name)).unwrap();
        file.set_len(header.len() as u64 + bytes).unwrap();
    };
    let nodes = 1_000_000;
    sparse("indptr.npy", "<i8", &[nodes + 1], 8 * (nodes + 1));
    sparse("indices.npy", "<i4", &[0], 0);
    sparse("feat.npy", "<f4", &[nodes, 64], 256 * nodes);
    sparse("label.npy", "<i8", &[nodes], 8 * nodes);
    for split in ["train", "valid", "test"] {
        sparse(&format!("{split}_idx.npy"), "<i8", &[0], 0);
    }
    for signal in SIGNALS {
        signalled(temp.path(), "import --from npy source out", signal, "meta.json", "");
    }
    signalled(temp.path(), "import --from npy source out", Signal::HUP, "meta.json", "feat.npy");
}

#[test]
fn a_signal_ends_export_and_plan_and_no_dataset_exists_without_its_plan() {
    let temp = directory();
    run(temp.path(), "generate graph --nodes 60000 --avg-degree 20 --feat-dim 64 --classes 4").succeeds();
    for signal in SIGNALS {
        signalled(temp.path(), "export graph out --to edgelist", signal, "test_idx.npy", "");
    }
    let plan = "plan graph --fanouts 3 --gpu-cache 256KiB --cache-policy degree --write-reordered out";
    for (signal, moment) in [
        (Signal::TERM, ""),
        (Signal::HUP, ""),
        (Signal::INT, ""),
        (Signal::TERM, "feat.npy"),
        (Signal::TERM, "label.npy"),
        (Signal::TERM, "orig_id.npy"),
        (Signal::TERM, "meta.json"),
        (Signal::TERM, "plan.json"),
    ] {
        signalled(temp.path(), plan, signal, "plan.json", moment);
    }
}

#[test]
fn a_command_that_ignores_hangups_outlives_its_terminal() {
    let temp = directory();
    let args = ["generate", "out", "--nodes", "300000", "--avg-degree", "8", "--feat-dim", "4"];
    let running = uvatrain_behind(temp.path(), "trap '' HUP", args).start();
    while new_in(temp.path(), &BTreeSet::new()).is_empty() {
        std::thread::sleep(Duration::from_micros(200));
    }
    kill_process(Pid::from_child(&running.child), Signal::HUP).unwrap();
    running.wait().succeeds();
    assert!(temp.path().join("out/meta.json").exists());
}

// ---- training

#[cfg(feature = "train")]
#[test]
fn training_without_labels_is_refused_before_the_run_with_what_to_do() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    fs::write(temp.path().join("six/label.npy"), npy::<i64>(&[6], false, &[-1; 6])).unwrap();
    run(temp.path(), "train six --fanouts 2 --epochs 1")
        .refuses(2, &["six: no node has a label", "label.npy"]);
    fs::remove_file(temp.path().join("six/meta.json")).unwrap();
    run(temp.path(), "train six --fanouts 2 --epochs 1")
        .refuses(2, &["six: no node has a label", "label.npy"]);
}

#[cfg(feature = "train")]
#[test]
fn a_dataset_whose_name_begins_like_an_option_is_trained_on() {
    let temp = directory();
    six_nodes(&temp.path().join("-six"));
    run(temp.path(), "train --fanouts 2 --batch-size 1 --epochs 1 --hidden 4 -- -six").succeeds();
}

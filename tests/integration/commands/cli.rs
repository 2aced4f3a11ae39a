//! The command line: the real binary, its exit codes, its messages, and the files that it leaves.
//!
//! These tests do not need libtorch: training has whole-program tests of its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::arrays::{header, npy, six_nodes, write_weights};
use crate::support::extent::some_of;
use crate::support::{self, assert_same_contents, contents, directory, shared_datasets, uvatrain};
use rustix::process::Signal;
use uva_sample::SamplerKind;

// ---- help and usage

#[test]
fn help_names_every_command_and_hides_the_roles() {
    let temp = directory();
    let help = uvatrain(temp.path(), ["--help"]).run().succeeds();
    for command in ["generate", "import", "export", "info", "train", "bench", "doctor"] {
        assert!(help.stdout.contains(&format!("\n  {command} ")), "{command} is not listed\n{help}");
    }
    for role in ["janitor", "consumer "] {
        assert!(!help.stdout.contains(&format!("\n  {role}")), "{role} is listed\n{help}");
    }
    assert!(help.stderr.is_empty(), "{help}");
}

#[test]
fn help_of_train_groups_its_options_and_shows_their_defaults() {
    let temp = directory();
    let help = uvatrain(temp.path(), ["train", "--help"]).run().succeeds();
    for heading in ["Model:", "Batches:", "Pipeline:", "Evaluation:", "Checkpoints:", "Output:"] {
        assert!(help.stdout.contains(heading), "{heading} is missing\n{help}");
    }
    for text in ["[default: 15,10,5]", "[default: 1024]", "Example:"] {
        assert!(help.stdout.contains(text), "{text} is missing\n{help}");
    }
}

#[test]
fn short_help_of_train_fits_a_screen_and_lists_common_options() {
    let temp = directory();
    let help = |flag: &str| uvatrain(temp.path(), ["train", flag]).run().succeeds().stdout;
    let (short, long) = (help("-h"), help("--help"));
    assert!(short.lines().count() <= 45, "{} lines\n{short}", short.lines().count());
    for line in short.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    for option in
        ["--model ", "--fanouts ", "--batch-size ", "--epochs ", "--checkpoint ", "--device ", "--json"]
    {
        assert!(short.contains(option), "{option}\n{short}");
    }
    for option in ["--batch-dependency ", "--ipc-signals ", "--trace "] {
        assert!(!short.contains(option) && long.contains(option), "{option}");
    }
}

#[test]
fn help_of_a_command_is_the_same_before_and_after_its_name() {
    let temp = directory();
    let help = |words: &str| uvatrain(temp.path(), words.split(' ')).run().succeeds().stdout;
    let commands = |text: &str| -> Vec<String> {
        let list = text.split("\nCommands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
        let names = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    };
    let root = help("--help");
    assert_eq!(help("help"), root);
    let names = commands(&root);
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert_eq!(help(&format!("help {name}")), help(&format!("{name} --help")));
    }
    for name in commands(&help("help bench")) {
        let behind = help(&format!("bench {name} --help"));
        assert_eq!(help(&format!("help bench {name}")), behind);
        assert_eq!(help(&format!("bench help {name}")), behind);
    }
    uvatrain(temp.path(), ["help", "trian"]).run().refuses(2, &["'trian'", "'train'"]);
    // A dataset may have that name.
    uvatrain(temp.path(), ["info", "help"]).run().refuses(2, &["help: "]);
}

#[test]
fn a_refusal_names_options_that_were_given_and_their_values() {
    let temp = directory();
    uvatrain(temp.path(), "generate small --nodes 300 --avg-degree 5".split(' ')).run().succeeds();
    for (args, message) in [
        (
            "generate g --kind sbm --nodes 30",
            "--nodes 30 --kind sbm: the default --avg-degree does not fit: 20 is",
        ),
        (
            "generate g --nodes 5 --avg-degree 2",
            "--nodes 5 --avg-degree 2: the default --classes does not fit: 12 is",
        ),
        (
            "generate g --kind sbm --nodes 100",
            "--nodes 100 --kind sbm: the default --homophily does not fit: 0.5",
        ),
        ("generate g --preset products --scale 0.00001", "the preset's --avg-degree does not fit"),
        ("generate g --nodes 30 --avg-degree 40", "--avg-degree: 40 is outside"),
        ("train small --drop-last --batch-size 512", "with --batch-size 512 it leaves no training batch"),
        ("train small --model GraphSAGE", "a similar value exists: 'sage'"),
        ("train small --fanouts 10 5", "--fanouts 10,5"),
    ] {
        uvatrain(temp.path(), args.split(' ')).run().refuses(2, &[message]);
    }
}

#[test]
fn control_characters_of_a_name_are_escaped_wherever_it_is_printed() {
    let temp = directory();
    let name = "two\nlines\x1b[2J";
    let plain = |outcome: support::Outcome| {
        let text = format!("{}{}", outcome.stdout, outcome.stderr);
        assert!(text.contains("two\\n") && !text.contains("two\n") && !text.contains('\x1b'), "{text}");
        outcome
    };
    plain(uvatrain(temp.path(), ["info", name]).run().refuses(2, &[]));
    let options = ["--nodes", "300", "--avg-degree", "5"];
    let made = plain(uvatrain(temp.path(), [&["generate", name], &options[..]].concat()).run().succeeds());
    plain(uvatrain(temp.path(), ["info", name]).run().succeeds());
    // The next steps can be typed exactly as printed.
    let next = made.stderr.lines().find_map(|line| line.strip_prefix("next: uvatrain info ")).unwrap();
    let quoted = next.split(", uvatrain").next().unwrap();
    let read =
        std::process::Command::new("bash").args(["-c", &format!("printf %s {quoted}")]).output().unwrap();
    assert_eq!(String::from_utf8(read.stdout).unwrap(), name);
}

#[test]
fn the_version_is_one_line() {
    let temp = directory();
    let version = uvatrain(temp.path(), ["--version"]).run().succeeds();
    assert_eq!(version.stdout, format!("uvatrain {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn bad_usage_ends_with_2_and_names_the_option_and_the_value() {
    let cases: [(&[&str], &[&str]); 11] = [
        (&[], &["Usage: uvatrain"]),
        (&["trian"], &["'trian'", "train"]),
        (&["train", "d", "--fanouts", "15,0"], &["--fanouts", "hop 1: invalid value '0'"]),
        (&["train", "d", "--fanouts", "-2"], &["--fanouts", "'-2'"]),
        (&["train", "d", "--fanouts", ""], &["--fanouts", "no fanout given"]),
        (&["train", "d", "--slot-bytes", "5G"], &["--slot-bytes", "5GiB"]),
        (&["train", "d", "--batch-size", "0"], &["--batch-size", "0"]),
        (&["train", "d", "--dropout", "1.5"], &["--dropout", "1.5"]),
        (&["train", "d", "--resume"], &["--checkpoint"]),
        (&["generate", "g"], &["--nodes"]),
        (&["import", "a", "b", "--from", "json"], &["csv", "planetoid"]),
    ];
    for (args, message) in cases {
        let temp = directory();
        uvatrain(temp.path(), args).run().refuses(2, message);
        assert_same_contents(&Default::default(), &contents(temp.path()));
    }
}

#[test]
fn options_that_contradict_each_other_are_refused_with_what_would_do() {
    let cases: [(&[&str], &[&str]); 2] = [
        (&["--samplers", "4", "--batch-slots", "5"], &["--batch-slots 5", "6"]),
        (&["--fanouts", "-1,5"], &["--slot-bytes"]),
    ];
    for (options, message) in cases {
        let temp = directory();
        six_nodes(&temp.path().join("six"));
        uvatrain(temp.path(), [&["train", "six"], options].concat()).run().refuses(2, message);
    }
}

// A build without models says so first.
#[cfg(feature = "train")]
#[test]
fn a_gpu_that_this_machine_does_not_have_ends_with_3() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    uvatrain(temp.path(), ["train", "six", "--device", "cuda:0"])
        .run()
        .refuses(3, &["--device cuda:0: no NVIDIA driver", "--device cpu"]);
}

#[test]
fn a_reader_that_closes_the_pipe_ends_it_quietly() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    // The pipe's other end is closed before anything is written.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let outcome = std::process::Command::new(env!("CARGO_BIN_EXE_uvatrain"))
        .args(["info", "six"])
        .current_dir(temp.path())
        .stdout(writer)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success() && stderr.is_empty(), "{}\n{stderr}", outcome.status);
}

// ---- doctor

#[test]
fn doctor_prints_one_object_whose_findings_carry_their_remedies() {
    let temp = directory();
    let report = uvatrain(temp.path(), ["doctor", "--json"]).run().succeeds().json();
    let checks = report["checks"].as_array().unwrap();
    for name in
        ["CPU", "memory", "shared memory", "process handles", "libtorch", "uvatrain-consumer", "NVIDIA GPU"]
    {
        assert!(checks.iter().any(|check| check["name"] == name), "{name} was not looked at: {report}");
    }
    for check in checks {
        assert_eq!(check["status"] == "ok", check["remedy"].is_null(), "{check}");
    }
    assert_eq!(report["trains_on_cpu"], cfg!(feature = "train"), "{report}");
}

// ---- info

#[test]
fn info_counts_what_the_dataset_holds() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    let facts = uvatrain(temp.path(), ["info", "six", "--json", "--verify"]).run().succeeds().json();
    let expected = serde_json::json!({
        "name": "six", "nodes": 6, "edges": 8, "max_degree": 3, "isolated_nodes": 1, "feature_dim": 3,
        "feature_type": "f32", "feature_row_bytes": 12, "classes": 2, "multi_label": false, "labelled_nodes": 5,
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&facts[key], value, "{key}");
    }
    assert_eq!(facts["splits"], serde_json::json!({"train": 2, "valid": 1, "test": 2}));
    assert_eq!(facts["verification"]["edges_checked"], true);
    assert_eq!(facts["verification"]["features_checked"], true);
}

#[test]
fn info_prints_a_table_on_stdout_and_nothing_on_stderr() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    let outcome = uvatrain(temp.path(), ["info", "six"]).run().succeeds();
    for part in [
        "nodes",
        "6",
        "3 × f32, 12 bytes a row",
        "isolated     1 nodes (16.7 %) without in-neighbours",
        "train",
    ] {
        assert!(outcome.stdout.contains(part), "{part} is missing\n{outcome}");
    }
    assert!(outcome.stderr.is_empty(), "{outcome}");
}

#[test]
fn a_missing_dataset_ends_with_2_and_its_name() {
    let temp = directory();
    uvatrain(temp.path(), ["info", "nowhere"]).run().refuses(2, &["nowhere"]);
}

/// What is wrong with a dataset: the file, its new content, and what the message has to name.
struct Fault {
    file: &'static str,
    content: Vec<u8>,
    says: &'static [&'static str],
}

fn faults() -> Vec<Fault> {
    let whole = npy::<f32>(&[6, 3], false, &[0.5; 18]);
    let fault = |file, content, says| Fault { file, content, says };
    vec![
        fault("feat.npy", whole[..whole.len() - 10].to_vec(), &["feat.npy", "truncated"]),
        fault("feat.npy", whole[..40].to_vec(), &["feat.npy", "truncated"]),
        fault(
            "feat.npy",
            npy::<f32>(&[6, 3], true, &[0.5; 18]),
            &["feat.npy", "Fortran", "ascontiguousarray"],
        ),
        fault(
            "indptr.npy",
            npy::<i64>(&[7], false, &[0, 3, 2, 6, 7, 8, 8]),
            &["indptr.npy", "monotone", "entry 2", "offset 144", "is 2"],
        ),
        fault(
            "indices.npy",
            npy::<i32>(&[8], false, &[1, 2, 0, 0, 6, 4, 2, 2]),
            &["indices.npy", "entry 4", "offset 144", "is 6"],
        ),
        fault("train_idx.npy", npy::<i64>(&[2], false, &[0, -1]), &["train_idx.npy", "entry 1", "is -1"]),
        fault("label.npy", npy::<i64>(&[6], false, &[0, 1, 0, 2, 0, -1]), &["label.npy", "node 3", "is 2"]),
        // N × F × 4 = 2^66 bytes: it overflows 64 bits, and must not wrap to something small.
        fault("feat.npy", header("<f4", &[1 << 33, 1 << 31], false), &["feat.npy", "overflow"]),
        fault("feat.npy", b"hello".to_vec(), &["feat.npy"]),
    ]
}

/// Types that a dataset may not have, though an import converts them.
fn wrong_types() -> Vec<Fault> {
    let fault = |file, content, says| Fault { file, content, says };
    vec![
        fault("feat.npy", npy::<f64>(&[6, 3], false, &[0.5; 18]), &["feat.npy", "float64", "float32"]),
        fault(
            "indptr.npy",
            npy::<i32>(&[7], false, &[0, 2, 3, 6, 7, 8, 8]),
            &["indptr.npy", "int32", "int64"],
        ),
    ]
}

#[test]
fn a_faulty_file_is_refused_by_name_place_and_value_and_left_unchanged() {
    for fault in faults().into_iter().chain(wrong_types()) {
        let temp = directory();
        let data = temp.path().join("six");
        six_nodes(&data);
        fs::write(data.join(fault.file), &fault.content).unwrap();
        let before = contents(temp.path());
        uvatrain(temp.path(), ["info", "six"]).run().refuses(2, fault.says);
        assert_same_contents(&before, &contents(temp.path()));
    }
}

#[test]
fn features_that_are_not_finite_are_found_by_verify() {
    for (value, name) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        let temp = directory();
        let data = temp.path().join("six");
        six_nodes(&data);
        let mut features = [0.5_f32; 18];
        features[10] = value;
        fs::write(data.join("feat.npy"), npy(&[6, 3], false, &features)).unwrap();
        uvatrain(temp.path(), ["info", "six"]).run().succeeds();
        // Row 3, column 1, after a header of 128 bytes.
        let says = ["feat.npy", "row 3", "column 1", "offset 168", name];
        uvatrain(temp.path(), ["info", "six", "--verify"]).run().refuses(2, &says);
    }
}

// ---- generate

fn generate(temp: &Path, out: &str, more: &[&str]) -> support::Outcome {
    let size = ["--nodes", "3000", "--avg-degree", "8", "--feat-dim", "12", "--classes", "4"];
    uvatrain(temp, [&["generate", out], &size[..], more].concat()).run()
}

#[test]
fn generate_gives_the_same_bytes_for_any_number_of_threads() {
    let temp = directory();
    generate(temp.path(), "one", &["--threads", "1"]).succeeds();
    generate(temp.path(), "two", &["--threads", "2"]).succeeds();
    let arrays = |name: &str| {
        let mut files = contents(&temp.path().join(name));
        // The name of a dataset is its directory's.
        files.retain(|path, _| path.extension().is_some_and(|extension| extension == "npy"));
        files
    };
    let one = arrays("one");
    assert!(one.len() >= 7, "{:?}", one.keys());
    assert_same_contents(&one, &arrays("two"));
    generate(temp.path(), "other", &["--seed", "1"]).succeeds();
    assert_ne!(one[Path::new("indices.npy")], arrays("other")[Path::new("indices.npy")]);
}

#[test]
fn a_generated_graph_is_as_requested_and_passes_every_check() {
    let temp = directory();
    let outcome = generate(temp.path(), "graph", &["--feat-dtype", "f16"]).succeeds();
    assert!(outcome.stdout.is_empty(), "what people read goes to stderr\n{outcome}");
    let facts = uvatrain(temp.path(), ["info", "graph", "--verify", "--json"]).run().succeeds().json();
    assert_eq!(facts["nodes"], 3000);
    assert_eq!(facts["feature_dim"], 12);
    assert_eq!(facts["feature_type"], "f16");
    assert_eq!(facts["classes"], 4);
    let degree = facts["average_degree"].as_f64().unwrap();
    assert!((degree - 8.0).abs() < 1.0, "average degree {degree}");
    assert!(facts["max_degree"].as_i64().unwrap() > 40, "no hubs: {facts}");
}

#[test]
fn every_kind_of_graph_passes_every_check_with_the_requested_train_share() {
    let temp = directory();
    for kind in ["powerlaw", "citation", "web", "rmat", "sbm"] {
        generate(temp.path(), kind, &["--kind", kind, "--train-share", "0.05"]).succeeds();
        let facts = uvatrain(temp.path(), ["info", kind, "--verify", "--json"]).run().succeeds().json();
        assert_eq!(facts["nodes"], 3000);
        let train = facts["splits"]["train"].as_i64().unwrap();
        assert!((100..200).contains(&train), "{kind}: {train} train nodes");
    }
    // Only one field in sixteen has labels.
    let refused = generate(temp.path(), "more", &["--kind", "citation", "--train-share", "0.2"]);
    refused.refuses(2, &["--train-share", "0.0625"]);
}

#[test]
fn invalid_options_are_refused_by_name_and_leave_nothing() {
    let cases: [(&[&str], &[&str]); 8] = [
        (&["--kind", "web", "--homophily", "0.5"], &["--homophily", "sbm"]),
        (&["--quadrants", "0.57,0.19,0.19,0.05"], &["--quadrants", "rmat"]),
        (&["--kind", "rmat", "--quadrants", "0.57,0.19,0.19"], &["--quadrants", "4", "3"]),
        (&["--kind", "rmat", "--quadrants", "0.5,0.5,0.5,0.5"], &["--quadrants", "add up"]),
        (&["--kind", "rmat", "--noise", "0.3"], &["--noise", "0.19"]),
        (&["--kind", "sbm", "--homophily", "1", "--classes", "1000"], &["--homophily", "own class"]),
        (&["--kind", "sbm", "--p-in", "0.1"], &["--p-out"]),
        (&["--preset", "product"], &["product", "products"]),
    ];
    for (options, message) in cases {
        let temp = directory();
        let size: &[&str] = if options.contains(&"--preset") { &[] } else { &["--nodes", "3000"] };
        uvatrain(temp.path(), [&["generate", "graph"], size, options].concat()).run().refuses(2, message);
        assert_same_contents(&Default::default(), &contents(temp.path()));
    }
}

#[test]
fn a_preset_is_a_known_graph_made_smaller_and_its_size_is_shown_first() {
    let temp = directory();
    let args = ["generate", "papers", "--preset", "papers100m", "--scale", "0.0001", "--feat-dim", "4"];
    let outcome = uvatrain(temp.path(), args).run().succeeds();
    let first: String = outcome.stderr.lines().take(2).collect();
    for part in ["11,106 nodes", "161,5", "on disk", "of memory"] {
        assert!(first.contains(part), "{part} is missing\n{outcome}");
    }
    let facts = uvatrain(temp.path(), ["info", "papers", "--verify", "--json"]).run().succeeds().json();
    assert_eq!(facts["nodes"], 11_106);
    assert_eq!(facts["classes"], 172);
    assert_eq!(facts["feature_dim"], 4, "an option changes its part of the preset");
    let train = facts["splits"]["train"].as_i64().unwrap();
    assert!((80..160).contains(&train), "{train} train nodes, of which 1.09 % are 121");
    // The help has them all.
    let help = uvatrain(temp.path(), ["generate", "--help"]).run().succeeds();
    for part in ["igb-medium", "papers100m     111,059,956  1,615,685,872", "1.087 %", "768 f16"] {
        assert!(help.stdout.contains(part), "{part} is missing\n{help}");
    }
}

#[test]
fn a_graph_too_large_for_the_disk_is_refused_with_3_before_any_write() {
    let temp = directory();
    // 27 billion nodes with rows of 4 KiB: 120 TB.
    let args = ["generate", "graph", "--preset", "igb-full", "--scale", "100"];
    uvatrain(temp.path(), args).run().refuses(3, &["graph", "room for", "GiB"]);
    assert_same_contents(&Default::default(), &contents(temp.path()));
}

/// About 10 s of one core in all, and 130 MB on the disk at a time.
#[test]
#[ignore = "3 s of a core: scripts/measure/long_tests.sh"]
fn memory_does_not_grow_with_the_edges() {
    for kind in some_of(&["powerlaw", "rmat", "sbm"]) {
        let temp = directory();
        // 30 million edges are 120 MB on the disk, which is more than the program may allocate in total.
        let args =
            format!("generate graph --kind {kind} --nodes 1000000 --avg-degree 30 --feat-dim 1 --threads 2");
        let limited = format!("ulimit -d {DATA_KIB} && exec \"$0\" {args}");
        let outcome = std::process::Command::new("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_uvatrain")])
            .current_dir(temp.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&outcome.stderr);
        assert!(outcome.status.success(), "{kind}: {}\n{stderr}", outcome.status);
        let facts = uvatrain(temp.path(), ["info", "graph", "--json"]).run().succeeds().json();
        assert!(facts["edges"].as_u64().unwrap() > 27_000_000, "{kind}: {facts}");
    }
}

/// Heap, anonymous maps and threads' stacks (RLIMIT_DATA), in units of 1024 bytes.
const DATA_KIB: u64 = 72 << 10;

#[test]
fn ctrl_c_while_generating_ends_with_130_and_leaves_nothing() {
    let temp = directory();
    // So large that it is still being written when the signal comes, and 2 GB if it ever were whole.
    let args = ["generate", "graph", "--nodes", "40000000", "--avg-degree", "8", "--feat-dim", "1"];
    let running = uvatrain(temp.path(), args).start();
    // The signal is sent once the half-written directory is there.
    let is_partial = |entry: std::io::Result<fs::DirEntry>| {
        entry.unwrap().file_name().to_string_lossy().starts_with("graph.partial-")
    };
    while !fs::read_dir(temp.path()).unwrap().any(is_partial) {
        assert!(Path::new(&format!("/proc/{}", running.child.id())).exists());
        std::thread::park_timeout(std::time::Duration::from_millis(1));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&running.child), Signal::INT).unwrap();
    running.wait().refuses(130, &["SIGINT"]);
    assert_same_contents(&Default::default(), &contents(temp.path()));
}

#[test]
fn an_existing_directory_is_never_written_to() {
    let temp = directory();
    let there = temp.path().join("there");
    fs::create_dir(&there).unwrap();
    fs::write(there.join("precious"), "data").unwrap();
    six_nodes(&temp.path().join("six"));
    let before = contents(temp.path());
    generate(temp.path(), "there", &[]).refuses(2, &["there", "exists"]);
    uvatrain(temp.path(), ["import", "--from", "npy", "six", "there"]).run().refuses(2, &["there", "exists"]);
    assert_same_contents(&before, &contents(temp.path()));
}

#[test]
fn a_size_that_overflows_is_refused_before_anything_is_written() {
    let temp = directory();
    let args = ["generate", "big", "--nodes", "4294967296", "--feat-dim", "4294967296", "--classes", "2"];
    uvatrain(temp.path(), args).run().refuses(2, &[]);
    assert_same_contents(&Default::default(), &contents(temp.path()));
}

// ---- bench

#[test]
fn benches_measure_the_same_batches_whatever_the_number_of_threads() {
    let temp = directory();
    generate(temp.path(), "graph", &[]).succeeds();
    // 3000 nodes, 40 % of them for training: 1200 or so, in batches of 100.
    let bench = |what: &str, more: &[&str]| {
        let args =
            [&["bench", what, "graph", "--fanouts", "4,3", "--batch-size", "100", "--json"], more].concat();
        uvatrain(temp.path(), args).run().succeeds().json()
    };
    let pipeline = bench("pipeline", &["--samplers", "1"]);
    assert_eq!(pipeline["hash"], bench("pipeline", &["--samplers", "2"])["hash"]);
    // The pipeline counted all batches except the first.
    let batches = (pipeline["batches"].as_u64().unwrap() + 1).to_string();
    for threads in ["1", "2"] {
        let sample = bench("sample", &["--threads", threads, "--batches", &batches]);
        assert_eq!(sample["hash"], pipeline["hash"], "{threads} threads");
        assert!(sample["edges_per_second"].as_f64().unwrap() > 0.0);
        assert_eq!(sample["verified"]["hops"], 2);
        // The pipeline did not count the first batch, and that is the one compared with the graph.
        for key in ["edges", "input_nodes"] {
            let [all, counted, first] =
                [&sample[key], &pipeline[key], &sample["verified"][key]].map(|count| count.as_u64().unwrap());
            assert_eq!(all, counted + first, "{key}");
        }
    }
    // Fewer than all batches, without the first.
    let fewer = bench("pipeline", &["--batches", "3"]);
    assert_eq!(fewer["batches"], 3);
    assert_eq!(fewer["hash"], bench("sample", &["--batches", "4"])["hash"]);
    let warmed = bench("pipeline", &["--batches", "2", "--warm-up", "4"]);
    assert_eq!((&warmed["batches"], &warmed["warm_up"]), (&2.into(), &4.into()));
    let all = bench("sample", &["--batches", "6"]);
    assert_eq!(warmed["hash"], all["hash"]);
    let edges = |report: &serde_json::Value| report["edges"].as_u64().unwrap();
    assert_eq!(edges(&warmed), edges(&all) - edges(&bench("sample", &["--batches", "4"])));
    uvatrain(
        temp.path(),
        ["bench", "pipeline", "graph", "--fanouts", "4,3", "--batch-size", "1200", "--warm-up", "9"],
    )
    .run()
    .refuses(2, &["--warm-up 9", "--epochs"]);
    for spread in [&bench("sample", &[])["batch_ms"], &pipeline["batch_ms"]] {
        let [min, median, max] = ["min", "median", "max"].map(|key| spread[key].as_f64().unwrap());
        assert!(0.0 < min && min <= median && median <= max, "{spread}");
    }
    for key in ["batches_per_second", "input_nodes_per_second", "feature_gb_per_second"] {
        assert!(pipeline[key].as_f64().unwrap() > 0.0, "{key}");
    }
}

#[test]
fn each_kind_of_sampler_has_the_same_batches_from_every_maker() {
    let temp = directory();
    generate(temp.path(), "graph", &[]).succeeds();
    let edges = uvatrain(temp.path(), ["info", "graph", "--json"]).run().succeeds().json()["edges"].as_u64();
    write_weights(&temp.path().join("graph"), edges.unwrap());
    let bench = |what: &str, kind: &str, more: &[&str]| {
        let fanouts = if kind.starts_with("saint") { "30,30" } else { "4,3" };
        let args = ["bench", what, "graph", "--fanouts", fanouts, "--batch-size", "100", "--json"];
        let args = [&args[..], &["--sampler-kind", kind], more].concat();
        uvatrain(temp.path(), args).run().succeeds().json()
    };
    let mut seen = Vec::new();
    let more = [
        ("weighted", &["--replace"][..]),
        ("walk", &["--walks", "3", "--walk-length", "2", "--walk-stop", "50"]),
    ];
    for (kind, more) in SamplerKind::ALL.into_iter().map(|kind| (kind.name(), &[][..])).chain(more) {
        let pipeline = bench("pipeline", kind, &[&["--samplers", "2"], more].concat());
        let batches = (pipeline["batches"].as_u64().unwrap() + 1).to_string();
        let sample = bench("sample", kind, &[&["--threads", "1", "--batches", &batches], more].concat());
        assert_eq!(sample["hash"], pipeline["hash"], "{kind}");
        assert_eq!(sample["sampler_kind"], kind);
        assert!(sample["verified"]["edges"].as_u64().unwrap() > 0, "{kind}");
        seen.push((sample["hash"].clone(), sample["input_nodes"].as_u64().unwrap()));
    }
    assert!((1..seen.len()).all(|kind| !seen[..kind].iter().any(|before| before.0 == seen[kind].0)));
    assert!(seen[1].1 < seen[0].1, "LABOR has fewer nodes: {seen:?}");
}

#[test]
fn unusable_edge_weights_are_refused_before_anything_starts() {
    let temp = directory();
    generate(temp.path(), "graph", &[]).succeeds();
    let graph = temp.path().join("graph");
    let bench = |what: &str, kind: &str, more: &[&str]| {
        let args = [&["bench", what, "graph", "--sampler-kind", kind], more].concat();
        uvatrain(temp.path(), args).run()
    };
    for what in ["pipeline", "sample", "cache"] {
        bench(what, "weighted", &[]).refuses(2, &["graph/weight.npy", "does not exist"]);
    }
    let edges = uvatrain(temp.path(), ["info", "graph", "--json"]).run().succeeds().json()["edges"].as_u64();
    let mut weights = write_weights(&graph, edges.unwrap());
    weights[1000] = -0.25;
    fs::write(graph.join("weight.npy"), npy(&[weights.len() as u64], false, &weights)).unwrap();
    for what in ["pipeline", "sample", "cache"] {
        // The header takes 128 bytes.
        let place = ["weight.npy: the weight of edge 1000 at offset 4128 is -0.25"];
        bench(what, "weighted", &[]).refuses(2, &place);
    }
    // Samplers that do not pick by weight ignore it.
    bench("sample", "labor", &["--batches", "1"]).succeeds();
    bench("pipeline", "labor", &["--replace"]).refuses(2, &["--replace", "labor", "--sampler-kind neighbor"]);
    bench("sample", "labour", &[]).refuses(2, &["labour", "labor"]);
    bench("pipeline", "saint-node", &["--fanouts", "4,4,5"]).refuses(2, &["hop 2 has fanout 5", "4000,4000"]);
    for (options, parts) in [
        (&["--walks", "0"][..], &["--walks", "0 is not from 1 to 1024"][..]),
        (&["--walk-stop", "101"], &["--walk-stop", "101 is not from 0 to 100"]),
        (&["--edge-ids"], &["--edge-ids", "walk", "another kind"]),
        (&["--fanouts", "5,-1"], &["--fanouts", "hop 1 has fanout -1"]),
    ] {
        bench("pipeline", "walk", options).refuses(2, parts);
    }
    for what in ["pipeline", "sample"] {
        bench(what, "labor", &["--walk-length", "3"]).refuses(2, &["--walk-length", "--sampler-kind walk"]);
    }
    let full = ["train", "graph", "--model", "sage", "--sampler-kind", "walk", "--eval", "full"];
    uvatrain(temp.path(), full).run().refuses(2, &["--eval full", "walk", "--eval sampled"]);
    for kind in SamplerKind::ALL.into_iter().filter(|kind| kind.weighs_edges()) {
        let (kind, draws_together) = (kind.name(), kind.draws_together());
        bench("pipeline", kind, &["--fanouts", "9,9", "--replace"])
            .refuses(2, &["--replace", kind, "--sampler-kind neighbor"]);
        if draws_together {
            bench("pipeline", kind, &["--fanouts", "9,9", "--expand", "new"])
                .refuses(2, &["--expand new", kind, "use --expand all"]);
        }
        let policies = ["--policy", "analytic", "--fanouts", "20,20"];
        bench("cache", kind, &policies).refuses(2, &["analytic", kind, "presample"]);
        let train = ["train", "graph", "--model", "gat", "--fanouts", "9,9", "--sampler-kind", kind];
        uvatrain(temp.path(), train).run().refuses(2, &["--sampler-kind", kind, "--model sage or gcn"]);
    }
}

#[test]
fn the_gather_bench_verifies_what_it_moved_and_compares_with_memcpy() {
    let temp = directory();
    generate(temp.path(), "graph", &[]).succeeds();
    let args = ["bench", "gather", "graph", "--bytes", "1MiB", "--repeats", "3", "--json"];
    let report = uvatrain(temp.path(), args).run().succeeds().json();
    assert_eq!(report["verified"], true);
    assert_eq!(report["row_bytes"], 48);
    for key in ["gb_per_second", "memcpy_gb_per_second"] {
        assert!(report[key].as_f64().unwrap() > 0.0, "{key}");
    }
}

#[test]
fn the_cache_bench_says_how_few_bytes_take_most_reads() {
    let temp = directory();
    generate(temp.path(), "graph", &["--train-by", "degree"]).succeeds();
    let args = "bench cache graph --policy optimal --size 1,100 --fanouts 5,5 --gpu-cache 16KiB --stage-times --json";
    let args = args.split_whitespace();
    let report = uvatrain(temp.path(), args).run().succeeds().json();
    let all_rows = report["nodes"].as_u64().unwrap() * report["row_bytes"].as_u64().unwrap();
    for what in ["rows", "lists"] {
        let needs = report["bytes_for_share"][what].as_array().unwrap();
        let percents: Vec<u64> = needs.iter().map(|need| need["reads_percent"].as_u64().unwrap()).collect();
        assert_eq!(percents, [50, 90, 95, 98, 99]);
        let of = |key: &str| needs.iter().map(|need| need[key].as_f64().unwrap()).collect::<Vec<_>>();
        let shares = of("of_all_bytes");
        assert!(
            of("bytes").is_sorted() && shares.is_sorted_by(|a, b| a < b) && shares[4] <= 1.0,
            "{what}: {shares:?}"
        );
        // Reads are skewed, so a share of them takes a smaller share of the bytes.
        assert!(
            shares.iter().zip(&percents).all(|(share, percent)| *share < *percent as f64 / 100.0),
            "{shares:?}"
        );
    }
    // Caches are timed as a run fills them, and filled at random.
    let fits = report["allocation"]["fits"].as_array().unwrap();
    assert_eq!(fits.iter().map(|fit| fit["by"].as_str().unwrap()).collect::<Vec<_>>(), ["rank", "random"]);
    let stages = report["time_of_stages"].as_array().unwrap();
    assert_eq!(stages.iter().map(|of| of["fanouts"][0].as_u64().unwrap()).collect::<Vec<_>>(), [2, 5, 15]);
    assert!(
        stages
            .iter()
            .all(|of| of["sample_ms"].as_f64().unwrap() > 0.0 && of["gather_ms"].as_f64().unwrap() > 0.0)
    );
    assert!(report["allocation"]["marginal"].as_f64().unwrap() >= 0.0, "{}", report["allocation"]);
    let rows = &report["bytes_for_share"]["rows"][1];
    assert_eq!(
        rows["bytes"].as_u64().unwrap(),
        rows["count"].as_u64().unwrap() * report["row_bytes"].as_u64().unwrap()
    );
    assert_eq!(rows["of_all_bytes"].as_f64().unwrap(), rows["bytes"].as_f64().unwrap() / all_rows as f64);
}

// ---- import

#[test]
fn import_npy_refuses_what_info_refuses_and_leaves_nothing() {
    for fault in faults() {
        let temp = directory();
        let source = temp.path().join("six");
        six_nodes(&source);
        fs::write(source.join(fault.file), &fault.content).unwrap();
        let before = contents(temp.path());
        let outcome = uvatrain(temp.path(), ["import", "--from", "npy", "six", "out"]).run();
        outcome.refuses(2, &[fault.file]);
        assert_same_contents(&before, &contents(temp.path()));
    }
}

#[test]
fn import_npy_converts_types_that_a_dataset_may_not_have() {
    for wrong in wrong_types() {
        let temp = directory();
        let source = temp.path().join("six");
        six_nodes(&source);
        fs::write(source.join(wrong.file), &wrong.content).unwrap();
        uvatrain(temp.path(), ["import", "--from", "npy", "six", "out"]).run().succeeds();
        uvatrain(temp.path(), ["info", "out", "--verify"]).run().succeeds();
    }
}

#[test]
fn import_npy_symmetrises_adds_self_loops_and_drops_repeated_edges() {
    let temp = directory();
    six_nodes(&temp.path().join("six"));
    let edges = |options: &[&str]| {
        let out = format!("out{}", options.join(""));
        uvatrain(temp.path(), [&["import", "--from", "npy", "six", &out], options].concat()).run().succeeds();
        let facts = uvatrain(temp.path(), ["info", &out, "--verify", "--json"]).run().succeeds().json();
        facts["edges"].as_u64().unwrap()
    };
    // 0←1, 0←2, 1←0, 2←0, 2←3, 2←4, 3←2, 4←2: every edge has its other direction already.
    assert_eq!(edges(&[]), 8);
    assert_eq!(edges(&["--symmetrise", "--dedup"]), 8);
    assert_eq!(edges(&["--self-loops", "add"]), 14);
    assert_eq!(edges(&["--self-loops", "remove"]), 8);
}

/// The published files of the Planetoid graphs, or `None` where this machine does not have them.
fn planetoid(test: &str) -> Option<PathBuf> {
    shared_datasets(test).map(|datasets| datasets.join("raw/planetoid"))
}

#[test]
fn import_planetoid_reads_the_published_files() {
    let Some(source) = planetoid("commands::cli::import_planetoid_reads_the_published_files") else { return };
    let temp = directory();
    let counts = [("cora", 2708, 1433, 7, 140), ("citeseer", 3327, 3703, 6, 120)];
    for (name, nodes, features, classes, train) in counts {
        let args = ["import", "--from", "planetoid", source.to_str().unwrap(), name, "--name", name];
        uvatrain(temp.path(), args).run().succeeds();
        let facts = uvatrain(temp.path(), ["info", name, "--verify", "--json"]).run().succeeds().json();
        assert_eq!(facts["name"], name);
        assert_eq!(facts["nodes"], nodes);
        assert_eq!(facts["feature_dim"], features);
        assert_eq!(facts["classes"], classes);
        assert_eq!(facts["splits"], serde_json::json!({"train": train, "valid": 500, "test": 1000}));
    }
}

#[test]
fn a_truncated_planetoid_file_is_refused_by_name_and_leaves_nothing() {
    let Some(source) =
        planetoid("commands::cli::a_truncated_planetoid_file_is_refused_by_name_and_leaves_nothing")
    else {
        return;
    };
    let temp = directory();
    let copy = temp.path().join("raw");
    fs::create_dir(&copy).unwrap();
    for part in ["x", "tx", "allx", "y", "ty", "ally", "graph", "test.index"] {
        let file = format!("ind.cora.{part}");
        fs::write(copy.join(&file), fs::read(source.join(&file)).unwrap()).unwrap();
    }
    let allx = copy.join("ind.cora.allx");
    let bytes = fs::read(&allx).unwrap();
    fs::write(&allx, &bytes[..bytes.len() / 2]).unwrap();
    let before = contents(temp.path());
    let args = ["import", "--from", "planetoid", "raw", "cora", "--name", "cora"];
    uvatrain(temp.path(), args).run().refuses(2, &["ind.cora.allx"]);
    assert_same_contents(&before, &contents(temp.path()));
}

#[test]
fn an_edge_list_is_imported_exported_and_imported_again() {
    let temp = directory();
    fs::write(temp.path().join("graph.txt"), "# who follows whom\n10 20\n30 10\n20 10\n").unwrap();
    let run = |args: &[&str]| uvatrain(temp.path(), args).run();
    let outcome = run(&["import", "--from", "edgelist", "graph.txt", "first"]).succeeds();
    assert!(outcome.stdout.is_empty(), "{outcome}");
    for text in [
        "estimate: 3 nodes, up to 3 edges; ",
        " on the disk; ",
        " of memory for edges",
        "first: 3 nodes, 3 edges",
    ] {
        assert!(outcome.stderr.contains(text), "{text} is missing\n{outcome}");
    }
    run(&["info", "first", "--verify"]).succeeds();
    let said = run(&["export", "first", "lines", "--to", "edgelist", "--gzip"]).succeeds();
    assert!(said.stderr.contains("back: uvatrain import --from edgelist lines DIRECTORY\n"), "{said}");
    run(&["import", "--from", "edgelist", "lines", "second", "--name", "first"]).succeeds();
    for name in ["indptr.npy", "indices.npy", "feat.npy", "node_id.npy", "meta.json"] {
        let read = |directory: &str| fs::read(temp.path().join(directory).join(name)).unwrap();
        assert!(read("first") == read("second"), "{name} differs");
    }
    assert!(!temp.path().join("second/label.npy").exists(), "an edge list has no labels");
    run(&["export", "first", "lines", "--to", "npy"]).refuses(2, &["lines", "exists"]);
    run(&["export", "first", "other", "--to", "npy", "--gzip"]).refuses(2, &["--gzip"]);
    run(&["export", "nothing", "other", "--to", "npy"]).refuses(2, &["nothing"]);
}

#[test]
fn what_is_wrong_with_an_import_ends_with_2_and_leaves_nothing() {
    let temp = directory();
    fs::write(temp.path().join("graph.txt"), "1 2\n3 x\n").unwrap();
    fs::write(temp.path().join("graph.npz"), "PK, but nothing more").unwrap();
    fs::create_dir(temp.path().join("directory")).unwrap();
    let before = contents(temp.path());
    let cases: [(&[&str], &[&str]); 9] = [
        (&["edgelist", "graph.txt"], &["graph.txt", "line 2", "'3 x'", "--ids name"]),
        (&["edgelist", "graph.txt", "--memory", "1MiB"], &["line 2"]),
        (&["edgelist", "graph.txt", "--ids", "name", "--memory", "1MiB"], &["--memory", "64 MiB"]),
        (&["edgelist", "graph.txt", "--label", "x"], &["--label", "edgelist"]),
        (&["gnn-npz", "graph.npz"], &["graph.npz", "zip"]),
        (&["gnn-npz", "graph.npz", "--split", "halves"], &["--split", "'halves'"]),
        (&["ogb", "directory"], &["directory", "--symmetrise"]),
        (&["graphbolt", "directory"], &["metadata.yaml"]),
        (&["igb", "directory"], &["node_feat.npy"]),
    ];
    for (args, message) in cases {
        let args = [&["import", "--from", args[0], args[1], "out"], &args[2..]].concat();
        uvatrain(temp.path(), args).run().refuses(2, message);
        assert_same_contents(&before, &contents(temp.path()));
    }
}

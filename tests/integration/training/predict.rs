//! Tests of `predict` and `evaluate` with a trained model.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use uva_graph::npy::{NpyArray, NpyType};

use crate::support::arrays::{header, npy};
use crate::support::runs::{small_graph, train, wait_until};
use crate::support::{Uvatrain, directory, uvatrain};

fn call(directory: &Path, line: &str) -> Uvatrain {
    uvatrain(directory, line.split_whitespace())
}

fn trained(directory: &Path, options: &str) -> serde_json::Value {
    train(directory, "run.jsonl", &format!("--checkpoint kept --json {options}")).run().succeeds().json()
}

fn classes(path: &Path) -> Vec<i64> {
    NpyArray::open(path).unwrap().elements::<i64>(NpyType::I64).unwrap().to_vec()
}

fn rows(path: &Path) -> (Vec<usize>, Vec<f32>) {
    let array = NpyArray::open(path).unwrap();
    (array.shape().to_vec(), array.elements::<f32>(NpyType::F32).unwrap().to_vec())
}

fn entries(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The units of work in the record at the end of an unfinished array: mark, job, units, whether complete, hash.
fn units_done(part: &Path) -> Option<u64> {
    let bytes = fs::read(part).ok()?;
    let record = bytes.last_chunk::<40>()?;
    assert_eq!(&record[..8], b"uvarows1");
    Some(u64::from_le_bytes(record[16..24].try_into().unwrap()))
}

/// The share of these nodes whose class is as predicted; `predicted` has one for each of them.
fn accuracy(graph: &Path, ids: &[i64], predicted: &[i64]) -> f64 {
    let labels = classes(&graph.join("label.npy"));
    let right = ids.iter().zip(predicted).filter(|(id, class)| labels[**id as usize] == **class).count();
    right as f64 / ids.len() as f64
}

#[test]
fn predictions_have_the_accuracy_of_training_with_whole_and_sampled_lists() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let test = classes(&graph.join("test_idx.npy"));
    for (eval, options) in [
        ("full", "--epochs 200 --patience 2 --model sage --lr 0.03"),
        ("sampled", "--epochs 3 --model gcn --lr 0.01"),
        ("full", "--epochs 2 --model gat --heads 4 --residual --norm layer"),
        ("sampled", "--epochs 2 --model gin --norm layer"),
    ] {
        let end = trained(temp.path(), &format!("{options} --eval {eval} --overwrite-checkpoint"));
        let told = end["test_accuracy"].as_f64().unwrap();
        let line = format!("predict graph --checkpoint kept --eval {eval} --overwrite --json");
        let said = call(temp.path(), &format!("{line} --nodes test")).run().succeeds().json();
        assert_eq!((&said["rows"], &said["kept"]), (&test.len().into(), &"best".into()), "{said}");
        assert_eq!(said["epoch"], end["test_epoch"], "{said} {end}");
        let predicted = classes(&temp.path().join("predictions.npy"));
        assert_eq!(accuracy(&graph, &test, &predicted), told, "{options}");

        let said = call(temp.path(), &format!("evaluate graph --checkpoint kept --eval {eval} --json"));
        let said = said.run().succeeds().json();
        assert_eq!(said["test"]["accuracy"].as_f64(), Some(told), "{said}");
        assert_eq!(said["valid"]["accuracy"], end["best_valid_accuracy"], "{said} {end}");
        assert!(said["train"]["accuracy"].as_f64().unwrap() > 0.25, "{said}");
    }
    assert_eq!(entries(temp.path()).iter().filter(|name| name.starts_with("predictions")).count(), 1);
}

#[test]
fn every_answer_about_a_node_is_the_same_however_the_nodes_are_named() {
    let temp = directory();
    let graph = small_graph(temp.path());
    trained(temp.path(), "--epochs 2 --lr 0.01");
    let asked = "--output c.npy --probabilities p.npy --embeddings e.npy --ids i.npy --overwrite";
    for eval in ["full", "sampled"] {
        let line = format!("predict graph --checkpoint kept --eval {eval} {asked}");
        call(temp.path(), &line).run().succeeds();
        let read = || {
            let file = |name: &str| temp.path().join(name);
            (classes(&file("c.npy")), rows(&file("p.npy")), rows(&file("e.npy")), classes(&file("i.npy")))
        };
        let (all, (shape, shares), (width, hidden), ids) = read();
        assert_eq!((shape, width, ids), (vec![4000, 4], vec![4000, 16], (0..4000).collect::<Vec<i64>>()));
        for (class, shares) in all.iter().zip(shares.chunks(4)) {
            assert!((shares.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            assert!(shares.iter().all(|share| *share <= shares[*class as usize]));
        }
        // Rows after a ReLU.
        assert!(hidden.iter().all(|value| *value >= 0.0) && hidden.iter().any(|value| *value > 0.0));
        // Any order, and a node twice.
        let wanted = [3999i64, 7, 7, 0, 1234];
        fs::write(temp.path().join("ids.npy"), npy(&[5], false, &wanted)).unwrap();
        fs::write(temp.path().join("ids.txt"), wanted.map(|id| id.to_string()).join("\n")).unwrap();
        for file in ["ids.npy", "ids.txt"] {
            call(temp.path(), &format!("{line} --nodes {file}")).run().succeeds();
            let (some, (_, some_shares), (_, some_hidden), ids) = read();
            assert_eq!(ids, wanted);
            assert_eq!(some[1], some[2]);
            assert_eq!(some_shares[4..8], some_shares[8..12]);
            if eval == "full" {
                let of_all = wanted.map(|id| all[id as usize]);
                assert_eq!(some, of_all);
                for (place, id) in wanted.iter().enumerate() {
                    let id = *id as usize;
                    assert_eq!(some_shares[place * 4..][..4], shares[id * 4..][..4]);
                    assert_eq!(some_hidden[place * 16..][..16], hidden[id * 16..][..16]);
                }
            }
        }
    }
    // A mask names them by id.
    let mask: Vec<u8> = (0..4000).map(|id| u8::from([0, 7, 3999].contains(&id))).collect();
    let file = [&header("|b1", &[4000], false)[..], &mask].concat();
    fs::write(temp.path().join("mask.npy"), file).unwrap();
    call(temp.path(), &format!("predict graph --checkpoint kept --nodes mask.npy {asked}")).run().succeeds();
    assert_eq!(classes(&temp.path().join("i.npy")), [0, 7, 3999]);
    // The users' own ids, where the dataset has them.
    let numbers: Vec<i64> = (0..4000).map(|id| id * 3 + 10).collect();
    fs::write(graph.join("node_id.npy"), npy(&[4000], false, &numbers)).unwrap();
    call(temp.path(), &format!("predict graph --checkpoint kept --nodes ids.txt {asked}")).run().succeeds();
    assert_eq!(classes(&temp.path().join("i.npy")), [3999i64, 7, 7, 0, 1234].map(|id| id * 3 + 10));
}

#[test]
fn the_model_that_is_kept_is_the_one_that_is_predicted_with() {
    let temp = directory();
    small_graph(temp.path());
    // The last two epochs are worse than the best.
    let end = trained(temp.path(), "--epochs 200 --patience 2 --lr 0.05 --eval full --keep last");
    let last_epoch = end["epochs"].as_u64().unwrap() - 1;
    assert_eq!(end["test_epoch"].as_u64(), Some(last_epoch), "{end}");
    assert_eq!(end["best_valid_epoch"].as_u64(), Some(last_epoch - 2), "{end}");
    let evaluated = || call(temp.path(), "evaluate graph --checkpoint kept --json").run().succeeds().json();
    let last = evaluated();
    assert_eq!((&last["kept"], last["epoch"].as_u64()), (&"last".into(), Some(last_epoch)), "{last}");
    assert_eq!(last["test"]["accuracy"], end["test_accuracy"]);
    // Only this word selects the model, so that a resumed run may choose again.
    let state = temp.path().join("kept/checkpoint.json");
    let text = fs::read_to_string(&state).unwrap();
    fs::write(&state, text.replace("\"keep\": \"last\"", "\"keep\": \"best\"")).unwrap();
    let best = evaluated();
    assert_eq!((&best["kept"], &best["epoch"]), (&"best".into(), &end["best_valid_epoch"]), "{best}");
    assert_eq!(best["valid"]["accuracy"], end["best_valid_accuracy"]);
    // Accuracies may be equal by chance, losses of other parameters not.
    assert_ne!(best["valid"]["loss"], last["valid"]["loss"], "{best}");
}

#[test]
fn what_cannot_be_predicted_is_refused_by_name_and_nothing_is_written() {
    let temp = directory();
    small_graph(temp.path());
    trained(temp.path(), "--epochs 1");
    let before = entries(temp.path());
    let refuse = |options: &str, named: &[&str]| {
        call(temp.path(), &format!("predict graph {options}")).run().refuses(2, named);
    };
    refuse("--checkpoint nowhere", &["--checkpoint nowhere", "checkpoint.json"]);
    fs::write(temp.path().join("out.txt"), "3\n4000\n").unwrap();
    refuse(
        "--checkpoint kept --nodes out.txt",
        &["--nodes: out.txt", "line 2 is 4000, outside the ids 0 to 3999 of the dataset's 4000 nodes"],
    );
    fs::write(temp.path().join("word.txt"), "3\nseven\n").unwrap();
    refuse(
        "--checkpoint kept --nodes word.txt",
        &["--nodes: word.txt", "line 2 is 'seven': expected a node id"],
    );
    fs::write(temp.path().join("none.npy"), npy::<i64>(&[0], false, &[])).unwrap();
    refuse("--checkpoint kept --nodes none.npy", &["--nodes: none.npy", "no node"]);
    fs::write(temp.path().join("f.npy"), npy::<f32>(&[1], false, &[1.0])).unwrap();
    refuse("--checkpoint kept --nodes f.npy", &["f.npy", "float32", "int64"]);
    refuse("--checkpoint kept --nodes unknown", &["--nodes: unknown", "train, valid, test"]);
    refuse("--checkpoint kept --embeddings e.npy --layer 3", &["--layer 3", "1 to 2"]);
    refuse("--checkpoint kept --output no/where.npy", &["no/where.npy"]);
    refuse("--checkpoint kept --output f.npy", &["f.npy", "--overwrite"]);
    for option in ["--output p.txt", "--probabilities p.parquet", "--embeddings p"] {
        refuse(&format!("--checkpoint kept {option}"), &[option, "suffix .npy"]);
    }
    refuse("--checkpoint kept --device cpu", &["--device", "--eval sampled"]);
    let files = ["out.txt", "word.txt", "none.npy", "f.npy"].map(str::to_owned);
    let expected: Vec<String> = before.into_iter().chain(files).collect();
    let now = entries(temp.path());
    assert!(now.iter().all(|name| expected.contains(name)), "{now:?}");

    // Another dataset, another model, another file.
    let other = "generate other --nodes 4000 --avg-degree 12 --feat-dim 24 --classes 4 --seed 8";
    call(temp.path(), other).run().succeeds();
    for command in ["predict", "evaluate"] {
        let line = format!("{command} other --checkpoint kept");
        call(temp.path(), &line).run().refuses(2, &["--checkpoint kept", "another dataset", "other"]);
    }
    let state = temp.path().join("kept/checkpoint.json");
    let text = fs::read_to_string(&state).unwrap();
    for (is, was, named) in [
        ("\"model\": \"mlp\"", "\"model\": \"sage\"", "mlp"),
        ("\"hidden\": 17", "\"hidden\": 16", "layers.0"),
        ("\"hidden\": \"wide\"", "\"hidden\": 16", "wide"),
    ] {
        fs::write(&state, text.replace(was, is)).unwrap();
        refuse("--checkpoint kept", &["kept", named]);
    }
}

#[test]
fn a_grown_graph_is_evaluated_and_predicted_only_where_allowed() {
    let temp = directory();
    small_graph(temp.path());
    trained(temp.path(), "--epochs 3");
    let generate = |name: &str, options: &str| {
        let line = format!("generate {name} --nodes 5000 --avg-degree 12 {options} --seed 7");
        call(temp.path(), &line).run().succeeds();
    };
    generate("grown", "--feat-dim 24 --classes 4");
    for eval in ["", "--eval sampled"] {
        let line = format!("evaluate grown --checkpoint kept --allow-other-dataset --json {eval}");
        let outcome = call(temp.path(), &line).run().succeeds();
        assert!(outcome.stderr.contains("trained on another dataset"), "{outcome}");
        assert_eq!(outcome.json()["test"]["nodes"], 505, "{outcome}");
    }
    let predict = "predict grown --checkpoint kept --allow-other-dataset --output p.npy";
    let outcome = call(temp.path(), predict).run().succeeds();
    assert!(outcome.stderr.contains("trained on another dataset"), "{outcome}");
    let array = NpyArray::open(&temp.path().join("p.npy")).unwrap();
    assert_eq!(array.shape(), [5000]);
    // The dataset of the training itself causes no message.
    let same = "evaluate graph --checkpoint kept --allow-other-dataset";
    let outcome = call(temp.path(), same).run().succeeds();
    assert!(!outcome.stderr.contains("another dataset"), "{outcome}");
    generate("wider", "--feat-dim 25 --classes 4");
    generate("finer", "--feat-dim 24 --classes 5");
    for (name, says) in [
        ("wider", ["24 feature columns", "wider has 25"]),
        ("finer", ["predicts 4 classes", "finer has 5 classes"]),
    ] {
        for command in ["predict", "evaluate"] {
            let line = format!("{command} {name} --checkpoint kept --allow-other-dataset");
            call(temp.path(), &line).run().refuses(2, &says);
        }
    }
}

#[test]
#[ignore = "12 s of a core: scripts/measure/long_tests.sh"]
fn answers_from_sampled_neighbours_are_equal_for_both_summing_sides() {
    let temp = directory();
    small_graph(temp.path());
    let answers = "--output c.npy --probabilities p.npy --embeddings e.npy --overwrite";
    // Dropout of the input in training does not affect answers.
    for options in ["--model sage --input-dropout 0.2", "--model gcn"] {
        trained(temp.path(), &format!("--epochs 1 --in-process --overwrite-checkpoint {options}"));
        let asked = |who: &str| {
            let line = format!("--checkpoint kept --eval sampled --json --aggregate {who}");
            let said = call(temp.path(), &format!("predict graph {line} {answers}")).run().succeeds().json();
            assert_eq!(said["aggregate"]["way"], who, "{said}");
            let sums = if options.contains("gcn") { "gcn" } else { "mean" };
            assert_eq!(said["aggregate"]["sums"], if who == "off" { "none" } else { sums }, "{said}");
            let files = ["c.npy", "p.npy", "e.npy"].map(|name| fs::read(temp.path().join(name)).unwrap());
            let said = call(temp.path(), &format!("evaluate graph {line}")).run().succeeds().json();
            assert_eq!(said["aggregate"]["way"], who, "{said}");
            (files, ["train", "valid", "test"].map(|split| said[split].to_string()))
        };
        let expected = asked("off");
        for who in ["host", "auto"] {
            assert!(asked(who) == expected, "{options} {who}");
        }
    }
    for (options, parts) in [
        ("--model gat", &["--model gat", "trained", "--model sage"][..]),
        ("--residual", &["--residual", "a model trained without that option"]),
    ] {
        trained(temp.path(), &format!("--epochs 1 --in-process --overwrite-checkpoint {options}"));
        let parts = [&["--aggregate host", "--aggregate off"], parts].concat();
        let line = "graph --checkpoint kept --eval sampled";
        for command in ["predict", "evaluate"] {
            call(temp.path(), &format!("{command} {line} --aggregate host")).run().refuses(2, &parts);
        }
        let said = call(temp.path(), &format!("evaluate {line} --json")).run().succeeds().json();
        assert_eq!(said["aggregate"]["way"], "off", "{said}");
    }
}

#[test]
fn an_interrupted_prediction_leaves_no_half_array_and_continues() {
    let temp = directory();
    small_graph(temp.path());
    trained(temp.path(), "--epochs 1");
    let line = "predict graph --checkpoint kept --eval sampled --batch-size 1 --json";
    call(temp.path(), &format!("{line} --output whole.npy")).run().succeeds();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::KILL, 137)] {
        let line = format!("{line} --output parts.npy --overwrite");
        let part = temp.path().join("parts.npy.part");
        let run = call(temp.path(), &line).start();
        wait_until("there is a part", || part.exists());
        kill_process(Pid::from_child(&run.child), signal).unwrap();
        let ended = run.wait();
        if ended.status.success() {
            // The command ended before the signal.
            continue;
        }
        ended.ends_with(code);
        let done = units_done(&part).unwrap_or(0);
        assert!(part.exists() == (done > 0) || signal == Signal::KILL, "what is done is kept");
        // Finished rows are not computed again.
        if done > 0 {
            let bytes = fs::read(&part).unwrap();
            let spoiled = [&bytes[..128], &99i64.to_le_bytes(), &bytes[136..]].concat();
            fs::write(&part, spoiled).unwrap();
        }
        let said = call(temp.path(), &line).run().succeeds().json();
        assert_eq!(said["resumed"].as_u64(), Some(done), "{said}");
        let (whole, mut parts) =
            (classes(&temp.path().join("whole.npy")), classes(&temp.path().join("parts.npy")));
        if done > 0 {
            assert_eq!(parts[0], 99);
            parts[0] = whole[0];
        }
        assert_eq!(whole, parts);
        assert!(!part.exists());
    }
}

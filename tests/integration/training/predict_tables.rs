//! `predict --output` with the name of a table: CSV and Parquet equal the arrays of the same model.

use std::fs::{self, File};
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use rustix::process::{Pid, Signal, kill_process};
use uva_graph::npy::{NpyArray, NpyType};
use uva_mem::mix;

use crate::support::arrays::{header, npy};
use crate::support::runs::{small_graph, train, wait_until};
use crate::support::{Outcome, Uvatrain, directory, uvatrain};

fn call(directory: &Path, line: &str) -> Uvatrain {
    uvatrain(directory, line.split_whitespace())
}

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Integer(i64),
    Real(f32),
    Text(String),
}
use Value::{Integer, Real, Text};

/// The names of the columns, and the rows.
type Table = (Vec<String>, Vec<Vec<Value>>);

/// The records of CSV text: fields in quotes may hold commas, line breaks and doubled quotes.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => field.extend(characters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            other => field.push(other),
        }
    }
    assert!(!quoted && record.is_empty() && field.is_empty(), "the last line ends");
    records
}

/// A CSV table whose columns have the types of `like`.
fn csv(path: &Path, like: &[Value]) -> Table {
    let mut records = records(&fs::read_to_string(path).unwrap()).into_iter();
    let columns = records.next().unwrap();
    let value = |(text, like): (String, &Value)| match like {
        Integer(_) => Integer(text.parse().unwrap()),
        Real(_) => Real(text.parse().unwrap()),
        Text(_) => Text(text),
    };
    let rows = records.map(|record| {
        assert_eq!(record.len(), like.len());
        record.into_iter().zip(like).map(value).collect()
    });
    (columns, rows.collect())
}

fn parquet(path: &Path) -> Table {
    let file = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let fields = file.metadata().file_metadata().schema().get_fields().to_vec();
    let value = |field: &Field| match field {
        Field::Long(value) => Integer(*value),
        Field::Float(value) => Real(*value),
        Field::Str(value) => Text(value.clone()),
        other => panic!("{other:?}"),
    };
    let rows = file.get_row_iter(None).unwrap();
    let rows = rows.map(|row| row.unwrap().get_column_iter().map(|(_, field)| value(field)).collect());
    (fields.iter().map(|field| field.name().to_owned()).collect(), rows.collect())
}

fn integers(path: &Path) -> Vec<i64> {
    NpyArray::open(path).unwrap().elements::<i64>(NpyType::I64).unwrap().to_vec()
}

fn floats(path: &Path) -> Vec<f32> {
    NpyArray::open(path).unwrap().elements::<f32>(NpyType::F32).unwrap().to_vec()
}

/// The same table as CSV and as Parquet, by `options` of `predict`.
fn both(directory: &Path, options: &str) -> Table {
    for name in ["t.csv", "t.parquet"] {
        call(directory, &format!("predict graph --checkpoint kept --output {name} {options}"))
            .run()
            .succeeds();
    }
    let found = parquet(&directory.join("t.parquet"));
    assert_eq!(csv(&directory.join("t.csv"), &found.1[0]), found);
    let parts = fs::read_dir(directory)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().contains(".part"));
    assert_eq!(parts.count(), 0);
    found
}

fn trained(directory: &Path, options: &str) -> Outcome {
    train(directory, "run.jsonl", &format!("--checkpoint kept --epochs 1 {options}")).run().succeeds()
}

/// Names of four classes, and of the nodes: with commas, quotes, and letters that are not ASCII.
const CLASSES: [&str; 4] = ["physics", "math, pure", "\"odd\"", "Überblick"];

fn name(node: usize) -> String {
    ["Zoë, {}", "plain {}", "\"q\" {}", "  {}"][node % 4].replace("{}", &node.to_string())
}

fn with_names(graph: &Path) {
    let names: Vec<String> = (0..4000).map(name).collect();
    fs::write(graph.join("node_names.txt"), names.join("\n")).unwrap();
    let meta = serde_json::json!({ "name": "named", "classes": 4, "class_names": CLASSES });
    fs::write(graph.join("meta.json"), meta.to_string()).unwrap();
}

#[test]
fn tables_say_what_the_arrays_of_the_same_model_say() {
    let temp = directory();
    let graph = small_graph(temp.path());
    with_names(&graph);
    trained(temp.path(), "--lr 0.01");
    fs::write(temp.path().join("ids.txt"), "3999\n7\n7\n0\n1234\n").unwrap();
    for eval in ["full", "sampled"] {
        for nodes in ["all", "ids.txt"] {
            let options = format!("--eval {eval} --nodes {nodes} --overwrite");
            let arrays = "--output c.npy --probabilities p.npy";
            let line = format!("predict graph --checkpoint kept {arrays} {options}");
            call(temp.path(), &line).run().succeeds();
            let (classes, shares) =
                (integers(&temp.path().join("c.npy")), floats(&temp.path().join("p.npy")));
            let (columns, rows) = both(temp.path(), &options);
            let probabilities = CLASSES.map(|class| format!("probability_{class}"));
            assert_eq!(columns[..3], ["id", "name", "class"]);
            assert_eq!(columns[3..], probabilities);
            let nodes = if nodes == "all" { (0..4000).collect() } else { vec![3999, 7, 7, 0, 1234] };
            assert_eq!(rows.len(), nodes.len());
            for (place, (row, node)) in rows.iter().zip(nodes).enumerate() {
                let mut expected = vec![
                    Integer(node as i64),
                    Text(name(node)),
                    Text(CLASSES[classes[place] as usize].to_owned()),
                ];
                expected.extend(shares[4 * place..][..4].iter().map(|share| Real(*share)));
                assert_eq!(row, &expected);
            }
        }
    }
    let said = call(temp.path(), "predict graph --checkpoint kept --output t.csv --json --overwrite");
    assert_eq!(said.run().succeeds().json()["output"], "t.csv");
}

#[test]
fn ids_are_the_original_ones_and_numbers_of_the_source_are_names() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let original: Vec<i64> = (0..4000).rev().collect();
    let source: Vec<i64> = (0..4000).map(|node| 10 * node - 5).collect();
    fs::write(graph.join("orig_id.npy"), npy(&[4000], false, &original)).unwrap();
    trained(temp.path(), "");
    let (columns, rows) = both(temp.path(), "--nodes test");
    assert_eq!(columns[..3], ["id", "class", "probability_0"]);
    let test = integers(&graph.join("test_idx.npy"));
    let ids: Vec<Value> = test.iter().map(|&node| Integer(3999 - node)).collect();
    assert_eq!(rows.iter().map(|row| row[0].clone()).collect::<Vec<_>>(), ids);
    assert!(rows.iter().all(|row| matches!(row[1], Integer(0..4))));
    fs::write(graph.join("node_id.npy"), npy(&[4000], false, &source)).unwrap();
    let (columns, rows) = both(temp.path(), "--nodes test --overwrite");
    assert_eq!(columns[..3], ["id", "name", "class"]);
    let names: Vec<Value> = test.iter().map(|&node| Integer(10 * node - 5)).collect();
    assert_eq!(rows.iter().map(|row| row[1].clone()).collect::<Vec<_>>(), names);
}

#[test]
fn several_labels_a_node_and_regression_have_columns_of_their_own() {
    let temp = directory();
    let graph = small_graph(temp.path());
    let several: Vec<u8> = (0..4000 * 3).map(|place| u8::from(place % 7 < 2)).collect();
    fs::write(graph.join("label.npy"), npy(&[4000, 3], false, &several)).unwrap();
    let meta = serde_json::json!({ "name": "several", "class_names": ["a,b", "c", "d"] });
    fs::write(graph.join("meta.json"), meta.to_string()).unwrap();
    trained(temp.path(), "");
    let arrays = "predict graph --checkpoint kept --output c.npy";
    call(temp.path(), &format!("{arrays} --probabilities p.npy")).run().succeeds();
    let labels = NpyArray::open(&temp.path().join("c.npy")).unwrap();
    let labels = labels.elements::<u8>(NpyType::U8).unwrap().to_vec();
    let shares = floats(&temp.path().join("p.npy"));
    let (columns, rows) = both(temp.path(), "");
    let expected =
        ["id", "label_a,b", "label_c", "label_d", "probability_a,b", "probability_c", "probability_d"];
    assert_eq!(columns, expected);
    for (node, row) in rows.iter().enumerate() {
        let labels = labels[3 * node..][..3].iter().map(|&label| Integer(label.into()));
        let shares = shares[3 * node..][..3].iter().map(|&share| Real(share));
        assert_eq!(row[1..], labels.chain(shares).collect::<Vec<_>>());
    }
    for (columns, shape) in [(1, vec![4000]), (2, vec![4000, 2])] {
        let numbers: Vec<f32> = (0..4000 * columns).map(|place| place as f32 / 1000.0).collect();
        fs::write(graph.join("label.npy"), npy(&shape, false, &numbers)).unwrap();
        fs::write(graph.join("meta.json"), "{}").unwrap();
        trained(temp.path(), "--overwrite-checkpoint");
        call(temp.path(), &format!("{arrays} --overwrite")).run().succeeds();
        let (named, rows) = both(temp.path(), "--overwrite");
        let expected =
            if columns == 1 { vec!["id", "prediction"] } else { vec!["id", "prediction_0", "prediction_1"] };
        assert_eq!(named, expected);
        let found: Vec<Value> = rows.into_iter().flat_map(|row| row[1..].to_vec()).collect();
        let predicted = floats(&temp.path().join("c.npy"));
        assert_eq!(found, predicted.into_iter().map(Real).collect::<Vec<_>>());
    }
}

#[test]
fn other_suffixes_are_refused_and_nothing_of_others_is_replaced() {
    let temp = directory();
    let graph = small_graph(temp.path());
    with_names(&graph);
    trained(temp.path(), "");
    let refuse = |options: &str, named: &[&str]| {
        call(temp.path(), &format!("predict graph --checkpoint kept {options}")).run().refuses(2, named);
    };
    for name in ["p.txt", "p", "p.CSV", "p.csv.gz"] {
        refuse(&format!("--output {name}"), &[name, ".npy", ".csv", ".parquet"]);
    }
    for option in ["--probabilities p.csv", "--embeddings p.parquet"] {
        refuse(option, &[option, "suffix .npy"]);
    }
    fs::write(temp.path().join("mine.csv"), "3\n").unwrap();
    refuse("--output mine.csv", &["mine.csv", "it is there already", "--overwrite"]);
    refuse(
        "--nodes mine.csv --output mine.csv --overwrite",
        &["--output mine.csv", "which the command reads"],
    );
    fs::write(temp.path().join("new.csv.part"), "mine").unwrap();
    refuse("--output new.csv", &["new.csv.part", "move it out of the way"]);
    assert_eq!(fs::read(temp.path().join("mine.csv")).unwrap(), b"3\n");
    // Names that are not for all nodes.
    fs::write(graph.join("node_names.txt"), "a\nb\n").unwrap();
    refuse("--output t.csv", &["node_names.txt", "2 ids for 4000 nodes"]);
}

/// The record at the end of an unfinished array: mark, job, units, whether complete, and a hash of the three.
fn record(job: u64) -> Vec<u8> {
    let words = [job, 7, 1];
    let hash = words.into_iter().fold(0, |hash, word| mix(hash ^ word));
    let words = words.into_iter().chain([hash]).flat_map(u64::to_le_bytes);
    b"uvarows1".iter().copied().chain(words).collect()
}

#[test]
#[ignore = "7 s of a core: scripts/measure/long_tests.sh"]
fn a_process_killed_before_or_after_naming_its_table_is_resumed() {
    let temp = directory();
    let graph = small_graph(temp.path());
    with_names(&graph);
    trained(temp.path(), "--lr 0.01");
    let [table, part, array] = ["t.csv", "t.csv.part", "e.npy"].map(|name| temp.path().join(name));
    let line =
        "predict graph --checkpoint kept --output t.csv --embeddings e.npy --eval sampled --batch-size 1";
    // The job, from what an interrupted call leaves.
    let run = call(temp.path(), line).start();
    wait_until("there is a part", || part.exists());
    kill_process(Pid::from_child(&run.child), Signal::KILL).unwrap();
    assert_ne!(run.wait().code(), 0);
    assert!(!table.exists());
    let bytes = fs::read(&part).unwrap();
    let job = u64::from_le_bytes(bytes[bytes.len() - 32..][..8].try_into().unwrap());
    call(temp.path(), line).run().succeeds();
    assert!(!part.exists() && !temp.path().join("e.npy.part").exists());
    let (whole, hidden) = (fs::read(&table).unwrap(), fs::read(&array).unwrap());
    // The rows that the table was made of.
    let arrays =
        "predict graph --checkpoint kept --output c.npy --probabilities p.npy --eval sampled --batch-size 1";
    call(temp.path(), arrays).run().succeeds();
    let (classes, shares) = (integers(&temp.path().join("c.npy")), floats(&temp.path().join("p.npy")));
    let mut rows = header("|u1", &[4000, 24], false);
    assert_eq!(rows[..], bytes[..rows.len()]);
    for (class, shares) in classes.iter().zip(shares.chunks(4)) {
        rows.extend(class.to_le_bytes());
        rows.extend(shares.iter().flat_map(|share| share.to_le_bytes()));
    }
    rows.extend(record(job));
    let complete = [&hidden[..], &record(job)].concat();
    for (named, unfinished) in [(false, "e.npy.part"), (true, "e.npy.part"), (true, "e.npy"), (true, "")] {
        let state = format!("{named} {unfinished}");
        fs::write(&part, &rows).unwrap();
        if !named {
            fs::remove_file(&table).unwrap();
        }
        if !unfinished.is_empty() {
            fs::remove_file(&array).unwrap();
            fs::write(temp.path().join(unfinished), &complete).unwrap();
        }
        call(temp.path(), line).run().succeeds();
        assert_eq!(
            (fs::read(&table).unwrap(), fs::read(&array).unwrap()),
            (whole.clone(), hidden.clone()),
            "{state}"
        );
        assert!(!part.exists(), "{state}");
    }
    // The rows of the table are gone, and the record of the other array is still there.
    fs::write(&array, &complete).unwrap();
    call(temp.path(), line).run().succeeds();
    assert_eq!((fs::read(&table).unwrap(), fs::read(&array).unwrap()), (whole, hidden));
    // After the end both exist; and another program's table is not mistaken for that of the rows.
    call(temp.path(), line).run().refuses(2, &["t.csv", "it is there already", "--overwrite"]);
    fs::write(&part, &rows).unwrap();
    fs::write(&table, "mine").unwrap();
    call(temp.path(), line).run().refuses(2, &["--output t.csv", "it is there already", "--overwrite"]);
    assert_eq!(fs::read(&table).unwrap(), b"mine");
}

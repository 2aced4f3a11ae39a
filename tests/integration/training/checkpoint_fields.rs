//! Checks of `checkpoint.json` before anything is allocated or trained. Tests of the real binary.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::extent::all_tests;
use crate::support::runs::smaller_graph;
use crate::support::{Outcome, directory, uvatrain, uvatrain_behind};

const TRAIN: &str =
    "train graph --fanouts 4,3 --batch-size 100 --hidden 8 --train-threads 1 --checkpoint kept";

/// More than a consumer needs for the small graph, and far less than the changed numbers would require.
const LIMIT: &str = "ulimit -v 8388608";

fn state_file(directory: &Path) -> std::path::PathBuf {
    directory.join("kept/checkpoint.json")
}

/// The checkpoint's state with another value at this place.
fn changed(state: &Value, pointer: &str, value: Value) -> String {
    let mut state = state.clone();
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    state.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(field.to_owned(), value);
    state.to_string()
}

fn behind_the_limit(directory: &Path, words: &str) -> Outcome {
    uvatrain_behind(directory, LIMIT, words.split_whitespace()).run()
}

#[test]
#[ignore = "8 s of a core: scripts/measure/long_tests.sh"]
fn numbers_that_no_model_has_are_refused_before_memory_is_taken() {
    let temp = directory();
    smaller_graph(temp.path());
    uvatrain(temp.path(), format!("{TRAIN} --epochs 1").split(' ')).run().succeeds();
    let file = state_file(temp.path());
    let state: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let cases = [
        ("/trainer/model/layers", json!(0), "trainer.model: layers: 0"),
        ("/trainer/model/layers", json!(33), "trainer.model: layers: 33"),
        ("/trainer/model/layers", json!(40_000_000), "trainer.model: layers: 40000000"),
        ("/trainer/model/layers", json!(1_u64 << 31), "trainer.model: layers: 2147483648"),
        ("/trainer/model/hidden", json!(1_u64 << 31), "trainer.model: hidden: 2147483648"),
        ("/trainer/model/hidden", json!(1 << 22), "parameters, which take"),
        ("/trainer/model/input_dim", json!(1_u64 << 40), "trainer.model: input_dim is 1099511627776"),
        ("/trainer/model/classes", json!(0), "trainer.model: classes is 0"),
        ("/trainer/model/classes", json!(1_u64 << 31), "trainer.model: classes is 2147483648"),
        ("/trainer/model/output_heads", json!(1_u64 << 31), "trainer.model: output_heads"),
        ("/fingerprint/batch_size", json!(0), "batch_size=0"),
        ("/fingerprint/fanouts", json!(vec![1; 40]), "fanouts"),
        ("/fingerprint/fanouts", json!([4]), "fanouts has 1 numbers, but the model has 2 layers"),
        ("/fingerprint/metric", json!("luck"), "fingerprint.metric is \"luck\""),
    ];
    let commands = ["evaluate graph --checkpoint kept", "predict graph --checkpoint kept --overwrite"];
    for (number, (pointer, value, named)) in cases.into_iter().enumerate() {
        fs::write(&file, changed(&state, pointer, value)).unwrap();
        // Both commands read checkpoints by the same code.
        for (of, command) in commands.into_iter().enumerate() {
            if !all_tests() && of != number % commands.len() {
                continue;
            }
            behind_the_limit(temp.path(), command).refuses(2, &["kept", "checkpoint.json", named]);
        }
    }
    fs::write(&file, state.to_string()).unwrap();
    behind_the_limit(temp.path(), "evaluate graph --checkpoint kept").succeeds();
}

#[test]
fn what_a_resume_relies_on_is_refused_by_its_field_if_it_makes_no_sense() {
    let temp = directory();
    smaller_graph(temp.path());
    uvatrain(temp.path(), format!("{TRAIN} --epochs 2").split(' ')).run().succeeds();
    let file = state_file(temp.path());
    let state: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let steps = state["trainer"]["adam_steps"].as_u64().unwrap();
    assert!(steps > 2 && state["state"]["cursor"] == json!({"epoch": 2, "batch": 0}), "{state}");
    for (pointer, value, named) in [
        ("/state/cursor/epoch", json!(u32::MAX), "state.cursor is batch 0 of epoch 4294967295"),
        ("/state/cursor/epoch", json!(1_u64 << 40), "its state cannot be read"),
        ("/state/cursor/epoch", json!(1), "state."),
        ("/state/cursor/batch", json!(u32::MAX), "state.cursor.batch is 4294967295"),
        ("/trainer/adam_steps", json!(0), "state.cursor"),
        ("/trainer/adam_steps", json!(u64::MAX), "trainer.adam_steps is 18446744073709551615"),
        ("/trainer/adam_steps", json!(steps + 1), "trainer.adam_steps"),
        ("/trainer/best", json!(false), "state.best"),
        ("/state/best", Value::Null, "state.best"),
        ("/state/best/epoch", json!(2), "state.best.epoch is 2"),
        ("/state/best/value", json!(1.5), "state.best.value is 1.5"),
        ("/state/best/value", json!(-1.0), "state.best.value is -1"),
        ("/state/epochs_without_gain", json!(2), "state.epochs_without_gain is 2"),
        ("/state/sums/labelled", json!(5), "state.sums.labelled is 5"),
        ("/state/sums/correct", json!(5), "state.sums.correct is 5"),
        ("/state/sums/loss", json!(0.5), "state.sums.loss is 0.5"),
        ("/state/train_threads", json!(0), "state.train_threads is 0"),
        ("/state/train_threads", json!(1_u64 << 40), "state.train_threads is 1099511627776"),
        ("/trainer/model/layers", json!(1_u64 << 31), "trainer.model: layers"),
    ] {
        fs::write(&file, changed(&state, pointer, value)).unwrap();
        let line = format!("{TRAIN} --epochs 3 --resume").replace("--train-threads 1 ", "");
        let refused = uvatrain(temp.path(), line.split(' ')).run();
        refused.refuses(2, &["kept/checkpoint.json cannot be used", named]);
    }
    fs::write(&file, state.to_string()).unwrap();
    let resumed = uvatrain(temp.path(), format!("{TRAIN} --epochs 3 --resume").split(' ')).run().succeeds();
    assert!(resumed.stderr.contains("resumed at batch 1 of epoch 3"), "{resumed}");
}

//! Trained rows of node types without features, in whole programs: the real binary on a graph in which only the rows of
//! users can show one digit of a label.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use super::typed::{planted, rsage, test_accuracy};
use crate::support::runs::{Metrics, checkpoint_files, role_of, train, wait_for_batches};
use crate::support::typed::write_mag;
use crate::support::{directory, shared_datasets, uvatrain};

#[test]
fn a_type_without_features_is_learned_by_the_rows_of_its_nodes() {
    let temp = directory();
    planted(temp.path(), "--featureless");
    let accuracy = test_accuracy("rsage", temp.path(), "--fanouts 10,5");
    assert!(accuracy > 0.9, "{accuracy}");
    // Users show three values.
    let accuracy = test_accuracy("rsage", temp.path(), "--fanouts 10,5;user__buys__item=0,0");
    assert!(accuracy < 1.0 / 3.0 + 0.08, "{accuracy}");
    let run = |options: &str| {
        rsage(temp.path(), "run.jsonl", &format!("--epochs 1 --fanouts 2,2 {options}")).run().succeeds()
    };
    let said = run("--weight-decay 1e-5 --embedding-dim 8 --embedding-init normal").stderr;
    assert!(said.contains("--weight-decay does not apply to the trained rows of user"), "{said}");
    let plan = run("--dry-run --embedding-dim 4096").said();
    assert!(plan.contains("trained rows of node types"), "{plan}");
}

#[test]
fn a_target_without_features_is_trained_and_idle_options_are_refused() {
    let temp = directory();
    write_mag(temp.path());
    rsage(temp.path(), "run.jsonl", "--epochs 1 --fanouts 2,2 --root type").run().succeeds();
    let other = directory();
    planted(other.path(), "");
    for option in ["--embedding-dim 8", "--embedding-init normal"] {
        let line = format!("{option} --fanouts 2,2");
        let name = option.split(' ').next().unwrap();
        rsage(other.path(), "run.jsonl", &line).run().refuses(2, &[name, "has features"]);
        let line = format!("--model sage {option}");
        train(other.path(), "run.jsonl", &line).run().refuses(2, &[name, "rsage"]);
    }
}

#[test]
fn losses_of_trained_rows_are_equal_however_batches_are_made() {
    let temp = directory();
    planted(temp.path(), "--featureless");
    let run = |metrics: &str, options: &str| {
        let options = format!("--fanouts 5,4 --dropout 0.3 --input-dropout 0.1 {options}");
        rsage(temp.path(), metrics, &options).run().succeeds();
        let metrics = Metrics::read(&temp.path().join(metrics));
        let epochs: Vec<_> = metrics.of("epoch").map(|epoch| epoch["valid_accuracy"].to_string()).collect();
        (metrics.trained(), epochs, metrics.of("end").last().unwrap()["test_accuracy"].to_string())
    };
    let expected = run("one.jsonl", "--epochs 2 --samplers 1");
    assert!(expected.0.len() >= 20 && expected.1.len() == 2, "{expected:?}");
    for (metrics, options) in
        [("threads.jsonl", "--samplers 3 --in-process"), ("whole.jsonl", "--samplers 2 --prepare whole")]
    {
        assert_eq!(run(metrics, &format!("--epochs 2 {options}")), expected, "{options}");
    }
    run("parts.jsonl", "--epochs 1 --checkpoint kept");
    assert_eq!(run("parts.jsonl", "--epochs 2 --checkpoint kept --resume"), expected);
}

/// The loss of each batch, by epoch and batch.
fn losses(path: &Path) -> HashMap<(u64, u64), String> {
    let trained = Metrics::read(path).trained();
    trained.into_iter().map(|(epoch, batch, _, loss)| ((epoch, batch), loss)).collect()
}

#[test]
fn a_run_killed_in_any_step_resumes_with_equal_losses() {
    let temp = directory();
    planted(temp.path(), "--featureless");
    let run = |metrics: &str, options: &str| {
        let options = format!("--fanouts 5,4 --samplers 1 --embedding-dim 64 {options}");
        rsage(temp.path(), metrics, &options)
    };
    run("whole.jsonl", "--epochs 20").run().succeeds();
    let expected = losses(&temp.path().join("whole.jsonl"));
    for (number, resume) in ["", "--resume", "--resume"].into_iter().enumerate() {
        let metrics = format!("killed{number}.jsonl");
        let options = format!("--epochs 100000 --checkpoint kept --checkpoint-every 1 {resume}");
        let mut killed = run(&metrics, &options).start();
        let consumer = role_of(&killed, "consumer");
        wait_for_batches(&mut killed, &temp.path().join(&metrics), 7);
        consumer.signal(Signal::KILL);
        killed.wait().refuses(1, &["the consumer", "killed by SIGKILL "]);
        let found = losses(&temp.path().join(&metrics));
        assert!(found.iter().all(|(place, loss)| expected.get(place).is_none_or(|known| known == loss)));
    }
    run("resumed.jsonl", "--epochs 20 --checkpoint kept --resume").run().succeeds();
    let found = losses(&temp.path().join("resumed.jsonl"));
    assert!(!found.is_empty() && found.iter().all(|(place, loss)| &expected[place] == loss), "{found:?}");
    // The state, the tensors, and of users the rows and moments; of the best epoch the rows, unless it is the last.
    let files = checkpoint_files(&temp.path().join("kept"));
    assert!((5..=6).contains(&files.len()), "{files:?}");
}

#[test]
fn predictions_and_evaluations_use_the_rows_of_the_kept_model() {
    let temp = directory();
    planted(temp.path(), "--featureless");
    let line = "--fanouts 5,4 --epochs 8 --dropout 0 --checkpoint kept --json";
    let end = rsage(temp.path(), "run.jsonl", line).run().succeeds().json();
    let evaluated =
        uvatrain(temp.path(), "evaluate graph --checkpoint kept --eval sampled --json".split(' '));
    let evaluated = evaluated.run().succeeds().json();
    for (split, trained) in [("test", "test_accuracy"), ("valid", "best_valid_accuracy")] {
        assert_eq!(evaluated[split]["accuracy"], end[trained], "{split}: {evaluated}");
    }
    let predict = "predict graph --checkpoint kept --output classes.npy --nodes test --eval sampled";
    uvatrain(temp.path(), predict.split(' ')).run().succeeds();
    // Rows of a table of another size are refused by the type.
    let state = temp.path().join("kept/checkpoint.json");
    let mut changed: Value = serde_json::from_slice(&fs::read(&state).unwrap()).unwrap();
    changed["embeddings"][0]["rows"] = 1_u64.into();
    fs::write(&state, changed.to_string()).unwrap();
    let evaluated = uvatrain(temp.path(), "evaluate graph --checkpoint kept --eval sampled".split(' '));
    evaluated.run().refuses(2, &["embedding-user-", "1 rows of 16 elements take"]);
}

#[test]
fn a_row_that_is_not_finite_is_named_with_its_epoch_and_type() {
    let temp = directory();
    planted(temp.path(), "--featureless");
    let line = "train graph --model rsage --batch-size 100 --fanouts 5,4 --epochs 1 --lr 1e39";
    let run = uvatrain(temp.path(), line.split(' ')).run();
    run.refuses(1, &["in epoch 1 the row of user ", "lower --lr"]);
}

#[test]
fn groups_of_aifb_are_learned_from_its_relations_alone() {
    let Some(shared) = shared_datasets("groups_of_aifb_are_learned_from_its_relations_alone") else { return };
    let temp = directory();
    let source = shared.join("typed/aifb");
    let import = ["import", "--from", "nt", source.to_str().unwrap(), "graph", "--reverse"];
    uvatrain(temp.path(), import).run().succeeds();
    let accuracy = |seed: u64| {
        let line = format!("--fanouts 8,8 --epochs 50 --dropout 0 --samplers 1 --seed {seed} --json");
        let end = rsage(temp.path(), "run.jsonl", &line).run().succeeds().json();
        end["test_accuracy"].as_f64().unwrap()
    };
    let mean = (1..=2).map(accuracy).sum::<f64>() / 2.0;
    assert!(mean >= 0.88, "{mean}");
}

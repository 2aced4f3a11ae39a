//! Checkpoints: restored values, the state after a crash, and refusals.

use crate::tests::support::{Graph, MODELS, options, parameter_bits};
use crate::torch::device::TrainDevice;
use crate::train::checkpoint::{self, write_observed};
use crate::train::trainer::Trainer;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use uva_model::checkpoint::{self as stored, CheckpointError};
use uva_model::{ModelKind, NormKind, TrainerOptions};

fn trainer(model: ModelKind) -> Trainer {
    // One with norms and residuals, since they have parameters of their own.
    let deep = model == ModelKind::Gat;
    let options = TrainerOptions {
        dropout: 0.5,
        attention_dropout: 0.3,
        residual: deep,
        norm: if deep { NormKind::Layer } else { NormKind::None },
        weight_decay: 5e-4,
        ..options(model, 8, 2)
    };
    Trainer::new(&options, 6, 3, TrainDevice::Cpu).unwrap()
}

fn train(graph: &Graph, trainer: &mut Trainer, batches: std::ops::Range<u32>) -> Vec<u32> {
    let mut losses = Vec::new();
    for number in batches {
        let seeds: Vec<usize> = (0..8).map(|i| (number as usize * 5 + i * 3) % graph.nodes()).collect();
        let batch = graph.batch(&seeds, &[3, 3]);
        losses.push(
            trainer
                .train_batch(number / 4, number % 4, &batch.columns(), &mut || Ok(()))
                .unwrap()
                .loss
                .to_bits(),
        );
    }
    losses
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_resumed_run_equals_the_one_that_was_never_interrupted_bit_for_bit() {
    for model in MODELS {
        let graph = Graph::random(50, 6, 3, 1);
        let directory = tempfile::tempdir().unwrap();
        let mut whole = trainer(model);
        let mut expected = train(&graph, &mut whole, 0..5);
        whole.keep_best().unwrap();
        let best = parameter_bits(&whole);
        checkpoint::write(directory.path(), &whole, &json!({"dataset": "x"}), &json!({"batch": 5})).unwrap();
        expected.extend(train(&graph, &mut whole, 5..12));

        // Other parameters at first, so that the compared ones must have come from the file.
        let mut resumed = trainer(model);
        train(&graph, &mut resumed, 3..4);
        let read = stored::read(directory.path()).unwrap().unwrap();
        checkpoint::restore(&read, &mut resumed, &json!({"dataset": "x"})).unwrap();
        let state: serde_json::Value = read.state().unwrap();
        assert_eq!((state, resumed.steps().unwrap()), (json!({"batch": 5}), 5));
        assert_eq!(train(&graph, &mut resumed, 5..12), expected[5..]);
        assert_eq!(parameter_bits(&resumed), parameter_bits(&whole));
        assert!(resumed.restore_best().unwrap());
        assert_eq!(parameter_bits(&resumed), best);
    }
}

#[test]
fn a_crash_after_any_step_leaves_the_old_or_the_new_checkpoint_whole() {
    let graph = Graph::random(50, 6, 3, 1);
    let directory = tempfile::tempdir().unwrap();
    let mut trained = trainer(ModelKind::Sage);
    let fingerprint = json!({});
    train(&graph, &mut trained, 0..2);
    checkpoint::write(directory.path(), &trained, &fingerprint, &json!(2)).unwrap();
    let old = parameter_bits(&trained);
    train(&graph, &mut trained, 2..3);
    let new = parameter_bits(&trained);

    // The state of the disk after each step is that after a crash there.
    let crashes = tempfile::tempdir().unwrap();
    let mut steps = Vec::new();
    write_observed(directory.path(), &trained, &fingerprint, &json!(3), &mut |step| {
        let copy = crashes.path().join(steps.len().to_string());
        fs::create_dir(&copy).unwrap();
        for name in names(directory.path()) {
            fs::copy(directory.path().join(&name), copy.join(&name)).unwrap();
        }
        steps.push(step);
    })
    .unwrap();
    let one_file = ["created", "half written", "written", "renamed"];
    assert_eq!(steps, [&one_file[..], &one_file[..], &["removed older tensors"]].concat());

    let mut found = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let copy = crashes.path().join(number.to_string());
        for round in ["as the crash left it", "after cleaning"] {
            let mut resumed = trainer(ModelKind::Sage);
            let read = stored::read(&copy).unwrap().unwrap();
            checkpoint::restore(&read, &mut resumed, &fingerprint).unwrap();
            let state: u32 = read.state().unwrap();
            assert_eq!(
                parameter_bits(&resumed),
                if state == 2 { &old[..] } else { &new },
                "{number} {step} {round}"
            );
            found.push(state);
            stored::remove_leftovers(&copy).unwrap();
            assert_eq!(names(&copy).len(), 2, "{number} {step}: {:?}", names(&copy));
        }
        // And the next checkpoint can be written over what was left.
        checkpoint::write(&copy, &trained, &fingerprint, &json!(4)).unwrap();
        assert_eq!(stored::read(&copy).unwrap().unwrap().state::<u32>().unwrap(), 4);
        assert_eq!(names(&copy).len(), 2, "{:?}", names(&copy));
    }
    // Renaming the state is the step at which the new one counts.
    assert_eq!(found, [vec![2; 14], vec![3; 4]].concat());
}

#[test]
fn a_first_checkpoint_that_was_not_finished_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("deep/checkpoints");
    assert!(stored::read(&target).unwrap().is_none());
    assert_eq!(stored::remove_leftovers(&target).unwrap(), 0);
    let mut seen = 0;
    write_observed(&target, &trainer(ModelKind::Gcn), &json!({}), &json!(1), &mut |_| {
        seen += 1;
        assert_eq!(stored::read(&target).unwrap().is_some(), seen >= 8, "after step {seen}");
    })
    .unwrap();
    assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o700);
    for name in names(&target) {
        assert_eq!(fs::metadata(target.join(name)).unwrap().permissions().mode() & 0o777, 0o600);
    }
    // Without the state nothing names the tensors: they are leftovers.
    fs::remove_file(target.join("checkpoint.json")).unwrap();
    assert!(stored::read(&target).unwrap().is_none());
    assert_eq!(stored::remove_leftovers(&target).unwrap(), 1);
    assert_eq!(names(&target), Vec::<String>::new());
}

#[test]
fn only_files_that_are_certainly_checkpoints_are_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut trained = trainer(ModelKind::Gcn);
    checkpoint::write(path, &trained, &json!({}), &json!(1)).unwrap();
    let ours = names(path).into_iter().find(|name| name.starts_with("tensors-")).unwrap();
    // Of another program, or of a version that did not mark its files.
    let foreign = [
        "tensors-best.safetensors",
        "tensors-0123456789abcdef.safetensors",
        "tensors-0123456789ABCDEF.safetensors",
        "checkpoint-partial-notes",
        "checkpoint-partial-1-0",
        ".checkpoint.json.0123456789abcdef.partial.txt",
        ".notes.0123456789abcdef.partial",
    ];
    for name in foreign {
        fs::write(path.join(name), "mine").unwrap();
    }
    std::os::unix::fs::symlink(path.join(&ours), path.join("tensors-aaaaaaaaaaaaaaaa.safetensors")).unwrap();
    let there = names(path);
    // Possible leftovers of a crash: partial files, and tensors that no state names.
    fs::write(path.join(".checkpoint.json.0123456789abcdef.partial"), "half").unwrap();
    fs::write(path.join(format!(".{ours}.0123456789abcdef.partial")), "half").unwrap();
    fs::copy(path.join(&ours), path.join("tensors-bbbbbbbbbbbbbbbb.safetensors")).unwrap();
    assert_eq!(stored::remove_leftovers(path).unwrap(), 3);
    assert_eq!(names(path), there);
    let graph = Graph::random(50, 6, 3, 1);
    train(&graph, &mut trained, 0..1);
    checkpoint::write(path, &trained, &json!({}), &json!(2)).unwrap();
    assert_eq!(names(path).len(), there.len());
    assert!(!path.join(&ours).exists() && foreign.iter().all(|name| path.join(name).exists()));
}

#[test]
fn a_pipe_or_device_in_place_of_a_checkpoints_file_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    checkpoint::write(path, &trainer(ModelKind::Gcn), &json!({}), &json!(1)).unwrap();
    for name in names(path) {
        let file = path.join(&name);
        let kept = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
        let error = stored::read(path).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains(&name), "{error}");
        fs::remove_file(&file).unwrap();
        fs::write(&file, kept).unwrap();
    }
    assert!(stored::look(path).unwrap().content.is_some_and(|content| content.model == "gcn"));
}

#[test]
fn damaged_files_are_refused_by_name_and_cleaning_leaves_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    checkpoint::write(path, &trainer(ModelKind::Gcn), &json!({}), &json!(1)).unwrap();
    let tensors = names(path).into_iter().find(|name| name.starts_with("tensors-")).unwrap();
    let (state_bytes, tensor_bytes) =
        (fs::read(path.join("checkpoint.json")).unwrap(), fs::read(path.join(&tensors)).unwrap());
    let refused = |part: &str| match stored::read(path).unwrap_err() {
        error @ CheckpointError::Damaged { .. } => {
            assert!(error.is_usage() && error.to_string().contains(part), "{part}: {error}");
        }
        other => panic!("{other}"),
    };
    fs::write(path.join(&tensors), &tensor_bytes[..tensor_bytes.len() - 1]).unwrap();
    refused("bytes, and");
    for at in [0, 9, tensor_bytes.len() / 2, tensor_bytes.len() - 1] {
        let mut flipped = tensor_bytes.clone();
        flipped[at] ^= 0x10;
        fs::write(path.join(&tensors), flipped).unwrap();
        refused("its checksum is");
    }
    fs::remove_file(path.join(&tensors)).unwrap();
    refused("do not exist");
    fs::write(path.join(&tensors), &tensor_bytes).unwrap();
    fs::write(path.join("checkpoint.json"), &state_bytes[..state_bytes.len() / 2]).unwrap();
    refused("not a checkpoint's state");
    assert_eq!(stored::remove_leftovers(path).unwrap(), 0);
    let other = String::from_utf8(state_bytes.clone()).unwrap();
    fs::write(path.join("checkpoint.json"), other.replace("\"version\": 1", "\"version\": 2")).unwrap();
    refused("its version is 2");
    fs::write(path.join("checkpoint.json"), other.replace("tensors-", "../tensors-")).unwrap();
    refused("as its tensors");
    fs::write(path.join("checkpoint.json"), &state_bytes).unwrap();
    assert!(stored::read(path).unwrap().is_some());
}

#[test]
fn a_checkpoint_of_another_run_is_refused_with_every_field_that_differs() {
    let directory = tempfile::tempdir().unwrap();
    let graph = Graph::random(50, 6, 3, 1);
    let mut trained = trainer(ModelKind::Sage);
    train(&graph, &mut trained, 0..2);
    let fingerprint = json!({"dataset": {"hash": "aa", "nodes": 50}, "fanouts": [3, 3]});
    checkpoint::write(directory.path(), &trained, &fingerprint, &json!(1)).unwrap();
    let read = stored::read(directory.path()).unwrap().unwrap();

    let refused = |mut other: Trainer, fingerprint: serde_json::Value, parts: &[&str]| {
        let before = parameter_bits(&other);
        let error = checkpoint::restore(&read, &mut other, &fingerprint).unwrap_err();
        assert!(matches!(error, CheckpointError::Mismatch { .. }) && error.is_usage(), "{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
        assert_eq!((parameter_bits(&other), other.steps().unwrap()), (before, 0), "nothing may have changed");
    };
    let base = trainer(ModelKind::Sage).options().clone();
    let with = |options: TrainerOptions| Trainer::new(&options, 6, 3, TrainDevice::Cpu).unwrap();
    refused(trainer(ModelKind::Gcn), fingerprint.clone(), &["model is \"sage\" there and \"gcn\" here"]);
    refused(
        with(TrainerOptions { hidden: 9, learning_rate: 0.5, ..base.clone() }),
        fingerprint.clone(),
        &["hidden is 8 there and 9 here", "learning_rate is 0.01 there and 0.5 here"],
    );
    refused(
        Trainer::new(&base, 6, 4, TrainDevice::Cpu).unwrap(),
        fingerprint.clone(),
        &["classes is 3 there and 4 here"],
    );
    refused(
        Trainer::new(&base, 7, 3, TrainDevice::Cpu).unwrap(),
        fingerprint.clone(),
        &["input_dim is 6 there and 7 here"],
    );
    let other = json!({"dataset": {"hash": "bb", "nodes": 50}, "fanouts": [3, 4], "batch_size": 7});
    refused(
        with(base.clone()),
        other,
        &[
            "dataset.hash is \"aa\" there and \"bb\" here",
            "fanouts is [3,3] there and [3,4] here",
            "batch_size is null there and 7 here",
        ],
    );
    // The number of threads may change.
    let mut threads = with(TrainerOptions { threads: None, ..base });
    checkpoint::restore(&read, &mut threads, &fingerprint).unwrap();
    assert_eq!(parameter_bits(&threads), parameter_bits(&trained));
}

#[test]
fn a_diverged_trainer_is_not_kept_and_the_last_checkpoint_stays() {
    let directory = tempfile::tempdir().unwrap();
    let mut graph = Graph::random(50, 6, 3, 1);
    let mut trained = trainer(ModelKind::Sage);
    train(&graph, &mut trained, 0..2);
    checkpoint::write(directory.path(), &trained, &json!({}), &json!(2)).unwrap();
    let kept = parameter_bits(&trained);
    let before = names(directory.path());

    graph.features.fill(f32::NAN);
    let batch = graph.batch(&[0, 1, 2], &[3, 3]);
    let error = trained.train_batch(0, 2, &batch.columns(), &mut || Ok(())).unwrap_err();
    assert!(matches!(error, crate::TrainError::Diverged { epoch: 0, batch: 2, .. }), "{error}");
    assert!(!error.is_usage());

    // Parameters that overflowed in a step whose own loss was still finite.
    let _ = tch::no_grad(|| trained.model.parameters()[0].1.shallow_clone().fill_(f64::INFINITY));
    let error = checkpoint::write(directory.path(), &trained, &json!({}), &json!(3)).unwrap_err();
    assert!(
        matches!(&error, CheckpointError::NotFinite { tensor } if tensor == "model.layers.0.own.weight"),
        "{error}"
    );

    assert_eq!(names(directory.path()), before);
    let mut resumed = trainer(ModelKind::Sage);
    checkpoint::restore(&stored::read(directory.path()).unwrap().unwrap(), &mut resumed, &json!({})).unwrap();
    assert_eq!(parameter_bits(&resumed), kept);
}

#[test]
fn a_checkpoint_that_cannot_be_written_says_where() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, b"x").unwrap();
    let error =
        checkpoint::write(&file.join("below"), &trainer(ModelKind::Sage), &json!({}), &json!(1)).unwrap_err();
    assert!(matches!(error, CheckpointError::Io { .. }) && !error.is_usage());
    assert!(error.to_string().contains("file/below"), "{error}");
}

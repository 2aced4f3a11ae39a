//! Tables of node types without features: the gradients of their rows, their steps, and their checkpoints.

use super::batches::{TypedBatch, of_type, options_of};
use crate::TrainError;
use crate::hops::inputs::Inputs;
use crate::input::prepared::Prepared;
use crate::nn::random::SplitMix64;
use crate::tests::blocks::gradients::check;
use crate::tests::support::{below, draws, fill_biases, parameter_bits};
use crate::torch::device::TrainDevice;
use crate::train::checkpoint::{self, write_observed};
use crate::train::trainer::Trainer;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tch::{Kind, Tensor};
use uva_batch::{BatchColumns, Column, ColumnArray, Element};
use uva_model::checkpoint::{self as stored, CheckpointError};
use uva_model::{EmbeddingInit, ModelKind, RootKind, TrainerOptions};

/// Authors and papers have no features. More nodes than a batch has.
const NODES: [(&str, usize); 2] = [("paper", 40), ("author", 25)];
const COLUMNS: usize = 5;

fn options() -> TrainerOptions {
    let options = options_of(ModelKind::Rsage);
    let mut graph = options.graph.clone().unwrap();
    for (name, nodes) in NODES {
        let of_type = &mut graph.types[of_type(name)];
        (of_type.columns, of_type.nodes) = (None, Some(nodes));
    }
    TrainerOptions { graph: Some(graph), embedding_dim: Some(COLUMNS), learning_rate: 0.05, ..options }
}

fn trainer(options: &TrainerOptions) -> Trainer {
    Trainer::new(options, 0, super::batches::CLASSES, TrainDevice::Cpu).unwrap()
}

/// A batch, and the ids of its papers and authors.
struct Batch {
    typed: TypedBatch,
    ids: [Vec<i64>; 2],
}

impl Batch {
    /// The ids are distinct, and the same node does not have the same place in the next batch.
    fn random(seed: u64) -> Self {
        let (typed, mut random) = (TypedBatch::random(seed), SplitMix64::new(seed));
        let counts = super::batches::COUNTS[2];
        let ids = NODES.map(|(name, nodes)| {
            // The last nodes are in no batch.
            let mut all: Vec<i64> = (0..nodes as i64 - 3).collect();
            (0..all.len()).for_each(|place| all.swap(place, below(&mut random, nodes - 3)));
            all[..counts[of_type(name)]].to_vec()
        });
        Self { typed, ids }
    }

    fn columns(&self) -> BatchColumns<'_> {
        NODES.iter().zip(&self.ids).fold(self.typed.columns(), |batch, ((name, _), ids)| {
            let part = of_type(name);
            let ids = ColumnArray::vector(ids, Element::I64);
            batch.without(Column::X.part(part)).with(Column::InputNodes.part(part), ids)
        })
    }
}

fn train(trainer: &mut Trainer, batches: std::ops::Range<u64>) -> Vec<u32> {
    let mut losses = Vec::new();
    for number in batches {
        let batch = Batch::random(number);
        let step =
            trainer.train_batch(number as u32 / 4, number as u32 % 4, &batch.columns(), &mut || Ok(()));
        losses.push(step.unwrap().loss.to_bits());
    }
    losses
}

/// The rows and moments of every table.
fn tables(trainer: &Trainer) -> Vec<[Vec<f32>; 3]> {
    let contents = trainer.embeddings.contents().unwrap();
    let arrays = contents.iter().map(|table| [table.values, table.first, table.second]);
    arrays.map(|arrays| arrays.map(|bytes| bytemuck::cast_slice(bytes).to_vec())).collect()
}

#[test]
fn gradients_of_trained_rows_equal_finite_differences() {
    let roots = |model: ModelKind| model.row().relations.unwrap().roots;
    let models = [ModelKind::Rsage, ModelKind::Rgcn].into_iter();
    let with_roots = models.flat_map(|model| roots(model).iter().map(move |&root| (model, root)));
    let others = [ModelKind::Rgat, ModelKind::Hgt].map(|model| (model, RootKind::Relation));
    for (model, root) in with_roots.chain(others) {
        // Both orders of multiplying and aggregating occur.
        for (hidden, dropout, input_dropout) in [(9, 0.0, 0.0), (2, 0.3, 0.4)] {
            let options =
                TrainerOptions { model, root, hidden, heads: 1, dropout, input_dropout, ..options() };
            let trainer =
                Trainer::with_kind(&options, 0, super::batches::CLASSES, Kind::Double, TrainDevice::Cpu)
                    .unwrap();
            // Zero is the place where the activation bends, and nodes without neighbours have only biases.
            fill_biases(&trainer);
            let batch = Batch::random(3);
            let columns = batch.columns();
            let (prepared, _) = Prepared::new(&trainer.trains(), &columns).unwrap().unwrap();
            let Inputs(inputs) = trainer.inputs(&prepared.tables).unwrap();
            let forward = || {
                let inputs = Inputs(inputs.iter().map(Tensor::shallow_clone).collect());
                trainer.model.forward(inputs, &prepared.blocks, Some(&mut draws())).unwrap()
            };
            let first = forward();
            let gradients = trainer.model.backward(&first, &prepared.blocks, &first.logits * 2.0).unwrap();
            let loss = || forward().logits.square().sum(Kind::Double);
            let leaves = |places: &[usize]| -> Vec<_> {
                places.iter().map(|&place| (place.to_string(), inputs[place].shallow_clone())).collect()
            };
            // A layer without own rows reads papers, authors and tags through their relations.
            check(&leaves(&[0, 1]), &gradients.rows, &loss, &format!("{model:?} {root:?} {hidden}"));
            check(&trainer.model.parameters(), &gradients.parameters, &loss, "parameters");
        }
    }
}

/// A step of sparse Adam by its formula, in float32.
fn reference_step(
    [values, first, second]: &mut [Vec<f32>; 3],
    ids: &[i64],
    gradients: &[f32],
    step: i32,
    learning_rate: f64,
) {
    let factor = -(learning_rate * (1.0 - 0.999_f64.powf(f64::from(step))).sqrt()
        / (1.0 - 0.9_f64.powf(f64::from(step)))) as f32;
    for (&id, gradient) in ids.iter().zip(gradients.chunks(COLUMNS)) {
        for (column, &gradient) in gradient.iter().enumerate() {
            let place = id as usize * COLUMNS + column;
            first[place] += (gradient - first[place]) * (1.0 - 0.9_f64) as f32;
            second[place] += (gradient * gradient - second[place]) * (1.0 - 0.999_f64) as f32;
            values[place] += factor * (first[place] / (second[place].sqrt() + 1e-8));
        }
    }
}

#[test]
fn fifty_steps_equal_the_formula_of_sparse_adam_bit_for_bit() {
    let mut trainer = trainer(&options());
    let begun = tables(&trainer);
    let mut expected = begun.clone();
    for number in 0..50 {
        let batch = Batch::random(number);
        let columns = batch.columns();
        {
            let (prepared, targets) = Prepared::new(&trainer.trains(), &columns).unwrap().unwrap();
            let mut draws = crate::nn::dropout::Draws::new(
                TrainDevice::Cpu,
                crate::nn::random::batch_seed(trainer.options().seed, 0, number as u32),
            );
            let inputs = trainer.inputs(&prepared.tables).unwrap();
            let forward = trainer.model.forward(inputs, &prepared.blocks, Some(&mut draws)).unwrap();
            let logits = forward.logits.detach().set_requires_grad(true);
            targets.loss(&targets.rows_of(&logits).unwrap(), None, tch::Reduction::Mean).unwrap().backward();
            let gradients = trainer.model.backward(&forward, &prepared.blocks, logits.grad()).unwrap();
            for ((table, ids), gradient) in expected.iter_mut().zip(&batch.ids).zip(gradients.rows) {
                let gradient = Vec::<f32>::try_from(gradient.flatten(0, -1)).unwrap();
                reference_step(table, ids, &gradient, number as i32 + 1, trainer.options().learning_rate);
            }
        }
        trainer.train_batch(0, number as u32, &columns, &mut || Ok(())).unwrap();
        assert!(tables(&trainer) == expected, "step {number}");
    }
    for ((table, begun), (_, nodes)) in expected.iter().zip(&begun).zip(NODES) {
        let unused = (nodes - 3) * COLUMNS..nodes * COLUMNS;
        assert_eq!(table[0][unused.clone()], begun[0][unused], "rows that no batch has");
        assert!(table[0][..COLUMNS] != begun[0][..COLUMNS]);
    }
}

#[test]
fn first_rows_depend_on_the_seed_and_the_original_id_alone() {
    let plain = tables(&trainer(&options()));
    assert!(plain == tables(&trainer(&TrainerOptions { hidden: 3, threads: Some(3), ..options() })));
    for other in [
        TrainerOptions { seed: 9, ..options() },
        TrainerOptions { embedding_init: EmbeddingInit::Normal, ..options() },
    ] {
        assert!(plain[1][0] != tables(&trainer(&other))[1][0]);
    }
    let original: Vec<i64> = (0..25).map(|id| (id * 7 + 3) % 25).collect();
    let mut reordered = trainer(&options());
    reordered.reorder_embeddings(&|name| (name == "author").then_some(&original[..])).unwrap();
    let reordered = tables(&reordered);
    assert_eq!(reordered[0], plain[0]);
    for (row, &id) in reordered[1][0].chunks(COLUMNS).zip(&original) {
        assert_eq!(row, &plain[1][0][id as usize * COLUMNS..][..COLUMNS]);
    }
}

#[test]
fn a_resumed_training_of_tables_equals_one_that_never_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut whole = trainer(&options());
    train(&mut whole, 0..5);
    whole.keep_best().unwrap();
    let best = tables(&whole);
    train(&mut whole, 5..7);
    checkpoint::write(path, &whole, &json!({}), &json!(7)).unwrap();
    // Of the best epoch only the rows are stored: those of the last batch have other names.
    assert_eq!(names(path).len(), 2 + 2 * 4, "{:?}", names(path));
    let losses = train(&mut whole, 7..12);

    let mut resumed = trainer(&TrainerOptions { embedding_init: EmbeddingInit::Xavier, ..options() });
    train(&mut resumed, 20..22);
    let read = stored::read(path).unwrap().unwrap();
    checkpoint::restore(&read, &mut resumed, &json!({})).unwrap();
    assert_eq!(train(&mut resumed, 7..12), losses);
    assert!(tables(&resumed) == tables(&whole));
    assert!(resumed.restore_best().unwrap());
    let found = tables(&resumed);
    assert!(found.iter().zip(&best).all(|(found, best)| found[0] == best[0]));
    let loaded = checkpoint::load_model(&read, uva_model::Metric::Accuracy, TrainDevice::Cpu, None).unwrap();
    assert!(tables(&loaded).iter().zip(&best).all(|(found, best)| found[0] == best[0]));
}

fn names(directory: &Path) -> BTreeSet<String> {
    fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_crash_in_any_step_leaves_tables_that_fit_the_other_tensors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut trained = trainer(&options());
    train(&mut trained, 0..2);
    trained.keep_best().unwrap();
    checkpoint::write(path, &trained, &json!({}), &json!(2)).unwrap();
    // The rows of the best epoch are the last ones: one file.
    assert_eq!(names(path).len(), 2 + 2 * 3, "{:?}", names(path));
    fs::write(path.join("embedding-mine-0123456789abcdef.npy"), "mine").unwrap();
    let old = (parameter_bits(&trained), tables(&trained));
    train(&mut trained, 2..3);
    let new = (parameter_bits(&trained), tables(&trained));

    let (crashes, mut steps) = (tempfile::tempdir().unwrap(), 0);
    write_observed(path, &trained, &json!({}), &json!(3), &mut |_| {
        let copy = crashes.path().join(steps.to_string());
        fs::create_dir(&copy).unwrap();
        for name in names(path) {
            fs::copy(path.join(&name), copy.join(&name)).unwrap();
        }
        steps += 1;
    })
    .unwrap();
    assert_eq!(steps, 4 * (2 * 3 + 2) + 1);
    let mut found = Vec::new();
    for number in 0..steps {
        let copy = crashes.path().join(number.to_string());
        for round in 0..2 {
            let mut resumed = trainer(&options());
            let read = stored::read(&copy).unwrap().unwrap();
            checkpoint::restore(&read, &mut resumed, &json!({})).unwrap();
            let state: u32 = read.state().unwrap();
            let expected = if state == 2 { &old } else { &new };
            assert!((parameter_bits(&resumed), tables(&resumed)) == *expected, "{number}, {round}");
            found.push(state);
            drop(read);
            stored::remove_leftovers(&copy).unwrap();
            let expected = if state == 2 { 9 } else { 11 };
            assert_eq!(names(&copy).len(), expected, "{number}: {:?}", names(&copy));
        }
    }
    assert!(found.is_sorted() && found.contains(&2) && found.contains(&3));
}

#[test]
fn a_table_that_is_damaged_or_missing_is_refused_by_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut trained = trainer(&options());
    train(&mut trained, 0..2);
    checkpoint::write(path, &trained, &json!({}), &json!(2)).unwrap();
    let before = tables(&trained);
    let name = names(path).into_iter().find(|name| name.starts_with("embedding-author-")).unwrap();
    let content = fs::read(path.join(&name)).unwrap();
    let mut other = content.clone();
    other[200] ^= 1;
    let mut read = |content: Option<&[u8]>| {
        match content {
            Some(content) => fs::write(path.join(&name), content).unwrap(),
            None => fs::remove_file(path.join(&name)).unwrap(),
        }
        let found = stored::read(path)
            .and_then(|read| checkpoint::restore(&read.unwrap(), &mut trained, &json!({})))
            .map_err(|error| error.to_string());
        assert!(tables(&trained) == before);
        found
    };
    for (content, problem) in
        [(Some(&other[..]), "its checksum is"), (Some(&content[..500]), "bytes"), (None, "do not exist")]
    {
        let error = read(content).unwrap_err();
        assert!(error.contains(problem) && error.contains(&name), "{error}");
    }
    read(Some(&content)).unwrap();
}

#[test]
fn a_row_that_is_not_finite_ends_training_with_its_type_and_node() {
    let mut trained = trainer(&TrainerOptions { learning_rate: 1e39, ..options() });
    let (first, second) = (Batch::random(0), Batch::random(1));
    trained.train_batch(2, 0, &first.columns(), &mut || Ok(())).unwrap();
    let error = trained.train_batch(2, 1, &second.columns(), &mut || Ok(())).unwrap_err();
    let TrainError::RowDiverged { epoch: 2, node_type, node } = &error else { panic!("{error}") };
    // A row that both batches have: the others are finite.
    assert!(
        node_type == "paper" && [&first, &second].iter().all(|batch| batch.ids[0].contains(node)),
        "{error}"
    );
    let directory = tempfile::tempdir().unwrap();
    let error = checkpoint::write(directory.path(), &trained, &json!({}), &json!(2)).unwrap_err();
    assert!(matches!(error, CheckpointError::NotFinite { .. }), "{error}");
}

#[test]
fn ids_outside_of_a_table_are_refused() {
    let mut trained = trainer(&options());
    let mut batch = Batch::random(0);
    batch.ids[1][2] = 25;
    let error = trained.train_batch(0, 0, &batch.columns(), &mut || Ok(())).unwrap_err().to_string();
    assert!(error.contains("the table of author: id 25 at position 2 is outside of the 25 rows"), "{error}");
}

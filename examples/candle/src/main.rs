//! A custom GraphSAGE, written with candle and trained on the loader's batches, in one process and without libtorch.
//!
//!     cargo run --release -p uvatrain-candle-example -- data/demo 3

use std::iter::repeat_n;

use anyhow::{Result, bail, ensure};
use candle_core::{DType, Device, Tensor};
use candle_nn::{AdamW, Linear, Module, Optimizer, ParamsAdamW, VarBuilder, VarMap};
use candle_nn::{linear, linear_no_bias, loss};
use uva_runtime::{Batch, BlockRef, FeatureType, Labels, LoaderOptions, Runtime, Split};

const FANOUTS: [i32; 2] = [10, 5];
const BATCH_SIZE: usize = 512;
const HIDDEN: usize = 64;
const LEARNING_RATE: f64 = 0.01;
const CPU: Device = Device::Cpu;

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let data = arguments.next();
    let epochs = arguments.next().map_or(Some(3), |epochs| epochs.to_str()?.parse().ok());
    let (Some(data), Some(epochs), None) = (data, epochs, arguments.next()) else {
        eprintln!(
            "usage: uvatrain-candle-example DATA [EPOCHS] (DATA is a folder that `uvatrain generate` writes)"
        );
        std::process::exit(2);
    };

    // Narrower features arrive as float32 as well: the producer widens them.
    let options = LoaderOptions {
        fanouts: FANOUTS.into(),
        batch_size: BATCH_SIZE,
        feature_type: FeatureType::Float32,
        ..LoaderOptions::default()
    };
    let mut runtime = Runtime::builder(&data).options(options).epochs(epochs).validate(true).build()?;
    let (inputs, classes) = (runtime.dataset().features().dim, runtime.dataset().classes());
    let last = runtime.schedule().batches(Split::Valid);
    ensure!(last > 0, "{}: valid_idx.npy is empty, and each epoch ends with its nodes", data.display());

    let variables = VarMap::new();
    let model = Sage::new(inputs, classes, VarBuilder::from_varmap(&variables, DType::F32, &CPU))?;
    // Without decay, AdamW is Adam.
    let adam = ParamsAdamW { lr: LEARNING_RATE, weight_decay: 0.0, ..ParamsAdamW::default() };
    let mut optimizer = AdamW::new(variables.all_vars(), adam)?;

    // Each epoch is a pass over the training nodes and one over the validation nodes. The next batches are prepared
    // while candle computes.
    let (mut losses, mut trained, mut correct, mut validated) = (0.0, 0, 0, 0);
    while let Some(batch) = runtime.next_batch()? {
        let Labels::Single(labels) = batch.labels() else {
            bail!("{}: this example needs a label.npy with one class a node", data.display());
        };
        let logits = model.forward(&batch)?;
        if batch.split() == Split::Train {
            let loss = loss::cross_entropy(&logits, &Tensor::from_slice(labels, labels.len(), &CPU)?)?;
            optimizer.backward_step(&loss)?;
            losses += f64::from(loss.to_scalar::<f32>()?) * labels.len() as f64;
            trained += labels.len();
            continue;
        }
        let chosen = logits.argmax(1)?.to_vec1::<u32>()?;
        correct += chosen.iter().zip(labels).filter(|&(&chosen, &label)| i64::from(chosen) == label).count();
        validated += labels.len();
        if u64::from(batch.index()) + 1 == last {
            let (loss, accuracy) = (losses / trained as f64, correct as f64 / validated as f64);
            println!("epoch {}: loss {loss:.3}, validation {accuracy:.3}", batch.epoch() + 1);
            (losses, trained, correct, validated) = (0.0, 0, 0, 0);
        }
    }
    Ok(())
}

/// GraphSAGE with mean aggregation (Hamilton, Ying and Leskovec 2017), with a layer for each fanout.
struct Sage {
    /// The first reads the features, the last computes the logits.
    layers: Vec<SageLayer>,
}

impl Sage {
    fn new(inputs: usize, classes: usize, variables: VarBuilder) -> Result<Self> {
        let mut widths = vec![HIDDEN; FANOUTS.len() + 1];
        (widths[0], widths[FANOUTS.len()]) = (inputs, classes);
        let layer = |(number, ends): (usize, &[usize])| {
            SageLayer::new(ends[0], ends[1], variables.pp(format!("layer{number}")))
        };
        Ok(Self { layers: widths.windows(2).enumerate().map(layer).collect::<Result<_>>()? })
    }

    /// Logits, a row for each seed of the batch.
    fn forward(&self, batch: &Batch) -> Result<Tensor> {
        // The one copy of the features: candle's tensors own their memory, and the slot is the loader's.
        let features = batch.features_f32()?;
        let mut rows = Tensor::from_slice(features.values(), (batch.node_count(), features.dim()), &CPU)?;
        // Block 0 is the hop at the seeds, where the model ends.
        for (layer, hop) in self.layers.iter().zip((0..batch.layers()).rev()) {
            rows = layer.forward(&rows, &batch.block(hop))?;
            if hop > 0 {
                rows = rows.relu()?;
            }
        }
        Ok(rows)
    }
}

/// `own row · W + b + mean of the neighbours' rows · V`.
struct SageLayer {
    own: Linear,
    neighbours: Linear,
}

impl SageLayer {
    fn new(inputs: usize, outputs: usize, variables: VarBuilder) -> Result<Self> {
        Ok(Self {
            own: linear(inputs, outputs, variables.pp("own"))?,
            neighbours: linear_no_bias(inputs, outputs, variables.pp("neighbours"))?,
        })
    }

    /// From a row for each source of the block to a row for each destination.
    fn forward(&self, rows: &Tensor, block: &BlockRef) -> Result<Tensor> {
        // The destinations are the first of the sources. This is a view.
        let own = rows.narrow(0, 0, block.destinations)?;
        Ok((self.own.forward(&own)? + self.neighbours.forward(&mean(rows, block)?)?)?)
    }
}

/// The mean of the rows that each destination has picked; 0 if it has no neighbours.
fn mean(rows: &Tensor, block: &BlockRef) -> Result<Tensor> {
    let (mut owners, mut shares) = (Vec::with_capacity(block.indices.len()), Vec::new());
    for (destination, ends) in (0_u32..).zip(block.indptr.windows(2)) {
        let picks = (ends[1] - ends[0]) as usize;
        owners.extend(repeat_n(destination, picks));
        shares.push(1.0 / picks.max(1) as f32);
    }
    // candle's ids are unsigned. `from_vec` takes ownership of the vectors, so this is the only copy of the block.
    let sources: Vec<u32> = block.indices.iter().map(|&source| source as u32).collect();
    let sources = Tensor::from_vec(sources, block.indices.len(), &CPU)?;
    let owners = Tensor::from_vec(owners, block.indices.len(), &CPU)?;
    let shares = Tensor::from_vec(shares, (block.destinations, 1), &CPU)?;
    // candle has no sum over lists, so the picked rows are a tensor in between.
    let picked = rows.index_select(&sources, 0)?;
    let sums = Tensor::zeros((block.destinations, rows.dim(1)?), DType::F32, &CPU)?
        .index_add(&owners, &picked, 0)?;
    Ok(sums.broadcast_mul(&shares)?)
}

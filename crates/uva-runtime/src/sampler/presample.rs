//! Properties of a run's batches, from batches that are sampled beforehand: the static shapes for padding, and the
//! capacity of feature slots on a GPU.

use uva_batch::{BatchLayout, SlotRoom, StaticShapes};
use uva_graph::{Dataset, Split};
use uva_sample::{BatchBounds, BatchCounts, BatchKey, MiniBatch, SamplerOptions, Seeds, sampler};

use crate::options::Pad;
use crate::sampler::cache::{Caches, SampledGraph};
use crate::sampler::order_making::in_batches;
use crate::sampler::seed_lists::{SeedLists, SeedsOfType};
use crate::{LoaderOptions, RuntimeError, machine};

/// Number of batches of a split that are sampled.
pub(crate) const SAMPLES: usize = 20;

impl LoaderOptions {
    /// Determines the shapes that batches are padded to, if the run pads and the shapes are still open. They are
    /// estimated from batches of the split `main`, or, if it is empty, of the first split that is not.
    ///
    /// The batches are whole ones of the first epoch, evenly spread, and of later epochs if it has too few. Picks
    /// depend only on a batch's key, so the run samples the same batches again, and every process and every resumed run
    /// with the same `slot_bytes` finds the same shapes.
    ///
    /// # Errors
    /// Errors of sampling these batches, such as [`RuntimeError::Option`] for a batch that does not fit `slot_bytes`.
    pub fn with_shapes(&self, dataset: &Dataset, main: Split) -> Result<Self, RuntimeError> {
        let options = self.clone();
        Ok(match self.pad {
            Pad::Off => Self { shapes: None, ..options },
            Pad::Auto if self.shapes.is_some() => options,
            Pad::Auto => Self { shapes: Some(shapes(dataset, self, main)?), ..options },
        })
    }

    /// The capacity of feature slots on a GPU that batches of these splits will likely not exceed, from the batches of
    /// [`with_shapes`](Self::with_shapes) or the shapes that batches are padded to. `None` if the splits have no batch
    /// to sample.
    ///
    /// # Errors
    /// Errors of sampling these batches.
    pub(crate) fn likely_room(
        &self,
        dataset: &Dataset,
        layout: &BatchLayout,
        splits: &[Split],
    ) -> Result<Option<SlotRoom>, RuntimeError> {
        if let Some(shapes) = layout.shapes() {
            return Ok(Some(SlotRoom::estimate(&[shapes.counts()], layout)));
        }
        let mut room: Option<SlotRoom> = None;
        for split in splits {
            let samples = presampled(dataset, self, *split, layout.bounds())?;
            if !samples.is_empty() {
                let of_split = SlotRoom::estimate(&samples, layout);
                room = Some(room.map_or(of_split, |room| room.or(of_split)));
            }
        }
        Ok(room)
    }
}

/// The split itself, or the first split that is not empty if it is empty.
pub(crate) fn with_nodes(dataset: &Dataset, main: Split) -> Split {
    let splits = [main, Split::Train, Split::Valid, Split::Test];
    splits.into_iter().find(|split| dataset.seed_count(*split) > 0).unwrap_or(main)
}

fn shapes(dataset: &Dataset, options: &LoaderOptions, main: Split) -> Result<StaticShapes, RuntimeError> {
    // The bounds of the run without padding, so that this fails if the run would.
    let layout = BatchLayout::new(dataset, &options.batch_spec(dataset)?)?;
    let samples = presampled(dataset, options, with_nodes(dataset, main), layout.bounds())?;
    if samples.is_empty() {
        return Err(RuntimeError::option(
            "pad",
            "auto",
            "no split of the dataset has a node to sample around",
        ));
    }
    Ok(StaticShapes::estimate(&samples, options.expand, layout.bounds()))
}

/// The sizes of batches of this split; none if it is empty.
fn presampled(
    dataset: &Dataset,
    options: &LoaderOptions,
    split: Split,
    bounds: &BatchBounds,
) -> Result<Vec<BatchCounts>, RuntimeError> {
    let size = options.batch_size.min(dataset.seed_count(split)).max(1);
    let sampling = SamplerOptions { edge_ids: false, ..options.sampling_in(dataset.metagraph())? };
    let graph = SampledGraph::new(dataset, None)?;
    let mut sampler = sampler(graph.types_of(&Caches::default()), &sampling)?;
    let lists = SeedLists::of(&graph, dataset, options, split)?;
    let mut of_types = vec![SeedsOfType::default(); dataset.metagraph().type_count()];
    let mut batch = MiniBatch::with_bounds(bounds);
    let mut order = in_batches(dataset, options, split, (size, true))?;
    if order.uses_threads() {
        machine::start_threads()?;
    }
    // Whole batches of an epoch, at most the required number.
    let of_epoch = order.batches().min(SAMPLES);
    let mut samples = Vec::with_capacity(SAMPLES);
    let mut prepared = None;
    for number in 0..if of_epoch > 0 { SAMPLES } else { 0 } {
        let epoch = (number / of_epoch) as u32;
        if prepared != Some(epoch) {
            order.prepare(epoch)?;
            prepared = Some(epoch);
        }
        let place = number % of_epoch * order.batches() / of_epoch;
        let key = BatchKey { split, epoch, batch: place as u32 };
        lists.divide(order.batch(place), &mut of_types);
        let ids: Vec<&[i64]> = of_types.iter().map(|seeds| &seeds.ids[..]).collect();
        let times: Vec<&[i64]> = of_types.iter().map(|seeds| &seeds.times[..]).collect();
        let seeds = Seeds { ids: &ids, times: &times };
        samples.push(batch.fill(|out| sampler.sample_types(key, seeds, out))?);
    }
    Ok(samples)
}

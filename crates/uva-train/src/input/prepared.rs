//! A batch as checked tensors on the trainer's device: the input of a forward and a backward pass.

use crate::TrainError;
use crate::block::aggregate::Block;
use crate::block::block_kernel::RawBlock;
use crate::input::check::{check, host_lists, host_values, tables_read};
use crate::input::input_settings::InputSettings;
use crate::input::targets::Targets;
use crate::torch::borrowed::Borrowed;
use crate::torch::device::TrainDevice;
use tch::{Device, Kind, Tensor};
use uva_batch::{BatchColumns, Column, ColumnArray, ColumnKey, LayerCounts};
use uva_graph::Labels;

/// A batch with at least one seed.
pub(crate) struct Prepared<'a> {
    /// Feature rows in place: one table of the input nodes, or next to sums of the last block's destinations; for a hop
    /// set a table for each hop that the model reads.
    pub(crate) tables: Vec<Borrowed<'a>>,
    /// The hops, the one at the seeds first; empty for a hop set.
    pub(crate) blocks: Vec<Block<'a>>,
}

/// How the arrays of a batch are converted to tensors.
#[derive(Clone, Copy)]
enum Placement {
    /// The arrays are in host memory, and loops on the host compute weights and transposed lists.
    Host,
    /// The arrays are copied from host memory to this device, and then treated like device memory.
    Copied(Device),
    /// The arrays are in the memory of the trainer's device. Tensor operations do all the work, and the host does not
    /// wait for them.
    Device(TrainDevice),
}

impl Placement {
    fn of(trainer: &InputSettings<'_>, batch: &BatchColumns<'_>) -> Result<Self, TrainError> {
        match (batch.is_on_device(), trainer.device) {
            (false, TrainDevice::Cpu | TrainDevice::StandIn) => Ok(Self::Host),
            (false, TrainDevice::Cuda(_)) => Ok(Self::Copied(trainer.device.torch())),
            (true, TrainDevice::StandIn | TrainDevice::Cuda(_)) => Ok(Self::Device(trainer.device)),
            (true, TrainDevice::Cpu) => {
                Err(TrainError::Input("a batch in device memory for a trainer on the CPU".to_owned()))
            }
        }
    }

    fn torch(self) -> Device {
        match self {
            Self::Host => Device::Cpu,
            Self::Copied(device) => device,
            Self::Device(device) => device.torch(),
        }
    }

    /// An array as a tensor. If it is copied, the copy is complete on return.
    fn tensor<'a>(self, array: &ColumnArray<'a>, what: &str) -> Result<Borrowed<'a>, TrainError> {
        match self {
            Self::Host => Borrowed::array(array, what, TrainDevice::Cpu),
            Self::Copied(device) => {
                let on_host = Borrowed::array(array, what, TrainDevice::Cpu)?;
                Ok(Borrowed::owned(on_host.tensor().f_to_device(device)?))
            }
            Self::Device(device) => Borrowed::array(array, what, device),
        }
    }

    /// The seeds' targets, padding included; `None` if the host knows that no seed has a label.
    fn targets<'a>(
        self,
        trainer: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
    ) -> Result<Option<Targets<'a>>, TrainError> {
        let (task, seeds, labels) = (trainer.task, batch.seeds, batch.get(Column::Labels));
        if let Self::Device(device) = self {
            let Some(labels) = labels else {
                return Err(TrainError::Input("a batch without labels".to_owned()));
            };
            let targets = Targets::on_device(&labels, task, seeds, device)?;
            return if seeds == 0 { Ok(None) } else { targets.within_range(task).map(Some) };
        }
        let labels = labels.and_then(|array| array.labels()).unwrap_or(Labels::Absent);
        match (Targets::on_host(labels, task, seeds)?, self) {
            (Some(targets), Self::Copied(device)) => targets.to(device)?.within_range(task).map(Some),
            (targets, _) => Ok(targets),
        }
    }
}

impl<'a> Prepared<'a> {
    /// Checks the batch and wraps it with its targets, or returns `None` if the host knows that no seed has a label.
    /// The host does not wait.
    pub(crate) fn new(
        trainer: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
    ) -> Result<Option<(Self, Targets<'a>)>, TrainError> {
        check(trainer, batch)?;
        Self::with_targets(trainer, batch, Placement::of(trainer, batch)?)
    }

    /// Wraps a batch in host memory that is copied to this device.
    #[cfg(test)]
    pub(crate) fn copied(
        trainer: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
        device: Device,
    ) -> Result<Option<(Self, Targets<'a>)>, TrainError> {
        check(trainer, batch)?;
        Self::with_targets(trainer, batch, Placement::Copied(device))
    }

    fn with_targets(
        trainer: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
        placement: Placement,
    ) -> Result<Option<(Self, Targets<'a>)>, TrainError> {
        let Some(targets) = placement.targets(trainer, batch)? else { return Ok(None) };
        let targets = match batch.padding {
            0 => targets,
            padding => targets.first(batch.seeds - padding)?,
        };
        Ok(Some((Self::by(trainer, batch, placement)?, targets)))
    }

    /// Wraps a batch without targets, for predictions; `None` if there is no seed.
    pub(crate) fn without_targets(
        trainer: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
    ) -> Result<Option<Self>, TrainError> {
        check(trainer, batch)?;
        let placement = Placement::of(trainer, batch)?;
        if batch.seeds == 0 {
            return Ok(None);
        }
        Self::by(trainer, batch, placement).map(Some)
    }

    /// The arrays of a checked batch that the model reads.
    fn by(
        trainer: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
        placement: Placement,
    ) -> Result<Self, TrainError> {
        let table = |key: ColumnKey| batch.get(key).map(|array| placement.tensor(&array, "feature rows"));
        if batch.layers.is_empty() {
            let tables = (0..tables_read(trainer)).filter_map(|part| table(Column::X.part(part)));
            return Ok(Self { tables: tables.collect::<Result<_, _>>()?, blocks: Vec::new() });
        }
        let rows = table(Column::X.into()).unwrap_or_else(|| {
            let columns = trainer.input_dim as i64;
            Ok(Borrowed::owned(Tensor::f_zeros([0, columns], (Kind::Float, placement.torch()))?))
        })?;
        let sums = batch.get(Column::Aggregated);
        let listed = batch.layers.len() - usize::from(sums.is_some());
        let mut blocks = match placement {
            Placement::Host => Self::on_host(trainer, batch, listed)?,
            Placement::Copied(_) | Placement::Device(_) => {
                Self::by_tensors(trainer, batch, listed, placement)?
            }
        };
        if trainer.edge_dim > 0 {
            for (layer, block) in blocks.iter_mut().enumerate() {
                let rows = batch.get(Column::EdgeAttr.at(layer));
                block.edge_attr =
                    rows.map(|rows| placement.tensor(&rows, "features of edges")).transpose()?;
            }
        }
        if let Some(sums) = sums {
            blocks.push(Block::given(batch.layers[listed], placement.tensor(&sums, "sums")?));
        }
        Ok(Self { tables: vec![rows], blocks })
    }

    /// The first blocks, prepared on the host.
    fn on_host(
        trainer: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
        listed: usize,
    ) -> Result<Vec<Block<'a>>, TrainError> {
        let degrees = host_values(batch, Column::Degrees, 0)?;
        (0..listed)
            .map(|layer| Block::new(trainer.model, &host_lists(batch, layer)?, degrees, trainer.kind))
            .collect()
    }

    /// The first blocks, prepared by tensor operations or the kernel.
    fn by_tensors(
        trainer: &InputSettings<'_>,
        batch: &BatchColumns<'a>,
        listed: usize,
        placement: Placement,
    ) -> Result<Vec<Block<'a>>, TrainError> {
        let tensor = |key: ColumnKey| {
            batch.get(key).map(|array| placement.tensor(&array, &key.to_string())).transpose()
        };
        let needs_degrees = trainer.model.row().needs_degrees();
        let degrees = if needs_degrees { tensor(Column::Degrees.into())? } else { None };
        let mut lists = Vec::with_capacity(listed);
        for (layer, &LayerCounts { sources, .. }) in batch.layers[..listed].iter().enumerate() {
            let [indptr, indices, weights] =
                [Column::Indptr, Column::Indices, Column::Weights].map(|column| tensor(column.at(layer)));
            lists.push((sources, indptr?, indices?, weights?));
        }
        let raw: Vec<RawBlock<'_>> = (lists.iter())
            .filter_map(|(sources, indptr, indices, weights)| {
                Some(RawBlock {
                    sources: *sources,
                    lists: (indptr.as_ref()?.tensor(), indices.as_ref()?.tensor()),
                    sampled: weights.as_ref().map(Borrowed::tensor),
                })
            })
            .collect();
        let degrees = degrees.as_ref().map(Borrowed::tensor);
        Block::from_tensors(trainer.preparer, trainer.model, &raw, degrees, trainer.kind)
    }
}

//! A batch as tensors on the trainer's device: the input of a forward and a backward pass.

use crate::TrainError;
use crate::block::aggregate::Block;
use crate::input::targets::Targets;
use crate::torch::borrowed::Borrowed;
use crate::torch::device::TrainDevice;
use tch::Device;
use uva_batch::{BatchColumns, ColumnArray, ColumnKey};
use uva_graph::Labels;
use uva_model::Task;

/// A batch with at least one seed.
pub(crate) struct Prepared<'a> {
    /// Feature rows in place: one table of the input nodes, or next to sums of the last block's destinations; for a hop
    /// set a table for each hop that the model reads, for a typed graph one for each node type.
    pub(crate) tables: Vec<InputRows<'a>>,
    /// The hops, the one at the seeds first; empty for a hop set. For a typed graph those of the relations that the model
    /// uses, in the order of its layers.
    pub(crate) blocks: Vec<Block<'a>>,
}

/// Input rows of a batch.
pub(crate) enum InputRows<'a> {
    /// Feature rows.
    Given(Borrowed<'a>),
    /// Rows of a table that is trained.
    Trained {
        /// The number of the table.
        table: usize,
        /// The ids of the nodes.
        ids: &'a [i64],
    },
}

impl<'a> InputRows<'a> {
    /// The table and the ids of trained rows.
    pub(crate) fn trained(&self) -> Option<(usize, &'a [i64])> {
        match *self {
            Self::Given(_) => None,
            Self::Trained { table, ids } => Some((table, ids)),
        }
    }
}

/// How the arrays of a batch are converted to tensors.
#[derive(Clone, Copy)]
pub(crate) enum ArrayPlace {
    /// The arrays are in host memory, and loops on the host compute weights and transposed lists.
    Host,
    /// The arrays are copied from host memory to this device, and then treated like device memory.
    Copied(Device),
    /// The arrays are in the memory of the trainer's device. Tensor operations do all the work, and the host does not
    /// wait for them.
    Device(TrainDevice),
}

impl ArrayPlace {
    /// For a batch of a trainer on `device`.
    pub(crate) fn of(device: TrainDevice, batch: &BatchColumns<'_>) -> Result<Self, TrainError> {
        match (batch.is_on_device(), device) {
            (false, TrainDevice::Cpu | TrainDevice::StandIn) => Ok(Self::Host),
            (false, TrainDevice::Cuda(_)) => Ok(Self::Copied(device.torch())),
            (true, TrainDevice::StandIn | TrainDevice::Cuda(_)) => Ok(Self::Device(device)),
            (true, TrainDevice::Cpu) => {
                Err(TrainError::Input("a batch in device memory for a trainer on the CPU".to_owned()))
            }
        }
    }

    pub(crate) fn torch(self) -> Device {
        match self {
            Self::Host => Device::Cpu,
            Self::Copied(device) => device,
            Self::Device(device) => device.torch(),
        }
    }

    /// An array as a tensor. If it is copied, the copy is complete on return.
    pub(crate) fn tensor<'a>(self, array: &ColumnArray<'a>, what: &str) -> Result<Borrowed<'a>, TrainError> {
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
    pub(crate) fn targets<'a>(
        self,
        task: Task,
        batch: &BatchColumns<'a>,
        labels: ColumnKey,
    ) -> Result<Option<Targets<'a>>, TrainError> {
        let (seeds, labels) = (batch.seeds, batch.get(labels));
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

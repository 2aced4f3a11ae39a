//! A batch as checked tensors on the trainer's device: the input of a forward and a backward pass.

use crate::TrainError;
use crate::aggregate::Block;
use crate::batch::Batch;
use crate::block_kernel::{BlockPreparer, RawBlock};
use crate::borrowed::{Borrowed, Number};
use crate::device::TrainDevice;
use crate::device_input::{DeviceBatch, DeviceBlock};
use crate::input::BatchInput;
use crate::targets::Targets;
use tch::{Device, Kind, Tensor};
use uva_graph::ElementType;
use uva_model::{ModelKind, Task, TrainerOptions, Weighting};

/// The trainer settings that a batch is prepared for.
#[derive(Clone, Copy)]
pub(crate) struct Trains<'t> {
    pub(crate) model: ModelKind,
    /// Blocks of a batch.
    pub(crate) layers: usize,
    /// Feature columns.
    pub(crate) input_dim: usize,
    /// Features of an edge; 0 where the model takes none.
    pub(crate) edge_dim: usize,
    pub(crate) options: &'t TrainerOptions,
    pub(crate) task: Task,
    pub(crate) kind: Kind,
    pub(crate) device: TrainDevice,
    /// Prepares blocks on the device.
    pub(crate) preparer: Option<&'t BlockPreparer>,
    /// Whether values are dropped, as in training.
    pub(crate) drops: bool,
}

/// A batch that has at least one seed.
pub(crate) struct Prepared<'a> {
    /// Feature rows as they lie: one table of the input nodes, or beside sums of the last block's destinations; of a hop
    /// set a table for each hop that the model reads.
    pub(crate) tables: Vec<Borrowed<'a>>,
    /// The hops, that at the seeds first; none of a hop set.
    pub(crate) blocks: Vec<Block<'a>>,
}

/// A batch as tensors on one device, without derived tensors.
struct Tensors<'a> {
    rows: Borrowed<'a>,
    degrees: Option<Borrowed<'a>>,
    blocks: Vec<BlockTensors<'a>>,
    /// The last block, if its sums were made with the batch.
    summed: Option<Block<'a>>,
}

struct BlockTensors<'a> {
    sources: usize,
    indptr: Borrowed<'a>,
    indices: Borrowed<'a>,
    weights: Option<Borrowed<'a>>,
    edge_attr: Option<Borrowed<'a>>,
}

impl<'a> Prepared<'a> {
    /// Checks the batch and wraps it with its targets, or returns `None` if the host knows that no seed has a label. The
    /// host waits for nothing.
    pub(crate) fn new(
        trainer: &Trains<'_>,
        batch: &Batch<'a>,
    ) -> Result<Option<(Self, Targets<'a>)>, TrainError> {
        let (seeds, padding) = batch.seeds();
        check_sort(trainer, batch)?;
        let prepared = Self::with_targets(trainer, batch)?;
        Ok(match prepared {
            Some((prepared, targets)) if padding > 0 => Some((prepared, targets.first(seeds - padding)?)),
            prepared => prepared,
        })
    }

    /// With targets of all seeds, padding included.
    fn with_targets(
        trainer: &Trains<'_>,
        batch: &Batch<'a>,
    ) -> Result<Option<(Self, Targets<'a>)>, TrainError> {
        match (batch, trainer.device) {
            (Batch::Host(input), TrainDevice::Cpu | TrainDevice::StandIn) => {
                let Some(targets) = check_labelled(trainer, input)? else { return Ok(None) };
                Ok(Some((Self::on_host(trainer, input)?, targets)))
            }
            (Batch::Host(input), TrainDevice::Cuda(_)) => {
                Self::copied(trainer, input, trainer.device.torch())
            }
            (Batch::Device(input), device @ (TrainDevice::StandIn | TrainDevice::Cuda(_))) => {
                let tensors = Tensors::on_device(trainer, input, device)?;
                let Some(labels) = input.labels else {
                    return Err(TrainError::Input("a batch without labels".to_owned()));
                };
                let targets = Targets::on_device(labels, trainer.task, input.seeds(), device)?;
                if input.seeds() == 0 {
                    return Ok(None);
                }
                let targets = targets.within_range(trainer.task)?;
                Ok(Some((Self::from_tensors(trainer, tensors)?, targets)))
            }
            (Batch::Hops(input), _) => {
                let tables = input.tables(hops_wanted(trainer))?;
                let Some(targets) = Targets::on_host(input.labels, trainer.task, input.seeds)? else {
                    return Ok(None);
                };
                let (tables, targets) = match trainer.device {
                    TrainDevice::Cpu | TrainDevice::StandIn => (tables, targets),
                    TrainDevice::Cuda(_) => {
                        let device = trainer.device.torch();
                        let targets = targets.to(device)?.within_range(trainer.task)?;
                        (copies(tables, device)?, targets)
                    }
                };
                Ok(Some((Self { tables, blocks: Vec::new() }, targets)))
            }
            (Batch::DeviceHops(input), device @ (TrainDevice::StandIn | TrainDevice::Cuda(_))) => {
                let tables = input.tables(hops_wanted(trainer), device)?;
                let Some(labels) = input.labels else {
                    return Err(TrainError::Input("a batch without labels".to_owned()));
                };
                let targets = Targets::on_device(labels, trainer.task, input.seeds, device)?;
                if input.seeds == 0 {
                    return Ok(None);
                }
                let targets = targets.within_range(trainer.task)?;
                Ok(Some((Self { tables, blocks: Vec::new() }, targets)))
            }
            (Batch::Device(_) | Batch::DeviceHops(_), TrainDevice::Cpu) => Err(on_another_device()),
        }
    }

    /// The same without targets, for predictions; `None` if there is no seed.
    pub(crate) fn without_targets(
        trainer: &Trains<'_>,
        batch: &Batch<'a>,
    ) -> Result<Option<Self>, TrainError> {
        let (seeds, _) = batch.seeds();
        check_sort(trainer, batch)?;
        let prepared = match (batch, trainer.device) {
            (Batch::Host(input), TrainDevice::Cpu | TrainDevice::StandIn) => {
                check(trainer, input)?;
                Self::on_host(trainer, input)?
            }
            (Batch::Host(input), TrainDevice::Cuda(_)) => {
                check(trainer, input)?;
                Self::from_tensors(trainer, Tensors::copied(trainer, input, trainer.device.torch())?)?
            }
            (Batch::Device(input), device @ (TrainDevice::StandIn | TrainDevice::Cuda(_))) => {
                let tensors = Tensors::on_device(trainer, input, device)?;
                if seeds == 0 {
                    return Ok(None);
                }
                Self::from_tensors(trainer, tensors)?
            }
            (Batch::Hops(input), device) => {
                let tables = input.tables(hops_wanted(trainer))?;
                let tables = match device {
                    TrainDevice::Cpu | TrainDevice::StandIn => tables,
                    TrainDevice::Cuda(_) => copies(tables, device.torch())?,
                };
                Self { tables, blocks: Vec::new() }
            }
            (Batch::DeviceHops(input), device @ (TrainDevice::StandIn | TrainDevice::Cuda(_))) => {
                Self { tables: input.tables(hops_wanted(trainer), device)?, blocks: Vec::new() }
            }
            (Batch::Device(_) | Batch::DeviceHops(_), TrainDevice::Cpu) => {
                return Err(on_another_device());
            }
        };
        Ok((seeds > 0).then_some(prepared))
    }

    /// The CPU path, of a checked batch: loops on the host compute weights and transposed lists.
    fn on_host(trainer: &Trains<'_>, input: &BatchInput<'a>) -> Result<Self, TrainError> {
        let (model, kind) = (trainer.model, trainer.kind);
        let listed = input.listed().iter().map(|block| Block::new(model, block, input.degrees, kind));
        let (rows, summed) = rows_and_sums(input)?;
        let summed = summed.map(|(counts, sums)| Ok(Block::given(counts, sums)));
        let blocks: Result<_, TrainError> = listed.chain(summed).collect();
        Ok(Self { tables: vec![rows], blocks: blocks? })
    }

    /// Host memory, checked as on the CPU, then copied to `device` and treated like device memory.
    pub(crate) fn copied(
        trainer: &Trains<'_>,
        input: &BatchInput<'a>,
        device: Device,
    ) -> Result<Option<(Self, Targets<'a>)>, TrainError> {
        let Some(targets) = check_labelled(trainer, input)? else { return Ok(None) };
        let tensors = Tensors::copied(trainer, input, device)?;
        let targets = targets.to(device)?.within_range(trainer.task)?;
        Ok(Some((Self::from_tensors(trainer, tensors)?, targets)))
    }

    /// The device path: tensor operations only, and the host waits for none of them.
    fn from_tensors(trainer: &Trains<'_>, tensors: Tensors<'a>) -> Result<Self, TrainError> {
        let Tensors { rows, degrees, blocks, summed } = tensors;
        let (model, kind) = (trainer.model, trainer.kind);
        let degrees = degrees.as_ref().map(Borrowed::tensor);
        let raw: Vec<RawBlock<'_>> = (blocks.iter())
            .map(|block| RawBlock {
                sources: block.sources,
                lists: (block.indptr.tensor(), block.indices.tensor()),
                sampled: block.weights.as_ref().map(Borrowed::tensor),
            })
            .collect();
        let made = Block::from_tensors(trainer.preparer, model, &raw, degrees, kind)?;
        let rows_of_edges: Vec<_> = blocks.into_iter().map(|block| block.edge_attr).collect();
        let blocks = made.into_iter().zip(rows_of_edges).map(|(block, rows)| block.with_edge_attr(rows));
        Ok(Self { tables: vec![rows], blocks: blocks.chain(summed).collect() })
    }
}

impl<'a> Tensors<'a> {
    /// Copies of a checked batch on `device`.
    fn copied(trainer: &Trains<'_>, input: &BatchInput<'a>, device: Device) -> Result<Self, TrainError> {
        let needs_degrees = trainer.model.row().needs_degrees();
        let degrees = needs_degrees.then(|| copy(input.degrees, device)).transpose()?;
        let block = |block: &crate::BlockInput<'a>| -> Result<BlockTensors<'a>, TrainError> {
            let indptr = copy(block.indptr, device)?;
            let weighed = !block.weights.is_empty();
            let weights = weighed.then(|| copy(block.weights, device)).transpose()?;
            let indices = copy(block.indices, device)?;
            let rows = block.edge_attr.filter(|_| trainer.edge_dim > 0);
            let on_device = |rows: crate::EdgeRows<'a>| -> Result<_, TrainError> {
                Ok(Borrowed::owned(rows.borrowed()?.tensor().f_to_device(device)?))
            };
            let edge_attr = rows.map(on_device).transpose()?;
            Ok(BlockTensors { sources: block.sources, indptr, indices, weights, edge_attr })
        };
        let blocks: Result<_, TrainError> = input.listed().iter().map(block).collect();
        let (rows, summed) = rows_and_sums(input)?;
        let there = |rows: &Borrowed<'_>| -> Result<_, TrainError> {
            Ok(Borrowed::owned(rows.tensor().f_to_device(device)?))
        };
        let summed = summed.map(|(counts, sums)| Ok::<_, TrainError>(Block::given(counts, there(&sums)?)));
        Ok(Self { rows: there(&rows)?, degrees, blocks: blocks?, summed: summed.transpose()? })
    }

    /// The batch in the memory of `device`. The host checks what it knows.
    fn on_device(
        trainer: &Trains<'_>,
        input: &DeviceBatch<'a>,
        device: TrainDevice,
    ) -> Result<Self, TrainError> {
        let needs_degrees = trainer.model.row().needs_degrees();
        input.check(trainer.layers, (trainer.input_dim, trainer.edge_dim), needs_degrees)?;
        let (own_rows, refused) = sums_of(trainer);
        input.check_sums(own_rows, refused)?;
        let vector = |slice, length, what: &str| Borrowed::device_vector::<i32>(slice, length, what, device);
        let degrees = input.degrees.filter(|_| needs_degrees);
        let degrees = degrees.map(|slice| vector(slice, input.rows, "degrees")).transpose()?;
        let mut blocks = Vec::with_capacity(input.blocks.len());
        for (layer, block) in input.listed().iter().enumerate() {
            let what = |part: &str| format!("{part} of block {layer}");
            blocks.push(BlockTensors {
                sources: block.sources,
                indptr: vector(block.indptr, block.destinations + 1, &what("offsets"))?,
                indices: vector(block.indices, block.edges, &what("indices"))?,
                weights: (block.weights)
                    .map(|slice| Borrowed::device_vector::<f32>(slice, block.edges, &what("weights"), device))
                    .transpose()?,
                edge_attr: (block.edge_attr.filter(|_| trainer.edge_dim > 0))
                    .map(|rows| {
                        let what = what("features of edges");
                        Borrowed::device_table(rows.slice, rows.element, block.edges, rows.dim, &what, device)
                    })
                    .transpose()?,
            });
        }
        let (rows, dim) = (input.feature_count(), input.dim);
        let rows = match input.features {
            Some(slice) => Borrowed::device_table(slice, input.element, rows, dim, "feature rows", device)?,
            None => Borrowed::owned(Tensor::f_zeros([0, dim as i64], (Kind::Float, device.torch()))?),
        };
        let summed = match (input.aggregated, input.blocks.last()) {
            (Some(slice), Some(block)) => {
                let DeviceBlock { destinations, sources, edges, .. } = *block;
                let element = ElementType::F32;
                let sums = Borrowed::device_table(slice, element, destinations, dim, "sums", device)?;
                Some(Block::given((destinations, sources, edges), sums))
            }
            _ => None,
        };
        Ok(Self { rows, degrees, blocks, summed })
    }
}

/// Refuses a batch of the other sort than the model's.
fn check_sort(trainer: &Trains<'_>, batch: &Batch<'_>) -> Result<(), TrainError> {
    let model = trainer.model.row();
    let (found, wanted) = match (batch.is_of_hops(), model.reads_hops()) {
        (true, false) => ("a hop set", "sampled blocks"),
        (false, true) => ("sampled blocks", "rows of a hop set"),
        _ => return Ok(()),
    };
    Err(TrainError::Input(format!("a batch of {found} for `model={}`, which takes {wanted}", model.name)))
}

/// Tables of a hop set that the model reads, and their columns.
fn hops_wanted(trainer: &Trains<'_>) -> (usize, usize) {
    (trainer.options.tables_read(trainer.options.hops).len(), trainer.input_dim)
}

/// Copies on `device`.
fn copies<'a>(tables: Vec<Borrowed<'a>>, device: Device) -> Result<Vec<Borrowed<'a>>, TrainError> {
    let copy = |table: &Borrowed<'a>| Ok(Borrowed::owned(table.tensor().f_to_device(device)?));
    tables.iter().map(copy).collect()
}

/// Destinations, sources and edges of a block, and its sums.
type BlockOfSums<'a> = ((usize, usize, usize), Borrowed<'a>);

/// The rows of a checked batch in host memory that its first layer reads, and the sums of its last block if they were made
/// with the batch.
fn rows_and_sums<'a>(input: &BatchInput<'a>) -> Result<(Borrowed<'a>, Option<BlockOfSums<'a>>), TrainError> {
    let counts = |block: &crate::BlockInput<'_>| (block.destinations, block.sources, block.indices.len());
    let sums = input.sums()?.map(|(block, sums)| (counts(block), sums));
    Ok((input.feature_rows()?, sums))
}

fn on_another_device() -> TrainError {
    TrainError::Input("a batch in device memory for a trainer on the CPU".to_owned())
}

/// Checks a batch in host memory.
fn check(trainer: &Trains<'_>, input: &BatchInput<'_>) -> Result<(), TrainError> {
    let dims = (trainer.input_dim, trainer.edge_dim);
    let model = trainer.model.row();
    input.check(trainer.layers, dims, model.needs_degrees())?;
    let (own_rows, refused) = sums_of(trainer);
    input.check_sums(own_rows, refused)
}

/// Whether the model reads the destinations' rows beside sums that come with a batch, and why it takes no such sums, if
/// so.
fn sums_of(trainer: &Trains<'_>) -> (bool, Option<String>) {
    let options = trainer.options;
    let refused = if trainer.drops { options.refuses_sums() } else { options.refuses_sums_in_use() };
    let refused = refused.map(|(option, why)| format!("{option}: {why}"));
    (trainer.model.row().weighting == Weighting::Mean, refused)
}

/// Checks a batch in host memory, and returns the seeds' labels if any of them has one.
fn check_labelled<'a>(
    trainer: &Trains<'_>,
    input: &BatchInput<'a>,
) -> Result<Option<Targets<'a>>, TrainError> {
    check(trainer, input)?;
    Targets::on_host(input.labels, trainer.task, input.seeds())
}

/// A copy on `device`: on the host of the same storage. The copy has been made when this returns.
fn copy<'a, T: Number>(values: &'a [T], device: Device) -> Result<Borrowed<'a>, TrainError> {
    let tensor: Tensor = Borrowed::vector(values)?.tensor().f_to_device(device)?;
    Ok(Borrowed::owned(tensor))
}

//! Creation of a plan: counts the run's own batches, and times its own sampler and gather.

use std::path::Path;
use std::sync::Arc;

use uva_batch::Aggregation;
use uva_cuda::memory::HostMemory;
use uva_cuda::{Context, CudaError, ErrorKind};
use uva_graph::reorder::ReorderedLayout;
use uva_graph::{Dataset, Split};
use uva_plan::{
    CacheError, CachePlan, CachePolicy, CachedKinds, Objective, PlanRequest, Profile, TimedBy, TimedCaches,
    Workload,
};
use uva_rows::cuda::FillError;
use uva_sample::cuda::CudaSampleError;
use uva_sample::{SampleError, Sequenced};

use super::device_times::DeviceTimes;
use super::host_times::HostTimes;
use super::request::{GPU_CACHE, SamplerVerdict};
use crate::backend::{Backend, CudaBackend, GatherChoice, Partition, SamplerChoice};
use crate::options::seed_order::MadeOrder;
use crate::{LoaderOptions, RuntimeError};
use uva_options::ByteSize;

/// The divisor of the available memory for `--gpu-cache auto` without a GPU that trains.
const SHARE_OF_HOST_MEMORY: u64 = 4;

/// Measures whether the CPU or the GPU samples faster, for a backend that leaves it open ([`SamplerChoice::Auto`]), and
/// sets the backend's sampler.
///
/// # Errors
/// Errors of sampling on the CPU; a GPU that cannot sample is not an error.
pub fn measure_sampler(
    dataset: &Arc<Dataset>,
    loader: &LoaderOptions,
    backend: &mut Backend,
) -> Result<Option<SamplerVerdict>, RuntimeError> {
    match backend {
        Backend::Cuda(cuda) if cuda.sampler == SamplerChoice::Auto => {
            let verdict = where_to_sample(dataset, loader, cuda)?;
            cuda.sampler = if verdict.on_gpu { SamplerChoice::Gpu } else { SamplerChoice::Cpu };
            Ok(Some(verdict))
        }
        _ => Ok(None),
    }
}

/// Times a few batches on the CPU and on the GPU, without caches.
fn where_to_sample(
    dataset: &Arc<Dataset>,
    loader: &LoaderOptions,
    cuda: &CudaBackend,
) -> Result<SamplerVerdict, RuntimeError> {
    let mut times = DeviceTimes::new(Context::primary(cuda.ordinal)?, cuda, dataset, loader)?;
    let timing = |source| RuntimeError::from(CacheError::Timing { what: "sampling", source });
    let one_on_cpu = times.sampling_on_cpu().map_err(timing)?;
    let on_cpu = one_on_cpu / loader.samplers as f64;
    let on_gpu = match times.sampling_on_gpu() {
        Ok(milliseconds) => milliseconds,
        // The run continues without the GPU's sampler, which was not required.
        Err(error) => {
            let reason = format!("`sampler=auto`: the CPU samples: the GPU cannot ({error})");
            return Ok(SamplerVerdict { on_gpu: false, reason });
        }
    };
    let faster = if on_gpu < on_cpu { "the GPU samples" } else { "the CPU samples" };
    let reason = format!(
        "`sampler=auto`: {faster}: {on_gpu:.3} ms a batch on the GPU without a cache, {on_cpu:.3} ms with {} on the CPU \
         ({one_on_cpu:.3} ms each)",
        if loader.samplers == 1 { "1 sampler".to_owned() } else { format!("{} samplers", loader.samplers) }
    );
    Ok(SamplerVerdict { on_gpu: on_gpu < on_cpu, reason })
}

/// The request for a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanAsked {
    /// Bytes for both caches and their maps.
    pub bytes: u64,
    /// The policy that determines hotness.
    pub policy: CachePolicy,
    /// The contents of the timed caches, whose lines value hits.
    pub timed_by: TimedBy,
    /// Another way to fill them, timed only to state how well its lines fit.
    pub timed_also: Option<TimedBy>,
}

impl PlanAsked {
    /// A request for a plan within `bytes` bytes by this policy, timed with the contents that a run caches.
    #[must_use]
    pub fn new(bytes: u64, policy: CachePolicy) -> Self {
        Self { bytes, policy, timed_by: TimedBy::Rank, timed_also: None }
    }

    /// Sets the contents of the timed caches. Random ones are compared with those of a run.
    #[must_use]
    pub fn timed_by(self, by: TimedBy) -> Self {
        Self { timed_by: by, timed_also: (by == TimedBy::Random).then_some(TimedBy::Rank), ..self }
    }
}

/// Makes a plan by [`plan_asked`], timed with the contents that a run caches.
///
/// # Errors
/// See [`Search::run`](super::Search::run).
pub fn plan<'d>(
    dataset: &'d Arc<Dataset>,
    loader: &LoaderOptions,
    backend: &Backend,
    bytes: u64,
    policy: CachePolicy,
    note: &dyn Fn(&str),
) -> Result<(CachePlan, Option<Profile<'d>>), RuntimeError> {
    plan_asked(dataset, loader, backend, &PlanAsked::new(bytes, policy), note)
}

/// Chooses the lists and rows to cache within the requested bytes, and returns the profile of that choice (`None` if
/// the policy does not rank). Works in this process, and on the GPU if the backend has one.
///
/// On a GPU, lists are cached for a sampler on it. Rows are cached for the zero-copy gather, for slots with other rows
/// copied by the CPU, or for sums that the CPU begins. Other consumers do not read them.
///
/// # Errors
/// See [`Search::run`](super::Search::run).
pub fn plan_asked<'d>(
    dataset: &'d Arc<Dataset>,
    loader: &LoaderOptions,
    backend: &Backend,
    asked: &PlanAsked,
    note: &dyn Fn(&str),
) -> Result<(CachePlan, Option<Profile<'d>>), RuntimeError> {
    plan_kinds(dataset, loader, backend, (cacheable(backend, loader), asked), GPU_CACHE, note)
}

/// Makes a plan like [`plan_asked`], of these kinds of caches, whose bytes are from this option.
pub(super) fn plan_kinds<'d>(
    dataset: &'d Arc<Dataset>,
    loader: &LoaderOptions,
    backend: &Backend,
    (kinds, asked): (CachedKinds, &PlanAsked),
    option: &str,
    note: &dyn Fn(&str),
) -> Result<(CachePlan, Option<Profile<'d>>), RuntimeError> {
    let PlanAsked { bytes, policy, timed_by, timed_also } = *asked;
    loader.check_dataset(dataset)?;
    let workload = workload(dataset, loader)?;
    let batches = workload.batches()?;
    note(&match policy.sampled_epochs(&workload.epoch()?) {
        0 => format!("choosing what to cache: {policy}, evaluated on an epoch of {batches} batches"),
        epochs => {
            format!("choosing what to cache: sampling {epochs} epochs of {batches} batches")
        }
    });
    let objective = objective(backend);
    let plain = PlanRequest::new(dataset, workload, bytes);
    let request = PlanRequest { policy, kinds, objective, timed_by, timed_also, ..plain };
    let mut on_host;
    let mut on_gpu;
    let times: Option<&mut dyn TimedCaches> = match backend.device_slots() {
        None => {
            check_host_budget(option, bytes, reordered_bytes(dataset, kinds.lists))?;
            on_host = HostTimes::new(dataset, loader)?;
            Some(&mut on_host)
        }
        // For rows that the CPU brings or sums, a hit saves the CPU's time. For sums it depends on the lists with the
        // row, and for rows on their place. Bytes of the link approximate it.
        Some(cuda) if kinds.rows && cuda.gather != GatherChoice::ZeroCopy => {
            let context = Context::primary(cuda.ordinal)?;
            check_device_budget(bytes, &context, cuda)?;
            None
        }
        Some(cuda) => {
            let context = Context::primary(cuda.ordinal)?;
            check_device_budget(bytes, &context, cuda)?;
            on_gpu = DeviceTimes::new(context, cuda, dataset, loader)?;
            Some(&mut on_gpu)
        }
    };
    let (plan, profile) = uva_plan::plan_and_profile(&request, times)?;
    plan.notes.iter().for_each(|line| note(line));
    Ok((plan, profile))
}

/// The caches that a run with these options reads on this backend.
pub fn cacheable(backend: &Backend, loader: &LoaderOptions) -> CachedKinds {
    match backend.device_slots() {
        None => CachedKinds::default(),
        Some(cuda) => CachedKinds {
            lists: cuda.sampler == SamplerChoice::Gpu,
            rows: match cuda.gather {
                GatherChoice::ZeroCopy => true,
                _ if loader.aggregation == Aggregation::None => backend.copies_rows(),
                _ => backend.continues_sums(loader.aggregation, loader.gathers_before_sums),
            },
        },
    }
}

/// The objective: sampler and producer run concurrently on a GPU that is divided between them, and alternate on an
/// undivided GPU and on the cores of a CPU.
fn objective(backend: &Backend) -> Objective {
    match backend.device_slots() {
        Some(cuda) if cuda.partition != Partition::None => Objective::Pipeline,
        _ => Objective::Sum,
    }
}

/// The run's own training batches, to be counted: in the order of its seeds.
///
/// # Errors
/// [`RuntimeError::Failed`] in a process that has not received that order.
pub fn workload<'d>(dataset: &'d Dataset, loader: &LoaderOptions) -> Result<Workload<'d>, RuntimeError> {
    Ok(Workload {
        sequenced: sequenced(loader)?,
        drop_last: loader.drop_last,
        batch_bytes: loader.slot_bytes.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
        train: dataset.split(Split::Train),
        ..Workload::of(dataset, loader.sampling(), loader.batch_size)
    })
}

fn sequenced(loader: &LoaderOptions) -> Result<Option<Sequenced>, RuntimeError> {
    Ok(loader.made_order.as_ref().map(MadeOrder::sequenced).transpose()?.flatten())
}

/// Reads the plan in a file and checks it against dataset and options. Also returns the warnings.
///
/// # Errors
/// [`RuntimeError::Input`] for an invalid plan, or one for another dataset.
pub fn read_plan(
    path: &Path,
    dataset: &Dataset,
    loader: &LoaderOptions,
) -> Result<(CachePlan, Vec<String>), RuntimeError> {
    let plan = CachePlan::read(path)?;
    let warnings = plan.check(dataset, &loader.sampling(), loader.batch_size, sequenced(loader)?.as_ref())?;
    let warn = |warning| format!("`plan={}`: {warning}", path.display());
    Ok((plan, warnings.iter().map(warn).collect()))
}

/// Checks that host memory can hold a plan's caches, which this option requested; the roles check a GPU's memory.
///
/// # Errors
/// [`RuntimeError::Missing`] with both numbers.
pub fn check_plan_fits(
    plan: &CachePlan,
    dataset: &Dataset,
    backend: &Backend,
    option: &str,
) -> Result<(), RuntimeError> {
    if backend.device_slots().is_some() {
        return Ok(());
    }
    check_host_budget(option, plan.bytes(), reordered_bytes(dataset, plan.lists.count > 0))
}

/// Bytes for `--gpu-cache auto` without a trained batch, with the reason: on the CPU the same as for a run, on a GPU
/// the memory that is free now.
///
/// # Errors
/// [`RuntimeError::Failed`] if the system or the GPU does not report its memory.
pub fn budget_left(dataset: &Dataset, backend: &Backend) -> Result<(u64, String), RuntimeError> {
    let Some(cuda) = backend.device_slots() else { return budget_on_cpu(dataset) };
    let (free, total) = Context::primary(cuda.ordinal)?.memory()?;
    let bytes = free / 2;
    let reason = format!(
        "{} of {} are free on cuda:{}; nothing has been trained, so half of them is left to training",
        in_gib(free),
        in_gib(total),
        cuda.ordinal
    );
    Ok((bytes, reason))
}

/// Bytes for `--gpu-cache auto` if the caches are in host memory, with the reason.
///
/// # Errors
/// [`RuntimeError::Failed`] if the system does not report its available memory.
pub fn budget_on_cpu(dataset: &Dataset) -> Result<(u64, String), RuntimeError> {
    let graph = reordered_bytes(dataset, true);
    let left = host_memory()?.saturating_sub(graph);
    let bytes = left / SHARE_OF_HOST_MEMORY;
    let (left, graph, share) = (in_gib(left), in_gib(graph), in_gib(bytes));
    let reason = format!(
        "the caches are in host memory, of which {left} are available in addition to a reordered graph of {graph}; they may \
         use a quarter, {share}"
    );
    Ok((bytes, reason))
}

/// Bytes for `--host-cache auto`, with the reason.
///
/// # Errors
/// See [`budget_on_cpu`].
pub(super) fn budget_of_rows() -> Result<(u64, String), RuntimeError> {
    let left = host_memory()?;
    let bytes = left / SHARE_OF_HOST_MEMORY;
    Ok((
        bytes,
        format!("{} of host memory are available; it may use a quarter, {}", in_gib(left), in_gib(bytes)),
    ))
}

fn in_gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / (1_u64 << 30) as f64)
}

/// Memory of a cache in addition to its own bytes: with neighbour lists a copy of the graph in their order, with rows
/// alone none.
fn reordered_bytes(dataset: &Dataset, lists: bool) -> u64 {
    if lists { ReorderedLayout::new(dataset).bytes() as u64 } else { 0 }
}

/// Checks that host memory can hold `bytes` bytes of caches, which this option requested, together with a reordered
/// graph of `graph` bytes. Otherwise the kernel would kill the run later.
///
/// # Errors
/// [`RuntimeError::Missing`] with both numbers.
pub(super) fn check_host_budget(option: &str, bytes: u64, graph: u64) -> Result<(), RuntimeError> {
    let available = host_memory()?;
    if bytes.saturating_add(graph) <= available {
        return Ok(());
    }
    let beside = match graph {
        0 => String::new(),
        graph => format!(", and the reordered graph needs {}", ByteSize::from_bytes(graph)),
    };
    let problem = format!(
        "these caches are in host memory, of which only {} are available{beside}",
        ByteSize::from_bytes(available)
    );
    Err(RuntimeError::missing(problem)
        .with_option(option, ByteSize::from_bytes(bytes).value())
        .with_remedy("give less, or auto"))
}

/// Rejects more bytes than the GPU has free before a run, since no run could cache them.
fn check_device_budget(bytes: u64, context: &Context, cuda: &CudaBackend) -> Result<(), RuntimeError> {
    let (free, total) = context.memory()?;
    if bytes > free {
        let [free, total] = [free, total].map(ByteSize::from_bytes);
        let problem = format!("only {free} of the {total} of cuda:{} are free", cuda.ordinal);
        return Err(RuntimeError::missing(problem)
            .with_option(GPU_CACHE, ByteSize::from_bytes(bytes).value())
            .with_remedy("give less, or auto"));
    }
    Ok(())
}

fn host_memory() -> Result<u64, RuntimeError> {
    let memory = HostMemory::read().map_err(|error| {
        RuntimeError::failed(format!("cannot read how much memory is available: {error}"))
    })?;
    Ok(memory.to_be_had())
}

impl From<CacheError> for RuntimeError {
    fn from(error: CacheError) -> Self {
        let message = error.to_string();
        if let CacheError::Timing { source, .. } = &error {
            return match exit_code_of(source.as_ref()) {
                2 => Self::input(message),
                3 => Self::missing(message),
                _ => Self::failed(message),
            };
        }
        if error.is_bad_input() { Self::input(message) } else { Self::failed(message) }
    }
}

/// The exit code for the failure of a timed run.
fn exit_code_of(source: &(dyn std::error::Error + 'static)) -> i32 {
    let kind = |kind: ErrorKind| match kind {
        ErrorKind::Missing => 3,
        ErrorKind::Usage => 2,
        ErrorKind::Failed => 1,
    };
    if let Some(error) = source.downcast_ref::<RuntimeError>() {
        error.exit_code()
    } else if let Some(error) = source.downcast_ref::<CudaError>() {
        kind(error.kind())
    } else if let Some(error) = source.downcast_ref::<FillError>() {
        kind(error.kind())
    } else if let Some(CudaSampleError::Cuda(error)) = source.downcast_ref() {
        kind(error.kind())
    } else if source.is::<SampleError>() || source.is::<CudaSampleError>() {
        2
    } else {
        1
    }
}

//! The lifecycle of a launcher: it starts the janitor, divides the GPU, and takes a run from its first process to its
//! last.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::fleet::Fleet;
use super::launch::Launch;
use super::verdict::WatchedRank;
use super::watch;
use crate::checkpoint_files::CheckpointDirectory;
use crate::launcher::process::environments::client;
use crate::launcher::process::janitor::Janitor;
use crate::launcher::process::signals::EndSignals;
use crate::launcher::wire::messages::JanitorWord;
use crate::mps;
use uva_cuda::partition::Shares;
use uva_runtime::backend::{
    Backend, BackendDecision, CudaBackend, MpsRequest, Partition, Probe, SamplerShare,
};
use uva_runtime::control::{ConsumerTally, Control};
use uva_runtime::machine::memory::{ProcessMemory, Resident};
use uva_runtime::plan::RunPlan;
use uva_runtime::plan::topology::RunStage;
use uva_runtime::telemetry::metrics::{Observer, Roles};
use uva_runtime::{DiskCounts, Features, RuntimeError};

/// Maximum time for an answer of an MPS daemon.
const MPS_PATIENCE: Duration = Duration::from_secs(5);

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The consumer's result.
    pub done: Value,
    /// Time totals of each role.
    pub roles: Roles,
    /// The tally of a user's command as consumer; empty for the built-in consumer, whose result has more details.
    pub tally: ConsumerTally,
    /// Each process's memory at the end of its work: the launcher, the janitor and the roles.
    pub memory: Vec<ProcessMemory>,
    /// Counts of disk reads for rows; `None` if rows are read from memory.
    pub disk: Option<DiskCounts>,
    /// Seconds from the first process's start to the last one's end.
    pub seconds: f64,
}

/// A running launcher. From its creation it receives signals, and a janitor cleans up if it is killed. Dropping it
/// stops an MPS daemon that it started.
pub struct Launcher {
    // Fields are dropped in order of declaration.
    pub(crate) mps: Option<Arc<mps::MpsSession>>,
    pub(crate) janitor: Janitor,
    pub(crate) signals: EndSignals,
    checkpoint: Option<CheckpointDirectory>,
    /// The requested division of the GPU by MPS, if any.
    wish: Option<MpsRequest>,
    /// The variables by which helpers find the libtorch that trains.
    pub(crate) libtorch: Vec<(String, Option<String>)>,
}

impl Launcher {
    /// Starts the launcher, before any process that would need cleanup. `checkpoint` is the directory of the consumer's
    /// checkpoints, if any.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if no process or descriptor can be created.
    pub fn begin(dataset: &Path, checkpoint: Option<CheckpointDirectory>) -> Result<Self, RuntimeError> {
        // Before the first child, so that every signal is handled.
        let signals = EndSignals::listen().map_err(|error| {
            RuntimeError::failed(format!("cannot listen for SIGINT and SIGTERM: {error}"))
        })?;
        let janitor = Janitor::start(dataset, checkpoint.as_ref())?;
        Ok(Self { mps: None, janitor, signals, checkpoint, wish: None, libtorch: Vec::new() })
    }

    /// Sets the variables by which helpers find the libtorch that trains.
    #[must_use]
    pub(crate) fn with_libtorch(mut self, variables: Vec<(String, Option<String>)>) -> Self {
        self.libtorch = variables;
        self
    }

    /// Fulfils the request for MPS, if there is one, and returns the backend that the run uses.
    ///
    /// # Errors
    /// [`RuntimeError::Missing`] if MPS is required and not available.
    pub fn divide(
        &mut self,
        decision: BackendDecision,
        observer: &mut dyn Observer,
    ) -> Result<Backend, RuntimeError> {
        decision.notes.iter().for_each(|note| observer.note(note));
        let (Some(wish), Backend::Cuda(cuda)) = (&decision.mps, &decision.backend) else {
            return Ok(decision.backend);
        };
        let divided = self.divide_by_mps(wish, cuda);
        if let Some(signal) = self.signals.take().first() {
            return Err(RuntimeError::Interrupted(*signal));
        }
        match divided {
            Ok(divided) => {
                self.wish = Some(wish.clone());
                Ok(Backend::Cuda(divided))
            }
            Err(reason) if wish.required => Err(RuntimeError::missing(format!(
                "MPS cannot divide the GPU: {reason}; use `mps=auto` to run without MPS"
            ))),
            Err(reason) => {
                self.mps = None;
                observer.note(&format!("MPS cannot divide the GPU: {reason}"));
                Ok(decision.backend)
            }
        }
    }

    /// The backend without a sampler on the GPU, whose share goes to the consumer.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] if MPS does not grant that share.
    pub fn without_gpu_sampler(&mut self, backend: &Backend) -> Result<Backend, RuntimeError> {
        let (Backend::Cuda(cuda), Some(wish)) = (backend, self.wish.take()) else {
            return Ok(backend.clone());
        };
        let wish = wish.without_sampler();
        let divided = self.shares(&wish, cuda);
        self.wish = Some(wish);
        divided
            .map(Backend::Cuda)
            .map_err(|reason| RuntimeError::failed(format!("dividing by MPS: {reason}")))
    }

    fn divide_by_mps(&mut self, wish: &MpsRequest, cuda: &CudaBackend) -> Result<CudaBackend, String> {
        let said = |error: mps::MpsError| error.to_string();
        // A daemon that does not answer within this time is useless; and at its end a run queries it for each client.
        let environment = mps::Environment { timeout: MPS_PATIENCE, ..mps::Environment::of_process() };
        let session = match mps::look(&environment).map_err(said)? {
            mps::AvailableMps::Running(running) => mps::MpsSession::Shared(running),
            mps::AvailableMps::Prepared(prepared) => {
                // Sent before there is anything to clean up.
                let word = JanitorWord::Daemon(prepared.leftover().clone());
                self.janitor.tell(&word, &[]).map_err(|error| error.to_string())?;
                let device = mps::DaemonDevice::Uuid(wish.device.clone());
                mps::MpsSession::Own(prepared.start(Some(&device)).map_err(said)?)
            }
        };
        self.mps = Some(Arc::new(session));
        self.shares(wish, cuda)
    }

    /// The shares that the daemon grants, each measured by a process that has it.
    fn shares(&self, wish: &MpsRequest, cuda: &CudaBackend) -> Result<CudaBackend, String> {
        let session = self.mps.as_deref().ok_or("there is no daemon")?;
        // The view of a process with this share: its number of the device, and its multiprocessors.
        let granted = |percentage: u32| -> Result<(usize, u32), String> {
            let probe = Probe::in_child(&client(session, percentage), true);
            let probe = probe.map_err(|error| error.to_string())?;
            if let Some(reason) = probe.cuda.unavailable {
                return Err(format!("under MPS: {reason}"));
            }
            let served = probe.cuda.devices.iter().find(|device| device.uuid == wish.device);
            let Some(device) = served else {
                return Err("the MPS daemon does not serve this GPU (see `uvatrain mps status`)".to_owned());
            };
            if device.mps_enabled {
                Ok((device.ordinal, device.multiprocessors))
            } else {
                Err("the driver does not connect to the MPS daemon, and reports no error".to_owned())
            }
        };
        // A sampler on the GPU is a thread of the producer's process.
        let shares = Shares { producer: wish.producer_percentage, sampler: wish.sampler_percentage };
        let both = shares.producer + shares.sampler.unwrap_or(0);
        let (ordinal, multiprocessors) = granted(both)?;
        let (_, consumer_multiprocessors) = granted(wish.consumer_percentage)?;
        let (producer_multiprocessors, sampler) =
            shares.divide_granted(multiprocessors).ok_or_else(|| {
                format!("{both} % of this GPU is one multiprocessor; producer and sampler require one each")
            })?;
        let sampler = shares.sampler.zip(sampler);
        let sampler =
            sampler.map(|(percentage, multiprocessors)| SamplerShare { percentage, multiprocessors });
        let partition = Partition::Mps {
            producer_percentage: wish.producer_percentage,
            consumer_percentage: wish.consumer_percentage,
            producer_multiprocessors,
            consumer_multiprocessors,
            sampler,
        };
        Ok(CudaBackend { ordinal, partition, ..cuda.clone() })
    }

    /// Runs to the end, with one plan, and returns the outcome.
    ///
    /// # Errors
    /// See the table of [`crate::launcher`]. No process of the run is left in any case.
    pub fn run(mut self, launch: Launch<'_>, observer: &mut dyn Observer) -> Result<Outcome, RuntimeError> {
        self.run_once(launch, observer)
    }

    /// Runs to the end, before another run by the same launcher.
    ///
    /// # Errors
    /// As [`Launcher::run`].
    pub(crate) fn run_once(
        &mut self,
        launch: Launch<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RuntimeError> {
        let outcome = self.run_ranks(launch, observer)?.pop();
        outcome.ok_or_else(|| RuntimeError::failed("the run has no plan"))
    }

    /// Runs to the end, with a plan for each rank, and returns the outcome of each.
    ///
    /// # Errors
    /// As [`Launcher::run`].
    pub(crate) fn run_ranks(
        &mut self,
        launch: Launch<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Outcome>, RuntimeError> {
        let started = Instant::now();
        let plans = launch.plans;
        let environments = launch.environments.clone();
        let environments = match plans.first() {
            Some(plan) => environments.divided(self.mps.as_deref(), &plan.backend),
            None => environments,
        };
        let launch = Launch { environments, ..launch };
        let control = |plan: &RunPlan| Control::create(&plan.options).map(Arc::new);
        let controls = plans.iter().map(control).collect::<Result<Vec<_>, _>>()?;
        let fleet = Fleet::start(&launch, &controls, &self.janitor, self.mps.clone())?;
        // There are no live counts of several ranks.
        if let ([control], [plan]) = (&controls[..], plans) {
            observer.begun(&fleet.gauges(control, plan));
        }
        let stages: Vec<_> = (0..plans.len()).map(|rank| fleet.stages(rank)).collect();
        let ranks = plans.iter().zip(&controls);
        let ranks =
            ranks.map(|(plan, control)| WatchedRank { control, plan, deadline: None, retired: false });
        let ended = watch::watch(fleet, ranks.collect(), &mut self.signals, &self.janitor, observer);
        // A role that is killed while it writes a checkpoint leaves its temporary file.
        if let (Err(_), Some(directory)) = (&ended, &self.checkpoint) {
            directory.remove_leftovers();
        }
        let done = ended?;
        let own = Resident::of_self().map(|resident| ProcessMemory::new("launcher", resident));
        let janitor = self.janitor.resident().map(|resident| ProcessMemory::new("janitor", resident));
        // Resources that the ranks share are reported once.
        let mut shared: Vec<_> = own.into_iter().chain(janitor).collect();
        let seconds = started.elapsed().as_secs_f64();
        let mut outcomes = Vec::with_capacity(plans.len());
        for ((plan, control), stages) in plans.iter().zip(&controls).zip(stages) {
            let noted = |(stage, name): (RunStage, String)| {
                Some(ProcessMemory::new(name, control.memory(stage.counters())?))
            };
            outcomes.push(Outcome {
                done: done.clone(),
                roles: control.roles(),
                tally: control.tally(),
                memory: shared.drain(..).chain(stages.into_iter().filter_map(noted)).collect(),
                disk: (plan.options.features == Features::Disk).then(|| control.disk_reads()),
                seconds,
            });
        }
        Ok(outcomes)
    }
}

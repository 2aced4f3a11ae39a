//! Starts the roles as processes, watches them and ends them. Never touches CUDA or libtorch itself.
//!
//! | what happens | what the launcher does | exit code |
//! |---|---|---|
//! | every role ends well | reaps them, writes the `end` line | 0 |
//! | a role dies or fails | stops the others, names the role, the cause and the batch | 1, or the role's own 2 or 3 |
//! | SIGINT or SIGTERM, once | asks the consumer to finish its batch and write a checkpoint, then stops the others | 130, 143 |
//! | the same again | kills every role at once | 130, 143 |
//! | the launcher itself is killed | the kernel kills the roles; the janitor makes sure and cleans up | – |
//! | the observer fails (a full disk, say) | stops every role | its own |
//!
//! What the ends of a user's command mean, where one is the consumer, stands in `command_watch`.
//!
//! After any of them no process of the run is left. There is little else to leave behind: every region is a memfd
//! and every socket a nameless pair, which go with the last process that has them. A checkpoint that was being
//! written is removed by name, and an MPS daemon that the launcher started is stopped, with its directories.

mod attach;
mod command_watch;
mod consumer_side;
mod door;
mod fleet;
mod handed;
mod janitor;
mod messages;
mod planner;
mod protocol;
mod reports;
mod role_process;
mod signals;
mod usage;
mod user_command;
mod watch;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use self::fleet::Fleet;
use self::janitor::Janitor;
use self::messages::{AttachedJob, JanitorWord};
use self::signals::Signals;
use crate::backend::{Backend, CudaBackend, Decision, MpsWish, Partition, Probe, SamplerShare};
use crate::cache::CacheContents;
use crate::control::{Control, Tally};
use crate::memory::{ProcessMemory, Resident};
use crate::metrics::{Observer, Roles};
use crate::plan::RunPlan;
use crate::{RuntimeError, mps};

pub use crate::checkpoint_files::CheckpointDirectory;
pub(crate) use attach::Attachment;
pub use attach::{Attached, attach, attach_unless};
pub use door::VARIABLE;
pub(crate) use fleet::own_program;
pub use messages::Role;
pub use protocol::PROTOCOL;
pub use role_process::{Consume, run as run_role};
pub use user_command::UserCommand;

/// How long an MPS daemon may take to answer.
const MPS_PATIENCE: Duration = Duration::from_secs(5);

/// A run in processes, as it is started.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The dataset's directory.
    pub dataset: &'a Path,
    /// Schedule and slots.
    pub plan: &'a RunPlan,
    /// What the plan's caches hold.
    pub caches: &'a CacheContents,
    /// Who uses the batches.
    pub consumer: Consumer,
    /// What the roles find in their environment besides what this process has.
    pub environments: Environments,
}

/// Who uses a run's batches.
#[derive(Clone, Debug)]
pub enum Consumer {
    /// A program that is a role here ([`run_role`]), in a process of its own.
    Program {
        /// Its file.
        program: PathBuf,
        /// What it does with the batches, in its own terms ([`Consume`]).
        job: Value,
    },
    /// A command of the user's, which takes up the place by [`attach`].
    Command {
        /// The command.
        command: UserCommand,
        /// Whether the observer is to hear of each training batch.
        events: bool,
    },
}

impl Consumer {
    /// What the consumer's set-up holds of it.
    fn job(&self) -> Result<Value, RuntimeError> {
        match self {
            Self::Program { job, .. } => Ok(job.clone()),
            Self::Command { events, .. } => serde_json::to_value(AttachedJob { events: *events })
                .map_err(|error| RuntimeError::Failed(error.to_string())),
        }
    }
}

/// Environment variables by role; `None` takes one away.
#[derive(Clone, Debug, Default)]
pub struct Environments {
    /// The consumer's.
    pub consumer: Vec<(String, Option<String>)>,
    /// The producer's.
    pub producer: Vec<(String, Option<String>)>,
    /// The samplers'.
    pub sampler: Vec<(String, Option<String>)>,
}

impl Environments {
    fn of(&self, role: Role) -> &[(String, Option<String>)] {
        match role {
            Role::Consumer => &self.consumer,
            Role::Producer => &self.producer,
            Role::Sampler | Role::Planner => &self.sampler,
            Role::Janitor => &[],
        }
    }

    /// With what puts the GPU's roles under MPS, or keeps them away from it.
    fn divided(mut self, session: Option<&mps::Session>, backend: &Backend) -> Self {
        let Some(cuda) = backend.cuda() else { return self };
        match (session, cuda.partition) {
            (Some(session), Partition::Mps { producer_percentage, consumer_percentage, sampler, .. }) => {
                self.producer.extend(client(session, producer_percentage));
                self.consumer.extend(client(session, consumer_percentage));
                let percentage = sampler.map_or(producer_percentage, |share| share.percentage);
                self.sampler.extend(client(session, percentage));
            }
            _ => {
                self.producer.extend(without_mps());
                self.consumer.extend(without_mps());
                self.sampler.extend(without_mps());
            }
        }
        self
    }
}

/// What makes a process a client of MPS with this share.
fn client(session: &mps::Session, percentage: u32) -> Vec<(String, Option<String>)> {
    let set = session.client_environment(percentage).into_iter().map(|(name, value)| (name, Some(value)));
    let unset = mps::UNSET_IN_CLIENTS.into_iter().map(|name| (name.to_owned(), None));
    set.chain(unset).collect()
}

/// What keeps a process away from MPS.
pub(crate) fn without_mps() -> Vec<(String, Option<String>)> {
    mps::environment_without().into_iter().map(|(name, value)| (name, Some(value))).collect()
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the consumer ended with.
    pub done: Value,
    /// What each role did with its time.
    pub roles: Roles,
    /// What a command of the user's did as consumer; nothing of one of ours, which says more by itself.
    pub tally: Tally,
    /// What each process had of memory as its work ended: the launcher, the janitor and the roles.
    pub memory: Vec<ProcessMemory>,
    /// Seconds from the first process's start to the last one's end.
    pub seconds: f64,
}

/// A launcher at work: from its beginning on signals are heard, and a janitor cleans up behind it if it is killed.
/// Dropping it stops an MPS daemon that it started.
pub struct Launcher {
    // The order of the fields is that of their end.
    mps: Option<Arc<mps::Session>>,
    janitor: Janitor,
    signals: Signals,
    checkpoint: Option<CheckpointDirectory>,
    /// How MPS divides the GPU, where it does.
    wish: Option<MpsWish>,
}

impl Launcher {
    /// Begins, before anything is started that would have to be cleaned up. `checkpoint` is where the consumer writes
    /// checkpoints, if it does.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] when the system gives no process or descriptor.
    pub fn begin(dataset: &Path, checkpoint: Option<CheckpointDirectory>) -> Result<Self, RuntimeError> {
        // Before the first child, so that no signal can end the launcher without its knowledge.
        let signals = Signals::listen().map_err(|error| {
            RuntimeError::Failed(format!("cannot listen for SIGINT and SIGTERM: {error}"))
        })?;
        let janitor = Janitor::start(dataset, checkpoint.as_ref())?;
        Ok(Self { mps: None, janitor, signals, checkpoint, wish: None })
    }

    /// Fulfils the wish for MPS, if there is one, and says on what the run goes on.
    ///
    /// # Errors
    /// [`RuntimeError::Missing`] when MPS is required and cannot be had.
    pub fn divide(
        &mut self,
        decision: Decision,
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
            Err(reason) if wish.required => Err(RuntimeError::Missing(format!(
                "MPS cannot divide the GPU: {reason}; --mps auto goes on without"
            ))),
            Err(reason) => {
                self.mps = None;
                observer.note(&format!("MPS cannot divide the GPU: {reason}"));
                Ok(decision.backend)
            }
        }
    }

    /// The same backend where no sampler works on the GPU after all: its share is the consumer's.
    ///
    /// # Errors
    /// [`RuntimeError::Failed`] when MPS doesn't give that share.
    pub fn without_gpu_sampler(&mut self, backend: &Backend) -> Result<Backend, RuntimeError> {
        let (Backend::Cuda(cuda), Some(wish)) = (backend, self.wish.take()) else {
            return Ok(backend.clone());
        };
        let wish = wish.without_sampler();
        let divided = self.shares(&wish, cuda);
        self.wish = Some(wish);
        divided
            .map(Backend::Cuda)
            .map_err(|reason| RuntimeError::Failed(format!("dividing by MPS: {reason}")))
    }

    fn divide_by_mps(&mut self, wish: &MpsWish, cuda: &CudaBackend) -> Result<CudaBackend, String> {
        let said = |error: mps::MpsError| error.to_string();
        // A daemon that does not answer within this is as good as none; and a run that ends asks it about each client.
        let environment = mps::Environment { timeout: MPS_PATIENCE, ..mps::Environment::of_process() };
        let session = match mps::look(&environment).map_err(said)? {
            mps::Found::Running(running) => mps::Session::Shared(running),
            mps::Found::Prepared(prepared) => {
                // Before there is anything to clean up.
                let word = JanitorWord::Daemon(prepared.leftover().clone());
                self.janitor.tell(&word, &[]).map_err(|error| error.to_string())?;
                let device = mps::Device::Uuid(wish.device.clone());
                mps::Session::Own(prepared.start(Some(&device)).map_err(said)?)
            }
        };
        self.mps = Some(Arc::new(session));
        self.shares(wish, cuda)
    }

    /// The shares that the daemon grants, each seen by a process that has it.
    fn shares(&self, wish: &MpsWish, cuda: &CudaBackend) -> Result<CudaBackend, String> {
        let session = self.mps.as_deref().ok_or("there is no daemon")?;
        // What a process with this share sees: the device's number there, and its multiprocessors.
        let granted = |percentage: u32| -> Result<(usize, u32), String> {
            let probe = Probe::in_child(&client(session, percentage), true);
            let probe = probe.map_err(|error| error.to_string())?;
            if let Some(reason) = probe.cuda.unavailable {
                return Err(format!("under MPS: {reason}"));
            }
            let served = probe.cuda.devices.iter().find(|device| device.uuid == wish.device);
            let Some(device) = served else {
                return Err(
                    "its daemon does not serve this GPU (`uvatrain mps status` tells more)".to_owned()
                );
            };
            if device.mps_enabled {
                Ok((device.ordinal, device.multiprocessors))
            } else {
                Err("the driver does not connect to the daemon, and says nothing of it".to_owned())
            }
        };
        let (ordinal, producer_multiprocessors) = granted(wish.producer_percentage)?;
        let (_, consumer_multiprocessors) = granted(wish.consumer_percentage)?;
        let sampler = match wish.sampler_percentage {
            Some(percentage) => {
                let (_, multiprocessors) = granted(percentage)?;
                Some(SamplerShare { percentage, multiprocessors })
            }
            None => None,
        };
        let partition = Partition::Mps {
            producer_percentage: wish.producer_percentage,
            consumer_percentage: wish.consumer_percentage,
            producer_multiprocessors,
            consumer_multiprocessors,
            sampler,
        };
        Ok(CudaBackend { ordinal, partition, ..cuda.clone() })
    }

    /// Runs it to its end, whatever that is.
    ///
    /// # Errors
    /// As the table above says. No process of the run is left in any case.
    pub fn run(mut self, launch: Launch<'_>, observer: &mut dyn Observer) -> Result<Outcome, RuntimeError> {
        self.run_once(launch, observer)
    }

    /// The same, for a run that another follows.
    ///
    /// # Errors
    /// As [`Launcher::run`].
    pub(crate) fn run_once(
        &mut self,
        launch: Launch<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, RuntimeError> {
        let started = Instant::now();
        let plan = launch.plan;
        let environments = launch.environments.clone().divided(self.mps.as_deref(), &plan.backend);
        let launch = Launch { environments, ..launch };
        let control = Arc::new(Control::create(plan.options.samplers)?);
        let fleet = Fleet::start(&launch, &control, &self.janitor, self.mps.clone())?;
        observer.begun(&fleet.gauges(&control, plan));
        let places = fleet.places();
        let ended = watch::watch(fleet, &control, &mut self.signals, plan, &self.janitor, observer);
        // A role killed while it wrote a checkpoint leaves its temporary file.
        if let (Err(_), Some(directory)) = (&ended, &self.checkpoint) {
            directory.remove_leftovers();
        }
        let done = ended?;
        let (roles, tally) = (control.roles(), control.tally());
        let own = Resident::of_self().map(|resident| ProcessMemory::new("launcher", resident));
        let janitor = self.janitor.resident().map(|resident| ProcessMemory::new("janitor", resident));
        let noted = |(role, place)| Some(ProcessMemory::new(role, control.memory(place)?));
        let memory = own.into_iter().chain(janitor).chain(places.into_iter().filter_map(noted)).collect();
        Ok(Outcome { done, roles, tally, memory, seconds: started.elapsed().as_secs_f64() })
    }
}

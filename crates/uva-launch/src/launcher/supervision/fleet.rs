//! The processes of a run, and the resources of each.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use uva_mem::Signal;
use uva_mem::handover::{Channel, HandoverError};
use uva_mem::ring::Ring;

use super::launch::{Consumer, Launch};
use crate::launcher::command::door::{AttachedProcess, Door};
use crate::launcher::process::child::{Orphaned, Spawn, cannot_start, hand_over};
use crate::launcher::process::janitor::Janitor;
use crate::launcher::process::member::Member;
use crate::launcher::wire::messages::{DescriptorName, JanitorWord, Setup};
use crate::mps;
use uva_runtime::RuntimeError;
use uva_runtime::control::Control;
use uva_runtime::machine::own_program;
use uva_runtime::options::seed_order::MadeOrder;
use uva_runtime::plan::topology::{Placement, Resource, Role, RunStage, Topology};
use uva_runtime::plan::{RingName, RunPlan};
use uva_runtime::telemetry::gauges::{Gauges, RoleProcess, RowBytes};

/// The roles of a run. Dropping it kills and reaps the remaining ones.
pub(crate) struct Fleet {
    /// The consumer first, then the roles rank by rank.
    pub members: Vec<Member>,
    /// The consumers' places, if the first member is a user's command.
    pub door: Option<Door>,
    /// The MPS session, which is requested to release a client before the client is killed.
    mps: Option<Arc<mps::MpsSession>>,
    /// The rings of each rank, in the order in which a batch passes through them. The launcher only reads their states.
    rings: Vec<Vec<(RingName, Ring)>>,
}

/// A rank whose roles are being started. A run without ranks has one.
struct Starting<'a> {
    rank: usize,
    plan: &'a RunPlan,
    control: &'a Control,
    topology: Topology,
    /// The member that runs each process of the topology. All ranks share the command.
    members: Vec<usize>,
}

impl Starting<'_> {
    /// The member that runs this stage, or represents it.
    fn member_of(&self, stage: RunStage) -> usize {
        self.members[self.topology.process_of(stage)]
    }
}

impl Fleet {
    /// Starts the roles, and hands them their shared resources. `controls` has the control page of each plan.
    pub fn start(
        launch: &Launch<'_>,
        controls: &[Arc<Control>],
        janitor: &Janitor,
        mps: Option<Arc<mps::MpsSession>>,
    ) -> Result<Self, RuntimeError> {
        let mut fleet = Self { members: Vec::new(), door: None, mps, rings: Vec::new() };
        for (rank, (plan, control)) in launch.plans.iter().zip(controls).enumerate() {
            fleet.start_rank(launch, (rank, plan, control), janitor)?;
        }
        Ok(fleet)
    }

    fn start_rank(
        &mut self,
        launch: &Launch<'_>,
        (rank, plan, control): (usize, &RunPlan, &Control),
        janitor: &Janitor,
    ) -> Result<(), RuntimeError> {
        let topology = Topology::new(plan, Placement::Processes);
        let names = topology.rings.iter().map(|ring| ring.name);
        let rings =
            names.map(|name| Ok((name, plan.create_ring(name)?))).collect::<Result<_, RuntimeError>>()?;
        self.rings.push(rings);
        let known = self.members.len();
        let mut starting = Starting { rank, plan, control, topology, members: Vec::new() };
        for process in 0..starting.topology.processes {
            match self.serving_all(&starting, process) {
                Some(member) => starting.members.push(member),
                None => {
                    starting.members.push(self.members.len());
                    self.start_process(launch, &starting, process)?;
                }
            }
        }
        let Starting { topology, .. } = &starting;

        // Until the janitor has the roles, only their parent-death signal ends them.
        let started = &self.members[known..];
        let pids: Vec<u32> = started.iter().map(Member::pid).collect();
        let on_gpu = started.iter().filter(|member| member.is_on_gpu).map(Member::pid).collect();
        let pidfds: Vec<_> = started.iter().map(|member| member.process.pidfd.as_fd()).collect();
        janitor.tell(&JanitorWord::Roles { pids, on_gpu }, &pidfds)?;
        drop(pidfds);

        let mut slot_channels = Vec::new();
        if topology.shares_slots_between_processes() {
            let (one, other) = Channel::pair().map_err(|error| cannot_start("producer", error))?;
            slot_channels.extend([one, other]);
        }
        for process in 0..topology.processes {
            let what = topology.resources_of(process);
            // Each end is moved out of this process: only then does a role's death close the channel for the other.
            let channel = what.contains(&Resource::FeatureSlotChannel).then(|| slot_channels.pop()).flatten();
            let fds = what
                .iter()
                .map(|what| self.descriptor(*what, &starting, launch, channel.as_ref()))
                .collect::<Result<Vec<_>, _>>()?;
            let handed =
                what.iter().map(|what| DescriptorName { what: *what, pid: self.pid(*what, &starting) });
            let member = &self.members[starting.members[process]];
            let stages: Vec<RunStage> = topology.stages_of(process).collect();
            let setup = Setup {
                backend: launch.backend_of(plan, &stages).clone(),
                stages,
                serves: if member.rank.is_none() { launch.plans.len() } else { 1 },
                handed: handed.collect(),
                dataset: launch.dataset.to_owned(),
                loader: plan.options.clone(),
                passes: plan.schedule.passes(),
                caches: plan.caches.clone(),
                job: match topology.process_of(RunStage::CONSUMER) {
                    consumer if consumer == process => launch.consumer.job()?,
                    _ => serde_json::Value::Null,
                },
            };
            if let Some(channel) = &member.process.channel {
                match hand_over(channel, &setup, &fds) {
                    // The watch detects a role that died before its set-up, and reports the cause.
                    Ok(()) | Err(HandoverError::Closed) => {}
                    Err(error) => return Err(cannot_start(member.stage.role.name(), error)),
                }
            } else {
                // The process of the command that attaches for this rank receives them.
                let owned = fds.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<_, _>>();
                let owned = owned.map_err(|error| cannot_start("consumer", error))?;
                drop(fds);
                // The path is absolute, since the command may have changed its directory.
                let dataset =
                    std::path::absolute(launch.dataset).unwrap_or_else(|_| launch.dataset.to_owned());
                let setup = Setup { dataset, ..setup };
                if let Some(door) = &mut self.door {
                    door.offer(rank, setup, owned);
                }
            }
        }
        Ok(())
    }

    /// The member that runs this process of a rank's topology for all ranks, and was started for the first one: the
    /// command, and samplers that ranks share.
    fn serving_all(&self, starting: &Starting<'_>, process: usize) -> Option<usize> {
        let Starting { rank, plan, topology, .. } = starting;
        if *rank == 0 {
            return None;
        }
        if process == topology.process_of(RunStage::CONSUMER) {
            return Some(0);
        }
        let stage = topology.stages_of(process).last()?;
        let shared = plan.options.shared_samplers && stage.role == Role::Sampler;
        shared.then(|| self.members.iter().position(|member| member.stage == stage)).flatten()
    }

    /// Starts the process of these stages.
    fn start_process(
        &mut self,
        launch: &Launch<'_>,
        starting: &Starting<'_>,
        process: usize,
    ) -> Result<(), RuntimeError> {
        let stages: Vec<RunStage> = starting.topology.stages_of(process).collect();
        let Some(stage) = stages.last().copied() else { return Ok(()) };
        let backend = launch.backend_of(starting.plan, &stages);
        let on_gpu = stages.iter().any(|stage| stage.role.is_on_gpu(backend));
        let own;
        let program = match &launch.consumer {
            Consumer::Command { command, ranked, .. } if stage == RunStage::CONSUMER => {
                let (member, knocks, secrets) =
                    command.start(&launch.environments, on_gpu, ranked.then_some(launch.plans.len()))?;
                self.members.push(member);
                self.door = Some(Door::new(knocks, secrets, launch.plans.len(), on_gpu));
                return Ok(());
            }
            Consumer::Program { program, .. } if stage == RunStage::CONSUMER => program,
            _ => {
                own = own_program();
                &own
            }
        };
        let process = Spawn {
            program,
            name: stage.role.name(),
            index: (stage.role == Role::Sampler).then_some(stage.index),
            dataset: launch.dataset,
            variables: launch.environments.of(stage.role),
            cores: launch.environments.cores_of(stage.role),
            orphaned: if on_gpu { Orphaned::Asked } else { Orphaned::Killed },
        }
        .start()?;
        let is_on_gpu = on_gpu;
        let shared = starting.plan.options.shared_samplers && stage.role == Role::Sampler;
        let rank = (!shared).then_some(starting.rank);
        let of_rank = match rank.filter(|_| launch.is_ranked()) {
            Some(rank) => format!(" of rank {rank}"),
            None => String::new(),
        };
        self.members.push(Member { stage, rank, of_rank, process, title: None, said_why: false, is_on_gpu });
        Ok(())
    }

    /// The descriptor of a resource.
    fn descriptor<'a>(
        &'a self,
        what: Resource,
        starting: &Starting<'a>,
        launch: &'a Launch<'_>,
        slot_channel: Option<&'a Channel>,
    ) -> Result<BorrowedFd<'a>, RuntimeError> {
        let found = match what {
            Resource::ControlPage => Some(starting.control.fd()),
            Resource::Ring(name) => {
                let rings = &self.rings[starting.rank];
                rings.iter().find(|(known, _)| *known == name).and_then(|(_, ring)| ring.fd())
            }
            Resource::Process(stage) => Some(self.members[starting.member_of(stage)].process.pidfd.as_fd()),
            Resource::FeatureSlotChannel => slot_channel.map(AsFd::as_fd),
            Resource::ReorderedGraph => launch.caches[starting.rank].graph().map(|graph| graph.fd()),
            Resource::CachedRows => launch.caches[starting.rank].rows().map(|rows| rows.fd()),
            Resource::SeedSequences => launch.plans[0].options.made_order.as_ref().and_then(MadeOrder::fd),
        };
        found.ok_or_else(|| RuntimeError::failed(format!("the run has no {what}, which its plan requires")))
    }

    /// The process number of a resource that is a process.
    fn pid(&self, what: Resource, starting: &Starting<'_>) -> Option<u32> {
        match what {
            Resource::Process(stage) => Some(self.members[starting.member_of(stage)].pid()),
            _ => None,
        }
    }

    /// Live counts of a run without ranks, including this process.
    pub fn gauges(&self, control: &Arc<Control>, plan: &RunPlan) -> Gauges {
        let own = RoleProcess { role: "launcher".to_owned(), pid: std::process::id() };
        let roles =
            self.members.iter().map(|member| RoleProcess { role: member.process_name(), pid: member.pid() });
        let processes = std::iter::once(own).chain(roles).collect();
        Gauges::new(Arc::clone(control), self.rings[0].clone(), RowBytes::of(&plan.layout), processes)
    }

    /// The stages that name the processes of a rank, in the order in which a batch passes through them, with their
    /// names.
    pub fn stages(&self, rank: usize) -> Vec<(RunStage, String)> {
        let of_rank = |(place, member): &(usize, &Member)| *place == 0 || member.counted_by() == rank;
        let members = self.members.iter().enumerate().filter(of_rank);
        let mut stages: Vec<_> = members.map(|(_, member)| (member.stage, member.process_name())).collect();
        stages.sort_unstable();
        stages
    }

    /// Whether every role has been reaped, and the attached processes have ended.
    pub fn all_ended(&self) -> bool {
        self.members.iter().all(|member| member.process.ended.is_some()) && self.attached().next().is_none()
    }

    /// Whether every role that works only for this rank has been reaped; with `None`, every role that works for all
    /// ranks.
    pub fn roles_have_ended(&self, rank: Option<usize>) -> bool {
        let roles = &self.members[self.first_role()..];
        roles.iter().filter(|member| member.rank == rank).all(|member| member.process.ended.is_some())
    }

    /// The index of the first member that is not a command.
    fn first_role(&self) -> usize {
        usize::from(self.door.is_some())
    }

    /// The running processes that took a consumer's place.
    pub fn attached(&self) -> impl Iterator<Item = &AttachedProcess> {
        self.door.iter().flat_map(Door::attached).filter(|attached| !attached.ended)
    }

    /// Kills and reaps all processes that still run.
    pub fn end_now(&mut self) {
        self.end_command(Signal::KILL);
        (0..self.rings.len()).for_each(|rank| self.end_roles(Some(rank)));
        self.end_roles(None);
    }

    /// Kills and reaps every running role that works only for this rank; with `None`, every role that works for all
    /// ranks.
    pub fn end_roles(&mut self, rank: Option<usize>) {
        for place in self.first_role()..self.members.len() {
            let member = &mut self.members[place];
            if member.rank != rank {
                continue;
            }
            if member.is_on_gpu && member.process.reap().is_none() {
                let pid = member.pid();
                self.let_go(pid);
            }
            self.members[place].process.end_now();
        }
    }

    /// Sends this signal to the command, if there is one, and to its attached processes. After SIGKILL it waits for
    /// their end. The command's other processes belong to the user.
    pub fn end_command(&mut self, signal: Signal) {
        if self.door.is_none() {
            return;
        }
        let on_gpu = self.attached().filter(|attached| attached.on_gpu);
        let mut clients: Vec<u32> = on_gpu.map(|attached| attached.pidfd.pid()).collect();
        let command = &mut self.members[0];
        let command = (command.is_on_gpu && command.process.reap().is_none()).then(|| command.pid());
        clients.extend(command.filter(|pid| !clients.contains(pid)));
        for pid in clients {
            self.let_go(pid);
        }
        for attached in self.attached() {
            // An error means that it has already ended.
            let _ = attached.pidfd.send_signal(signal);
        }
        let command = &mut self.members[0].process;
        if command.reap().is_none() {
            let _ = command.pidfd.send_signal(signal);
        }
        if signal == Signal::KILL {
            self.members[0].process.end_now();
            let places = self.door.iter_mut().flat_map(|door| &mut door.places);
            for attached in
                places.filter_map(|place| place.attached.as_mut()).filter(|attached| !attached.ended)
            {
                // This process is not a child, so it cannot be reaped. If it does not die of SIGKILL, it waits inside
                // the kernel, and cannot be ended.
                let _ = attached.pidfd.wait_for_end(KILLED);
                attached.ended = true;
            }
        }
    }

    /// Makes MPS release a client before the client is ended. A client that is killed during its work may take the
    /// server and the other client with it; a released client may be killed. If the release fails, only the signal is
    /// left, for the next client too: a server that waits for one client's work also waits for the other's.
    fn let_go(&mut self, pid: u32) {
        if self.mps.as_ref().is_some_and(|mps| mps.terminate_client(pid).is_err()) {
            self.mps = None;
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end_now();
    }
}

/// Maximum time for a process to die of SIGKILL.
const KILLED: Duration = Duration::from_secs(5);

//! The processes of a run, and what each is handed.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use uva_mem::Signal;
use uva_mem::handover::{Channel, HandoverError};
use uva_mem::ring::Ring;

use super::child::{Orphaned, Spawn, cannot_start, hand_over};
use super::door::{AttachedProcess, Door};
use super::janitor::Janitor;
use super::launch::{Consumer, Launch};
use super::member::Member;
use super::messages::{Handed, JanitorWord, Setup};
use crate::mps;
use uva_runtime::RuntimeError;
use uva_runtime::control::Control;
use uva_runtime::gauges::{Gauges, RoleProcess};
use uva_runtime::machine::own_program;
use uva_runtime::plan::{RingName, RunPlan};
use uva_runtime::seed_order::MadeOrder;
use uva_runtime::topology::{Placement, Resource, Role, Stage, Topology};

/// The roles of a run. Dropping it kills and reaps the remaining ones.
pub(crate) struct Fleet {
    /// The consumer first.
    pub members: Vec<Member>,
    /// The consumer's place, where the first member is a command of the user's.
    pub door: Option<Door>,
    /// Asked to release a client before that is killed.
    mps: Option<Arc<mps::Session>>,
    /// In the order in which a batch passes through them. The launcher only looks at their states.
    rings: Vec<(RingName, Ring)>,
}

impl Fleet {
    /// Starts the roles, and hands them their shared resources.
    pub fn start(
        launch: &Launch<'_>,
        control: &Control,
        janitor: &Janitor,
        mps: Option<Arc<mps::Session>>,
    ) -> Result<Self, RuntimeError> {
        let plan = launch.plan;
        let topology = Topology::new(plan, Placement::Processes);
        let names = topology.rings.iter().map(|ring| ring.name);
        let rings =
            names.map(|name| Ok((name, plan.create_ring(name)?))).collect::<Result<_, RuntimeError>>()?;
        let mut fleet = Self { members: Vec::new(), door: None, mps, rings };
        for process in 0..topology.processes {
            fleet.start_process(launch, &topology, process)?;
        }

        // Until the janitor knows the roles, only their parent-death signal ends them.
        let pids: Vec<u32> = fleet.members.iter().map(Member::pid).collect();
        let on_gpu = fleet.members.iter().filter(|member| member.is_on_gpu).map(Member::pid).collect();
        let pidfds: Vec<_> = fleet.members.iter().map(|member| member.process.pidfd.as_fd()).collect();
        janitor.tell(&JanitorWord::Roles { pids, on_gpu }, &pidfds)?;
        drop(pidfds);

        let mut slot_channels = Vec::new();
        if topology.shares_slots_between_processes() {
            let (one, other) = Channel::pair().map_err(|error| cannot_start("producer", error))?;
            slot_channels.extend([one, other]);
        }
        for process in 0..topology.processes {
            let what = topology.resources_of(process);
            // Each end moves out of here: only then does a role's death close the channel for the other.
            let channel = what.contains(&Resource::FeatureSlotChannel).then(|| slot_channels.pop()).flatten();
            let fds = what
                .iter()
                .map(|what| fleet.descriptor(*what, &topology, control, launch, channel.as_ref()))
                .collect::<Result<Vec<_>, _>>()?;
            let handed = what.iter().map(|what| Handed { what: *what, pid: fleet.pid(*what, &topology) });
            let setup = Setup {
                stages: topology.stages_of(process).collect(),
                handed: handed.collect(),
                dataset: launch.dataset.to_owned(),
                loader: plan.options.clone(),
                passes: plan.schedule.passes(),
                backend: plan.backend.clone(),
                caches: plan.caches.clone(),
                job: match topology.process_of(Stage::CONSUMER) {
                    consumer if consumer == process => launch.consumer.job()?,
                    _ => serde_json::Value::Null,
                },
            };
            let member = &fleet.members[process];
            if let Some(channel) = &member.process.channel {
                match hand_over(channel, &setup, &fds) {
                    // The watch finds a role that died before its set-up, and names the cause.
                    Ok(()) | Err(HandoverError::Closed) => {}
                    Err(error) => return Err(cannot_start(member.stage.role.name(), error)),
                }
            } else {
                // The process of the command that attaches gets them.
                let owned = fds.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<_, _>>();
                let owned = owned.map_err(|error| cannot_start("consumer", error))?;
                drop(fds);
                if let Some(door) = &mut fleet.door {
                    door.offer(setup, owned);
                }
            }
        }
        Ok(fleet)
    }

    /// Starts the process of these stages.
    fn start_process(
        &mut self,
        launch: &Launch<'_>,
        topology: &Topology,
        process: usize,
    ) -> Result<(), RuntimeError> {
        let stages: Vec<Stage> = topology.stages_of(process).collect();
        let Some(stage) = stages.last().copied() else { return Ok(()) };
        let on_gpu = stages.iter().any(|stage| stage.role.is_on_gpu(&launch.plan.backend));
        let own;
        let program = match &launch.consumer {
            Consumer::Command { command, .. } if stage == Stage::CONSUMER => {
                let (member, knocks) = command.start(&launch.environments, on_gpu)?;
                self.members.push(member);
                self.door = Some(Door::new(knocks, on_gpu));
                return Ok(());
            }
            Consumer::Program { program, .. } if stage == Stage::CONSUMER => program,
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
            orphaned: if on_gpu { Orphaned::Asked } else { Orphaned::Killed },
        }
        .start()?;
        let is_on_gpu = on_gpu;
        self.members.push(Member { stage, process, title: None, said_why: false, is_on_gpu });
        Ok(())
    }

    /// The descriptor of this resource.
    fn descriptor<'a>(
        &'a self,
        what: Resource,
        topology: &Topology,
        control: &'a Control,
        launch: &'a Launch<'_>,
        slot_channel: Option<&'a Channel>,
    ) -> Result<BorrowedFd<'a>, RuntimeError> {
        let found = match what {
            Resource::ControlPage => Some(control.fd()),
            Resource::Ring(name) => {
                self.rings.iter().find(|(known, _)| *known == name).and_then(|(_, ring)| ring.fd())
            }
            Resource::Process(stage) => Some(self.members[topology.process_of(stage)].process.pidfd.as_fd()),
            Resource::FeatureSlotChannel => slot_channel.map(AsFd::as_fd),
            Resource::ReorderedGraph => launch.caches.graph().map(|graph| graph.fd()),
            Resource::CachedRows => launch.caches.rows().map(|rows| rows.fd()),
            Resource::SeedSequences => launch.plan.options.made_order.as_ref().and_then(MadeOrder::fd),
        };
        found.ok_or_else(|| RuntimeError::Failed(format!("the run has no {what}, which its plan needs")))
    }

    /// The number of a process that is a resource.
    fn pid(&self, what: Resource, topology: &Topology) -> Option<u32> {
        match what {
            Resource::Process(stage) => Some(self.members[topology.process_of(stage)].pid()),
            _ => None,
        }
    }

    /// Live counts of the run; this process is among its processes.
    pub fn gauges(&self, control: &Arc<Control>, plan: &RunPlan) -> Gauges {
        let own = RoleProcess { role: "launcher".to_owned(), pid: std::process::id() };
        let roles =
            self.members.iter().map(|member| RoleProcess { role: member.process_name(), pid: member.pid() });
        let processes = std::iter::once(own).chain(roles).collect();
        Gauges::new(Arc::clone(control), self.rings.clone(), plan.layout.table_row_bytes(), processes)
    }

    /// The stages that name the processes, in the order in which a batch passes through them, and those names.
    pub fn stages(&self) -> Vec<(Stage, String)> {
        let mut stages: Vec<_> =
            self.members.iter().map(|member| (member.stage, member.process_name())).collect();
        stages.sort_unstable();
        stages
    }

    /// Whether every role has been reaped, and the attached process has ended.
    pub fn all_ended(&self) -> bool {
        self.members.iter().all(|member| member.process.ended.is_some()) && self.attached().is_none()
    }

    /// Whether every role of ours has been reaped.
    pub fn roles_have_ended(&self) -> bool {
        self.members[usize::from(self.door.is_some())..].iter().all(|member| member.process.ended.is_some())
    }

    /// The process that took up the consumer's place, while it runs.
    pub fn attached(&self) -> Option<&AttachedProcess> {
        self.door.as_ref()?.attached.as_ref().filter(|attached| !attached.ended)
    }

    /// Kills and reaps all processes that still run.
    pub fn end_now(&mut self) {
        self.end_command(Signal::KILL);
        self.end_roles();
    }

    /// Kills and reaps every role of ours that still runs.
    pub fn end_roles(&mut self) {
        let first = usize::from(self.door.is_some());
        for place in first..self.members.len() {
            let member = &mut self.members[place];
            if member.is_on_gpu && member.process.reap().is_none() {
                let pid = member.pid();
                self.let_go(pid);
            }
            self.members[place].process.end_now();
        }
    }

    /// Ends the command, where there is one, and its attached process, by this signal. After SIGKILL it waits for their
    /// end. The command's other processes are the user's.
    pub fn end_command(&mut self, signal: Signal) {
        if self.door.is_none() {
            return;
        }
        let attached =
            self.attached().filter(|attached| attached.on_gpu).map(|attached| attached.pidfd.pid());
        let command = &mut self.members[0];
        let command = (command.is_on_gpu && command.process.reap().is_none()).then(|| command.pid());
        for pid in attached.into_iter().chain(command.filter(|pid| Some(*pid) != attached)) {
            self.let_go(pid);
        }
        if let Some(attached) = self.attached() {
            // An error means that it has ended already, as intended.
            let _ = attached.pidfd.send_signal(signal);
        }
        let command = &mut self.members[0].process;
        if command.reap().is_none() {
            let _ = command.pidfd.send_signal(signal);
        }
        if signal == Signal::KILL {
            self.members[0].process.end_now();
            if let Some(attached) = self.attached() {
                // Not ours to reap. If it does not die of this it waits inside the kernel, and nothing helps.
                let _ = attached.pidfd.wait_for_end(KILLED);
            }
            if let Some(attached) = self.door.as_mut().and_then(|door| door.attached.as_mut()) {
                attached.ended = true;
            }
        }
    }

    /// Makes MPS release a client before the client is ended. A client that is killed during its work may take the
    /// server and the other client with it; a released client may be killed. Where the release fails only the signal is
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

/// How long a process may take to die of SIGKILL.
const KILLED: Duration = Duration::from_secs(5);

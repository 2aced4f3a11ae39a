//! The processes of a run, and what each is handed.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use uva_mem::handover::{Channel, HandoverError};
use uva_mem::ring::Ring;
use uva_mem::{FrozenBytes, PidFd, Signal};

use super::door::{AttachedProcess, Door};
use super::janitor::Janitor;
use super::launch::{Consumer, Launch};
use super::member::{Member, cannot_start, hand_over, start_process};
use super::messages::{JanitorWord, Role, Setup};
use crate::control::{Control, FIRST_SAMPLER};
use crate::gauges::{Gauges, RoleProcess};
use crate::own_program::own_program;
use crate::plan::RunPlan;
use crate::{RuntimeError, mps};

/// The roles of a run. Dropping it kills and reaps what is left of them.
pub(crate) struct Fleet {
    /// The consumer first.
    pub members: Vec<Member>,
    /// The consumer's place, where the first member is a command of the user's.
    pub door: Option<Door>,
    /// Told before a client of it is killed.
    mps: Option<Arc<mps::Session>>,
    /// Of batch slots and of feature slots. The launcher only looks at their states.
    rings: (Ring, Ring),
}

impl Fleet {
    /// Starts the roles, and hands them what they share.
    pub fn start(
        launch: &Launch<'_>,
        control: &Control,
        janitor: &Janitor,
        mps: Option<Arc<mps::Session>>,
    ) -> Result<Self, RuntimeError> {
        let plan = launch.plan;
        let batch_ring = plan.create_batch_ring()?;
        let feature_ring = plan.create_feature_ring()?;
        let rings = (batch_ring.clone(), feature_ring.clone());
        let mut fleet = Self { members: Vec::new(), door: None, mps, rings };
        let backend = &plan.backend;
        let own = own_program();
        let start = |program: &Path, role: Role, index| {
            let on_gpu = role.is_on_gpu(backend);
            start_process(program, role, index, launch.dataset, &launch.environments, on_gpu)
        };
        match &launch.consumer {
            Consumer::Program { program, .. } => fleet.members.push(start(program, Role::Consumer, 0)?),
            Consumer::Command { command, .. } => {
                let on_gpu = Role::Consumer.is_on_gpu(backend);
                let (member, knocks) = command.start(&launch.environments, on_gpu)?;
                fleet.members.push(member);
                fleet.door = Some(Door::new(knocks, on_gpu));
            }
        }
        if !plan.backend.in_one_process() {
            fleet.members.push(start(&own, Role::Producer, 0)?);
        }
        let (consumer, producer) = (0, fleet.members.len() - 1);
        let first_sampler = fleet.members.len();
        let samplers = if backend.samples_in_one_process() { 0 } else { plan.options.samplers };
        for index in 0..samplers {
            fleet.members.push(start(&own, Role::Sampler, index)?);
        }

        // Until the janitor knows the roles, their parent-death signal alone sees to them.
        let pids: Vec<u32> = fleet.members.iter().map(|member| member.pidfd.pid()).collect();
        let on_gpu = fleet.members.iter().filter(|member| member.role.is_on_gpu(backend));
        let gpu_pids = on_gpu.map(|member| member.pidfd.pid()).collect();
        let pidfds: Vec<_> = fleet.members.iter().map(|member| member.pidfd.as_fd()).collect();
        janitor.tell(&JanitorWord::Roles { pids, on_gpu: gpu_pids }, &pidfds)?;
        drop(pidfds);

        let mut links = match plan.backend.device_slots() {
            Some(_) if consumer != producer => {
                let (one, other) = Channel::pair().map_err(|error| cannot_start("producer", error))?;
                vec![one, other]
            }
            _ => Vec::new(),
        };
        for (place, member) in fleet.members.iter().enumerate() {
            let samplers = &fleet.members[first_sampler..];
            let (rings, peers): (&[&Ring], Vec<&Member>) = match member.role {
                Role::Sampler => (&[&batch_ring], vec![&fleet.members[producer]]),
                Role::Producer => (
                    &[&batch_ring, &feature_ring],
                    std::iter::once(&fleet.members[consumer]).chain(samplers).collect(),
                ),
                _ if place == producer => (&[&batch_ring], samplers.iter().collect()),
                Role::Consumer | Role::Planner | Role::Janitor => {
                    (&[&feature_ring], vec![&fleet.members[producer]])
                }
            };
            let peers: Vec<&PidFd> = peers.into_iter().map(|peer| &peer.pidfd).collect();
            // Each end moves out of here: only then does a role's death close the channel for the other.
            let link = if member.role == Role::Sampler { None } else { links.pop() };
            let setup = Setup {
                index: member.index,
                peers: peers.iter().map(|peer| peer.pid()).collect(),
                dataset: launch.dataset.to_owned(),
                loader: plan.options.clone(),
                passes: plan.schedule.passes(),
                backend: plan.backend.clone(),
                caches: plan.caches.clone(),
                job: if place == consumer { launch.consumer.job()? } else { serde_json::Value::Null },
            };
            let mut fds = vec![control.fd()];
            fds.extend(rings.iter().map(|ring| ring.fd()));
            fds.extend(peers.iter().map(|peer| peer.as_fd()));
            fds.extend(link.as_ref().map(AsFd::as_fd));
            match member.role {
                Role::Sampler => fds.extend(launch.caches.graph().map(|graph| graph.fd())),
                _ if place == producer => {
                    fds.extend(launch.caches.rows().map(FrozenBytes::fd));
                    if backend.samples_in_one_process() {
                        fds.extend(launch.caches.graph().map(|graph| graph.fd()));
                    }
                }
                _ => {}
            }
            if let Some(door) = fleet.door.as_mut().filter(|_| place == consumer) {
                // Whoever attaches gets them; nobody knows yet who that is.
                let owned = fds.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<_, _>>();
                door.offer(setup, owned.map_err(|error| cannot_start("consumer", error))?);
            } else if let Some(channel) = &member.channel {
                match hand_over(channel, &setup, &fds) {
                    // A role that died before it could be told is found by the watch, which names its cause.
                    Ok(()) | Err(HandoverError::Closed) => {}
                    Err(error) => return Err(cannot_start(member.role.name(), error)),
                }
            }
        }
        Ok(fleet)
    }

    /// A look into the run, this process among those that it knows.
    pub fn gauges(&self, control: &Arc<Control>, plan: &RunPlan) -> Gauges {
        let own = RoleProcess { role: "launcher".to_owned(), pid: std::process::id() };
        let roles = self
            .members
            .iter()
            .map(|member| RoleProcess { role: member.process_name(), pid: member.pidfd.pid() });
        let processes = std::iter::once(own).chain(roles).collect();
        Gauges::new(Arc::clone(control), self.rings.clone(), plan.layout.table_row_bytes(), processes)
    }

    /// The roles that have a process, in the order of the data's way, each with its place in the control page.
    pub fn places(&self) -> Vec<(String, usize)> {
        let mut members: Vec<&Member> = self.members.iter().collect();
        // The consumer was started first, and the producer behind it.
        members.sort_by_key(|member| (std::cmp::Reverse(member.place().min(FIRST_SAMPLER)), member.index));
        members.into_iter().map(|member| (member.process_name(), member.place())).collect()
    }

    /// Whether every role has been reaped, and whoever attached has ended.
    pub fn all_ended(&self) -> bool {
        self.members.iter().all(|member| member.ended.is_some()) && self.attached().is_none()
    }

    /// Whether every role of ours has been reaped.
    pub fn roles_have_ended(&self) -> bool {
        self.members[usize::from(self.door.is_some())..].iter().all(|member| member.ended.is_some())
    }

    /// The process that took up the consumer's place, while it runs.
    pub fn attached(&self) -> Option<&AttachedProcess> {
        self.door.as_ref()?.attached.as_ref().filter(|attached| !attached.ended)
    }

    /// Kills whoever still runs, and reaps it.
    pub fn end_now(&mut self) {
        self.end_command(Signal::KILL);
        self.end_roles();
    }

    /// Kills every role of ours that still runs, and reaps it.
    pub fn end_roles(&mut self) {
        let first = usize::from(self.door.is_some());
        for place in first..self.members.len() {
            let member = &mut self.members[place];
            if member.is_on_gpu && member.reap().is_none() {
                let pid = member.pidfd.pid();
                self.let_go(pid);
            }
            self.members[place].end_now();
        }
    }

    /// Ends the command, where there is one, and the process of it that attached, by this signal; waits for their end
    /// where it is one that nobody survives. Its other processes are the user's.
    pub fn end_command(&mut self, signal: Signal) {
        if self.door.is_none() {
            return;
        }
        let attached =
            self.attached().filter(|attached| attached.on_gpu).map(|attached| attached.pidfd.pid());
        let command = &mut self.members[0];
        let command = (command.is_on_gpu && command.reap().is_none()).then(|| command.pidfd.pid());
        for pid in attached.into_iter().chain(command.filter(|pid| Some(*pid) != attached)) {
            self.let_go(pid);
        }
        if let Some(attached) = self.attached() {
            // Ended meanwhile is what is wanted.
            let _ = attached.pidfd.send_signal(signal);
        }
        let command = &mut self.members[0];
        if command.reap().is_none() {
            let _ = command.pidfd.send_signal(signal);
        }
        if signal == Signal::KILL {
            self.members[0].end_now();
            if let Some(attached) = self.attached() {
                // Not ours to reap. One that does not die of this waits inside the system, and nothing helps.
                let _ = attached.pidfd.wait_for_end(KILLED);
            }
            if let Some(attached) = self.door.as_mut().and_then(|door| door.attached.as_mut()) {
                attached.ended = true;
            }
        }
    }

    /// Lets a client of MPS go before it is ended. One that is killed over its work may take the server with it, and
    /// the other client; one that the server has let go of may be. Where that fails the signal is what is left, for the
    /// next one too: a server that waits for the one's work does so for the other's.
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

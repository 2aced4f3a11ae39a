//! The ranks of a command: their number, their GPUs, and their samplers (GNNLab, Yang et al., EuroSys 2022, section 5:
//! some GPUs sample, and the others train).

use uva_cuda::DeviceReport;
use uva_runtime::RuntimeError;
use uva_runtime::backend::{
    self, Backend, BackendDecision, BackendOptions, CudaBackend, DeviceChoice, GatherChoice, MpsChoice,
    PartitionChoice, Probe, SamplerChoice,
};
use uva_runtime::options::part::Standby;

use crate::launcher::without_mps;
use crate::places::{GpuList, MAX_RANKS, OrAuto, SharedSamplers};

/// The requested ranks of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankRequest {
    /// Number of processes of the command that divide each epoch. With `None`, `devices` or `roles` determine it;
    /// otherwise one process takes all batches.
    pub ranks: Option<u32>,
    /// The number of samplers that all ranks share, and the number of ranks.
    pub roles: Option<SharedSamplers>,
    /// The GPUs of ranks other than standby ranks, in their order. `auto` takes the first GPUs that do not sample.
    pub devices: Option<OrAuto<GpuList>>,
    /// GPUs that sample for all ranks, and only sample without `switch`.
    pub sampler_devices: Option<GpuList>,
    /// The batch of each epoch at which standby ranks join, one for each shared sampler; `None` without standby ranks.
    pub switch: Option<u32>,
    /// Bytes for cached rows on the GPU of each standby rank.
    pub standby_cache: u64,
}

impl RankRequest {
    /// The number of ranks in the options, if given, including standby ranks.
    pub fn named_count(&self) -> Option<u32> {
        self.named_trainers().map(|trainers| trainers + self.standby().ranks)
    }

    /// The number of ranks in the options, without standby ranks.
    fn named_trainers(&self) -> Option<u32> {
        let listed = match &self.devices {
            Some(OrAuto::Named(gpus)) => Some(gpus.0.len() as u32),
            _ => None,
        };
        self.ranks.or(self.roles.map(|roles| roles.ranks)).or(listed)
    }

    /// The standby ranks, one for each shared sampler.
    pub fn standby(&self) -> Standby {
        let Some(from) = self.switch else { return Standby::default() };
        let on_gpus = self.sampler_devices.as_ref().map(|gpus| gpus.0.len() as u32);
        Standby { ranks: self.roles.map(|roles| roles.samplers).or(on_gpus).unwrap_or(0), from }
    }

    /// Whether all ranks share samplers, so that samplers per rank are meaningless.
    pub fn share_samplers(&self) -> bool {
        self.sampler_option().is_some()
    }

    /// The option by which all ranks share samplers; `None` if they do not.
    pub fn sampler_option(&self) -> Option<&'static str> {
        let of_devices = self.sampler_devices.as_ref().map(|_| "sampler_devices");
        self.roles.map(|_| "roles").or(of_devices)
    }

    /// Whether GPUs are given or must be found.
    pub fn ask_for_gpus(&self) -> bool {
        self.devices.is_some() || self.sampler_devices.is_some()
    }

    /// Checks the options, independently of the machine.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] for options that contradict each other.
    pub fn check(&self, backend: &BackendOptions) -> Result<(), RuntimeError> {
        let refused = |message: String| Err(RuntimeError::usage(message));
        if let Some(batch) = self.switch
            && !self.share_samplers()
        {
            return refused(format!(
                "`switch={batch}` requires GPUs that sample for all ranks: give `roles=S:T` or `sampler_devices`"
            ));
        }
        if let Some(ranks) = self.named_count()
            && ranks > MAX_RANKS
        {
            let more = if self.switch.is_some() { " (`switch` adds one for each sampler)" } else { "" };
            return refused(format!("{ranks} ranks{more}: a run has at most {MAX_RANKS}"));
        }
        if let Some(roles) = self.roles
            && self.ask_for_gpus()
        {
            return refused(format!(
                "`roles={roles}` uses the first GPUs, and is not supported with `devices` or `sampler_devices`"
            ));
        }
        if let (Some(roles), DeviceChoice::Cuda(_)) = (self.roles, backend.device) {
            return refused(format!(
                "`roles={roles}` uses the first GPUs, and is not supported with `device={}`; to choose the GPUs, give \
                 `sampler_devices` and `devices`",
                backend.device
            ));
        }
        if let (Some(ranks), Some(roles)) = (self.ranks, self.roles)
            && ranks != roles.ranks
        {
            return refused(format!(
                "`roles={roles}` has {} ranks, which contradicts `ranks={ranks}`: omit `ranks`",
                roles.ranks
            ));
        }
        if let (Some(ranks), Some(OrAuto::Named(gpus))) = (self.ranks, &self.devices)
            && ranks as usize != gpus.0.len()
        {
            return refused(format!(
                "`devices={gpus}` has a GPU for each of {} ranks, which contradicts `ranks={ranks}`: omit `ranks`",
                gpus.0.len()
            ));
        }
        if let (Some(samplers), Some(OrAuto::Named(ranks))) = (&self.sampler_devices, &self.devices)
            && let Some(both) = samplers.0.iter().find(|gpu| ranks.0.contains(gpu))
        {
            return refused(format!(
                "cuda:{both} is in `sampler_devices` and in `devices`: a GPU either samples or trains"
            ));
        }
        if !self.ask_for_gpus() {
            return Ok(());
        }
        if self.named_trainers().is_none() {
            return refused(
                "`devices=auto` uses the first GPUs that do not sample, and requires their number: give `ranks=N`, or list the \
                 GPUs in `devices`"
                    .to_owned(),
            );
        }
        if backend.device != DeviceChoice::Auto {
            return refused(format!(
                "`device={}` is not supported with `devices`, which lists the devices of all ranks: omit `device`",
                backend.device
            ));
        }
        refuse_mps(backend)
    }

    /// Assigns the ranks to this machine. `probe` examines it, and is called only if a GPU may be used.
    ///
    /// # Errors
    /// [`RuntimeError::Usage`] for GPUs that differ, [`RuntimeError::Missing`] for more GPUs than there are, and as
    /// [`backend::decide`].
    pub fn place(
        &self,
        backend: &BackendOptions,
        probe: impl Fn() -> Result<Probe, RuntimeError>,
    ) -> Result<Ranks, RuntimeError> {
        self.check(backend)?;
        let roles_on_gpus = self.roles.is_some() && backend.device != DeviceChoice::Cpu;
        if !self.ask_for_gpus() && !roles_on_gpus {
            return self.in_host_memory(backend, probe);
        }
        let probed = probe()?;
        let seen = probed.cuda.devices.len();
        if roles_on_gpus && seen == 0 && backend.device == DeviceChoice::Auto {
            let on_cpu = BackendOptions { device: DeviceChoice::Cpu, ..backend.clone() };
            return self.in_host_memory(&on_cpu, probe);
        }
        refuse_mps(backend)?;
        let samplers = match (self.roles, &self.sampler_devices) {
            (Some(roles), _) => (0..roles.samplers as usize).collect(),
            (None, Some(gpus)) => gpus.0.clone(),
            (None, None) => Vec::new(),
        };
        let others = || (0..seen).filter(|gpu| !samplers.contains(gpu));
        let wanted = self.named_trainers().unwrap_or(1) as usize;
        let mut of_ranks: Vec<usize> = match (self.roles, &self.devices) {
            (Some(roles), _) => {
                let first = roles.samplers as usize;
                (first..first + roles.ranks as usize).collect()
            }
            (None, Some(OrAuto::Named(gpus))) => gpus.0.clone(),
            (None, _) => others().take(wanted).collect(),
        };
        self.check_seen(&probed, (&samplers, &of_ranks), wanted)?;
        let decide = |gpu: usize, options: BackendOptions| {
            let options = BackendOptions { device: DeviceChoice::Cuda(gpu as u32), ..options };
            backend::decide(&options, false, || Ok(probed.clone()))
        };
        // The MPS daemon of a run serves one GPU, so the producers are threads of the ranks' processes.
        let trains = BackendOptions { mps: MpsChoice::Off, ..backend.clone() };
        let trains = match samplers.is_empty() {
            true => trains,
            false => BackendOptions { sampler: SamplerChoice::Cpu, ..trains },
        };
        let standby = self.standby();
        if standby.ranks > 0 {
            of_ranks.extend(&samplers);
        }
        let decision = decide(of_ranks[0], trains.clone())?;
        for gpu in &of_ranks[1..] {
            decide(*gpu, trains.clone())?;
            check_equal(&probed.cuda.devices, of_ranks[0], *gpu)?;
        }
        let mut sampler_backends = Vec::new();
        for gpu in &samplers {
            let samples = BackendOptions {
                sampler: SamplerChoice::Gpu,
                partition: PartitionChoice::None,
                // It gathers no rows, so a cache on it holds only lists.
                gather: GatherChoice::Device,
                ..trains.clone()
            };
            sampler_backends.push(decide(*gpu, samples)?.backend);
        }
        Ok(Ranks {
            count: Some(of_ranks.len() as u32),
            shared_samplers: (!samplers.is_empty()).then_some(samplers.len()),
            standby,
            standby_cache: self.standby_cache,
            decision,
            devices: of_ranks,
            sampler_backends,
        })
    }

    /// Rejects more GPUs than the driver reports.
    fn check_seen(
        &self,
        probed: &Probe,
        (samplers, of_ranks): (&[usize], &[usize]),
        wanted: usize,
    ) -> Result<(), RuntimeError> {
        let seen = probed.cuda.devices.len();
        let are_there = of_ranks.iter().chain(samplers).all(|gpu| *gpu < seen);
        if are_there && of_ranks.len() == wanted {
            return Ok(());
        }
        let (asked, instead) = match self.roles {
            Some(roles) => {
                let all = roles.samplers + roles.ranks;
                (format!("`roles={roles}` requires {all} GPUs"), format!("`roles={roles}` `device=cpu`"))
            }
            None => {
                let named = GpuList(samplers.iter().chain(of_ranks).copied().collect());
                let asked = match are_there {
                    false => format!("the run requires {named}"),
                    true if samplers.is_empty() => format!("the run requires {wanted} GPUs"),
                    true => {
                        format!(
                            "the run requires {wanted} GPUs in addition to {}",
                            GpuList(samplers.to_vec())
                        )
                    }
                };
                (asked, format!("`ranks={wanted}` `device=cpu`"))
            }
        };
        let cause = probed.cuda.unavailable.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
        Err(RuntimeError::missing(format!(
            "{asked}, but the driver sees {seen}{cause}; use {instead} to run without GPUs"
        )))
    }

    /// Ranks with batches in host memory, or the one process on the one GPU of its options.
    fn in_host_memory(
        &self,
        backend: &BackendOptions,
        probe: impl Fn() -> Result<Probe, RuntimeError>,
    ) -> Result<Ranks, RuntimeError> {
        let count = self.named_count();
        let decision = backend::decide(backend, false, probe)?;
        if let (Some(ranks @ 2..), Some(cuda)) = (count, decision.backend.cuda()) {
            return Err(RuntimeError::usage(format!(
                "`ranks={ranks}` requires a GPU for each rank, but `device={}` uses only cuda:{}: list one GPU per rank in \
                 `devices`, or use `device=cpu` for batches in host memory",
                backend.device, cuda.ordinal
            )));
        }
        let shared_samplers = self.roles.map(|roles| roles.samplers as usize);
        Ok(Ranks {
            count,
            shared_samplers,
            standby: self.standby(),
            standby_cache: self.standby_cache,
            decision,
            devices: Vec::new(),
            sampler_backends: Vec::new(),
        })
    }

    /// Assigns the ranks to this machine with its driver's report.
    pub(crate) fn place_here(&self, backend: &BackendOptions) -> Result<Ranks, RuntimeError> {
        // The command trains, so it does not matter whether this build's libtorch can use the GPU.
        self.place(backend, || Probe::in_child(&without_mps(), true))
    }
}

/// The number of GPUs that this machine's driver reports.
///
/// # Errors
/// As [`Probe::in_child`].
pub fn gpus_here() -> Result<usize, RuntimeError> {
    Ok(Probe::in_child(&without_mps(), true)?.cuda.devices.len())
}

/// Rejects MPS if each rank has a GPU.
fn refuse_mps(backend: &BackendOptions) -> Result<(), RuntimeError> {
    let named = match (backend.mps, backend.partition) {
        (MpsChoice::Require, _) => "mps=require",
        (_, PartitionChoice::Mps) => "partition=mps",
        _ => return Ok(()),
    };
    Err(RuntimeError::usage(format!(
        "`{named}` is not supported with a GPU for each rank: the producer is a thread of the rank's process, so that MPS has \
         no processes to divide the GPU between"
    )))
}

/// Rejects ranks on different kinds of GPUs: a measurement on one determines choices for all, and all take the same
/// steps.
fn check_equal(devices: &[DeviceReport], one: usize, other: usize) -> Result<(), RuntimeError> {
    let (one, other) = (&devices[one], &devices[other]);
    // The properties that determine the division of a GPU.
    let of = |gpu: &DeviceReport| (gpu.capability, gpu.multiprocessors);
    if of(one) == of(other) {
        return Ok(());
    }
    let shown = |gpu: &DeviceReport| {
        format!("cuda:{} ({}, {} multiprocessors)", gpu.ordinal, gpu.name, gpu.multiprocessors)
    };
    Err(RuntimeError::usage(format!(
        "{} and {} differ, but all ranks require GPUs of one kind: list such GPUs in `devices`",
        shown(one),
        shown(other)
    )))
}

/// The ranks of a command, with their places on this machine.
#[derive(Clone, Debug)]
pub struct Ranks {
    /// Number of ranks; `None` if one process takes all batches and is not a rank.
    pub count: Option<u32>,
    /// Number of samplers that all ranks share; `None` if each has its own samplers.
    pub shared_samplers: Option<usize>,
    /// The standby ranks, each on the GPU of a shared sampler. They are the last ranks.
    pub standby: Standby,
    /// Bytes for cached rows on the GPU of each standby rank.
    pub standby_cache: u64,
    /// The backend of the first rank. The other ranks have the same on their own GPUs.
    pub decision: BackendDecision,
    /// The GPU of each rank; empty if batches are in host memory.
    pub devices: Vec<usize>,
    /// The backend of each shared sampler; empty for the CPU.
    pub sampler_backends: Vec<Backend>,
}

impl Ranks {
    /// The backend of this rank, given that of the first rank.
    pub(crate) fn backend_of(&self, rank: usize, first: &Backend) -> Backend {
        match (first, self.devices.get(rank)) {
            (Backend::Cuda(cuda), Some(gpu)) => Backend::Cuda(CudaBackend { ordinal: *gpu, ..cuda.clone() }),
            _ => first.clone(),
        }
    }

    /// The standby ranks and their end, for people.
    pub(crate) fn note_of_standby(&self) -> Option<String> {
        let Standby { ranks, from } = self.standby;
        let (count, first) = (self.count?, self.count? - ranks);
        match ranks {
            0 => None,
            1 => Some(format!(
                "rank {first} is a standby rank, and joins the others at batch {from} of each epoch"
            )),
            _ => Some(format!(
                "ranks {first} to {} are standby ranks, and join the others at batch {from} of each epoch",
                count - 1
            )),
        }
    }

    /// The GPUs that sample for all ranks.
    pub(crate) fn sampler_devices(&self) -> Vec<usize> {
        self.sampler_backends.iter().filter_map(Backend::cuda).map(|cuda| cuda.ordinal).collect()
    }
}

#[cfg(test)]
mod tests {
    use uva_cuda::{ProbeReport, Supports};

    use super::*;

    /// A machine whose GPUs have these numbers of multiprocessors.
    fn machine(multiprocessors: &[u32]) -> Probe {
        let device = |(ordinal, multiprocessors): (usize, &u32)| DeviceReport {
            ordinal,
            name: format!("GPU {ordinal}"),
            capability: (9, 0),
            multiprocessors: *multiprocessors,
            total_memory: 1 << 37,
            pci_bus_id: format!("0000:0{ordinal}:00.0"),
            uuid: format!("GPU-{ordinal}"),
            mps_enabled: false,
            supports: Supports {
                shared_by_fd: true,
                shared_by_handle: true,
                interprocess_events: true,
                host_register: true,
                read_only_host_register: true,
                green_contexts: true,
            },
        };
        let cuda = ProbeReport {
            driver: Some("13.0".into()),
            simulator: false,
            devices: multiprocessors.iter().enumerate().map(device).collect(),
            unavailable: None,
        };
        Probe { cuda, nvrtc: None, torch: None }
    }

    fn placed(asked: &RankRequest, multiprocessors: &[u32]) -> Result<Ranks, RuntimeError> {
        asked.place(&BackendOptions::default(), || Ok(machine(multiprocessors)))
    }

    #[test]
    fn the_first_gpus_sample_and_the_next_ones_train() {
        let asked = RankRequest { roles: "1:2".parse().ok(), ..RankRequest::default() };
        let ranks = placed(&asked, &[132; 4]).unwrap();
        assert_eq!((ranks.count, ranks.shared_samplers), (Some(2), Some(1)));
        assert_eq!((&ranks.devices[..], &ranks.sampler_devices()[..]), (&[1, 2][..], &[0][..]));
        let first = &ranks.decision.backend;
        assert_eq!(ranks.backend_of(1, first).cuda().unwrap().ordinal, 2);
        assert!(first.gpu_sampler().is_none() && ranks.sampler_backends[0].gpu_sampler().is_some());
        // Without a GPU the ranks are processes.
        let ranks = placed(&asked, &[]).unwrap();
        assert_eq!((ranks.count, ranks.shared_samplers), (Some(2), Some(1)));
        assert!(ranks.devices.is_empty() && ranks.sampler_backends.is_empty());
        assert_eq!(placed(&asked, &[132; 2]).unwrap_err().exit_code(), 3);
    }

    #[test]
    fn gpus_of_ranks_are_of_one_kind_and_those_that_sample_may_differ() {
        let asked = |devices: &str, samplers: &str| RankRequest {
            devices: devices.parse().ok(),
            sampler_devices: samplers.parse().ok(),
            ..RankRequest::default()
        };
        let refused = placed(&asked("cuda:0-1", "none"), &[132, 114]).unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        assert!(refused.to_string().contains("114 multiprocessors"), "{refused}");
        placed(&asked("cuda:1-2", "cuda:0"), &[28, 132, 132]).unwrap();
    }
}

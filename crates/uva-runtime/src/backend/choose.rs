//! The decision, from options and a probe, where the run gathers and trains.

use uva_cuda::DeviceReport;
use uva_cuda::partition::{ShareSteps, Shares};

use super::asked::{
    BackendOptions, DeviceChoice, GatherChoice, GpuShare, MpsChoice, PartitionChoice, SamplerChoice,
};
use super::chosen::TransferChoice;
use super::granted::{Backend, CudaBackend, Partition};
use super::probe::Probe;
use crate::RuntimeError;
use uva_options::OptionError;

/// A backend, with the choices that may still change it.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendDecision {
    /// Where the run gathers and trains; if MPS is requested, the fallback without it.
    pub backend: Backend,
    /// The request to divide the GPU by MPS.
    pub mps: Option<MpsRequest>,
    /// Notes for people.
    pub notes: Vec<String>,
    /// The choices that a measurement on the GPU determines. Until then the defaults are in force.
    pub open: Option<OpenChoices>,
}

/// Choices that a measurement on the GPU determines, with the other inputs of the decision.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenChoices {
    /// The options, which leave at least one choice open, or request a measurement.
    pub options: BackendOptions,
    /// The GPU.
    pub device: DeviceReport,
    /// The CUDA version that its driver serves.
    pub driver: Option<String>,
    /// Whether the driver is the simulator of the tests.
    pub simulator: bool,
    threads: bool,
}

impl BackendDecision {
    /// Replaces the defaults by these choices.
    ///
    /// # Errors
    /// See [`decide`].
    pub fn settled(mut self, chosen: &TransferChoice) -> Result<Self, RuntimeError> {
        let (Some(open), Backend::Cuda(cuda)) = (&self.open, &self.backend) else { return Ok(self) };
        let (backend, mps) =
            divided(&open.options, open.threads, cuda.ordinal, &open.device, cuda.sampler, chosen)?;
        (self.backend, self.mps, self.open) = (backend, mps, None);
        Ok(self)
    }
}

/// A request to divide the GPU by MPS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpsRequest {
    /// Whether the run fails without it.
    pub required: bool,
    /// The GPU's UUID.
    pub device: String,
    /// The producer's share in per cent.
    pub producer_percentage: u32,
    /// The consumer's share in per cent.
    pub consumer_percentage: u32,
    /// The sampler's share in per cent, if it works on the GPU or may do so.
    pub sampler_percentage: Option<u32>,
}

impl MpsRequest {
    /// Removes the sampler on the GPU, whose share goes to the consumer.
    pub fn without_sampler(mut self) -> Self {
        let sampler = self.sampler_percentage.take().unwrap_or(0);
        self.consumer_percentage = (self.consumer_percentage + sampler).min(100);
        self
    }
}

/// Decides where the run gathers and trains. `threads` states that the roles are threads of one process, as with
/// `--in-process`. `probe` examines the machine, and is called only if a GPU may be used.
///
/// # Errors
/// [`RuntimeError::Option`] for options that contradict each other or the machine, [`RuntimeError::Missing`] for
/// something requested by name that is not available.
pub fn decide(
    options: &BackendOptions,
    threads: bool,
    probe: impl FnOnce() -> Result<Probe, RuntimeError>,
) -> Result<BackendDecision, RuntimeError> {
    options.check()?;
    let mut notes = Vec::new();
    let (named, ordinal) = match options.device {
        DeviceChoice::Cpu if options.sampler == SamplerChoice::Gpu => {
            return Err(RuntimeError::option(
                "sampler",
                "gpu",
                "with `device=cpu` there is no GPU to sample on",
            ));
        }
        DeviceChoice::Cpu => return Ok(on_cpu(notes)),
        DeviceChoice::Cuda(index) => (true, index as usize),
        DeviceChoice::Auto => (options.mps == MpsChoice::Require || options.sampler == SamplerChoice::Gpu, 0),
    };
    let probed = match probe() {
        Ok(probed) => probed,
        Err(error) if named => return Err(error),
        Err(error) => {
            notes.push(format!("{error}; training on the CPU"));
            return Ok(on_cpu(notes));
        }
    };
    let device = match usable(&probed, ordinal) {
        Ok(device) => device,
        Err(reason) if named => {
            return Err(RuntimeError::missing(reason)
                .with_option("device", format_args!("cuda:{ordinal}"))
                .with_remedy("`device=cpu` trains without a GPU"));
        }
        // A machine without a GPU needs no note; a GPU that stays idle does.
        Err(reason) => {
            if !probed.cuda.devices.is_empty() {
                notes.push(format!("training on the CPU although there is a GPU: {reason}"));
            }
            return Ok(on_cpu(notes));
        }
    };
    let sampler = match (options.gather, options.sampler) {
        (GatherChoice::Cpu, SamplerChoice::Gpu) => {
            return Err(RuntimeError::option(
                "sampler",
                "gpu",
                "not supported with `gather=cpu`, since the sampled ids are on the GPU; use another `gather`",
            ));
        }
        (GatherChoice::Cpu, SamplerChoice::Auto) => SamplerChoice::Cpu,
        (_, sampler) => sampler,
    };
    let chosen = TransferChoice::unmeasured(options);
    let (backend, mps) = divided(options, threads, ordinal, device, sampler, &chosen)?;
    let open = is_open(options).then(|| OpenChoices {
        options: options.clone(),
        device: device.clone(),
        driver: probed.cuda.driver.clone(),
        simulator: probed.cuda.simulator,
        threads,
    });
    Ok(BackendDecision { backend, mps, notes, open })
}

/// Whether any choice depends on a measurement.
fn is_open(options: &BackendOptions) -> bool {
    // Kernels that read the table over the link.
    let over_link =
        matches!(options.gather, GatherChoice::Auto | GatherChoice::ZeroCopy | GatherChoice::Split);
    let open = options.mps_percentage == GpuShare::Auto || options.table_pages.named().is_none();
    options.gather == GatherChoice::Auto || over_link && (open || options.remeasure)
}

/// The GPU as these options and choices divide it, and the request for MPS.
fn divided(
    options: &BackendOptions,
    threads: bool,
    ordinal: usize,
    device: &DeviceReport,
    sampler: SamplerChoice,
    chosen: &TransferChoice,
) -> Result<(Backend, Option<MpsRequest>), RuntimeError> {
    let cuda = |partition| Backend::Cuda(CudaBackend::of(options, chosen, ordinal, sampler, partition));
    if chosen.gather == GatherChoice::Cpu {
        // One process on the GPU, so there is nothing to divide.
        return Ok((cuda(Partition::None), None));
    }
    if options.partition == PartitionChoice::None {
        return Ok((cuda(Partition::None), None));
    }
    let shares = shares(options, sampler, chosen.producer_percentage)?;
    let all = device.multiprocessors;
    let (by_grid, by_green) =
        (shares.divide(all, ShareSteps::SINGLE), shares.divide(all, ShareSteps::of_green(device.capability)));
    let required = options.partition == PartitionChoice::Green;
    let green = Partition::Green {
        // A device with fewer multiprocessors than a group gives all of them.
        multiprocessors: by_green.producer.min(all),
        sampler: by_green.sampler,
        required,
    };
    let grid = Partition::Grid { multiprocessors: by_grid.producer, sampler: by_grid.sampler };
    let why_not_green = if !device.supports.green_contexts {
        Some("with this driver has no green contexts")
    } else if by_green.sampler.is_some() && !by_green.fits(all) {
        Some("has too few multiprocessors for two groups of green contexts")
    } else {
        None
    };
    let fallback = match (options.partition, why_not_green) {
        (PartitionChoice::Green, Some(why)) => {
            return Err(RuntimeError::missing(format!("{} {why}", device.name))
                .with_option("partition", "green")
                .with_remedy("`partition=grid` does not need green contexts"));
        }
        (PartitionChoice::Grid, _) | (_, Some(_)) => grid,
        _ => green,
    };
    let required = options.mps == MpsChoice::Require || options.partition == PartitionChoice::Mps;
    if required && threads {
        return Err(OptionError::of(
            "in_process",
            "not supported with MPS, which divides a GPU between processes; omit `mps=require` and `partition=mps`",
        )
        .into());
    }
    let wished = required || (options.partition == PartitionChoice::Auto && options.mps == MpsChoice::Auto);
    // A copy engine uses no multiprocessors, so the consumer may have all that the sampler does not need.
    let by_copies = chosen.gather == GatherChoice::Dma && options.mps_percentage == GpuShare::Auto;
    let spared = if by_copies { shares.producer } else { 0 };
    let mps = (wished && !threads).then(|| MpsRequest {
        required,
        device: device.uuid.clone(),
        producer_percentage: shares.producer,
        consumer_percentage: shares.consumer() + spared,
        sampler_percentage: shares.sampler,
    });
    Ok((cuda(fallback), mps))
}

/// The shares of the multiprocessors, for any mechanism.
fn shares(options: &BackendOptions, sampler: SamplerChoice, producer: u32) -> Result<Shares, RuntimeError> {
    if sampler == SamplerChoice::Cpu {
        return Ok(Shares { producer, sampler: None });
    }
    // Default shares that leave nothing are adjusted, since they were not requested.
    let given = options.mps_sampler_percentage;
    let wanted = given.unwrap_or_else(|| producer.min(99_u32.saturating_sub(producer)));
    if wanted == 0 || producer + wanted > 99 {
        return Err(RuntimeError::option(
            "mps_percentage",
            producer,
            format!("with `mps_sampler_percentage={wanted}` nothing is left for training"),
        ));
    }
    Ok(Shares { producer, sampler: Some(wanted) })
}

fn on_cpu(notes: Vec<String>) -> BackendDecision {
    BackendDecision { backend: Backend::Cpu, mps: None, notes, open: None }
}

/// The device, if it exists and libtorch can use it.
fn usable(probed: &Probe, ordinal: usize) -> Result<&DeviceReport, String> {
    if let Some(reason) = &probed.cuda.unavailable {
        return Err(reason.clone());
    }
    let devices = &probed.cuda.devices;
    let device = devices.get(ordinal).ok_or_else(|| match devices.len() {
        0 => "the driver finds no GPU".to_owned(),
        1 => "there is one GPU only, cuda:0".to_owned(),
        count => format!("there are {count} GPUs, cuda:0 to cuda:{}", count - 1),
    })?;
    match &probed.torch {
        Some(reason) => Err(reason.clone()),
        None => Ok(device),
    }
}

#[cfg(test)]
mod tests {
    use uva_cuda::memory::PinPages;
    use uva_cuda::{ProbeReport, Supports};

    use super::super::asked::TablePagesChoice;

    use super::*;

    fn machine(devices: usize) -> Probe {
        let device = |ordinal| DeviceReport {
            ordinal,
            name: "a GPU".into(),
            capability: (9, 0),
            multiprocessors: 132,
            total_memory: 1 << 37,
            pci_bus_id: "0000:01:00.0".into(),
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
            devices: (0..devices).map(device).collect(),
            unavailable: None,
        };
        Probe { cuda, nvrtc: None, torch: None }
    }

    fn no_driver() -> Probe {
        let unavailable = Some("there is no NVIDIA driver".to_owned());
        let cuda = ProbeReport { driver: None, simulator: false, devices: vec![], unavailable };
        Probe { cuda, nvrtc: None, torch: None }
    }

    fn partition(options: &BackendOptions, threads: bool, probe: Probe) -> (Partition, Option<MpsRequest>) {
        let BackendDecision { backend, mps, .. } = decide(options, threads, || Ok(probe)).unwrap();
        (backend.cuda().expect("a GPU").partition, mps)
    }

    #[test]
    fn the_cpu_is_taken_without_looking_for_a_gpu() {
        let options = BackendOptions { device: DeviceChoice::Cpu, ..BackendOptions::default() };
        let decision = decide(&options, false, || panic!("looked for a GPU")).unwrap();
        assert_eq!(decision, on_cpu(vec![]));
    }

    #[test]
    fn without_a_gpu_auto_is_the_cpu_and_a_named_gpu_is_an_error() {
        let decision = decide(&BackendOptions::default(), false, || Ok(no_driver())).unwrap();
        assert_eq!(decision, on_cpu(vec![]));
        let named = BackendOptions { device: DeviceChoice::Cuda(0), ..BackendOptions::default() };
        let lacking = decide(&named, false, || Ok(no_driver())).unwrap_err();
        assert_eq!(lacking.exit_code(), 3);
        assert!(lacking.to_string().contains("cuda:0: there is no NVIDIA driver"), "{lacking}");
        let third = BackendOptions { device: DeviceChoice::Cuda(2), ..BackendOptions::default() };
        let lacking = decide(&third, false, || Ok(machine(2))).unwrap_err();
        assert!(lacking.to_string().contains("cuda:0 to cuda:1"), "{lacking}");
    }

    #[test]
    fn a_gpu_that_libtorch_cannot_use_is_reported_whether_or_not_it_was_named() {
        let torch = Some("this libtorch is for the CPU only".to_owned());
        let probe = || Ok(Probe { torch: torch.clone(), ..machine(1) });
        let decision = decide(&BackendOptions::default(), false, probe).unwrap();
        assert_eq!(decision.backend, Backend::Cpu);
        assert!(decision.notes[0].contains("this libtorch is for the CPU only"), "{:?}", decision.notes);
        let named = BackendOptions { device: DeviceChoice::Cuda(0), ..BackendOptions::default() };
        assert_eq!(decide(&named, false, probe).unwrap_err().exit_code(), 3);
    }

    #[test]
    fn auto_prefers_mps_then_a_green_context_and_then_the_grid() {
        let auto = BackendOptions::default();
        let (fallback, mps) = partition(&auto, false, machine(1));
        // 13 of 132, in groups of eight.
        assert_eq!(fallback, Partition::Green { multiprocessors: 16, sampler: None, required: false });
        let wish = mps.unwrap();
        assert!(!wish.required);
        assert_eq!((wish.producer_percentage, wish.consumer_percentage), (10, 90));
        let mut old = machine(1);
        old.cuda.devices[0].supports.green_contexts = false;
        let grid = Partition::Grid { multiprocessors: 13, sampler: None };
        assert_eq!(partition(&auto, false, old.clone()).0, grid);
        let green = BackendOptions { partition: PartitionChoice::Green, ..auto };
        assert_eq!(decide(&green, false, || Ok(old)).unwrap_err().exit_code(), 3);
    }

    #[test]
    fn threads_of_one_process_are_not_divided_by_mps() {
        let auto = BackendOptions::default();
        assert_eq!(partition(&auto, true, machine(1)).1, None);
        let require = BackendOptions { mps: MpsChoice::Require, ..auto };
        assert_eq!(decide(&require, true, || Ok(machine(1))).unwrap_err().exit_code(), 2);
        assert!(partition(&require, false, machine(1)).1.unwrap().required);
    }

    #[test]
    fn a_requested_share_is_the_producers() {
        let options = BackendOptions { mps_percentage: GpuShare::Percent(25), ..BackendOptions::default() };
        let (fallback, mps) = partition(&options, false, machine(1));
        assert_eq!(fallback, Partition::Green { multiprocessors: 40, sampler: None, required: false });
        assert_eq!(mps.map(|wish| (wish.producer_percentage, wish.consumer_percentage)), Some((25, 75)));
    }

    #[test]
    fn a_sampler_on_the_gpu_has_multiprocessors_that_are_not_the_producers() {
        let sampler = SamplerChoice::Gpu;
        let of = |partition| BackendOptions { partition, sampler, ..BackendOptions::default() };
        let green = Partition::Green { multiprocessors: 16, sampler: Some(16), required: true };
        assert_eq!(partition(&of(PartitionChoice::Green), false, machine(1)).0, green);
        let grid = Partition::Grid { multiprocessors: 13, sampler: Some(13) };
        assert_eq!(partition(&of(PartitionChoice::Grid), false, machine(1)).0, grid);
        let (_, mps) = partition(&of(PartitionChoice::Mps), false, machine(1));
        let wish = mps.unwrap();
        assert_eq!(
            (wish.producer_percentage, wish.sampler_percentage, wish.consumer_percentage),
            (10, Some(10), 80)
        );
        // Two groups of eight are more than exist: auto works without them, and green is rejected.
        let mut small = machine(1);
        small.cuda.devices[0].multiprocessors = 12;
        let grid = Partition::Grid { multiprocessors: 1, sampler: Some(1) };
        assert_eq!(partition(&of(PartitionChoice::Auto), false, small.clone()).0, grid);
        let refused = decide(&of(PartitionChoice::Green), false, || Ok(small)).unwrap_err();
        assert!(refused.exit_code() == 3 && refused.to_string().contains("too few"), "{refused}");
    }

    #[test]
    fn what_was_measured_replaces_the_defaults_and_the_division_follows() {
        let options = BackendOptions::default();
        let decision = decide(&options, false, || Ok(machine(1))).unwrap();
        let unmeasured = TransferChoice::unmeasured(&options);
        assert_eq!(decision.clone().settled(&unmeasured).unwrap().backend, decision.backend);
        let chosen = TransferChoice {
            gather: GatherChoice::Split,
            producer_percentage: 7,
            table_pages: PinPages::Thp,
            split_share: Some(0.4),
        };
        let settled = decision.clone().settled(&chosen).unwrap();
        let cuda = settled.backend.cuda().unwrap();
        assert_eq!(
            (cuda.gather, cuda.table_pages, cuda.other_pages),
            (chosen.gather, chosen.table_pages, true)
        );
        assert_eq!(
            (cuda.split_share, cuda.partition),
            (Some(0.4), Partition::Green { multiprocessors: 16, sampler: None, required: false })
        );
        let wish = settled.mps.unwrap();
        assert_eq!((wish.producer_percentage, wish.consumer_percentage), (7, 93));
        // Copies need no multiprocessors.
        let copies = decision.settled(&TransferChoice { gather: GatherChoice::Dma, ..unmeasured }).unwrap();
        assert_eq!(copies.mps.unwrap().consumer_percentage, 100);
    }

    #[test]
    fn a_measurement_is_for_open_choices_and_rows_that_come_over_the_link() {
        let open =
            |options: &BackendOptions| decide(options, false, || Ok(machine(1))).unwrap().open.is_some();
        let named = BackendOptions {
            gather: GatherChoice::ZeroCopy,
            mps_percentage: GpuShare::Percent(10),
            table_pages: TablePagesChoice::InPlace,
            ..BackendOptions::default()
        };
        assert!(!open(&named));
        assert!(open(&BackendOptions { remeasure: true, ..named.clone() }));
        assert!(open(&BackendOptions { gather: GatherChoice::Auto, ..named.clone() }));
        assert!(open(&BackendOptions { mps_percentage: GpuShare::Auto, ..named.clone() }));
        assert!(open(&BackendOptions { table_pages: TablePagesChoice::Auto, ..named.clone() }));
        for gather in [GatherChoice::Cpu, GatherChoice::Device, GatherChoice::Dma] {
            assert!(!open(&BackendOptions { gather, ..BackendOptions::default() }), "{gather}");
        }
        let cpu = BackendOptions { device: DeviceChoice::Cpu, ..BackendOptions::default() };
        assert!(!open(&cpu));
    }

    #[test]
    fn rows_that_the_cpu_gathers_need_no_division() {
        let options = BackendOptions { gather: GatherChoice::Cpu, ..BackendOptions::default() };
        assert_eq!(partition(&options, false, machine(1)), (Partition::None, None));
    }
}

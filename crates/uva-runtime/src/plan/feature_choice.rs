//! The place from which a run reads rows, as its options, its data and this machine determine it.

use serde_json::{Value, json};
use uva_cuda::memory::HostMemory;
use uva_graph::Dataset;
use uva_mem::files;
use uva_options::{OptionError, Spelling};
use uva_rows::cuda::DirectRuns;

use crate::RuntimeError;
use crate::backend::obstacle::Obstacle;
use crate::backend::{Backend, BackendOptions, GatherChoice, SamplerChoice};
use crate::options::LoaderOptions;
use crate::options::batch_kind::{RowFiles, RunData, gib};
use crate::options::hop_options::HopRowsPlace;
use crate::options::reader::{DiskReader, Features};

/// The place from which a run reads rows, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureChoice {
    /// Never [`Features::Auto`].
    pub(crate) features: Features,
    reason: String,
    disk: Option<DiskChoice>,
    /// Consecutive rows of a hop set that stay together; `None` for rows of a table.
    chunk: Option<usize>,
    /// The reason why training rows of a hop set are in the memory of a GPU; `None` if they are not.
    on_gpu: Option<String>,
}

/// The reader that works on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DiskChoice {
    /// Its name, and its mode if that is not its normal one. The names of all, if files have different ones.
    reader: String,
    how: String,
    passed_over: Vec<String>,
}

impl FeatureChoice {
    /// Resolves these options on this machine, for a run on this backend, with or without kernels that sum the rows.
    /// Tries the reader.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] if rows cannot come from disk, or not by this reader; [`RuntimeError::Missing`] for a
    /// reader that does not work on this system. Whether cuFile works is tried later, in
    /// [`RunPlan::by_cufile`](crate::plan::RunPlan::by_cufile).
    pub fn new(
        options: &LoaderOptions,
        dataset: &Dataset,
        (backend, kernels_sum): (&Backend, bool),
    ) -> Result<Self, RuntimeError> {
        let (features, reader) = (options.features, options.reader);
        let data = RunData::of(dataset, options);
        data.check_backend(backend, features)?;
        let read = data.row_files();
        let gather = backend.device_slots().map(|_| backend.gather_name());
        let on_device = gather == Some(GatherChoice::Device.name());
        let chunk = read.chunk;
        let on_gpu = (chunk.is_some() && on_device).then(|| ASKED_FOR.to_owned());
        // Runs of rows pass through the CPU before they reach a GPU.
        let by_gather = gather.filter(|_| chunk.is_none());
        let is_open = (features, reader) == (Features::Auto, DiskReader::Auto);
        // Rows from disk reach slots on a GPU in the same way as the CPU's sums.
        let obstacle = by_gather.and_then(|_| match kernels_sum {
            true => Some(Obstacle {
                option: "`aggregate=device`".to_owned(),
                why: "kernels sum the gathered rows".to_owned(),
                remedy: "`aggregate=host`",
            }),
            false => backend.host_obstacle(),
        });
        let (features, reason) = match (features, obstacle) {
            (Features::Disk, Some(obstacle)) => {
                let reason = format!(
                    "not supported with {}, since the CPU reads rows from disk and copies them to the GPU: give {}, or omit \
                     `features`",
                    obstacle.option, obstacle.remedy
                );
                return Err(OptionError::new("features", features, reason).into());
            }
            (Features::Auto, Some(obstacle)) => {
                (Features::Memory, format!("{} needs a table in memory", obstacle.option))
            }
            (Features::Auto, None) if lie_in_memory(&read) => {
                (Features::Memory, format!("the file system keeps {} in memory", read.name))
            }
            (Features::Auto, None) => by_memory(&read),
            (asked, _) => (asked, ASKED_FOR.to_owned()),
        };
        // Checked even if no rows are read from disk: an option that was requested by name must not be ignored
        // silently.
        if reader == DiskReader::Cufile {
            check_cufile(data, gather)?;
        }
        if features != Features::Disk {
            return Ok(Self { features, reason, disk: None, chunk, on_gpu });
        }
        match data.open_rows(reader) {
            Ok(opened) => {
                let (reader, how) = (opened.readers.join(", "), opened.how.join("; "));
                let disk = DiskChoice { reader, how, passed_over: opened.passed_over };
                Ok(Self { features, reason, disk: Some(disk), chunk, on_gpu })
            }
            // The disk was not requested, and a mapped file can be read on every machine.
            Err(RuntimeError::Missing(why)) if is_open => {
                let reason = format!("{reason}, and no reader works here: {why}");
                Ok(Self { features: Features::Memory, reason, disk: None, chunk, on_gpu })
            }
            Err(error) => Err(error),
        }
    }

    /// The form in the metrics' first line.
    #[must_use]
    pub fn in_force(&self) -> Value {
        let reason = Spelling::CommandLine.sentence(&self.reason);
        let mut said = json!({ "from": self.features.name(), "reason": reason });
        if let Some(DiskChoice { reader, how, passed_over }) = &self.disk {
            said["reader"] = reader.as_str().into();
            said["how"] = how.as_str().into();
            said["passed_over"] = passed_over.as_slice().into();
        }
        said
    }

    /// Places the training rows of a hop set in the memory of a GPU, for this reason.
    #[must_use]
    pub fn on_gpu(self, reason: String) -> Self {
        Self { on_gpu: Some(reason), ..self }
    }

    /// Keeps the training rows of a hop set out of the GPU's memory, because of this obstacle.
    #[must_use]
    pub fn beside_gpu(self, obstacle: &str) -> Self {
        Self { reason: format!("{}; {obstacle}", self.reason), ..self }
    }

    /// Sets cuFile as the reader, which passes through host memory for this reason, if given.
    #[must_use]
    pub(crate) fn with_cufile(self, compatibility: Option<&str>) -> Self {
        let reader = if compatibility.is_some() { "cufile (compat)" } else { DiskReader::Cufile.name() };
        let disk = DiskChoice {
            reader: reader.to_owned(),
            how: DirectRuns::how(compatibility),
            passed_over: Vec::new(),
        };
        Self { disk: Some(disk), ..self }
    }

    /// Excludes cuFile as the reader, for this reason.
    #[must_use]
    pub(crate) fn without_cufile(mut self, why: &str) -> Self {
        if let Some(DiskChoice { passed_over, .. }) = &mut self.disk {
            passed_over.insert(0, format!("{} is not used: {why}", DiskReader::Cufile));
        }
        self
    }

    /// The reader of rows on disk, in the form of the metrics; `None` if rows come from memory.
    #[must_use]
    pub fn reader(&self) -> Option<&str> {
        self.disk.as_ref().map(|disk| disk.reader.as_str())
    }

    /// The place of a hop set's training rows, as a value of `place`.
    #[must_use]
    pub fn place(&self) -> HopRowsPlace {
        match (&self.on_gpu, self.features) {
            (Some(_), _) => HopRowsPlace::Gpu,
            (None, Features::Disk) => HopRowsPlace::Disk,
            (None, Features::Auto | Features::Memory) => HopRowsPlace::Host,
        }
    }

    /// The reason for the place.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.on_gpu.as_ref().unwrap_or(&self.reason)
    }

    /// Lines for people; none if the rows of a table are read from memory.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let (on_gpu, others) = match &self.on_gpu {
            Some(reason) => (
                Some(format!("training rows are in the GPU's memory: {reason}")),
                "rows of validation and test",
            ),
            None => (None, "rows"),
        };
        let Some(DiskChoice { reader, how, passed_over }) = &self.disk else {
            let of_hops = self.chunk.map(|_| format!("{others} are read from host memory: {}", self.reason));
            return on_gpu.into_iter().chain(of_hops).collect();
        };
        let remedy = match (self.chunk, self.reason.as_str()) {
            (Some(1), _) => {
                ". A full shuffle reads each row separately, with the blocks around it: `shuffle=chunks` reads runs of rows"
            }
            (Some(_), _) | (None, ASKED_FOR) => "",
            (None, _) => {
                ". Rows that several batches need are read for each: `host_cache=auto` keeps the most-read ones in memory, \
                 and `features=memory` maps the table"
            }
        };
        let others = self.chunk.map_or("feature rows", |_| others);
        let first = format!("{others} are read from disk by {reader} ({how}): {}{remedy}", self.reason);
        on_gpu.into_iter().chain([first]).chain(passed_over.iter().cloned()).collect()
    }
}

const ASKED_FOR: &str = "requested";

/// Sets the gather of these options to [`GatherChoice::Dma`] if it is open and the CPU brings rows to a GPU: rows of a
/// table on disk, or of one that is divided among ranks. Rows come from disk if the loader requests it, or leaves it
/// open and the table is larger than memory. With a cache (`cached_on_gpu`) or a sampler on the GPU, an open choice
/// stays open.
#[must_use]
pub fn gather_by_cpu(
    options: &BackendOptions,
    loader: &LoaderOptions,
    dataset: &Dataset,
    cached_on_gpu: bool,
) -> BackendOptions {
    let read = RunData::of(dataset, loader).row_files();
    let by_cpu = dataset.own_rows().is_some();
    let from_disk = read.chunk.is_none()
        && !by_cpu
        && match loader.features {
            Features::Disk => true,
            Features::Auto if cached_on_gpu || options.sampler != SamplerChoice::Cpu => false,
            Features::Auto => !lie_in_memory(&read) && by_memory(&read).0 == Features::Disk,
            Features::Memory => false,
        };
    let gather = match options.gather {
        GatherChoice::Auto if by_cpu || from_disk => GatherChoice::Dma,
        gather => gather,
    };
    BackendOptions { gather, ..options.clone() }
}

/// Checks that cuFile could bring the rows of a run with this gather, if feature slots are on a GPU.
fn check_cufile(data: RunData<'_>, gather: Option<&str>) -> Result<(), RuntimeError> {
    let refused = |reason: &str| Err(OptionError::new("reader", DiskReader::Cufile, reason).into());
    if let Err(reason) = data.files_for_cufile() {
        return refused(reason);
    }
    match gather {
        Some(gather) if gather == GatherChoice::Device.name() => refused(
            "not supported with `place=gpu`, where the training rows are in the GPU's memory: omit it, or give `place=disk`",
        ),
        Some(_) => Ok(()),
        None => Err(RuntimeError::missing(
            "it reads rows into the memory of the GPU that trains, but this run trains on the CPU: omit it, or give \
             `device=cuda:0`",
        )
        .with_option("reader", DiskReader::Cufile)),
    }
}

/// Whether all files are on a file system in memory. The system's available memory excludes such files.
fn lie_in_memory(read: &RowFiles<'_>) -> bool {
    !read.paths.is_empty() && read.paths.iter().all(|path| files::lies_in_memory(path))
}

/// Memory if the rows fit into the available memory, otherwise the disk.
fn by_memory(read: &RowFiles<'_>) -> (Features, String) {
    let Ok(memory) = HostMemory::read() else {
        return (Features::Memory, "the system does not report how much memory is available".to_owned());
    };
    let (available, bound) = memory.tightest_limit();
    let (features, fits) =
        if read.bytes <= available { (Features::Memory, "fits") } else { (Features::Disk, "does not fit") };
    (features, format!("{} {fits} into the {} available of {bound}", read.sized, gib(available)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_beyond_the_available_memory_is_read_from_disk() {
        let of = |bytes| by_memory(&RowFiles { bytes, ..RowFiles::default() });
        let (features, reason) = of(u64::MAX);
        assert_eq!(features, Features::Disk);
        assert!(reason.contains(" does not fit into the ") && reason.contains(" available of "), "{reason}");
        let (features, reason) = of(1);
        assert_eq!(features, Features::Memory);
        assert!(reason.contains(" fits into the "), "{reason}");
    }
}

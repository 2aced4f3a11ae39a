//! The place from which a run reads rows, as its options, its data and this machine determine it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use uva_cuda::memory::HostMemory;
use uva_graph::{Dataset, NodeType};
use uva_mem::files;
use uva_options::{OptionError, Spelling};
use uva_rows::cuda::DirectRuns;

use crate::RuntimeError;
use crate::backend::obstacle::Obstacle;
use crate::backend::{Backend, BackendOptions, GatherChoice, SamplerChoice};
use crate::options::LoaderOptions;
use crate::options::hop_options::HopRowsPlace;
use crate::options::hop_run::HopRun;
use crate::options::reader::{DiskReader, Features, row_file};
use crate::options::run_data::RunData;
use crate::plan::hop_files::{OpenHopFiles, stored_side_by_side};

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
        let read = Read::of(RunData::of(dataset, options));
        if let RunData::Types(_) = RunData::of(dataset, options) {
            if backend.gpu_sampler().is_some() {
                let reason = "not supported for typed graphs yet; give `sampler=cpu`";
                return Err(OptionError::new("sampler", SamplerChoice::Gpu, reason).into());
            }
            if backend.device_slots().is_some_and(|cuda| cuda.gather == GatherChoice::Split) {
                let reason = "not supported for typed graphs: give `gather=zero-copy` or `gather=dma`";
                return Err(OptionError::new("gather", GatherChoice::Split, reason).into());
            }
            if features == Features::Disk && read.is_empty() {
                let reason =
                    "DATA has no feature rows that could be read: no node type has a feat.npy; omit it";
                return Err(OptionError::new("features", features, reason).into());
            }
        }
        let gather = backend.device_slots().map(|_| backend.gather_name());
        let on_device = gather == Some(GatherChoice::Device.name());
        let (by_gather, chunk, on_gpu) = match &read {
            Read::Tables(..) => (gather, None, None),
            // Rows of hops pass through the CPU before they reach a GPU.
            Read::Hops(run, ..) => (None, Some(run.batches.chunk), on_device.then(|| ASKED_FOR.to_owned())),
        };
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
            (Features::Auto, None) if read.lies_in_memory() => {
                (Features::Memory, format!("the file system keeps {} in memory", read.name()))
            }
            (Features::Auto, None) => read.by_memory(),
            (asked, _) => (asked, ASKED_FOR.to_owned()),
        };
        // Checked even if no rows are read from disk: an option that was requested by name must not be ignored
        // silently.
        if reader == DiskReader::Cufile {
            check_cufile(&read, gather)?;
        }
        if features != Features::Disk {
            return Ok(Self { features, reason, disk: None, chunk, on_gpu });
        }
        match read.tried(dataset, reader) {
            Ok(disk) => Ok(Self { features, reason, disk: Some(disk), chunk, on_gpu }),
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
    let read = Read::of(RunData::of(dataset, loader));
    let by_cpu = dataset.own_rows().is_some();
    let from_disk = matches!(read, Read::Tables(..))
        && !by_cpu
        && match loader.features {
            Features::Disk => true,
            Features::Auto if cached_on_gpu || options.sampler != SamplerChoice::Cpu => false,
            Features::Auto => !read.lies_in_memory() && read.by_memory().0 == Features::Disk,
            Features::Memory => false,
        };
    let gather = match options.gather {
        GatherChoice::Auto if by_cpu || from_disk => GatherChoice::Dma,
        gather => gather,
    };
    BackendOptions { gather, ..options.clone() }
}

/// The file of each table of a run whose rows cuFile could read; `None` if it could not.
pub(crate) fn files_for_cufile(dataset: &Dataset, options: &LoaderOptions) -> Option<Vec<PathBuf>> {
    let Read::Hops(HopRun { hops, batches }, ..) = Read::of(RunData::of(dataset, options)) else {
        return None;
    };
    let file = |table: &usize| hops.file(hops.place(*table).array).0.to_owned();
    (!stored_side_by_side(hops, &batches.tables)).then(|| batches.tables.iter().map(file).collect())
}

/// Checks that cuFile could bring the rows of a run with this gather, if feature slots are on a GPU.
fn check_cufile(read: &Read<'_>, gather: Option<&str>) -> Result<(), RuntimeError> {
    let refused = |reason: &str| Err(OptionError::new("reader", DiskReader::Cufile, reason).into());
    let Read::Hops(run, ..) = read else {
        return refused("only valid with a hop set, whose runs of rows it copies to a GPU: omit it");
    };
    if stored_side_by_side(run.hops, &run.batches.tables) {
        return refused(
            "not supported for hop sets made with `propagate --layout rows`, whose files interleave the rows of several \
             hops: omit it, or propagate with `layout=hops`",
        );
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

/// The rows that a run reads from a dataset.
enum Read<'d> {
    /// Feature tables: the node types that have one, the files, and their size in bytes. A divided table has no file.
    Tables(Vec<NodeType>, Vec<&'d Path>, u64),
    /// Some tables of a hop set: their files, and their size in bytes.
    Hops(HopRun<'d>, Vec<&'d Path>, u64),
}

impl<'d> Read<'d> {
    fn of(data: RunData<'d>) -> Self {
        match data {
            RunData::Graph(dataset) | RunData::Types(dataset) => {
                let types = dataset.metagraph().types();
                let tables = types.filter_map(|of| Some((of, dataset.rows_file(of)?.0, dataset.rows(of)?)));
                let (mut types, mut files, mut bytes) = (Vec::new(), Vec::new(), 0);
                for (of, file, table) in tables {
                    types.push(of);
                    files.push(file);
                    bytes += table.bytes.len() as u64;
                }
                Self::Tables(types, files, bytes)
            }
            RunData::Hops(run) => Self::of_hops(run),
        }
    }

    fn of_hops(run: HopRun<'d>) -> Self {
        let (mut files, mut bytes) = (Vec::new(), 0);
        let set = run.hops;
        for table in &run.batches.tables {
            let place = set.place(*table);
            let path = set.file(place.array).0;
            if !files.contains(&path) {
                files.push(path);
                bytes += (place.stride * set.nodes().len()) as u64;
            }
        }
        Self::Hops(run, files, bytes)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Tables(types, ..) if types.len() > 1 => "the tables",
            Self::Tables(..) => "the table",
            Self::Hops(..) => "the hop set",
        }
    }

    /// Whether there are no rows in files.
    fn is_empty(&self) -> bool {
        matches!(self, Self::Tables(types, ..) if types.is_empty())
    }

    /// Whether all files are on a file system in memory. The system's available memory excludes such files.
    fn lies_in_memory(&self) -> bool {
        match self {
            Self::Tables(_, paths, _) => {
                !paths.is_empty() && paths.iter().all(|path| files::lies_in_memory(path))
            }
            Self::Hops(_, paths, _) => paths.iter().all(|path| files::lies_in_memory(path)),
        }
    }

    /// Memory if the rows fit into the available memory, otherwise the disk.
    fn by_memory(&self) -> (Features, String) {
        let gib = |bytes: u64| format!("{:.2} GiB", bytes as f64 / (1_u64 << 30) as f64);
        let Ok(memory) = HostMemory::read() else {
            return (Features::Memory, "the system does not report how much memory is available".to_owned());
        };
        let (available, bound) = memory.tightest_limit();
        let (bytes, what) = match self {
            Self::Tables(types, _, bytes) if types.len() > 1 => {
                (*bytes, format!("the sum of {} tables, {},", types.len(), gib(*bytes)))
            }
            Self::Tables(.., bytes) => (*bytes, format!("the table of {}", gib(*bytes))),
            Self::Hops(_, _, bytes) => (*bytes, format!("the hop set, of which {} are read,", gib(*bytes))),
        };
        let (features, fits) =
            if bytes <= available { (Features::Memory, "fits") } else { (Features::Disk, "does not fit") };
        (features, format!("{what} {fits} into the {} available of {bound}", gib(available)))
    }

    /// The reader that works, after a trial.
    fn tried(&self, dataset: &Dataset, reader: DiskReader) -> Result<DiskChoice, RuntimeError> {
        Ok(match self {
            Self::Tables(types, ..) => {
                // Each file may be on another file system, and so have another reader.
                let (mut readers, mut hows, mut passed_over) = (Vec::new(), Vec::new(), Vec::new());
                for of in types {
                    let file = row_file(dataset, *of, reader)?;
                    add_new(&mut readers, file.reader().name().to_owned());
                    add_new(&mut hows, file.how());
                    file.passed_over().iter().for_each(|line| add_new(&mut passed_over, line.clone()));
                }
                if types.is_empty() {
                    return Err(RuntimeError::failed("the dataset has no feature table to read from disk"));
                }
                DiskChoice { reader: readers.join(", "), how: hows.join("; "), passed_over }
            }
            Self::Hops(run, ..) => {
                let opened = OpenHopFiles::open(run.hops, &run.batches.tables, reader)?;
                let files = opened.files();
                let passed_over = files.passed_over().to_vec();
                DiskChoice { reader: files.reader().name().to_owned(), how: files.how(), passed_over }
            }
        })
    }
}

/// Adds a line that is not there yet.
fn add_new(lines: &mut Vec<String>, line: String) {
    if !lines.contains(&line) {
        lines.push(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_beyond_the_available_memory_is_read_from_disk() {
        let of = |bytes| Read::Tables(vec![NodeType::ONLY], Vec::new(), bytes).by_memory();
        let (features, reason) = of(u64::MAX);
        assert_eq!(features, Features::Disk);
        assert!(
            reason.contains("GiB does not fit into the ") && reason.contains(" available of "),
            "{reason}"
        );
        let (features, reason) = of(1);
        assert_eq!(features, Features::Memory);
        assert!(reason.contains("GiB fits into the "), "{reason}");
    }
}

//! Shared code of the commands that start the whole pipeline: `train` and `run`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use uva_launch::output_paths;
use uva_runtime::backend::{BackendOptions, SamplerChoice};
use uva_runtime::options::Prepare;
use uva_runtime::options::first_layer::FirstLayer;
use uva_runtime::options::input_nodes::NodesFiles;
use uva_runtime::telemetry::gauges::Gauges;
use uva_runtime::telemetry::metrics::{Event, MetricsFile, Observer, RunProgress};
use uva_runtime::telemetry::trace::TraceFile;
use uva_runtime::{Dataset, Features, LoaderOptions, RuntimeError};

use crate::config;
use crate::exit;
use crate::flags::{BackendFlags, CacheFlags, LoaderFlags};
use crate::ui::listen::Listener;
use crate::ui::progress;

/// Refuses a path that is not UTF-8: a run's processes receive paths in JSON, and its metrics show them.
pub fn check_paths(paths: &[(&str, Option<&Path>)]) -> anyhow::Result<()> {
    match paths
        .iter()
        .find_map(|&(option, path)| Some((option, path.filter(|path| path.to_str().is_none())?)))
    {
        None => Ok(()),
        Some((option, path)) => Err(exit::usage(format!(
            "{option} {path:?}: the path is not valid UTF-8: rename the file, or use a symbolic link to it"
        ))
        .into()),
    }
}

/// Refuses outputs that would replace what the command reads, or a file of a dataset, hop set, partition or checkpoint.
pub fn check_outputs(outputs: &[(&str, Option<&Path>)], reads: &[Option<&Path>]) -> anyhow::Result<()> {
    let reads = [reads, &[config::file_read()]].concat();
    Ok(output_paths::check(outputs, &reads)?)
}

/// The loader's options for a run with this backend: one sampler if sampling is on the GPU.
pub fn loader_options(
    mut options: LoaderOptions,
    loader: &LoaderFlags,
    backend: &BackendFlags,
) -> anyhow::Result<LoaderOptions> {
    if backend.options().sampler == SamplerChoice::Gpu {
        if options.prepare == Prepare::Whole {
            return Err(exit::usage(
                "--sampler gpu is not supported with --prepare whole, whose workers sample on the CPU"
                    .to_owned(),
            )
            .into());
        }
        if loader.gives("samplers") && options.samplers > 1 {
            let samplers = options.samplers;
            return Err(exit::usage(format!(
                "--sampler gpu and --samplers {samplers}: exactly one sampler runs on a GPU"
            ))
            .into());
        }
        options.samplers = 1;
    }
    Ok(options)
}

/// The dataset with the nodes of `--input-nodes` instead of its training split, and the options that let every process
/// of the run read these nodes.
pub fn with_input_nodes(
    dataset: Dataset,
    options: LoaderOptions,
    files: &[PathBuf],
) -> Result<(Dataset, LoaderOptions), RuntimeError> {
    if files.is_empty() {
        return Ok((dataset, options));
    }
    let (dataset, files) = NodesFiles::read(files, dataset)?;
    Ok((dataset, LoaderOptions { input_nodes: Some(files), ..options }))
}

/// The dataset with the rows of `--first-layer`, and the options that let every process of the run open these rows.
pub fn with_first_layer(
    dataset: Dataset,
    options: LoaderOptions,
    hop_set: Option<&Path>,
) -> Result<(Dataset, LoaderOptions), RuntimeError> {
    let Some(path) = hop_set else { return Ok((dataset, options)) };
    let (dataset, rows) = FirstLayer::read(path, dataset)?;
    Ok((dataset, LoaderOptions { first_layer: Some(rows), ..options }))
}

/// The backend's flags as the runtime's options. With caches on a GPU, a measurement decides where to sample, unless a
/// flag does: only a sampler on the GPU can use a list cache. Rows from disk require a sampler on the CPU.
pub fn backend_options(backend: &BackendFlags, cache: &CacheFlags, features: Features) -> BackendOptions {
    let mut options = backend.options();
    let asked = cache.options().request().is_some_and(|request| !request.is_before_disk());
    if asked && features != Features::Disk && !backend.gives("sampler") {
        options.sampler = SamplerChoice::Auto;
    }
    options
}

/// The metrics' file and port, the timeline and the view; each receives all events. Each rank has files of its own,
/// and the view is of the first.
pub struct Observers<'a> {
    metrics: Vec<MetricsFile>,
    trace: Vec<TraceFile>,
    listener: Option<Listener>,
    view: &'a mut progress::TrainingBar,
}

/// Where a run is reported in addition to the terminal.
pub struct Outputs<'f> {
    pub metrics: Option<&'f Path>,
    /// Whether metrics are appended to an existing file.
    pub append: bool,
    pub trace: Option<&'f Path>,
    pub listen: Option<SocketAddr>,
    /// How many ranks are reported, each in its own files.
    pub ranks: usize,
}

/// The file of a rank where there are several: `run.0.jsonl` for `run.jsonl`.
pub fn of_rank(path: &Path, rank: usize, ranks: usize) -> PathBuf {
    if ranks == 1 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{rank}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

impl<'a> Observers<'a> {
    /// Opens the requested outputs, and prints where the figures are served.
    ///
    /// # Errors
    /// Names the option whose file or address is unavailable.
    pub fn open(outputs: &Outputs<'_>, view: &'a mut progress::TrainingBar) -> Result<Self, RuntimeError> {
        let of_each = |path: Option<&Path>| -> Vec<PathBuf> {
            let ranks = (0..outputs.ranks).flat_map(|rank| Some((rank, path?)));
            ranks.map(|(rank, path)| of_rank(path, rank, outputs.ranks)).collect()
        };
        let metrics = of_each(outputs.metrics);
        let metrics = metrics.iter().map(|path| MetricsFile::open(path, outputs.append));
        let metrics = metrics.collect::<Result<_, _>>()?;
        let trace =
            of_each(outputs.trace).iter().map(|path| TraceFile::create(path)).collect::<Result<_, _>>()?;
        let listener = outputs.listen.map(Listener::start).transpose()?;
        if let Some(listener) = &listener {
            view.note(&format!("figures at http://{}/metrics", listener.address));
        }
        Ok(Self { metrics, trace, listener, view })
    }

    /// Whether any observer other than the terminal requires an event per batch.
    pub fn want_events(&self) -> bool {
        !self.metrics.is_empty() || !self.trace.is_empty() || self.listener.is_some()
    }
}

impl Observer for Observers<'_> {
    fn event(&mut self, event: &Event) -> Result<(), RuntimeError> {
        self.event_of(0, event)
    }

    fn event_of(&mut self, rank: usize, event: &Event) -> Result<(), RuntimeError> {
        if let Some(metrics) = self.metrics.get_mut(rank) {
            metrics.write(event)?;
        }
        if let Some(trace) = self.trace.get_mut(rank) {
            trace.write(event)?;
        }
        if rank > 0 {
            return Ok(());
        }
        if let Some(listener) = &self.listener {
            listener.event(event);
        }
        self.view.event(event)
    }

    fn progress(&mut self, progress: &RunProgress, busiest: &str) {
        if let Some(listener) = &self.listener {
            listener.progress(progress);
        }
        self.view.progress(progress, busiest);
    }

    fn note(&mut self, line: &str) {
        self.view.note(line);
    }

    fn begun(&mut self, gauges: &Gauges) {
        if let Some(listener) = &self.listener {
            listener.begun(gauges);
        }
    }
}

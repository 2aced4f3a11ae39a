//! The options of `uvatrain run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use serde::{Serialize, Serializer};
use uva_launch::places::{BatchNumber, GpuList, MAX_RANKS, OrAuto, SharedSamplers};
use uva_launch::ranks::RankRequest;
use uva_runtime::backend::DeviceChoice;
use uva_runtime::machine::share_of_cores;
use uva_runtime::options::Prepare;
use uva_runtime::spec::ByteSize;
use uva_runtime::{LoaderOptions, RuntimeError};

use crate::exit;
use crate::flags::declared::Declared;
use crate::flags::loader::Aggregated;
use crate::flags::{BackendFlags, CacheFlags, LoaderFlags};
use crate::ui::listen;

const OUTPUT: &str = "Output";
const RANKS: &str = "Ranks";

/// The options of `uvatrain run`.
#[derive(Args, Clone, Debug, serde::Serialize)]
#[command(
    after_long_help = "\
Example:
  uvatrain run data/demo --fanouts 15,10,5 --batch-size 1024 -- python train.py

  and in train.py:
  import uvatrain
  for batch in uvatrain.attach():     # one epoch; batch.x, batch.y, batch.blocks, …
      ...

  uvatrain run data/demo --ranks 2 -- torchrun --standalone --nproc-per-node 2 train.py
  uvatrain run data/demo --roles 1:3 -- torchrun --standalone --nproc-per-node 3 train.py",
    // A tensor that is still bound when the next batch is requested keeps its slot. With two slots, the overlap would be
    // lost.
    mut_arg("slots", |slots| slots
        .default_value("3")
        .help("Feature slots between producer and command; with 3, one is filled while the command holds two")),
    mut_arg("in_process", |in_process| in_process.hide(true)),
    mut_arg("seed", |seed| seed
        .long_help("Random seed of shuffling and sampling; batches are the same for any number of --samplers")),
    mut_arg("gpu_cache", |size| size
        .long_help("Memory for caches of neighbour lists and feature rows, on the GPU if batches are on one: 512MiB, 6GiB [default: no caches]")),
)]
pub struct RunFlags {
    /// Dataset: a directory of .npy files
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// Training nodes instead of those of the split: a .npy file of node ids (int64, int32) or of a bool for each node, or
    /// text with one id per line; in a typed graph also TYPE=FILE, repeated for seeds of several types
    #[arg(long, value_name = "[TYPE=]FILE", help_heading = "Batches", hide_short_help = true)]
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "one_or_several")]
    pub input_nodes: Vec<PathBuf>,

    /// Number of ranks of the command
    ///
    /// The ranks divide each epoch. torchrun, for example, starts them: each attaches as the rank in RANK and WORLD_SIZE.
    /// Standby ranks (--switch) are additional.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_RANKS)), help_heading = RANKS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,

    /// GPU of each rank: cuda:1,cuda:2 or cuda:1-3, or auto for the first GPUs that do not sample. The command starts one
    /// process per rank
    #[arg(long, value_name = "cuda:I,…|auto", help_heading = RANKS, hide_short_help = true)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "text")]
    pub devices: Option<OrAuto<GpuList>>,

    /// GPUs that sample for all ranks; without --switch they only sample
    #[arg(long, value_name = "cuda:I,…", help_heading = RANKS, hide_short_help = true)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "text")]
    pub sampler_devices: Option<GpuList>,

    /// S samplers for all of T ranks: the first S GPUs sample and the next T train, or on the CPU S processes sample.
    /// auto divides the GPUs of the machine by --role-times; the command finds the number of ranks in UVATRAIN_RANKS
    #[arg(long, value_name = "S:T|auto", help_heading = RANKS, hide_short_help = true)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "text")]
    pub roles: Option<OrAuto<SharedSamplers>>,

    /// Standby rank for each sampler, on its GPU, that joins the other ranks at this batch of each epoch. auto chooses the
    /// batch by --role-times. The command finds the number of all ranks in UVATRAIN_RANKS
    #[arg(long, value_name = "BATCH|auto", help_heading = RANKS, hide_short_help = true)]
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "text")]
    pub switch: Option<OrAuto<BatchNumber>>,

    /// Memory for cached rows on the GPU of each standby rank: the hottest rows of --gpu-cache [default: no rows]
    #[arg(long, value_name = "SIZE", requires_all = ["switch", "gpu_cache"], help_heading = RANKS, hide_short_help = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby_cache: Option<ByteSize>,

    /// Metrics file of a run, from whose times --roles auto and --switch auto choose
    #[arg(long, value_name = "FILE", help_heading = RANKS, hide_short_help = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role_times: Option<PathBuf>,

    /// How batches are made and handed on.
    #[command(flatten)]
    pub loader: LoaderFlags,

    /// What the producer aggregates.
    #[command(flatten)]
    #[serde(flatten)]
    pub aggregate: Declared<LoaderOptions, Aggregated>,

    /// What to cache.
    #[command(flatten)]
    pub cache: CacheFlags,

    /// Where features are gathered and batches used.
    #[command(flatten)]
    pub backend: BackendFlags,

    /// File of metrics: one JSON line per training batch
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub metrics: Option<PathBuf>,

    /// Serve the metrics of the run over HTTP for Prometheus, at /metrics of this port; on localhost unless a HOST is given
    #[arg(long, value_name = "[HOST:]PORT", value_parser = listen::address, help_heading = OUTPUT, hide_short_help = true)]
    pub metrics_listen: Option<std::net::SocketAddr>,

    /// File of a timeline of the batches, for ui.perfetto.dev and chrome://tracing
    #[arg(long, value_name = "FILE", help_heading = OUTPUT, hide_short_help = true)]
    pub trace: Option<PathBuf>,

    /// Print stages, buffers and memory; do not start the run
    #[arg(long, help_heading = OUTPUT)]
    #[serde(skip)]
    pub dry_run: bool,

    /// Print the time of each role and the memory of each process at the end
    #[arg(long, help_heading = OUTPUT, hide_short_help = true)]
    #[serde(skip)]
    pub verbose: bool,

    /// Print the result as one JSON object
    ///
    /// The output of the command then goes to stderr.
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// Command that takes the batches, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    #[serde(serialize_with = "words")]
    pub command: Vec<OsString>,
}

impl RunFlags {
    /// All options of the loader, as the runtime takes them.
    pub fn loader_options(&self) -> LoaderOptions {
        let LoaderOptions { aggregation, aggregate_argmax, .. } = self.aggregate.options();
        let mut options = LoaderOptions { aggregation, aggregate_argmax, ..self.loader.options() };
        // The cores are there once.
        let quarter = share_of_cores(4 * self.asked_ranks().named_count().unwrap_or(1) as usize);
        if !self.loader.gives("samplers") {
            options.samplers = quarter.min(8);
        }
        if !self.loader.gives("gather_threads") {
            options.gather_threads = quarter;
        }
        options
    }

    /// The ranks of the command, once it is known how many samplers they share and at which batch others join.
    pub fn asked_ranks(&self) -> RankRequest {
        let Self { ranks, roles, devices, sampler_devices, switch, .. } = self;
        let roles = match roles {
            Some(OrAuto::Named(counts)) => Some(*counts),
            Some(OrAuto::Auto) | None => None,
        };
        let switch = match switch {
            // Before roles are found it is not known which GPUs sample.
            Some(OrAuto::Named(batch)) if self.roles != Some(OrAuto::Auto) => Some(batch.0),
            Some(_) | None => None,
        };
        let (devices, sampler_devices) = (devices.clone(), sampler_devices.clone());
        let standby_cache = self.standby_cache.map_or(0, ByteSize::bytes);
        RankRequest { ranks: *ranks, roles, devices, sampler_devices, switch, standby_cache }
    }

    /// Whether roles are chosen by `--role-times`, and not named.
    pub fn chooses_roles(&self) -> bool {
        self.roles == Some(OrAuto::Auto) || self.switch == Some(OrAuto::Auto)
    }

    /// What `--roles auto` and `--switch auto` need, and what they cannot have.
    fn check_auto_roles(&self) -> Result<(), exit::CommandError> {
        let is_auto = self.roles == Some(OrAuto::Auto);
        let refused = |message: &str| Err(exit::usage(message));
        match &self.role_times {
            Some(_) if !self.chooses_roles() => {
                refused("--role-times: only valid with --roles auto or --switch auto")
            }
            None if self.chooses_roles() => {
                let option = if is_auto { "--roles auto" } else { "--switch auto" };
                refused(&format!(
                    "{option} requires the times of the stages: --role-times FILE, written by a run with --roles S:T and \
                     --metrics FILE"
                ))
            }
            _ if self.switch == Some(OrAuto::Auto) && self.roles.is_none() => refused(
                "--switch auto requires --roles: give --roles S:T, or the number of the batch instead of auto",
            ),
            _ if is_auto && self.ranks.is_some() => {
                refused("--roles auto chooses the number of ranks: omit --ranks, or give --roles S:T")
            }
            _ if is_auto && (self.devices.is_some() || self.sampler_devices.is_some()) => refused(
                "--roles auto divides all GPUs, and is not supported with --devices or --sampler-devices",
            ),
            _ if is_auto && self.backend.options().device != DeviceChoice::Auto => {
                refused("--roles auto divides the GPUs of the machine: omit --device, or give --roles S:T")
            }
            _ => Ok(()),
        }
    }

    /// What several ranks cannot have.
    fn check_ranks(&self, ranks: u32) -> Result<(), exit::CommandError> {
        let by = match (self.ranks, self.roles, &self.devices) {
            (None, Some(roles), _) => format!("--roles {roles}"),
            (None, None, Some(devices)) => format!("--devices {devices}"),
            _ => format!("--ranks {ranks}"),
        };
        // One trainer may only be several ranks by it.
        let by = match self.switch {
            Some(switch) => format!("{by} --switch {switch}"),
            None => by,
        };
        let refused = |other: &str, why: &str| Err(exit::usage(format!("{by} and {other}: {why}")));
        if self.metrics_listen.is_some() {
            return refused(
                "--metrics-listen",
                "the port serves the metrics of one rank; use --metrics, which writes one file per rank",
            );
        }
        if let DeviceChoice::Cuda(number) = self.backend.options().device {
            let why = "this option selects one GPU; list a GPU for each rank in --devices";
            return refused(&format!("--device cuda:{number}"), why);
        }
        // Whether each rank has a GPU for its cache is seen when they are placed.
        let caches = [("host_cache", "--host-cache"), ("plan", "--plan")];
        match caches.iter().find(|(name, _)| self.cache.gives(name)) {
            Some((_, option)) => {
                refused(option, "a cache belongs to one rank, and is not supported with several")
            }
            None => Ok(()),
        }
    }

    /// What ranks cannot have that share their samplers.
    fn check_shared_samplers(&self) -> Result<(), exit::CommandError> {
        let option = if self.roles.is_some() { "--roles" } else { "--sampler-devices" };
        if self.loader.gives("samplers") {
            let why = "the number of samplers is already specified; omit --samplers";
            return Err(exit::usage(format!("{option} and --samplers: {why}")));
        }
        if self.backend.gives("sampler") {
            let why = "the place of sampling is already specified; omit --sampler";
            return Err(exit::usage(format!("{option} and --sampler: {why}")));
        }
        if self.loader.options().prepare == Prepare::Whole {
            let why = "workers sample for one rank each; omit --prepare";
            return Err(exit::usage(format!("{option} and --prepare whole: {why}")));
        }
        Ok(())
    }

    /// What clap cannot see: options that contradict each other.
    ///
    /// # Errors
    /// Bad usage; the message names the options and what would do instead.
    pub fn check(&self) -> anyhow::Result<()> {
        if self.loader.in_process {
            return Err(exit::usage(
                "--in-process: not supported, since the command is a separate process; to load in one process, use uvatrain.Loader in a script",
            )
            .into());
        }
        self.check_auto_roles()?;
        let ranks = self.asked_ranks();
        ranks.check(&self.backend.options())?;
        if ranks.share_samplers() || self.roles.is_some() {
            self.check_shared_samplers()?;
        }
        if let Some(ranks @ 2..) = ranks.named_count() {
            self.check_ranks(ranks)?;
        }
        self.loader.check()?;
        Ok(self.backend.options().check().map_err(RuntimeError::from)?)
    }
}

/// As text, for the metrics' first line.
fn text<T: ToString, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    value.as_ref().map(ToString::to_string).serialize(serializer)
}

/// A single path as text, for the metrics' first line, and several as a list.
fn one_or_several<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
    match paths {
        [path] => path.serialize(serializer),
        paths => serializer.collect_seq(paths),
    }
}

/// The same of each word.
fn words<S: Serializer>(words: &[OsString], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(words.iter().map(|word| word.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use uva_runtime::Aggregation;

    use super::*;
    use crate::exit::{Code, code_of};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        run: RunFlags,
    }

    fn parsed(args: &str) -> Result<RunFlags, clap::Error> {
        let words = std::iter::once("x").chain(args.split_whitespace());
        Line::try_parse_from(words).map(|line| line.run)
    }

    #[test]
    fn arguments_after_the_dashes_belong_to_the_command() {
        let flags = parsed("data --slots 4 -- python train.py --slots 7 -- x").unwrap();
        assert_eq!(flags.loader.options().feature_slots, 4);
        assert_eq!(flags.command, ["python", "train.py", "--slots", "7", "--", "x"].map(OsString::from));
        let json = serde_json::to_value(&flags).unwrap();
        assert_eq!(json["command"][1], "train.py");
    }

    #[test]
    fn without_a_command_a_run_is_refused() {
        for args in ["data", "data --", "data python train.py"] {
            assert!(parsed(args).is_err(), "{args} was taken");
        }
    }

    #[test]
    fn three_slots_are_the_default_here() {
        assert_eq!(parsed("data -- sh").unwrap().loader.options().feature_slots, 3);
    }

    #[test]
    fn what_the_producer_aggregates_reaches_the_runtime() {
        let flags = parsed("data --aggregate max --aggregate-argmax -- sh").unwrap();
        let options = flags.loader_options();
        assert_eq!((options.aggregation, options.aggregate_argmax), (Aggregation::Max, true));
        assert_eq!(serde_json::to_value(&flags).unwrap()["aggregate"], "max");
        let flags = parsed("data --slots 5 -- sh").unwrap();
        let expected = LoaderOptions { aggregation: Aggregation::None, ..flags.loader.options() };
        assert_eq!(flags.loader_options(), expected);
        assert!(parsed("data --aggregate median -- sh").is_err());
    }

    #[test]
    fn a_command_is_not_a_thread_of_this_process() {
        let problem = parsed("data --in-process -- sh").unwrap().check().unwrap_err();
        assert_eq!(code_of(&problem), Code::BadInput);
        assert!(problem.to_string().contains("--in-process"), "{problem}");
    }
}

//! `uvatrain predict`, and the options that it shares with `evaluate`.

use std::path::PathBuf;

use clap::Args;
use uva_io::table::TableFormat;
use uva_launch::training::{AggregateInUse, EvaluateBy};
use uva_runtime::backend::DeviceChoice;
use uva_runtime::spec::ByteSize;

use crate::exit;
use crate::flags::declared::one_of;
use crate::flags::within::within;

const ANSWERS: &str = "Answers";
const MACHINE: &str = "Machine";
const OUTPUT: &str = "Output";

/// A trained model, and the options of its use.
#[derive(Args, Clone, Debug)]
pub struct ModelFlags {
    /// The dataset, or the hop set, that the model was trained on
    #[arg(value_name = "DATA")]
    pub data: PathBuf,

    /// The directory with the model's checkpoint, as `train --checkpoint` wrote it
    #[arg(long, value_name = "DIR")]
    pub checkpoint: PathBuf,

    /// Use the model with another dataset than that of its training, such as a graph that has grown. It must have the same
    /// number of feature columns, and no classes that the model does not have
    #[arg(long)]
    pub allow_other_dataset: bool,

    /// Neighbours to use: all, layer by layer over the whole graph (exact, on the CPU), or sampled with the fanouts of the
    /// training
    #[arg(long, value_parser = one_of::<EvaluateBy>(), default_value = EvaluateBy::Full.name())]
    pub eval: EvaluateBy,

    /// With --eval sampled, or a hop set: seed nodes per batch [default: as in training]
    #[arg(long, value_name = "NODES", value_parser = within::<u32>(1..))]
    pub batch_size: Option<u32>,

    /// With --eval sampled: maximum bytes of a batch's ids and blocks, and also of its feature rows; required for a model
    /// trained with a fanout of -1
    #[arg(long, value_name = "SIZE")]
    pub slot_bytes: Option<ByteSize>,

    /// With --eval sampled: where the neighbours of the first layer of sage and gcn are aggregated
    /// (docs/guide/aggregation.md). Predictions on the CPU are the same with auto and off [default: auto]
    #[arg(long, value_name = "WHO", value_parser = one_of::<AggregateInUse>(), help_heading = MACHINE)]
    pub aggregate: Option<AggregateInUse>,

    /// With --eval sampled: where features are gathered and the model computes: auto, cpu or cuda:0 [default: auto]
    #[arg(long, value_name = "DEVICE", value_parser = str::parse::<DeviceChoice>, help_heading = MACHINE)]
    pub device: Option<DeviceChoice>,

    /// Threads of the model's arithmetic on the CPU [default: the CPU cores; half of them with --eval sampled]
    #[arg(long, value_name = "T", value_parser = within::<u32>(1..=1024), help_heading = MACHINE)]
    pub threads: Option<u32>,

    /// Directory of libtorch, if it is not found automatically, as for `train`
    #[arg(long, value_name = "DIR", help_heading = MACHINE)]
    pub libtorch: Option<PathBuf>,

    /// Print the result as one JSON object on stdout
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,
}

impl ModelFlags {
    /// What clap cannot see: options that contradict each other.
    ///
    /// # Errors
    /// Bad usage; the message names the options.
    pub fn check(&self) -> anyhow::Result<()> {
        let given = [
            ("--batch-size", self.batch_size.is_some()),
            ("--slot-bytes", self.slot_bytes.is_some()),
            ("--aggregate", self.aggregate.is_some()),
            ("--device", self.device.is_some()),
        ];
        match given.iter().find(|(_, given)| *given && self.eval == EvaluateBy::Full) {
            None => Ok(()),
            Some((option, _)) => Err(exit::usage(format!(
                "{option}: not supported with --eval full, which computes on the CPU without batches: use --eval sampled"
            ))
            .into()),
        }
    }

    /// The same for a hop set, whose rows are read in batches, on the CPU.
    ///
    /// # Errors
    /// Bad usage; the message names the options.
    pub fn check_for_hops(&self) -> anyhow::Result<()> {
        let refused = [
            ("--eval sampled", self.eval == EvaluateBy::Sampled),
            ("--slot-bytes", self.slot_bytes.is_some()),
            ("--aggregate", self.aggregate.is_some()),
            ("--device", !matches!(self.device, None | Some(DeviceChoice::Auto | DeviceChoice::Cpu))),
        ];
        match refused.iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((option, _)) => Err(exit::usage(format!(
                "{option}: not supported with a hop set, whose rows contain whole neighbourhoods and are read on the CPU"
            ))
            .into()),
        }
    }
}

/// The options of `uvatrain predict`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  uvatrain predict data/demo --checkpoint run1
  uvatrain predict data/demo --checkpoint run1 --output classes.csv
  uvatrain predict data/demo --checkpoint run1 --nodes test --probabilities p.npy
  uvatrain predict data/demo --checkpoint run1 --embeddings emb.npy --layer 1

An array appears under its name when it is complete. After an interruption, the same command resumes.")]
pub struct PredictFlags {
    /// The model.
    #[command(flatten)]
    pub model: ModelFlags,

    /// Nodes to predict: all, train, valid, test, or a file: a .npy file of node ids (int64, int32) or of a bool for each
    /// node, or text with one id per line. Row i of each array belongs to the i-th node. With a hop set, all means all of
    /// its rows, in their order
    #[arg(long, value_name = "FILE|SPLIT", default_value = "all")]
    pub nodes: PathBuf,

    /// Write predicted classes, in the format of the file's suffix. NAME.npy: int64 [rows]; for multi-label data uint8
    /// [rows, classes]; for regression the predicted values, float32 [rows, targets]. NAME.csv or NAME.parquet: a table
    /// with each node's id, name, class and probability of each class, or for regression the predicted values [default:
    /// predictions.npy, unless another array is requested]
    #[arg(long, value_name = "FILE", help_heading = ANSWERS)]
    pub output: Option<PathBuf>,

    /// Write probabilities, float32 [rows, classes]; not valid for regression
    #[arg(long, value_name = "FILE", help_heading = ANSWERS)]
    pub probabilities: Option<PathBuf>,

    /// Write the output rows of a layer, float32 [rows, width]
    #[arg(long, value_name = "FILE", help_heading = ANSWERS)]
    pub embeddings: Option<PathBuf>,

    /// Number of that layer, from 1 [default: the last whose rows are not the logits]
    #[arg(long, value_name = "L", value_parser = within::<u32>(1..), requires = "embeddings", help_heading = ANSWERS)]
    pub layer: Option<u32>,

    /// Write the node of each row: int64 [rows], or text with one name per line. Ids are those of the dataset's source, if
    /// the dataset contains them; for a hop set, those in the dataset that it was made from
    #[arg(long, value_name = "FILE", help_heading = ANSWERS)]
    pub ids: Option<PathBuf>,

    /// Replace existing files
    #[arg(long, help_heading = ANSWERS)]
    pub overwrite: bool,
}

impl PredictFlags {
    /// An array is one file.
    ///
    /// # Errors
    /// Bad usage; the message names the options.
    pub fn check_files(&self) -> anyhow::Result<()> {
        let files = [
            ("--output", &self.output),
            ("--probabilities", &self.probabilities),
            ("--embeddings", &self.embeddings),
            ("--ids", &self.ids),
        ];
        for (place, (option, path)) in files.iter().enumerate() {
            let Some(path) = path else { continue };
            let refuse =
                |problem: &str| Err(exit::usage(format!("{option} {}: {problem}", path.display())).into());
            let is_array = path.extension().is_some_and(|suffix| suffix == "npy");
            match (*option, TableFormat::of(path)) {
                ("--ids", _) => {}
                ("--output", Some(format)) if format.is_supported() => {}
                ("--output", Some(_)) => {
                    return refuse("this build does not support Parquet: use .csv or .npy");
                }
                ("--output", None) if !is_array => {
                    return refuse("expected the suffix .npy (a NumPy array), .csv or .parquet (a table)");
                }
                _ if !is_array => return refuse("expected the suffix .npy (a NumPy array)"),
                _ => {}
            }
            if let Some((other, _)) = files[..place].iter().find(|(_, other)| other.as_ref() == Some(path)) {
                let path = path.display();
                return Err(exit::usage(format!(
                    "{other} {path} and {option} {path}: the files must differ"
                ))
                .into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        predict: PredictFlags,
    }

    fn parsed(args: &str) -> Result<PredictFlags, clap::Error> {
        let words = ["x", "data", "--checkpoint", "run"].into_iter().chain(args.split_whitespace());
        Line::try_parse_from(words).map(|line| line.predict)
    }

    #[test]
    fn what_sampling_alone_needs_is_refused_without_it() {
        for args in ["--batch-size 7", "--slot-bytes 1MiB", "--aggregate host", "--device cpu"] {
            let refused = parsed(args).unwrap().model.check().unwrap_err().to_string();
            assert!(refused.contains("--eval full"), "{args}");
            parsed(&format!("{args} --eval sampled")).unwrap().model.check().unwrap();
        }
        assert!(parsed("--layer 1").is_err() && parsed("--device gpu").is_err());
    }

    #[test]
    fn each_array_has_a_file_of_its_own() {
        let problem =
            parsed("--output a.npy --embeddings a.npy").unwrap().check_files().unwrap_err().to_string();
        assert!(problem.contains("--output a.npy and --embeddings a.npy"), "{problem}");
    }
}

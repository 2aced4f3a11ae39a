//! The options of everything that prepares mini-batches. They are declared in [`uva_runtime::options`].

use clap::Args;
use uva_runtime::spec::{Field, OptionError, ValueKind};
use uva_runtime::{FeatureType, LoaderOptions, RuntimeError};

use super::declared::{Declared, OptionFilter};

const PIPELINE: &str = "Pipeline";

/// How batches are made and handed on.
#[derive(Args, Clone, Debug, serde::Serialize)]
pub struct LoaderFlags {
    /// The library's.
    #[command(flatten)]
    #[serde(flatten)]
    declared: Declared<LoaderOptions, OfEveryLoader>,

    /// Run sampler, producer and consumer as threads of this process instead of separate processes
    #[arg(long, help_heading = PIPELINE, hide_short_help = true)]
    pub in_process: bool,
}

/// The options of every command that prepares batches: all but what the producer aggregates. With a built-in model, the
/// model decides about that.
#[derive(Clone, Copy, Debug)]
pub struct OfEveryLoader;

impl OptionFilter for OfEveryLoader {
    fn shows(field: &Field) -> bool {
        !Aggregated::shows(field)
    }
}

/// What the producer aggregates: an option of commands without a model.
#[derive(Clone, Copy, Debug)]
pub struct Aggregated;

impl OptionFilter for Aggregated {
    fn shows(field: &Field) -> bool {
        ["aggregate", "aggregate_argmax"].contains(&field.name)
    }
}

impl LoaderFlags {
    /// The same, as the runtime takes it: defaults that depend on the machine filled in.
    pub fn options(&self) -> LoaderOptions {
        self.declared.options()
    }

    /// The same for a built-in model, which computes in float32 whatever the table has.
    pub fn options_of_models(&self) -> LoaderOptions {
        let options = self.options();
        let asked = if self.gives("feature_type") { options.feature_type } else { FeatureType::Float32 };
        LoaderOptions { feature_type: asked, ..options }
    }

    /// Whether the option was given, for options without a constant default.
    pub fn gives(&self, name: &str) -> bool {
        self.declared.gives(name)
    }

    /// The options that were given, including those with a default.
    pub fn typed(&self) -> &[&'static Field] {
        &self.declared.typed
    }

    /// The options that decide what batches are and how large, as one would give them again. Defaults are left out.
    pub fn given_again(&self) -> String {
        let words = self.declared.given.that_make_batches().map(|(field, value)| match field.kind {
            ValueKind::Switch => format!(" --{}", field.long()),
            _ => format!(" --{} {value}", field.long()),
        });
        words.collect()
    }

    /// Options that have no effect in combination with the others.
    ///
    /// # Errors
    /// The first such option, and the values that are valid.
    pub fn check_use(&self) -> Result<(), RuntimeError> {
        Ok(self.declared.given.check_use(&self.options())?)
    }

    /// Options that contradict each other.
    ///
    /// # Errors
    /// The option to change, and the values that would do.
    pub fn check(&self) -> Result<(), RuntimeError> {
        let options = self.options();
        options.check()?;
        self.check_use()?;
        if options.fanouts.hop_of_all().is_some() && options.slot_bytes.is_none() {
            let fanouts = self.declared.given.get("fanouts").unwrap_or_default();
            return Err(OptionError::new(
                "fanouts",
                fanouts,
                "with -1 the maximum size of a batch is not known before the run: give the size of a slot with \
                 `slot_bytes`, for example `slot_bytes=256MiB`",
            )
            .into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use uva_runtime::spec::Spelling;
    use uva_sample::{Expand, SamplerKind};

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        loader: LoaderFlags,
    }

    fn refusal(args: &[&str]) -> String {
        flags(args).check().unwrap_err().spelled(Spelling::CommandLine)
    }

    fn flags(args: &[&str]) -> LoaderFlags {
        Line::try_parse_from([&["x"], args].concat()).unwrap_or_else(|e| panic!("{e}")).loader
    }

    #[test]
    fn fanouts_may_begin_with_a_minus() {
        assert_eq!(flags(&["--fanouts", "-1,5"]).options().fanouts, [-1, 5].into());
        assert_eq!(flags(&["--fanouts=-1"]).options().fanouts, [-1].into());
    }

    #[test]
    fn batch_slots_follow_the_samplers() {
        assert_eq!(flags(&["--samplers", "4"]).options().fewest_batch_slots(), 6);
        assert!(flags(&["--samplers", "4"]).check().is_ok());
    }

    #[test]
    fn too_few_batch_slots_are_refused_with_the_number_that_would_do() {
        let problem = refusal(&["--samplers", "4", "--batch-slots", "5"]);
        assert!(problem.contains("at least 6"), "{problem}");
        assert!(flags(&["--samplers", "4", "--batch-slots", "6"]).check().is_ok());
    }

    #[test]
    fn all_neighbours_need_a_slot_size() {
        let problem = refusal(&["--fanouts", "-1,5"]);
        assert!(problem.contains("--slot-bytes"), "{problem}");
        assert!(flags(&["--fanouts", "-1,5", "--slot-bytes", "64MiB"]).check().is_ok());
    }

    #[test]
    fn given_options_reach_the_runtime_unchanged() {
        let args = "--fanouts 7,3 --replace --batch-size 9 --drop-last --seed 5 --samplers 2 --slots 3 \
                    --batch-slots 8 --slot-bytes 1MiB --gather-threads 4 --batch-dependency 6 --expand new \
                    --sampler-kind weighted --edge-ids --input-id --feature-type float32 --walks 3 --walk-length 2 --walk-stop 7";
        let options = flags(&args.split_whitespace().collect::<Vec<_>>()).options();
        let expected = LoaderOptions {
            sampler_kind: SamplerKind::WEIGHTED,
            fanouts: [7, 3].into(),
            replace: true,
            batch_size: 9,
            drop_last: true,
            seed: 5,
            samplers: 2,
            feature_slots: 3,
            batch_slots: Some(8),
            slot_bytes: Some(1 << 20),
            feature_type: FeatureType::Float32,
            gather_threads: 4,
            batch_dependency: 6,
            expand: Expand::New,
            edge_ids: true,
            input_id: true,
            walks: 3,
            walk_length: 2,
            walk_stop: 7,
            ..LoaderOptions::default()
        };
        assert_eq!(options, expected);
    }

    #[test]
    fn models_take_float32_and_others_the_tables_type_by_default() {
        for (args, of_models, of_others) in [
            (&[][..], FeatureType::Float32, FeatureType::Table),
            (&["--feature-type", "table"], FeatureType::Table, FeatureType::Table),
            (&["--feature-type", "float32"], FeatureType::Float32, FeatureType::Float32),
        ] {
            let flags = flags(args);
            assert_eq!(flags.options_of_models().feature_type, of_models, "{args:?}");
            assert_eq!(flags.options().feature_type, of_others, "{args:?}");
        }
    }

    #[test]
    fn options_that_are_given_again_make_the_same_batches() {
        for line in [
            "",
            " --sampler-kind weighted --fanouts 7,-1 --replace --batch-size 9 --drop-last --seed 5 --batch-dependency 6 \
             --expand new --feature-type table --slot-bytes 1048576",
            " --sampler-kind walk --fanouts 7,3 --walks 3 --walk-length 2 --walk-stop 0 --batch-size 9",
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            let given = flags(&words);
            assert_eq!(given.given_again(), line);
        }
    }

    #[test]
    fn every_kind_of_sampler_can_be_selected_by_its_name() {
        for kind in SamplerKind::ALL {
            assert_eq!(flags(&["--sampler-kind", kind.name()]).options().sampler_kind, kind);
        }
        let problem = refusal(&["--sampler-kind", "labor", "--replace"]);
        assert!(problem.contains("--sampler-kind neighbor or weighted"), "{problem}");
        let problem = refusal(&["--sampler-kind", "ladies", "--expand", "new"]);
        assert!(problem.contains("use --expand all"), "{problem}");
        for option in ["--walks", "--walk-length", "--walk-stop"] {
            let problem = refusal(&["--sampler-kind", "labor", option, "5"]);
            assert!(problem.contains("only valid with --sampler-kind walk"), "{problem}");
            assert!(flags(&["--sampler-kind", "walk", option, "5"]).check().is_ok());
        }
    }

    #[test]
    fn zero_is_not_a_batch_size_nor_a_number_of_samplers() {
        for args in [["--batch-size", "0"], ["--samplers", "0"], ["--slots", "0"], ["--gather-threads", "0"]]
        {
            assert!(Line::try_parse_from([&["x"], &args[..]].concat()).is_err(), "{args:?} was taken");
        }
    }
}

//! The options that say where features are gathered and batches used. They are declared in [`uva_runtime::backend`].

use uva_runtime::backend::BackendOptions;

use super::declared::Declared;

/// Where features are gathered and batches used.
pub type BackendFlags = Declared<BackendOptions>;

#[cfg(test)]
mod tests {
    use clap::Parser;
    use uva_runtime::RuntimeError;
    use uva_runtime::backend::{
        DeviceChoice, GatherChoice, GpuShare, GpuSlots, IpcKind, Kernel, MpsChoice, PartitionChoice,
        PreflightPolicy, SamplerChoice, SignalKind, TablePagesChoice,
    };

    use super::*;
    use crate::exit::{Code, code_of};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        backend: BackendFlags,
    }

    fn options(args: &str) -> BackendOptions {
        let words = std::iter::once("x").chain(args.split_whitespace());
        Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).backend.options()
    }

    #[test]
    fn options_that_contradict_each_other_are_bad_usage() {
        for (args, field) in [
            ("--mps require --partition green", "mps"),
            ("--mps require --partition none", "mps"),
            ("--mps off --partition mps", "mps"),
            ("--mps require --device cpu", "mps"),
            ("--mps require --gather cpu", "gather"),
            ("--partition mps --gather cpu", "gather"),
        ] {
            let problem = options(args).check().unwrap_err();
            assert_eq!(problem.field, field, "{args}");
            assert_eq!(code_of(&RuntimeError::from(problem).into()), Code::BadInput, "{args}");
        }
        options("--mps require --partition mps --device cuda:0").check().unwrap();
        options("").check().unwrap();
    }

    #[test]
    fn given_options_reach_the_runtime_unchanged() {
        let given = options(
            "--device cuda:2 --gather split --kernel shift --mps require --mps-percentage 12 --partition mps \
             --ipc legacy --ipc-signals stamps --nvrtc lib --sampler gpu --mps-sampler-percentage 7 --preflight refuse \
             --table-pages hugetlb --remeasure --gpu-slots largest",
        );
        let expected = BackendOptions {
            device: DeviceChoice::Cuda(2),
            gather: GatherChoice::Split,
            kernel: Kernel::Shift,
            sampler: SamplerChoice::Gpu,
            mps_sampler_percentage: Some(7),
            mps: MpsChoice::Require,
            mps_percentage: GpuShare::Percent(12),
            partition: PartitionChoice::Mps,
            ipc: IpcKind::Legacy,
            ipc_signals: SignalKind::Stamps,
            gpu_slots: GpuSlots::Largest,
            nvrtc: Some("lib".into()),
            preflight: PreflightPolicy::Refuse,
            table_pages: TablePagesChoice::Hugetlb,
            remeasure: true,
        };
        assert_eq!(given, expected);
    }
}

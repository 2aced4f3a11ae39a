//! `uvatrain doctor`: what this machine has, what is missing, and the command that fixes it.
//!
//! It only reads: no setting is changed, and CUDA is loaded by a separate process. Each check is a function that
//! returns a [`Check`]. Checks are grouped by the part that they concern.

mod check;
mod gpu;
mod host;
mod torch;

use serde::Serialize;
use uva_runtime::backend::Probe;

use self::check::{Check, CheckStatus};
use crate::flags::machine::DoctorFlags;
use crate::ui::out;

/// The findings in the shape of their JSON.
#[derive(Serialize)]
struct Report {
    version: &'static str,
    /// Whether `train --device cpu` can run.
    trains_on_cpu: bool,
    /// Whether `train --device cuda:I` can run.
    trains_on_gpu: bool,
    checks: Vec<Check>,
}

/// Runs all checks and prints them. A missing part is a finding, not a failure of this command.
pub fn run(flags: &DoctorFlags) -> anyhow::Result<()> {
    let mut checks = host::checks();
    let (torch, program) = torch::checks(flags.libtorch.as_deref());
    checks.extend(torch);
    let trains_on_cpu = checks.iter().all(|check| check.status != CheckStatus::Missing);
    // A failed probe is a finding as well: the state of the GPU is then unknown.
    let probed = Probe::in_child(&[], false).ok();
    let probed = match &program {
        Some(program) => probed.and_then(|probed| program.probe(probed).ok()),
        None => probed,
    };
    checks.extend(gpu::checks(probed.as_ref()));
    let trains_on_gpu = trains_on_cpu && gpu::trains(probed.as_ref());
    let report = Report { version: env!("CARGO_PKG_VERSION"), trains_on_cpu, trains_on_gpu, checks };
    if flags.json { out::json(&report) } else { out::text(&text(&report)) }
}

fn text(report: &Report) -> String {
    let width = report.checks.iter().map(|check| check.name.chars().count()).max().unwrap_or(0);
    let mut text = format!("uvatrain {}\n\n", report.version);
    for check in &report.checks {
        let mark = match check.status {
            CheckStatus::Ok => "✓",
            CheckStatus::Note => "·",
            CheckStatus::Missing => "✗",
        };
        text += &format!("{mark} {:<width$}  {}\n", check.name, check.finding);
        if let Some(remedy) = &check.remedy {
            text += &format!("  {:<width$}  → {remedy}\n", "");
        }
    }
    text += match (report.trains_on_cpu, report.trains_on_gpu) {
        (_, true) => "\nThis machine can train on its GPU.\n",
        (true, false) => "\nThis machine can train on the CPU.\n",
        (false, false) => "\nThis machine cannot train yet: see ✗ above.\n",
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_comes_with_its_remedy_and_changes_the_verdict() {
        let report =
            |checks, trains_on_cpu| Report { version: "0", trains_on_cpu, trains_on_gpu: false, checks };
        let well = text(&report(vec![Check::ok("memory", "7 GiB")], true));
        assert!(well.contains("✓ memory  7 GiB") && well.contains("can train on the CPU"), "{well}");
        let ill = text(&report(
            vec![Check::missing("libtorch", "not there", "./scripts/setup/libtorch.sh")],
            false,
        ));
        assert!(ill.contains("✗ libtorch  not there\n            → ./scripts/setup/libtorch.sh"), "{ill}");
        assert!(ill.contains("cannot train yet"), "{ill}");
    }

    #[test]
    fn every_check_of_this_machine_reports_and_only_ok_has_no_remedy() {
        let checks: Vec<Check> =
            [host::checks(), torch::checks(None).0, gpu::checks(None)].into_iter().flatten().collect();
        assert!(checks.len() >= 8);
        for check in &checks {
            assert!(!check.finding.is_empty(), "{check:?}");
            assert_eq!(check.remedy.is_none(), check.status == CheckStatus::Ok, "{check:?}");
        }
    }
}

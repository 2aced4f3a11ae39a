//! `uvatrain bench requests`: the link cost of a row, derived from the kernels themselves, and what a GPU needs to
//! saturate the link.

use serde::Serialize;
use uva_cuda::partition::{Reach, reads_in_flight};
use uva_kernel_sim::requests::{LINE_BYTES, READ_OVERHEAD_BYTES, Requests, RequestsError, of_rows};
use uva_kernels::gather::{BLOCK_THREADS, BLOCKS_PER_MULTIPROCESSOR, Kernel};

use crate::exit;
use crate::flags::bench::{Gpu, RequestsBenchFlags};
use crate::ui::table::TextTable;
use crate::ui::{format, out};

#[derive(Serialize)]
struct Report {
    kernel: &'static str,
    row_bytes: u64,
    base_offset: u64,
    rows: u64,
    reads_per_row: Vec<u64>,
    bytes_per_row: Vec<u64>,
    payload_efficiency: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<Need>,
}

/// Runs the kernel and prints the result.
pub fn run(flags: &RequestsBenchFlags) -> anyhow::Result<()> {
    let RequestsBenchFlags { row_bytes, kernel, base_offset, rows, ids, .. } = *flags;
    let costs = of_rows(kernel, ids, row_bytes, base_offset, rows).map_err(|error| match error {
        RequestsError::Launch(_) => anyhow::Error::new(error),
        _ => exit::usage(format!(
            "--row-bytes {row_bytes}, --rows {rows}, --base-offset {base_offset}: {error}"
        ))
        .into(),
    })?;
    let total: Requests = costs.iter().copied().sum();
    let report = Report {
        kernel: kernel.name(),
        row_bytes,
        base_offset,
        rows,
        reads_per_row: costs.iter().map(|cost| cost.reads).collect(),
        bytes_per_row: costs.iter().map(|cost| cost.bytes).collect(),
        payload_efficiency: (rows * row_bytes) as f64 / total.bytes as f64,
        gpu: flags.gpu.map(|gpu| Need::of(gpu, kernel)),
    };
    if flags.json { out::json(&report) } else { out::text(&text(&report, total)) }
}

fn text(report: &Report, total: Requests) -> String {
    let mut rows =
        TextTable::with_heading(&["row", "offset in line", "reads", "bytes read", "wanted of them"]);
    for (index, (reads, bytes)) in report.reads_per_row.iter().zip(&report.bytes_per_row).enumerate() {
        rows.row(&[
            index.to_string(),
            ((report.base_offset + index as u64 * report.row_bytes) % LINE_BYTES).to_string(),
            format::count(*reads),
            format::count(*bytes),
            format::percent(report.row_bytes as f64 / *bytes as f64).to_string(),
        ]);
    }
    let payload = report.rows * report.row_bytes;
    let mut facts = TextTable::of_facts();
    facts.row(&["kernel", report.kernel]);
    facts.row(&["reads", &format!("{:.2} a row", total.reads as f64 / report.rows as f64)]);
    facts.row(&["payload", &format!("{} of the bytes read", format::percent(report.payload_efficiency))]);
    facts.row(&[
        "at most",
        &format!(
            "{} of what {LINE_BYTES}-byte reads reach on the link, with {READ_OVERHEAD_BYTES} bytes of overhead a read",
            format::percent(total.share_of_line_peak(payload))
        ),
    ]);
    let need = report.gpu.as_ref().map(|need| format!("\n{}", need.text(report.kernel))).unwrap_or_default();
    format!("{}\n{}{need}", rows.render(), facts.render())
}

/// Published figures of a GPU and its link. They are not measurements of this project.
struct Facts {
    name: &'static str,
    multiprocessors: u32,
    /// Warps that a multiprocessor can hold.
    warps: u32,
    /// Rates of the copy engine, or of the best zero-copy reads published.
    bytes_per_second: [f64; 2],
    /// Time from a read's start to the arrival of its data.
    round_trip_seconds: f64,
    /// Reads that a PCIe device may have open: 10-bit tags since PCIe 4 leave 768.
    most_reads: f64,
}

impl Facts {
    fn of(gpu: Gpu) -> Facts {
        let server = |name, bytes_per_second| Facts {
            name,
            multiprocessors: 132,
            warps: 64,
            bytes_per_second,
            round_trip_seconds: 1.3e-6,
            most_reads: 768.0,
        };
        match gpu {
            // Min et al.: 25.8 GB/s and 1.5 µs; "about 324 reads" takes their GB for GiB.
            Gpu::Rtx3090 => Facts {
                name: "GeForce RTX 3090, PCIe 4",
                multiprocessors: 82,
                warps: 48,
                bytes_per_second: [25.8e9, 25.8 * 1_073_741_824.0],
                round_trip_seconds: 1.5e-6,
                most_reads: 768.0,
            },
            // 25.1 by multiprocessors (NVIDIA/nvbandwidth issue 42), 25.6 by GraphBolt (dmlc/dgl pull request 6635).
            Gpu::A100 => Facts { multiprocessors: 108, ..server("A100, PCIe 4", [25.1e9, 25.6e9]) },
            // 35.2 by multiprocessors (NVIDIA/nvbandwidth issue 24), about 55 by the copy engine.
            Gpu::H100 => server("H100 SXM, PCIe 5", [35.2e9, 55e9]),
            // No reliable figures are published, so those of the H100 apply.
            Gpu::H200 => server("H200, PCIe 5", [35.2e9, 55e9]),
        }
    }
}

/// Multiprocessors that fill the link: reads in flight ÷ reads in flight of one multiprocessor.
#[derive(Serialize)]
struct Need {
    name: &'static str,
    multiprocessors: u32,
    gigabytes_per_second: [f64; 2],
    round_trip_us: f64,
    /// Bandwidth × round trip ÷ 128 bytes, for the lower and the higher bandwidth.
    reads_in_flight: [f64; 2],
    most_reads_in_flight: f64,
    warps_per_multiprocessor: u32,
    /// With one read in flight per warp and every warp in use: for the reads above, and for the largest number of
    /// reads.
    multiprocessors_at_one_read_a_warp: [f64; 3],
    /// This kernel's work in flight on a multiprocessor: warps of the resident blocks, and reads of each warp.
    kernel_warps_per_multiprocessor: u32,
    kernel_reads_per_warp: u32,
    multiprocessors_of_kernel: [f64; 3],
}

impl Need {
    fn of(gpu: Gpu, kernel: Kernel) -> Need {
        let facts = Facts::of(gpu);
        let reads = facts.bytes_per_second.map(|bytes| reads_in_flight(bytes, facts.round_trip_seconds));
        let kernel_warps = BLOCK_THREADS / 32 * BLOCKS_PER_MULTIPROCESSOR;
        let kernel_reads = kernel.reads_per_warp();
        let all = [reads[0], reads[1], facts.most_reads];
        let multiprocessors = |warps, reads_per_warp| {
            let reach = Reach { multiprocessors: facts.multiprocessors, warps, reads_per_warp };
            all.map(|reads| reach.multiprocessors_exactly(reads))
        };
        Need {
            name: facts.name,
            multiprocessors: facts.multiprocessors,
            gigabytes_per_second: facts.bytes_per_second.map(|bytes| bytes / 1e9),
            round_trip_us: facts.round_trip_seconds * 1e6,
            reads_in_flight: reads,
            most_reads_in_flight: facts.most_reads,
            warps_per_multiprocessor: facts.warps,
            multiprocessors_at_one_read_a_warp: multiprocessors(facts.warps, 1),
            kernel_warps_per_multiprocessor: kernel_warps.min(facts.warps),
            kernel_reads_per_warp: kernel_reads,
            multiprocessors_of_kernel: multiprocessors(kernel_warps.min(facts.warps), kernel_reads),
        }
    }

    fn text(&self, kernel: &str) -> String {
        let whole = |exact: f64| {
            let share = format::percent(exact / f64::from(self.multiprocessors));
            format!("{} of {} ({share})", exact.ceil().max(1.0), self.multiprocessors)
        };
        let span = |exact: [f64; 3]| format!("{}, {} at most", whole(exact[1]), whole(exact[2]));
        let mut facts = TextTable::of_facts();
        facts.row(&["GPU", self.name]);
        facts.row(&[
            "reads in flight",
            &format!(
                "{:.1}…{:.1} GB/s × {} µs / {LINE_BYTES} bytes = {:.0}…{:.0}; the link allows {}",
                self.gigabytes_per_second[0],
                self.gigabytes_per_second[1],
                self.round_trip_us,
                self.reads_in_flight[0],
                self.reads_in_flight[1],
                self.most_reads_in_flight
            ),
        ]);
        facts.row(&[
            "multiprocessors",
            &format!(
                "{}, with {} warps each and one read a warp",
                span(self.multiprocessors_at_one_read_a_warp),
                self.warps_per_multiprocessor
            ),
        ]);
        facts.row(&[
            "",
            &format!(
                "{}, with {} warps each and the {} reads a warp of {kernel}",
                span(self.multiprocessors_of_kernel),
                self.kernel_warps_per_multiprocessor,
                self.kernel_reads_per_warp
            ),
        ]);
        format!(
            "{}Published figures, not measured; percentages are of exact quotients, before rounding up.\n",
            facts.render()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_bounds_of_an_rtx_3090_come_out() {
        let need = Need::of(Gpu::Rtx3090, Kernel::Naive);
        assert_eq!(need.reads_in_flight.map(f64::round), [302.0, 325.0]);
        let shares =
            need.multiprocessors_at_one_read_a_warp.map(|exact| exact / f64::from(need.multiprocessors));
        assert_eq!(format::percent(shares[1]).to_string(), "8.2 %");
        assert_eq!(format::percent(shares[2]).to_string(), "19.5 %");
        assert_eq!(need.multiprocessors_at_one_read_a_warp[2].ceil(), 16.0);
    }

    #[test]
    fn wide_needs_no_more_multiprocessors_than_the_others() {
        for gpu in [Gpu::Rtx3090, Gpu::A100, Gpu::H100, Gpu::H200] {
            let [naive, wide] =
                [Kernel::Naive, Kernel::Wide].map(|kernel| Need::of(gpu, kernel).multiprocessors_of_kernel);
            assert!(naive.iter().zip(wide).all(|(naive, wide)| wide <= *naive), "{gpu:?}");
        }
    }
}

//! Translates a report's failure into the errors of the sampler on the CPU.

use crate::{BatchKey, Capacity, SampleError};
use uva_cuda::kernels::sample::{SampleArguments, SampleReport};
use uva_graph::Csc;

const NONE: u64 = u64::MAX;

/// The first error of a batch, if any. `layers` are the launch arguments of each layer.
pub(crate) fn of_report(
    report: &SampleReport,
    key: BatchKey,
    seeds: &[i64],
    csc: &Csc<'_>,
    layers: &[SampleArguments],
) -> Option<SampleError> {
    let layer = report.failed_layer as usize;
    let too_large = |what, capacity| SampleError::BatchTooLarge { key, what, capacity };
    let arguments = layers.get(layer)?;
    let group = |destination: u64| group(destination, report.failed_first, arguments);
    match report.failure {
        0 => None,
        1 => {
            let position = report.bad_seed as usize;
            let seed = seeds.get(position).copied().unwrap_or(-1);
            Some(SampleError::SeedOutOfRange { key, position, seed, nodes: csc.nodes() })
        }
        2 => Some(too_large(Capacity::Destinations { layer }, arguments.destinations_room as usize)),
        4 => Some(too_large(Capacity::Edges { layer }, arguments.edges_room as usize)),
        // Entries of a group are resolved by original id before any of its picks is checked.
        _ if report.bad_entry != NONE && report.bad_entry_edge <= report.bad_edge.min(report.no_room) => {
            Some(no_node(report.bad_entry_position, csc))
        }
        // Picks are checked after the lists of their group and before those of the next. So an invalid pick is reported
        // before an invalid list.
        _ if report.bad_edge < report.no_room => Some(no_node(report.bad_position, csc)),
        _ if report.no_room != NONE => Some(too_large(Capacity::Nodes, arguments.nodes_room as usize)),
        // Within a group, lists are checked before their weights, and these before the picks are counted.
        _ if report.bad_list != NONE
            && group(report.bad_list) <= group(report.bad_home.min(report.overflow)) =>
        {
            let node = report.bad_node as usize;
            let end_of = |at: usize| csc.indptr.get(at).copied().unwrap_or(-1);
            let (begin, end) = (end_of(node), end_of(node + 1));
            Some(SampleError::InvalidList { node: node as i64, begin, end, edges: csc.edges() })
        }
        _ if report.bad_home != NONE && group(report.bad_home) <= group(report.overflow) => {
            let node = report.bad_home_node as usize;
            let begin = report.bad_home_begin as usize;
            let end = begin.saturating_add(csc.degree(node)) as i64;
            Some(SampleError::InvalidList { node: node as i64, begin: begin as i64, end, edges: csc.edges() })
        }
        _ => Some(too_large(Capacity::Edges { layer }, arguments.edges_room as usize)),
    }
}

/// The error for an entry that is not a node.
fn no_node(position: u64, csc: &Csc<'_>) -> SampleError {
    let position = position as usize;
    let neighbor = if position < csc.edges() { csc.indices.get(position) } else { -1 };
    SampleError::InvalidNeighbor { position, neighbor, nodes: csc.nodes() }
}

/// The group of a destination among those without kept picks. `NONE` is after all groups.
fn group(destination: u64, first: u64, arguments: &SampleArguments) -> u64 {
    destination.saturating_sub(first) / u64::from(arguments.group.max(1))
}

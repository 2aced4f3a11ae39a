//! Checks, before any process starts, that the machine has the minimum memory of a training. Otherwise the kernel would
//! kill a process without a message.

use rustix::process::{Resource, getrlimit};
use uva_cuda::memory::HostMemory;
use uva_graph::Dataset;
use uva_model::{Footprint, Shapes, TrainerOptions};

use super::task::{feature_columns, outputs};
use crate::training::job::{EvaluateBy, TrainingOptions};
use uva_runtime::RuntimeError;
use uva_runtime::backend::Backend;

/// Rejects a model that does not fit into this machine's memory. `batch_size` is the size of the largest batch.
///
/// # Errors
/// [`RuntimeError::Missing`] with the required and the available memory, and the source of the model's size.
pub(crate) fn check(
    dataset: &Dataset,
    options: &TrainingOptions,
    batch_size: usize,
    backend: &Backend,
) -> Result<(), RuntimeError> {
    let shapes = shapes(dataset, options, batch_size);
    let footprint = Footprint::new(&options.trainer(), &shapes);
    // The process on the GPU checks the GPU's memory itself.
    let need = if backend.cuda().is_some() { footprint.beside_a_gpu() } else { footprint.on_host() };
    let Some(limit) = limits().into_iter().find(|limit| limit.bytes < need) else { return Ok(()) };
    let count = |number: u64| grouped(&number.to_string());
    let evaluated = match shapes.nodes_evaluated {
        Some(_) => format!("; `eval=full` keeps rows of all {} nodes", count(dataset.nodes() as u64)),
        None => String::new(),
    };
    let rows_between = match footprint.activation_bytes {
        0 => String::new(),
        bytes => format!(", whose rows between the layers take {}", gib(bytes)),
    };
    let tables = match footprint.embedding_bytes {
        0 => String::new(),
        bytes => format!("; trained rows of node types without features take {}", gib(bytes)),
    };
    Err(RuntimeError::missing(format!(
        "training requires at least {} of memory, but {} leaves {}: the model has {} parameters (`hidden={}`, {} feature \
         columns, {} classes by {}), each with a gradient and two moments of Adam, and a logit for each class of {} \
         seeds{rows_between}{tables}{evaluated}; {}lower `hidden` or `batch_size`, correct the number of classes, or free memory",
        gib(need),
        limit.name,
        gib(limit.bytes),
        count(footprint.parameters),
        options.hidden,
        count(shapes.input_dim as u64),
        count(shapes.classes as u64),
        dataset.classes_from(),
        count(batch_size as u64),
        limit.remedy,
    )))
}

/// Rejects a pass over the whole graph for which this machine has too little memory.
///
/// # Errors
/// [`RuntimeError::Missing`] with the required and the available memory, and the reason.
pub(super) fn check_whole_graph(dataset: &Dataset, options: &TrainerOptions) -> Result<(), RuntimeError> {
    let (input_dim, classes) = (feature_columns(dataset), outputs(dataset));
    let nodes_evaluated = Some(dataset.schema().nodes.clone());
    let shapes = Shapes { input_dim, classes, seeds: 0, nodes_evaluated };
    let need = Footprint::new(options, &shapes).beside_a_gpu();
    let Some(limit) = limits().into_iter().find(|limit| limit.bytes < need) else { return Ok(()) };
    Err(RuntimeError::missing(format!(
        "`eval=full` requires at least {} of memory, but {} leaves {}: it keeps rows of all {} nodes, {} columns wide; {}use \
         `eval=sampled`, or free memory",
        gib(need),
        limit.name,
        gib(limit.bytes),
        grouped(&dataset.nodes().to_string()),
        options.hidden,
        limit.remedy,
    )))
}

/// A lower bound on the memory of a training with these options.
pub(crate) fn footprint(dataset: &Dataset, options: &TrainingOptions, batch_size: usize) -> Footprint {
    Footprint::new(&options.trainer(), &shapes(dataset, options, batch_size))
}

fn shapes(dataset: &Dataset, options: &TrainingOptions, batch_size: usize) -> Shapes {
    Shapes {
        input_dim: feature_columns(dataset),
        classes: outputs(dataset),
        seeds: batch_size,
        nodes_evaluated: (options.evaluate_by == EvaluateBy::Full).then(|| dataset.schema().nodes.clone()),
    }
}

/// A limit on the memory of a process that trains.
struct Limit {
    bytes: u64,
    name: String,
    /// The way to raise it, if there is one.
    remedy: &'static str,
}

/// The limits that the system reports.
fn limits() -> Vec<Limit> {
    let mut limits = Vec::new();
    // If the system does not report its memory, do not assume that it is too little.
    if let Ok(memory) = HostMemory::read() {
        let (bytes, name) = memory.tightest_limit();
        limits.push(Limit { bytes, name, remedy: "" });
    }
    for (resource, name, remedy) in [
        (
            Resource::As,
            "the limit on a process's address space (RLIMIT_AS)",
            "raise it (`ulimit -v unlimited`), ",
        ),
        (Resource::Data, "the limit on a process's data (RLIMIT_DATA)", "raise it (`ulimit -d unlimited`), "),
    ] {
        if let Some(bytes) = getrlimit(resource).current {
            limits.push(Limit { bytes, name: name.to_owned(), remedy });
        }
    }
    limits
}

fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / (1_u64 << 30) as f64)
}

/// Digits with a comma every three.
fn grouped(digits: &str) -> String {
    let comma = |place: usize| if place > 0 && (digits.len() - place).is_multiple_of(3) { "," } else { "" };
    digits.chars().enumerate().flat_map(|(place, digit)| comma(place).chars().chain([digit])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        for (digits, text) in [("0", "0"), ("999", "999"), ("1000", "1,000"), ("1234567", "1,234,567")] {
            assert_eq!(grouped(digits), text);
        }
    }
}

//! The smallest program that takes a run's batches: it prints the hashes of an epoch.
//!
//! ```text
//! cargo build -p uva-runtime --example attached
//! uvatrain run data/demo --fanouts 10,5 -- target/debug/examples/attached
//! ```

use uva_graph::Split;
use uva_launch::launcher::attach;
use uva_runtime::RuntimeError;

fn main() -> Result<(), RuntimeError> {
    let mut batches = attach()?.begin(Split::Train);
    // `None` after the epoch's last batch, and after Ctrl-C, when the launcher waits for this program to end.
    while let Some(batch) = batches.next_batch(&|| false)? {
        println!(
            "{}.{}: {} nodes, hash {:016x}",
            batch.epoch(),
            batch.index(),
            batch.node_count(),
            batch.hash()
        );
    }
    batches.close()
}

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
    // `None`: behind the epoch's last batch. After Ctrl-C too, when the launcher waits for this program's end.
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

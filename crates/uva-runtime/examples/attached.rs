//! The smallest program that takes a run's batches: it prints the hashes of an epoch.
//!
//! ```text
//! cargo build -p uva-runtime --example attached
//! uvatrain run data/demo --fanouts 10,5 -- target/debug/examples/attached
//! ```

use uva_runtime::RuntimeError;
use uva_runtime::launcher::attach;

fn main() -> Result<(), RuntimeError> {
    let mut attached = attach()?;
    let batches = attached.schedule().train_batches();
    for _ in 0..batches {
        // `None`: Ctrl-C, and the launcher waits for this program's end.
        let Some(batch) = attached.next_batch()? else { break };
        println!(
            "{}.{}: {} nodes, hash {:016x}",
            batch.epoch(),
            batch.index(),
            batch.node_count(),
            batch.hash()
        );
    }
    attached.close()
}

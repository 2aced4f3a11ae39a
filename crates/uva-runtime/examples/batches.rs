//! The loader inside another program: no processes, no libtorch. Batches are prepared ahead of their use.
//!
//!     cargo run --release -p uva-runtime --example batches -- data/demo

use uva_runtime::{Runtime, RuntimeError};

fn main() -> Result<(), RuntimeError> {
    let Some(dataset) = std::env::args_os().nth(1) else {
        eprintln!("usage: batches DATA (a dataset directory, as `uvatrain generate` writes it)");
        std::process::exit(2);
    };
    let mut runtime =
        Runtime::builder(&dataset).fanouts([10, 5]).batch_size(512).samplers(2).seed(1).epochs(1).build()?;
    println!("{} batches an epoch", runtime.schedule().train_batches());

    // A batch owns its slot, and dropping it gives the slot back. Slices of it borrow from the batch. Several batches may
    // be held at once, as long as one feature slot is left for the next.
    while let Some(batch) = runtime.next_batch()? {
        let features = batch.features();
        let edges: usize = (0..batch.layers()).map(|layer| batch.block(layer).indices.len()).sum();
        println!(
            "epoch {} batch {:3}: {} seeds, {} rows of {} bytes, {edges} edges, hash {:016x}",
            batch.epoch(),
            batch.index(),
            batch.seeds().len(),
            features.rows,
            features.row_bytes(),
            batch.hash(),
        );
    }
    println!("the {} was the bottleneck", runtime.roles().bottleneck());
    Ok(())
}

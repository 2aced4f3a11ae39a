//! The loader inside a program of one's own: no processes, no libtorch. Batches come ahead of their use, each borrowed
//! from its slot.
//!
//!     cargo run --release -p uva-runtime --example batches -- data/demo

use uva_runtime::{Runtime, RuntimeError};

fn main() -> Result<(), RuntimeError> {
    let Some(dataset) = std::env::args_os().nth(1) else {
        eprintln!("usage: batches DATA (a dataset directory, as `uvatrain generate` writes it)");
        std::process::exit(2);
    };
    let mut runtime =
        Runtime::builder(&dataset).fanouts(&[10, 5]).batch_size(512).samplers(2).seed(1).epochs(1).build()?;
    println!("{} batches an epoch", runtime.schedule().train_batches());

    // A batch lives in a slot that the producer wants back: it borrows the runtime and ends before the next is asked.
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

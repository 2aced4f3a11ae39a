//! `uvatrain order`: writes sequences of training seeds in which near nodes follow one another to a file.

use std::time::Instant;

use serde_json::json;
use uva_graph::Dataset;
use uva_runtime::sampler::order_making;
use uva_runtime::spec::ByteSize;

use crate::flags::data::OrderFlags;
use crate::runs::pipeline::{check_outputs, check_paths};
use crate::ui::work::Work;
use crate::ui::{format, out, shell};

/// Makes and writes the sequences, and prints how to use them.
pub fn run(flags: &OrderFlags) -> anyhow::Result<()> {
    check_paths(&[("DATA", Some(flags.data.as_path())), ("--out", Some(flags.out.as_path()))])?;
    check_outputs(&[("--out", Some(flags.out.as_path()))], &[Some(flags.data.as_path())])?;
    let dataset = Dataset::open(&flags.data)?;
    let work = Work::of_unknown_length("ordering seeds");
    let began = Instant::now();
    let made = order_making::sequences(&dataset, (flags.seed, flags.order_edges), flags.sequences)?;
    let seconds = began.elapsed().as_secs_f64();
    order_making::write(&flags.out, &dataset, &made)?;
    drop(work);
    let (count, seeds) = (made.count(), made.positions());
    let bytes = 4 * (count * seeds) as u64;
    if flags.json {
        return out::json(&json!({
            "path": flags.out,
            "sequences": count,
            "training_nodes": seeds,
            "bytes": bytes,
            "seed": flags.seed,
            "order_edges": flags.order_edges.name(),
            "seconds": seconds,
        }));
    }
    let path = flags.out.display();
    out::say(&format!(
        "{path}: {count} sequences of {} training nodes, {}, made in {}",
        format::count(seeds as u64),
        ByteSize::from_bytes(bytes),
        format::seconds(seconds)
    ));
    let [data, order] = [&flags.data, &flags.out].map(|path| shell::path(path));
    out::say(&format!("next: uvatrain train {data} --seed-order proximity --order {order}"));
    Ok(())
}

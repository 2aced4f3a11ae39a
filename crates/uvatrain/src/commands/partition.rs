//! `uvatrain partition`: a dataset cut into parts by a map.

use uva_graph::{Dataset, PartitionMap};

use super::partition_parts;
use super::pipeline::check_paths;
use crate::flags::PartitionFlags;

/// Writes the parts, and says what they hold.
pub fn run(flags: &PartitionFlags) -> anyhow::Result<()> {
    check_paths(&[("DATA", Some(flags.data.as_path())), ("OUT", Some(flags.out.as_path()))])?;
    super::clean_up_on_signals()?;
    let dataset = Dataset::open(&flags.data)?;
    let map = PartitionMap::open(&flags.map, &dataset)?;
    partition_parts::write(&dataset, &map, &flags.parts, &flags.out, flags.json)
}

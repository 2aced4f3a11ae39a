//! `--dry-run`: the processes that a run would start, and the resources it would take.

use uva_runtime::machine::memory::MemoryKind;
use uva_runtime::pipeline::dry_run::DryRun;
use uva_runtime::spec::ByteSize;

use crate::ui::out;
use crate::ui::table::TextTable;

/// Prints the dry run, as text or as one JSON object.
pub fn show(dry: &DryRun, json: bool) -> anyhow::Result<()> {
    let mut dry = dry.clone();
    if let Some(slots) = &mut dry.gpu_slots {
        slots.reason = out::spelled(&slots.reason);
    }
    if json { out::json(&dry) } else { out::text(&text(&dry)) }
}

fn text(dry: &DryRun) -> String {
    let bytes = |bytes: u64| ByteSize::from_bytes(bytes).to_string();
    let ring = |ring: Option<&str>| ring.unwrap_or("–").to_owned();
    let mut stages = TextTable::of_facts();
    stages.row(&["stage", "runs as", "device", "reads", "writes"]);
    for stage in &dry.stages {
        let (reads, writes) = (ring(stage.reads), ring(stage.writes));
        stages.row(&[stage.stage.clone(), stage.runs.clone(), stage.device.clone(), reads, writes]);
    }
    let mut rings = TextTable::with_heading(&["ring", "slots", "bytes a slot", "on the GPU"]);
    for line in &dry.rings {
        let device =
            if line.device_slot_bytes > 0 { bytes(line.device_slot_bytes) } else { "–".to_owned() };
        rings.row(&[line.ring.to_owned(), line.slots.to_string(), bytes(line.slot_bytes), device]);
    }
    let mut memory = TextTable::with_heading(&["memory", "host", "pinned", "device", "mapped files"]);
    for line in &dry.memory {
        let of = |kind| if kind == line.kind { bytes(line.bytes) } else { String::new() };
        let [host, pinned, device, mapped] = MemoryKind::ALL.map(of);
        memory.row(&[line.item.clone(), host, pinned, device, mapped]);
    }
    let [host, pinned, device, mapped] = MemoryKind::ALL.map(|kind| bytes(dry.bytes(kind)));
    memory.row(&["in all, about".to_owned(), host, pinned, device, mapped]);
    let mut text = format!("{}\n{}\nfeature rows: {}\n\n", stages.render(), rings.render(), dry.rows);
    if let Some(slots) = &dry.gpu_slots {
        text += &format!(
            "feature slots on the GPU: {} each, where the largest possible batch takes {}: {}\n\n",
            bytes(slots.bytes),
            bytes(slots.largest_bytes),
            slots.reason
        );
    }
    text += &memory.render();
    if !dry.decided_at_start.is_empty() {
        text += "\ndecided when the run starts\n";
        for line in &dry.decided_at_start {
            text += &format!("  {line}\n");
        }
    }
    text
}

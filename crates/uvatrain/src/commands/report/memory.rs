//! What the processes of a run had of memory.

use uva_runtime::memory::ProcessMemory;

use super::html::{Table, shortened};
use super::run::Run;
use uva_runtime::spec::ByteSize;

/// More rows than anybody reads; a file can name as many processes as it likes.
const MOST: usize = 64;

/// The table of a run that told it, folded away.
pub fn table(run: &Run) -> Option<String> {
    let processes = &run.end.as_ref()?.memory;
    if processes.is_empty() {
        return None;
    }
    let shared = match processes.len() {
        1 => "",
        _ => "; mapped files and shared memory are there once, and count in each",
    };
    let caption = format!("Memory of each process as its work ended{shared}");
    let mut table =
        Table::new(&caption, &["process", "resident", "its own", "mapped files", "shared memory", "peak"]);
    for process in processes.iter().take(MOST) {
        table.row(&row(process));
    }
    if let Some(more @ 1..) = processes.len().checked_sub(MOST) {
        table.row(&[format!("{more} more"), "–".into(), "–".into(), "–".into(), "–".into(), "–".into()]);
    }
    Some(table.folded())
}

fn row(process: &ProcessMemory) -> [String; 6] {
    let bytes = |bytes: u64| ByteSize::from_bytes(bytes).to_string();
    [
        shortened(&process.process, 80),
        bytes(process.resident_bytes),
        bytes(process.own_bytes),
        bytes(process.file_bytes),
        bytes(process.shared_bytes),
        bytes(process.peak_bytes),
    ]
}

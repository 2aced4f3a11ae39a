//! The slots of a run's rings, observed from outside: the memory of a role that has both, read through /proc according
//! to the layout that uva-mem's ring documents.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use super::runs::{Process, wait_until};

/// The states of a slot, by the two low bits of its state word.
pub const STATES: [&str; 4] = ["free", "filling", "ready", "reading"];

/// Between samplers and producer, and between producer and consumer.
pub const RINGS: [&str; 2] = ["batch", "feature"];

/// The memory of rings.
pub struct Rings(Vec<File>);

impl Rings {
    /// The rings of these names in a role, once it has them.
    pub fn of(role: &Process, names: &[&str]) -> Rings {
        let mut found = None;
        wait_until("the role has its rings", || {
            found = names.iter().map(|name| Self::memory(role.pid, name)).collect::<Option<_>>().map(Rings);
            found.is_some()
        });
        found.expect("it was found")
    }

    fn memory(pid: i32, name: &str) -> Option<File> {
        let wanted = format!("/memfd:uva-ring-{name} (deleted)");
        let mut descriptors = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
        let path = descriptors
            .find(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.to_string_lossy() == wanted))?
            .path();
        File::open(path).ok()
    }

    /// The states of a ring's slots, as numbers of [`STATES`].
    pub fn states(&self, ring: usize) -> Vec<usize> {
        let word = |at: u64| {
            let mut bytes = [0; 4];
            self.0[ring].read_exact_at(&mut bytes, at).expect("a ring's first pages can be read");
            u32::from_le_bytes(bytes)
        };
        let slots = u64::from(word(16));
        (1..=slots).map(|line| word(128 * line) as usize & 3).collect()
    }
}

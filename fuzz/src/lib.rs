//! What may come from outside (files that somebody made, messages of another process) given to what reads it.
//!
//! A target takes bytes, makes of them what its reader reads, and lets it read. Every target holds that nothing panics,
//! overflows, hangs or allocates without bound, and that what is accepted is what it claims to be; what is refused is
//! refused with an error. `scripts/check/fuzz.sh` runs libFuzzer over them; the tests here flip every byte of every seed
//! once.
//!
//! | target | bytes become | and are read by |
//! |---|---|---|
//! | `npy` | a `.npy` file | [`uva_graph::npy`] |
//! | `dataset` | some files of a dataset, its stamp and metadata among them | [`uva_graph::Dataset`], in full |
//! | `import-…` | some files of a source, unpacked | each importer, and what it made is opened |
//! | `plan` | a plan and its files of ids | [`uva_plan`] |
//! | `slot` | the eight words of a slot's header | the ring's protocol, as each side |
//! | `ring` | a ring's memory | [`uva_mem::ring::Ring::open`] |
//! | `handover` | what a peer sends over a socket | [`uva_mem::handover`] |
//! | `checkpoint` | a checkpoint's files | `uva_train::checkpoint` (feature `train`) |
#![forbid(unsafe_code)]

#[cfg(feature = "train")]
mod checkpoint;
mod dataset;
mod files;
mod import;
mod messages;
mod plan;
mod slots;

/// One thing to fuzz.
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Takes one input, and says whether it was accepted.
    pub run: fn(&[u8]) -> bool,
    /// Inputs that are accepted, to start from.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "npy", run: dataset::npy, seeds: dataset::npy_seeds },
    Target { name: "dataset", run: dataset::dataset, seeds: dataset::dataset_seeds },
    Target { name: "import-npy", run: import::npy, seeds: import::npy_seeds },
    Target { name: "import-planetoid", run: import::planetoid, seeds: import::planetoid_seeds },
    Target { name: "import-gnn-npz", run: import::gnn_npz, seeds: import::gnn_npz_seeds },
    Target { name: "import-edgelist", run: import::edgelist, seeds: import::edgelist_seeds },
    Target { name: "import-ogb-text", run: import::ogb_text, seeds: import::ogb_text_seeds },
    Target { name: "import-ogb-archives", run: import::ogb_archives, seeds: import::ogb_archives_seeds },
    Target { name: "import-graphbolt", run: import::graphbolt, seeds: import::graphbolt_seeds },
    Target { name: "import-igb", run: import::igb, seeds: import::igb_seeds },
    Target { name: "plan", run: plan::plan, seeds: plan::seeds },
    Target { name: "slot", run: slots::slot, seeds: slots::slot_seeds },
    Target { name: "ring", run: slots::ring, seeds: slots::ring_seeds },
    Target { name: "handover", run: messages::handover, seeds: messages::seeds },
    #[cfg(feature = "train")]
    Target { name: "checkpoint", run: checkpoint::checkpoint, seeds: checkpoint::seeds },
];

/// The target of this name.
///
/// # Panics
/// When there is none; says which there are.
pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        panic!("no target {name:?}: there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_accepted() {
        for target in TARGETS {
            for (number, seed) in (target.seeds)().iter().enumerate() {
                assert!((target.run)(seed), "seed {number} of {}", target.name);
            }
        }
    }

    /// Two seconds: the importers write files for each.
    #[test]
    fn every_byte_of_every_seed_flipped_once_is_survived() {
        for target in TARGETS {
            for seed in (target.seeds)() {
                (target.run)(&seed);
                // A long seed is mostly payload: some thousand places of it tell as much.
                let step = seed.len().div_ceil(1500).max(1);
                for place in (0..seed.len()).step_by(step) {
                    let mut flipped = seed.clone();
                    flipped[place] ^= 1 << (place % 8);
                    (target.run)(&flipped);
                    flipped[place] = !seed[place];
                    (target.run)(&flipped);
                }
            }
        }
    }

    #[test]
    fn every_seed_cut_short_is_survived() {
        for target in TARGETS {
            for seed in (target.seeds)() {
                for length in (0..seed.len()).step_by(seed.len().div_ceil(200).max(1)) {
                    (target.run)(&seed[..length]);
                }
            }
        }
    }
}

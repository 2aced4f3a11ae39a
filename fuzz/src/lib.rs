//! Fuzz targets for input from outside (files of any origin, messages of another process) and the code that reads it.
//!
//! A target takes bytes, converts them to its reader's input, and lets the reader read it. Every target requires that
//! no input causes a panic, an overflow, a hang or unbounded allocation, that accepted input is valid, and that other
//! input is refused with an error. `scripts/check/fuzz.sh` runs libFuzzer over them; the tests here flip every byte of
//! every seed once.
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
mod sources;

/// Runs a target on an input; returns whether the input was accepted.
type Run = Box<dyn Fn(&[u8]) -> bool + Send + Sync>;

/// A fuzz target.
pub struct Target {
    /// Its name on the command line.
    pub name: String,
    run: Run,
    seeds: Box<dyn Fn() -> Vec<Vec<u8>> + Send + Sync>,
}

impl Target {
    fn new(
        name: impl Into<String>,
        run: impl Fn(&[u8]) -> bool + Send + Sync + 'static,
        seeds: impl Fn() -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> Target {
        Target { name: name.into(), run: Box::new(run), seeds: Box::new(seeds) }
    }

    /// Runs the target on one input, and returns whether it was accepted.
    pub fn run(&self, input: &[u8]) -> bool {
        (self.run)(input)
    }

    /// Accepted inputs, to start from.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        (self.seeds)()
    }
}

/// All targets, with one importer target per source.
pub fn targets() -> Vec<Target> {
    let mut targets = vec![
        Target::new("npy", dataset::npy, dataset::npy_seeds),
        Target::new("dataset", dataset::dataset, dataset::dataset_seeds),
    ];
    targets.extend(sources::SOURCES.iter().map(|source| {
        let name = format!("import-{}", source.name);
        Target::new(name, |input| import::import(source, input), || import::seeds(source))
    }));
    targets.extend([
        Target::new("plan", plan::plan, plan::seeds),
        Target::new("slot", slots::slot, slots::slot_seeds),
        Target::new("ring", slots::ring, slots::ring_seeds),
        Target::new("handover", messages::handover, messages::seeds),
        #[cfg(feature = "train")]
        Target::new("checkpoint", checkpoint::checkpoint, checkpoint::seeds),
    ]);
    targets
}

/// The target of this name.
///
/// # Panics
/// If there is no such target; the message lists all names.
pub fn target(name: &str) -> Target {
    let names: Vec<_> = targets().into_iter().map(|target| target.name).collect();
    let found = targets().into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("no target {name:?}: there are {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_accepted() {
        for target in targets() {
            for (number, seed) in target.seeds().iter().enumerate() {
                assert!(target.run(seed), "seed {number} of {}", target.name);
            }
        }
    }

    /// About two seconds: the importers write files for each input.
    #[test]
    fn every_byte_of_every_seed_flipped_once_is_survived() {
        for target in targets() {
            for seed in target.seeds() {
                target.run(&seed);
                // A long seed is mostly payload, so some thousand positions of it are enough.
                let step = seed.len().div_ceil(1500).max(1);
                for place in (0..seed.len()).step_by(step) {
                    let mut flipped = seed.clone();
                    flipped[place] ^= 1 << (place % 8);
                    target.run(&flipped);
                    flipped[place] = !seed[place];
                    target.run(&flipped);
                }
            }
        }
    }

    #[test]
    fn every_seed_cut_short_is_survived() {
        for target in targets() {
            for seed in target.seeds() {
                for length in (0..seed.len()).step_by(seed.len().div_ceil(200).max(1)) {
                    target.run(&seed[..length]);
                }
            }
        }
    }
}

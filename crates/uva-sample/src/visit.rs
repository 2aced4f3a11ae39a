//! The reads of one visit of a list, by which caches of lists are judged.

use crate::options::draws;
use crate::{SamplerKind, SamplerOptions};

/// Bytes of a sector, the minimum that one read moves over a link.
const SECTOR_BYTES: u64 = 32;

/// Bytes of a weight.
const WEIGHT_BYTES: u64 = 4;

/// The reads of one visit of a list. Each moves a sector of 32 bytes over the link, unless the list is cached there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VisitReads {
    /// One for the list's bounds, and one for each neighbour picked from it. If the kind [reads whole
    /// lists](SamplerKind::reads_whole_lists), every neighbour of the list counts instead.
    pub entries: u64,
    /// The sectors of its weights, once for each pass over them; 0 if the kind [needs no
    /// weights](SamplerKind::needs_weights).
    pub weights: u64,
}

impl VisitReads {
    /// For a list of `degree` entries of which `picks` are picked. A `fanout` of `usize::MAX` takes every list whole.
    ///
    /// The first pass over weights finds the entries that exist. Picks without replacement take another, draws with
    /// replacement two more: one adds the weights up, one finds the entries drawn. Two things are not counted, since they
    /// depend on the weights' values. These are a further pass over a short list with entries of weight 0, and the further
    /// passes of a whole block over a long one.
    #[inline]
    pub(crate) fn of(
        kind: SamplerKind,
        degree: usize,
        picks: usize,
        (fanout, replace): (usize, bool),
    ) -> Self {
        let entries = 1 + if kind.reads_whole_lists() { degree } else { picks } as u64;
        if !kind.needs_weights() {
            return Self { entries, weights: 0 };
        }
        let passes = match (draws(degree, fanout, replace), replace) {
            (false, _) => 1,
            (true, false) => 2,
            (true, true) => 3,
        };
        Self { entries, weights: passes * (WEIGHT_BYTES * degree as u64).div_ceil(SECTOR_BYTES) }
    }

    /// All reads.
    #[must_use]
    #[inline]
    pub fn all(self) -> u64 {
        self.entries + self.weights
    }

    /// The reads of the arrays that a list cache holds: always of the entries, and of the weights if it has these too.
    #[must_use]
    #[inline]
    pub fn cached(self, with_weights: bool) -> u64 {
        self.entries + if with_weights { self.weights } else { 0 }
    }
}

impl SamplerOptions {
    /// The reads of a visit of a list of `degree` entries of which `picks` are picked, in a hop of this fanout.
    #[must_use]
    pub fn visit_reads(&self, degree: usize, picks: usize, fanout: i32) -> VisitReads {
        let fanout = usize::try_from(fanout).unwrap_or(usize::MAX);
        VisitReads::of(self.kind, degree, picks, (fanout, self.replace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_count_by_whole_sectors_and_by_the_passes_over_them() {
        let reads = |kind, replace, degree, picks, fanout| {
            let options = SamplerOptions { kind, replace, ..SamplerOptions::default() };
            let VisitReads { entries, weights } = options.visit_reads(degree, picks, fanout);
            (entries, weights)
        };
        let weighted = SamplerKind::WEIGHTED;
        // Nine weights are 36 bytes: two sectors. Lists no longer than the fanout are not drawn from.
        assert_eq!(reads(weighted, false, 9, 9, 9), (10, 2));
        assert_eq!(reads(weighted, false, 9, 4, 4), (5, 4));
        assert_eq!(reads(weighted, false, 8, 3, -1), (4, 1));
        assert_eq!(reads(weighted, true, 9, 20, 20), (21, 6));
        assert_eq!(reads(weighted, true, 9, 9, -1), (10, 2));
        assert_eq!(reads(weighted, true, 0, 0, 5), (1, 0));
        assert_eq!(reads(SamplerKind::NEIGHBOR, false, 90, 4, 4), (5, 0));
        assert_eq!(reads(SamplerKind::LABOR, false, 90, 4, 4), (91, 0));
        let both = VisitReads { entries: 5, weights: 4 };
        assert_eq!((both.all(), both.cached(true), both.cached(false)), (9, 9, 5));
    }
}

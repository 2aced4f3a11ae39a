//! The number of neighbours that each hop picks.

use std::fmt;

use serde::{Deserialize, Serialize};
use uva_graph::Relation;
use uva_options::OptionValue;

use crate::InvalidOption;
use crate::limits::{MAX_FANOUT, MAX_LAYERS};

/// Neighbours per node in each hop, from the seeds outward: 1 to [`MAX_FANOUT`], or −1 for all. For kinds that [draw
/// together](crate::SamplerKind::draws_together), the draws for all destinations of the hop.
///
/// They are the same for all relations of the graph, or given for each relation. Then a relation may have 0 in a hop in
/// which another has picks.
///
/// Its text and JSON may contain any numbers; [`check`](Self::check) validates them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fanouts {
    /// Hop by hop: those of the first relation, or of all; then those of the second one.
    of_hops: Vec<i32>,
    /// The relations with fanouts of their own; 0 if all have the same.
    #[serde(skip)]
    relations: usize,
}

impl Fanouts {
    /// A fanout that takes whole lists.
    pub const ALL: i32 = -1;

    /// Fanouts for each relation of a graph, in its order.
    ///
    /// # Panics
    /// If relations have different numbers of hops.
    #[must_use]
    pub fn of_relations(fanouts: &[Vec<i32>]) -> Self {
        let hops = fanouts.first().map_or(0, Vec::len);
        assert!(fanouts.iter().all(|of_hops| of_hops.len() == hops), "{fanouts:?}");
        Self { of_hops: fanouts.concat(), relations: fanouts.len() }
    }

    /// The number of hops.
    #[must_use]
    pub fn hops(&self) -> usize {
        self.of_hops.len() / self.relations.max(1)
    }

    /// The fanout of a relation in a hop; hop 0 is the one at the seeds.
    ///
    /// # Panics
    /// If the hop or relation does not exist.
    #[must_use]
    pub fn of(&self, hop: usize, relation: Relation) -> i32 {
        debug_assert!(hop < self.hops(), "hop {hop}");
        let row = if self.relations == 0 { 0 } else { relation.index() };
        self.of_hops[row * self.hops() + hop]
    }

    /// The fanouts of a relation, hop by hop from the seeds outward.
    pub fn of_relation(&self, relation: Relation) -> impl ExactSizeIterator<Item = i32> + Clone + '_ {
        (0..self.hops()).map(move |hop| self.of(hop, relation))
    }

    /// The first hop in which a relation takes whole lists. Batches then have no bound without the graph.
    #[must_use]
    pub fn hop_of_all(&self) -> Option<usize> {
        (0..self.hops()).find(|&hop| self.of_hop(hop).any(|fanout| fanout == Self::ALL))
    }

    /// Whether every hop takes whole lists, so that nothing is drawn.
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.of_hops.iter().all(|&fanout| fanout == Self::ALL)
    }

    /// Checks the numbers, independently of kind and graph.
    ///
    /// # Errors
    /// [`InvalidOption`] with the hop and the expected values.
    pub fn check(&self) -> Result<(), InvalidOption> {
        if self.of_hops.is_empty() {
            return Err(InvalidOption::NoFanouts);
        }
        if self.hops() > MAX_LAYERS {
            return Err(InvalidOption::TooManyFanouts { given: self.hops() });
        }
        let is_fanout = |fanout: i32| {
            fanout == Self::ALL || (1..=MAX_FANOUT).contains(&fanout) || (fanout == 0 && self.relations > 1)
        };
        for layer in 0..self.hops() {
            if let Some(fanout) = self.of_hop(layer).find(|fanout| !is_fanout(*fanout)) {
                return Err(InvalidOption::Fanout { layer, fanout });
            }
            if self.of_hop(layer).all(|fanout| fanout == 0) {
                return Err(InvalidOption::NoPicks { layer });
            }
        }
        Ok(())
    }

    /// Checks that fanouts given for each relation are for a graph with this many relations.
    pub(crate) fn check_relations(&self, relations: usize) -> Result<(), InvalidOption> {
        match self.relations {
            0 => Ok(()),
            given if given == relations => Ok(()),
            given => Err(InvalidOption::FanoutRelations { given, relations }),
        }
    }

    /// The fanouts of a hop, relation by relation.
    fn of_hop(&self, hop: usize) -> impl Iterator<Item = i32> + '_ {
        self.of_hops.iter().skip(hop).step_by(self.hops().max(1)).copied()
    }
}

impl From<Vec<i32>> for Fanouts {
    fn from(of_hops: Vec<i32>) -> Self {
        Self { of_hops, relations: 0 }
    }
}

impl From<&Self> for Fanouts {
    fn from(fanouts: &Self) -> Self {
        fanouts.clone()
    }
}

impl From<&[i32]> for Fanouts {
    fn from(of_hops: &[i32]) -> Self {
        of_hops.to_vec().into()
    }
}

impl<const HOPS: usize> From<[i32; HOPS]> for Fanouts {
    fn from(of_hops: [i32; HOPS]) -> Self {
        of_hops.to_vec().into()
    }
}

impl<const HOPS: usize> From<&[i32; HOPS]> for Fanouts {
    fn from(of_hops: &[i32; HOPS]) -> Self {
        of_hops.to_vec().into()
    }
}

/// The form on a command line: `15,10,5`.
impl fmt::Display for Fanouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.of_hops.text())
    }
}

impl OptionValue for Fanouts {
    fn of_text(text: &str) -> Option<Self> {
        Vec::of_text(text).map(Self::from)
    }

    fn text(&self) -> String {
        self.of_hops.text()
    }

    fn json(&self) -> serde_json::Value {
        self.of_hops.json()
    }

    fn of_json(value: &serde_json::Value) -> Option<Self> {
        Vec::of_json(value).map(Self::from)
    }
}

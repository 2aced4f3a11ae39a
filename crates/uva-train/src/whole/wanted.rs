//! Nodes whose rows are requested, in the caller's order.

use crate::TrainError;
use std::ops::Range;

/// Node ids in the order of the rows to make. A node may occur several times.
#[derive(Debug)]
pub struct Wanted {
    /// `None` for every node once, by id. Otherwise (node, position) in the order of nodes.
    places: Option<Vec<(i64, i64)>>,
    length: usize,
}

impl Wanted {
    /// These nodes of a graph of `nodes`.
    ///
    /// # Errors
    /// [`TrainError::Input`] for an id out of range.
    pub fn new(ids: &[i64], nodes: usize) -> Result<Self, TrainError> {
        if let Some(id) = ids.iter().find(|&&id| id < 0 || id >= nodes as i64) {
            return Err(TrainError::Input(format!("node id {id} in a graph of {nodes} nodes")));
        }
        if ids.len() == nodes && (0..).zip(ids).all(|(place, id)| place == *id) {
            return Ok(Self::all(nodes));
        }
        let mut places: Vec<(i64, i64)> = ids.iter().copied().zip(0..).collect();
        places.sort_unstable();
        Ok(Self { length: ids.len(), places: Some(places) })
    }

    /// Every node of a graph, by id.
    #[must_use]
    pub fn all(nodes: usize) -> Self {
        Self { places: None, length: nodes }
    }

    /// Number of requested rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no row is requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The rows of nodes below `node`: those that a pass has delivered when it reaches that node.
    #[must_use]
    pub fn below(&self, node: usize) -> usize {
        match &self.places {
            None => node.min(self.length),
            Some(places) => places.partition_point(|(id, _)| *id < node as i64),
        }
    }

    pub(crate) fn is_all(&self) -> bool {
        self.places.is_none()
    }

    /// The rows of these nodes, each of which is requested: by the nodes' positions in `ids`, and by the rows'
    /// positions.
    #[must_use]
    pub fn rows_of(&self, ids: &[i64]) -> (Vec<usize>, Vec<i64>) {
        match &self.places {
            None => ((0..ids.len()).collect(), ids.to_vec()),
            Some(places) => (0..)
                .zip(ids)
                .flat_map(|(position, &id)| {
                    let first = places.partition_point(|(other, _)| *other < id);
                    let rows = places[first..].iter().take_while(move |(other, _)| *other == id);
                    rows.map(move |(_, place)| (position, *place))
                })
                .unzip(),
        }
    }

    pub(crate) fn any_in(&self, chunk: &Range<usize>) -> bool {
        self.below(chunk.start) < self.below(chunk.end)
    }

    /// The requested nodes of a chunk: by their positions in the chunk, and by the positions of their rows.
    pub(crate) fn within(&self, chunk: &Range<usize>) -> (Vec<i64>, Vec<i64>) {
        match &self.places {
            None => ((0..chunk.len() as i64).collect(), (chunk.start as i64..chunk.end as i64).collect()),
            Some(places) => places[self.below(chunk.start)..self.below(chunk.end)]
                .iter()
                .map(|(id, place)| (id - chunk.start as i64, *place))
                .unzip(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_has_its_nodes_with_the_places_of_their_rows() {
        let wanted = Wanted::new(&[7, 2, 9, 2], 10).unwrap();
        assert_eq!(wanted.within(&(0..4)), (vec![2, 2], vec![1, 3]));
        assert_eq!(wanted.within(&(4..10)), (vec![3, 5], vec![0, 2]));
        assert!(!wanted.any_in(&(3..7)) && wanted.any_in(&(9..10)));
        assert_eq!((wanted.below(0), wanted.below(3), wanted.below(10)), (0, 2, 4));
        assert_eq!(wanted.rows_of(&[2, 9]), (vec![0, 0, 1], vec![1, 3, 2]));
        assert!(Wanted::new(&[10], 10).is_err() && Wanted::new(&[-1], 10).is_err());
    }

    #[test]
    fn every_node_by_id_needs_no_list() {
        let ids: Vec<i64> = (0..10).collect();
        let wanted = Wanted::new(&ids, 10).unwrap();
        assert!(wanted.places.is_none());
        assert_eq!(wanted.within(&(4..6)), (vec![0, 1], vec![4, 5]));
        assert!(Wanted::new(&ids[..9], 10).unwrap().places.is_some());
    }
}

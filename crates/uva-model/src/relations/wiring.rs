//! The relations that each layer of a model uses.

use std::collections::BTreeSet;

use crate::relations::model_graph::ModelGraph;

/// A relation in a layer, by number, with its types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelationUse {
    /// The relation.
    pub relation: usize,
    /// The type of the rows that it reads.
    pub source: usize,
    /// The type of the rows that it makes.
    pub destination: usize,
}

/// How layers use a node's own row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnRowUse {
    /// They do not.
    Unread,
    /// The relations into a type read the rows of their destinations.
    Read,
    /// A layer has a map of own rows, also of a type into which no relation leads.
    Kept,
}

/// The relations of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerWiring {
    /// The relations that it uses, in their order.
    pub relations: Vec<RelationUse>,
    /// The types that have rows after it, in their order. Some relation leads into each, unless the layer has a map of
    /// own rows.
    pub destinations: Vec<usize>,
}

impl LayerWiring {
    /// The relations into a type, by their places in the layer.
    pub fn leading_into(&self, of_type: usize) -> impl Iterator<Item = (usize, &RelationUse)> + Clone {
        self.relations.iter().enumerate().filter(move |(_, of)| of.destination == of_type)
    }

    /// The types at either end of its relations, in their order.
    pub fn types(&self) -> BTreeSet<usize> {
        self.relations.iter().flat_map(|of| [of.source, of.destination]).collect()
    }
}

/// The relations that the logits of the target depend on, layer by layer. Others have no parameters. A type into which
/// no relation leads has no rows after a layer without a map of own rows, so a later layer does not read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wiring {
    /// The layers, from that of the input rows to that of the logits.
    pub layers: Vec<LayerWiring>,
    /// The types whose input rows the model reads, in their order.
    pub inputs: Vec<usize>,
    /// The type of the seeds.
    pub target: usize,
}

impl Wiring {
    /// The relations of `layers` layers.
    ///
    /// # Errors
    /// If a layer has no relation into the target. The text is the rest of a sentence about the dataset.
    pub(crate) fn new(graph: &ModelGraph, layers: usize, own_rows: OwnRowUse) -> Result<Self, String> {
        graph.check()?;
        let number = |name: &String| graph.find_type(name).unwrap_or_default();
        let all = graph.relations.iter().enumerate().map(|(relation, [from, _, to])| RelationUse {
            relation,
            source: number(from),
            destination: number(to),
        });
        let (all, types, target) = (all.collect::<Vec<_>>(), graph.types.len(), number(&graph.target));
        // Forward: the relations whose types still have rows.
        let mut has_rows = vec![true; types];
        let mut open = Vec::with_capacity(layers);
        for _ in 0..layers {
            let both = |of: &&RelationUse| has_rows[of.source] && has_rows[of.destination];
            let relations: Vec<RelationUse> = all.iter().filter(both).copied().collect();
            if own_rows != OwnRowUse::Kept {
                has_rows = vec![false; types];
            }
            relations.iter().for_each(|of| has_rows[of.destination] = true);
            open.push(relations);
        }
        if !open.last().is_some_and(|last| last.iter().any(|of| of.destination == target)) {
            return Err(format!("no relation leads into {}, so that it has no neighbours", graph.target));
        }
        // Back from the target: those that something reads.
        let mut read = vec![false; types];
        read[target] = true;
        let mut used = Vec::with_capacity(layers);
        for relations in open.into_iter().rev() {
            let relations: Vec<_> = relations.into_iter().filter(|of| read[of.destination]).collect();
            let destinations = (0..types).filter(|&of_type| read[of_type]).collect();
            if own_rows == OwnRowUse::Unread {
                read = vec![false; types];
            }
            relations.iter().for_each(|of| read[of.source] = true);
            used.push(LayerWiring { relations, destinations });
        }
        used.reverse();
        let inputs = (0..types).filter(|&of_type| read[of_type]).collect();
        Ok(Self { layers: used, inputs, target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relations::model_graph::ModelType;

    fn graph(types: &[(&str, usize)], relations: &[[&str; 3]]) -> ModelGraph {
        let of_type = |&(name, columns): &(&str, usize)| ModelType {
            name: name.to_owned(),
            columns: (columns > 0).then_some(columns),
            nodes: None,
        };
        ModelGraph {
            types: types.iter().map(of_type).collect(),
            relations: relations.iter().map(|names| names.map(str::to_owned)).collect(),
            target: types[0].0.to_owned(),
        }
    }

    fn relations(wiring: &Wiring) -> Vec<Vec<usize>> {
        wiring.layers.iter().map(|layer| layer.relations.iter().map(|of| of.relation).collect()).collect()
    }

    #[test]
    fn layers_use_the_relations_that_the_target_depends_on() {
        let names = [["p", "cites", "p"], ["a", "writes", "p"], ["p", "by", "a"], ["i", "has", "a"]];
        let academic = graph(&[("p", 4), ("a", 5), ("i", 6), ("x", 0)], &names);
        let wiring = Wiring::new(&academic, 1, OwnRowUse::Read).unwrap();
        assert_eq!((relations(&wiring), &wiring.inputs), (vec![vec![0, 1]], &vec![0, 1]));
        let wiring = Wiring::new(&academic, 2, OwnRowUse::Read).unwrap();
        assert_eq!(relations(&wiring), [vec![0, 1, 2, 3], vec![0, 1]]);
        assert_eq!((&wiring.inputs, &wiring.layers[0].destinations), (&vec![0, 1, 2], &vec![0, 1]));
        // Nothing leads into i, so that it has no rows for the second layer.
        let wiring = Wiring::new(&academic, 3, OwnRowUse::Read).unwrap();
        assert_eq!(relations(&wiring), [vec![0, 1, 2, 3], vec![0, 1, 2], vec![0, 1]]);
        // With a map of own rows it has.
        let wiring = Wiring::new(&academic, 3, OwnRowUse::Kept).unwrap();
        assert_eq!(relations(&wiring), [vec![0, 1, 2, 3], vec![0, 1, 2, 3], vec![0, 1]]);
        assert_eq!(wiring.layers[0].destinations, [0, 1, 2]);
        assert_eq!(wiring.layers[0].leading_into(1).map(|(place, _)| place).collect::<Vec<_>>(), [2, 3]);
        let star = graph(&[("p", 0), ("a", 5)], &[["a", "writes", "p"]]);
        assert_eq!(Wiring::new(&star, 1, OwnRowUse::Read).unwrap().inputs, [0, 1]);
        let unread = Wiring::new(&star, 1, OwnRowUse::Unread).unwrap();
        assert_eq!(unread.inputs, [1], "its own rows are not read");
        let refused = Wiring::new(&star, 2, OwnRowUse::Unread).unwrap_err();
        assert_eq!(refused, "no relation leads into p, so that it has no neighbours");
        let alone = graph(&[("p", 4), ("a", 5)], &[["p", "by", "a"]]);
        assert_eq!(Wiring::new(&alone, 2, OwnRowUse::Kept).unwrap_err(), refused);
    }
}

//! The relations that each layer of a model uses.

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

/// The relations of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerWiring {
    /// The relations that it uses, in their order.
    pub relations: Vec<RelationUse>,
    /// The types that have rows after it, in their order. Some relation leads into each.
    pub destinations: Vec<usize>,
}

/// The relations that the logits of the target depend on, layer by layer. Others have no parameters. A type into which
/// no relation leads has no rows after a layer, so a later layer does not read it.
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
    /// The relations of `layers` layers. With `reads_own_rows` a layer also reads the rows of its destinations.
    ///
    /// # Errors
    /// If a layer has no relation into the target. The text is the rest of a sentence about the dataset.
    pub fn new(graph: &ModelGraph, layers: usize, reads_own_rows: bool) -> Result<Self, String> {
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
            has_rows = vec![false; types];
            relations.iter().for_each(|of| has_rows[of.destination] = true);
            open.push(relations);
        }
        if !has_rows[target] {
            return Err(format!("no relation leads into {}, so that it has no neighbours", graph.target));
        }
        // Back from the target: those that something reads.
        let mut read = vec![false; types];
        read[target] = true;
        let mut used = Vec::with_capacity(layers);
        for relations in open.into_iter().rev() {
            let relations: Vec<_> = relations.into_iter().filter(|of| read[of.destination]).collect();
            let destinations = (0..types).filter(|&of_type| read[of_type]).collect();
            if !reads_own_rows {
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
        let wiring = Wiring::new(&academic, 1, true).unwrap();
        assert_eq!((relations(&wiring), &wiring.inputs), (vec![vec![0, 1]], &vec![0, 1]));
        let wiring = Wiring::new(&academic, 2, true).unwrap();
        assert_eq!(relations(&wiring), [vec![0, 1, 2, 3], vec![0, 1]]);
        assert_eq!((&wiring.inputs, &wiring.layers[0].destinations), (&vec![0, 1, 2], &vec![0, 1]));
        // Nothing leads into i, so that it has no rows for the second layer.
        let wiring = Wiring::new(&academic, 3, true).unwrap();
        assert_eq!(relations(&wiring), [vec![0, 1, 2, 3], vec![0, 1, 2], vec![0, 1]]);
        let star = graph(&[("p", 0), ("a", 5)], &[["a", "writes", "p"]]);
        assert_eq!(Wiring::new(&star, 1, true).unwrap().inputs, [0, 1]);
        assert_eq!(Wiring::new(&star, 1, false).unwrap().inputs, [1], "its own rows are not read");
        let refused = Wiring::new(&star, 2, false).unwrap_err();
        assert_eq!(refused, "no relation leads into p, so that it has no neighbours");
    }
}

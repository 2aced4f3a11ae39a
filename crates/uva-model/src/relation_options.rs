//! The options of a model over relations: their checks, and what follows from them.

use crate::options::TrainerOptions;
use crate::options_error::OptionsError;
use crate::relations::relation_model::RelationShape;
use crate::relations::wiring::Wiring;

impl TrainerOptions {
    /// The relations that each layer uses; `None` for a model that is not over relations.
    ///
    /// # Errors
    /// As [`Wiring::new`], or if there is no graph.
    pub fn wiring(&self) -> Result<Option<Wiring>, String> {
        let Some(model) = &self.model.row().relations else { return Ok(None) };
        let graph = self.graph.as_ref().ok_or("it has no types of nodes")?;
        Wiring::new(graph, self.layers, (model.reads_own_rows)(self.root)).map(Some)
    }

    /// Number of trained parameters of the layers over relations, for this many classes; 0 if there are none.
    pub(crate) fn parameters_of_relations(&self, classes: u64) -> u64 {
        let (Some(model), Some(graph)) = (&self.model.row().relations, &self.graph) else { return 0 };
        let Ok(Some(wiring)) = self.wiring() else { return 0 };
        let mut widths: Vec<u64> =
            graph.types.iter().map(|of_type| of_type.columns.unwrap_or(0) as u64).collect();
        let mut parameters: u64 = 0;
        for (number, layer) in wiring.layers.iter().enumerate() {
            let outputs = if number + 1 == wiring.layers.len() { classes } else { self.hidden as u64 };
            parameters = parameters.saturating_add((model.parameters)(&RelationShape {
                root: self.root,
                layer,
                widths: &widths,
                outputs,
            }));
            widths = vec![outputs; widths.len()];
        }
        parameters
    }

    /// Rejects the types of a model that has none, a graph without the relations that the model needs, and widths out of
    /// range.
    pub(crate) fn check_relations(&self) -> Result<(), OptionsError> {
        let model = self.model.name();
        let refuse = |problem: String| Err(OptionsError::Unsupported(problem));
        let Some(graph) = &self.graph else {
            return match self.model.row().relations {
                Some(_) => refuse(format!("it has no types of nodes, which `model={model}` requires")),
                None => Ok(()),
            };
        };
        if self.model.row().relations.is_none() {
            return refuse(format!("it has types of nodes, which `model={model}` does not support"));
        }
        let columns = graph.types.iter().filter_map(|of_type| of_type.columns);
        if let Some(columns) = columns.into_iter().find(|&columns| columns == 0 || columns > Self::MAX_WIDTH)
        {
            return refuse(format!("it has {columns} feature columns: expected 1 to {}", Self::MAX_WIDTH));
        }
        self.wiring().map(drop).or_else(refuse)
    }
}

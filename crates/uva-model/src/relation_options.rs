//! The options of a model over relations: their checks, and what follows from them.

use crate::options::TrainerOptions;
use crate::options_error::OptionsError;
use crate::relations::embedding::EmbeddingShape;
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

    /// Elements of a row of a table for a node type without features.
    #[must_use]
    pub fn embedding_columns(&self) -> usize {
        self.embedding_dim.unwrap_or(self.hidden)
    }

    /// Columns of the input rows of each node type: of its features, or of its table.
    #[must_use]
    pub fn input_columns(&self) -> Vec<usize> {
        let types = self.graph.iter().flat_map(|graph| &graph.types);
        types.map(|of_type| of_type.columns.unwrap_or_else(|| self.embedding_columns())).collect()
    }

    /// The tables of the node types that the model reads and that have no features, in the order of types. None if the
    /// options are refused.
    #[must_use]
    pub fn embeddings(&self) -> Vec<EmbeddingShape> {
        let (Some(graph), Ok(Some(wiring))) = (&self.graph, self.wiring()) else { return Vec::new() };
        let bare = wiring.inputs.into_iter().filter(|&of_type| graph.types[of_type].columns.is_none());
        let shape = |of_type: usize| EmbeddingShape {
            of_type,
            name: graph.types[of_type].name.clone(),
            rows: graph.types[of_type].nodes.unwrap_or(0),
            columns: self.embedding_columns(),
        };
        bare.map(shape).collect()
    }

    /// Number of trained parameters of the layers over relations, for this many classes; 0 if there are none.
    pub(crate) fn parameters_of_relations(&self, classes: u64) -> u64 {
        let Some(model) = &self.model.row().relations else { return 0 };
        let Ok(Some(wiring)) = self.wiring() else { return 0 };
        let mut widths: Vec<u64> = self.input_columns().iter().map(|&columns| columns as u64).collect();
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
        if self.embedding_dim.is_some_and(|columns| columns == 0 || columns > Self::MAX_WIDTH) {
            let problem = format!("not between 1 and {}", Self::MAX_WIDTH);
            return Err(OptionsError::Option { option: "embedding_dim", problem });
        }
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
        self.wiring().map(drop).or_else(refuse)?;
        for table in self.embeddings() {
            // Without a row no node of the type is in a batch.
            if graph.types[table.of_type].nodes.is_none() || table.bytes().is_none() {
                let (name, rows, columns) = (&table.name, table.rows, table.columns);
                return refuse(format!(
                    "node type \"{name}\" has no features, and a table of {rows} rows of {columns} elements is not possible"
                ));
            }
        }
        Ok(())
    }
}

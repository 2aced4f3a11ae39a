//! The options of a model over relations: their checks, and what follows from them.

use crate::layer_size::product;
use crate::options::TrainerOptions;
use crate::options_error::OptionsError;
use crate::relations::embedding::EmbeddingShape;
use crate::relations::model_graph::ModelGraph;
use crate::relations::relation_model::{InputMaps, RelationModel, RelationShape, RelationWeights};
use crate::relations::wiring::Wiring;

impl TrainerOptions {
    /// The relations that each layer uses; `None` for a model that is not over relations.
    ///
    /// # Errors
    /// As [`Wiring::new`], or if there is no graph.
    pub fn wiring(&self) -> Result<Option<Wiring>, String> {
        let Some(model) = &self.model.row().relations else { return Ok(None) };
        let graph = self.graph.as_ref().ok_or("it has no types of nodes")?;
        Wiring::new(graph, self.layers, (model.own_rows)(self.root)).map(Some)
    }

    /// Whether a linear map of each node type comes before the first layer over relations.
    #[must_use]
    pub fn maps_inputs(&self, wiring: &Wiring) -> bool {
        let Some(model) = &self.model.row().relations else { return false };
        let columns = self.input_columns();
        let mut widths = wiring.inputs.iter().map(|&of_type| columns[of_type]);
        let first = widths.next();
        match model.input_maps {
            InputMaps::Never => false,
            InputMaps::WhereUneven => widths.any(|width| Some(width) != first),
            InputMaps::WithRelu => true,
        }
    }

    /// Columns of each type's rows before the first layer over relations.
    #[must_use]
    pub fn input_widths(&self, wiring: &Wiring) -> Vec<usize> {
        let columns = self.input_columns();
        if self.maps_inputs(wiring) { vec![self.hidden; columns.len()] } else { columns }
    }

    /// Columns of the rows after each layer over relations, for this many `outputs`; also of those after a linear map that
    /// follows the last layer.
    #[must_use]
    pub fn output_widths(&self, outputs: usize) -> Vec<usize> {
        let maps_outputs = self.model.row().relations.is_some_and(|relations| relations.has_output_map);
        let hidden = if maps_outputs { self.layers } else { self.layers.saturating_sub(1) };
        let mut widths = vec![self.hidden; hidden];
        widths.push(outputs);
        widths
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
        let hidden = self.hidden as u64;
        let mut parameters: u64 = 0;
        if self.maps_inputs(&wiring) {
            let columns = self.input_columns();
            let columns = wiring.inputs.iter().map(|&of_type| columns[of_type] as u64);
            let maps = columns.map(|columns| product(&[columns.saturating_add(1), hidden]));
            parameters = maps.fold(0, u64::saturating_add);
        }
        let mut widths: Vec<u64> = self.input_widths(&wiring).iter().map(|&width| width as u64).collect();
        let columns = self.output_widths(classes as usize);
        for (layer, &outputs) in wiring.layers.iter().zip(&columns) {
            let outputs = outputs as u64;
            parameters = parameters.saturating_add((model.parameters)(&RelationShape {
                root: self.root,
                weights: self.relation_weights,
                heads: self.heads as u64,
                layer,
                widths: &widths,
                outputs,
            }));
            widths = vec![outputs; widths.len()];
        }
        let of_output = if model.has_output_map { product(&[hidden.saturating_add(1), classes]) } else { 0 };
        parameters.saturating_add(of_output)
    }

    /// The largest number of values in the tables that coexist while a layer over relations is evaluated for all `nodes`,
    /// which are by type: the rows before it, unless they are the dataset's or trained, and the rows after it, unless they
    /// are of the last layer. 0 if there are no such layers.
    #[must_use]
    pub fn values_between_relations(&self, nodes: &[usize], outputs: usize) -> u64 {
        let Ok(Some(wiring)) = self.wiring() else { return 0 };
        let of_table = |of_types: &[usize], width: usize| {
            let rows = of_types.iter().map(|&of_type| nodes.get(of_type).map_or(0, |&rows| rows as u64));
            product(&[rows.fold(0, u64::saturating_add), width as u64])
        };
        let mut before = if self.maps_inputs(&wiring) { of_table(&wiring.inputs, self.hidden) } else { 0 };
        let mut most = before;
        let widths = self.output_widths(outputs);
        for (layer, &width) in wiring.layers[..wiring.layers.len() - 1].iter().zip(&widths) {
            let after = of_table(&layer.destinations, width);
            most = most.max(before.saturating_add(after));
            before = after;
        }
        most.max(before)
    }

    /// Rejects the types of a model that has none, a graph without the relations that the model needs, widths out of
    /// range, and options that no model of these relations and `classes` has.
    ///
    /// # Errors
    /// [`OptionsError`] with the option or with what the dataset lacks.
    pub fn check_relations(&self, classes: usize) -> Result<(), OptionsError> {
        let model = self.model.name();
        let refuse = |problem: String| Err(OptionsError::Unsupported(problem));
        if self.embedding_dim.is_some_and(|columns| columns == 0 || columns > Self::MAX_WIDTH) {
            let problem = format!("not between 1 and {}", Self::MAX_WIDTH);
            return Err(OptionsError::Option { option: "embedding_dim", problem });
        }
        let (relations, graph) = match (&self.model.row().relations, &self.graph) {
            (Some(relations), Some(graph)) => (relations, graph),
            (Some(_), None) => {
                return refuse(format!("it has no types of nodes, which `model={model}` requires"));
            }
            (None, Some(_)) => {
                return refuse(format!("it has types of nodes, which `model={model}` does not support"));
            }
            (None, None) => return Ok(()),
        };
        let columns = graph.types.iter().filter_map(|of_type| of_type.columns);
        if let Some(columns) = columns.into_iter().find(|&columns| columns == 0 || columns > Self::MAX_WIDTH)
        {
            return refuse(format!("it has {columns} feature columns: expected 1 to {}", Self::MAX_WIDTH));
        }
        self.check_root(relations)?;
        let Some(wiring) = self.wiring().map_err(OptionsError::Unsupported)? else { return Ok(()) };
        self.check_tables(graph)?;
        self.check_weights((relations, graph), &wiring, classes)
    }

    /// Rejects tables for node types without features that have no size.
    fn check_tables(&self, graph: &ModelGraph) -> Result<(), OptionsError> {
        for table in self.embeddings() {
            // Without a row no node of the type is in a batch.
            if graph.types[table.of_type].nodes.is_none() || table.bytes().is_none() {
                let (name, rows, columns) = (&table.name, table.rows, table.columns);
                return Err(OptionsError::Unsupported(format!(
                    "node type \"{name}\" has no features, and a table of {rows} rows of {columns} elements is not possible"
                )));
            }
        }
        Ok(())
    }

    fn check_root(&self, model: &RelationModel) -> Result<(), OptionsError> {
        if model.roots.is_empty() || model.roots.contains(&self.root) {
            return Ok(());
        }
        let names: Vec<&str> = model.roots.iter().map(|root| root.name()).collect();
        let problem = format!(
            "{} is not valid with `model={}`: expected {}",
            self.root,
            self.model.name(),
            names.join(" or ")
        );
        Err(OptionsError::Option { option: "root", problem })
    }

    /// Rejects bases that are more than there are relations to share them, and blocks that do not divide the matrices of
    /// some layer.
    fn check_weights(
        &self,
        (model, graph): (&RelationModel, &ModelGraph),
        wiring: &Wiring,
        classes: usize,
    ) -> Result<(), OptionsError> {
        let refuse = |option, problem: String| Err(OptionsError::Option { option, problem });
        let name = self.model.name();
        match self.relation_weights {
            RelationWeights::Free => Ok(()),
            RelationWeights::Bases(_) if !model.has_shared_weights => {
                refuse("bases", format!("not supported with `model={name}`"))
            }
            RelationWeights::Blocks(_) if !model.has_shared_weights => {
                refuse("blocks", format!("not supported with `model={name}`"))
            }
            RelationWeights::Bases(bases) => {
                let relations = graph.relations.len();
                if (1..=relations).contains(&bases) {
                    return Ok(());
                }
                refuse("bases", format!("{bases} is not between 1 and {relations}, the number of relations"))
            }
            RelationWeights::Blocks(blocks) => {
                let input = wiring.inputs.first().map_or(0, |&of_type| self.input_widths(wiring)[of_type]);
                let between = (self.layers > 1).then_some(("`hidden`", self.hidden));
                let widths = [("feature columns", input), ("classes", classes)];
                let uneven = |(_, width): &(&str, usize)| blocks == 0 || !width.is_multiple_of(blocks);
                match widths.into_iter().chain(between).find(uneven) {
                    Some((what, width)) => {
                        refuse("blocks", format!("{blocks} does not divide the {width} {what} of a layer"))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

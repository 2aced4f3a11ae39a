//! Scalable inception graph networks, SIGN (Frasca et al. 2020): a linear map of each hop, side by side.

use crate::TrainError;
use crate::hops::inputs::another_number;
use crate::nn::random::SplitMix64;
use crate::nn::rowwise::Linear;
use tch::{Device, Kind, Tensor};
use uva_model::TrainerOptions;

/// W_r z_r + b_r of each hop r, from 0. Of several operators, z_r holds their rows at that hop side by side.
pub(crate) struct HopMaps {
    maps: Vec<Linear>,
    operators: usize,
    /// Columns of each map's result.
    width: i64,
}

impl HopMaps {
    pub(crate) fn new(
        options: &TrainerOptions,
        input_dim: usize,
        place: (Kind, Device),
        random: &mut SplitMix64,
    ) -> Result<Self, TrainError> {
        let TrainerOptions { hidden, hops, operators, .. } = *options;
        let columns = |hop| if hop == 0 { input_dim } else { operators * input_dim };
        let maps: Result<_, TrainError> =
            (0..=hops).map(|hop| Linear::new(columns(hop), hidden, place, random)).collect();
        Ok(Self { maps: maps?, operators, width: hidden as i64 })
    }

    pub(crate) fn parameters(&self) -> Vec<(String, Tensor)> {
        let of_map = |(hop, map): (usize, &Linear)| -> Vec<(String, Tensor)> {
            let named =
                |(name, tensor): (&str, &Tensor)| (format!("hops.{hop}.{name}"), tensor.shallow_clone());
            map.parameters().into_iter().map(named).collect()
        };
        self.maps.iter().enumerate().flat_map(of_map).collect()
    }

    /// [nodes, hops · width] from the tables x, hops 1 to R of the first operator, those of the second, and so on; and
    /// the inputs of each map.
    pub(crate) fn forward(&self, tables: Vec<Tensor>) -> Result<(Tensor, Vec<Tensor>), TrainError> {
        let hops = self.maps.len() - 1;
        if tables.len() != 1 + hops * self.operators {
            return Err(another_number(1 + hops * self.operators));
        }
        let inputs = match self.operators {
            1 => tables,
            operators => {
                let (features, others) = (tables[0].shallow_clone(), &tables[1..]);
                let at = |hop: usize| -> Result<Tensor, TrainError> {
                    let rows: Vec<&Tensor> =
                        (0..operators).map(|operator| &others[operator * hops + hop]).collect();
                    Ok(Tensor::f_cat(&rows, 1)?)
                };
                std::iter::once(Ok(features)).chain((0..hops).map(at)).collect::<Result<_, _>>()?
            }
        };
        let mapped: Result<Vec<Tensor>, TrainError> =
            self.maps.iter().zip(&inputs).map(|(map, rows)| map.forward(rows)).collect();
        Ok((Tensor::f_cat(&mapped?, 1)?, inputs))
    }

    /// Gradients of the parameters, in their order, from that of the result.
    pub(crate) fn backward(&self, inputs: &[Tensor], gradient: &Tensor) -> Result<Vec<Tensor>, TrainError> {
        let mut gradients = Vec::with_capacity(2 * self.maps.len());
        for (hop, (map, rows)) in (0..).zip(self.maps.iter().zip(inputs)) {
            let of_hop = gradient.f_narrow(1, hop * self.width, self.width)?;
            gradients.extend(map.backward(rows, &of_hop, false)?.0);
        }
        Ok(gradients)
    }
}

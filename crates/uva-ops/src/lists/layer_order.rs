//! The order of a graph convolution's two steps, chosen by cost.

/// Cost of one element of a neighbour's row, in multiply-adds of a matrix product, and of its backward as a multiple of
/// that. Measured in `uva-train`'s `aggregate.rs`: 0.13 to 0.41 ns against 0.013 to 0.04 ns, and 1.7 to 5 times.
const GATHER_COST: f64 = 10.0;
const GATHER_BACKWARD: f64 = 2.0;

/// Whether a layer is cheaper if it multiplies its sources' rows by the weight first and then aggregates the products.
/// Both orders give the same result up to rounding, as aggregation is linear. Multiplying first needs a product over
/// all sources instead of the destinations alone. In exchange, it aggregates narrower rows if the layer narrows.
///
/// The choice depends on shapes only, so a repeated run makes the same one.
#[must_use]
pub fn projects_first(
    destinations: usize,
    sources: usize,
    edges: usize,
    inputs: usize,
    outputs: usize,
    input_gradient: bool,
) -> bool {
    let [destinations, sources, edges, inputs, outputs] =
        [destinations, sources, edges, inputs, outputs].map(|n| n as f64);
    // Products: forward and for the weight's gradient, and one more where the input has a gradient too.
    let products = if input_gradient { 3.0 } else { 2.0 };
    let gathers = if input_gradient { 1.0 + GATHER_BACKWARD } else { 1.0 };
    let aggregate_first = edges * inputs * GATHER_COST * gathers + destinations * inputs * outputs * products;
    let project_first =
        edges * outputs * GATHER_COST * (1.0 + GATHER_BACKWARD) + sources * inputs * outputs * products;
    project_first < aggregate_first
}

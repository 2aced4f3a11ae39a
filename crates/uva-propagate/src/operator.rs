//! The operators: their names, their parameters, and their use of the graph's lists.

use std::fmt;
use std::str::FromStr;

/// The default number of sums in one application of `ppr` or `heat`.
const DEFAULT_STEPS: u32 = 10;

/// The maximum number of these sums.
const MOST_STEPS: u32 = 100;

/// The minimum of ALPHA and TIME. Smaller values have no effect in float32, and file names have all their digits.
const LEAST_PARAMETER: f64 = 1e-9;

/// The maximum of TIME.
const MOST_TIME: f64 = 100.0;

/// Name, parameters and help of every operator.
pub const OPERATORS: &[(&str, &str)] = &[
    ("sym", "Σ x_u / √(d_v d_u) + x_v / d_v, d = list length + 1: one hop is GCN's whole-neighbourhood sum"),
    ("sym-noloop", "Σ x_u / √(n_v n_u), n = list length; skips nodes without a list"),
    ("row", "the mean of the list"),
    ("row-loop", "the mean of the list and the node itself"),
    ("col", "row of the graph with all edges reversed"),
    ("ppr:ALPHA[,T]", "personalised PageRank: T steps (10) of z ← (1 − ALPHA) sym(z) + ALPHA x from z = x"),
    ("heat:TIME[,T]", "the heat kernel: Σ e^−TIME TIME^k / k! · sym^k(x) for k from 0 to T (10)"),
];

/// A graph operator, by which features are multiplied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operator {
    /// Normalised by both ends' list lengths + 1, with the node itself.
    Sym,
    /// Normalised by both ends' list lengths.
    SymNoLoop,
    /// The mean of the list.
    Row,
    /// The mean of the list and the node itself.
    RowLoop,
    /// [`Row`](Self::Row) of the transposed graph.
    Col,
    /// Personalised PageRank.
    Ppr {
        /// The share of the node's own row, between 0 and 1.
        alpha: f64,
        /// Number of sums in one application.
        steps: u32,
    },
    /// The heat kernel.
    Heat {
        /// The duration of the heat's spread: more than 0.
        time: f64,
        /// The last power of `sym` in the series.
        steps: u32,
    },
}

impl Operator {
    /// Whether a node's own row is among the summed rows.
    pub fn has_self_loops(self) -> bool {
        match self {
            Self::Sym | Self::RowLoop | Self::Ppr { .. } | Self::Heat { .. } => true,
            Self::SymNoLoop | Self::Row | Self::Col => false,
        }
    }

    /// Number of sums over all lists in one application.
    pub fn sums(self) -> u32 {
        match self {
            Self::Ppr { steps, .. } | Self::Heat { steps, .. } => steps,
            Self::Sym | Self::SymNoLoop | Self::Row | Self::RowLoop | Self::Col => 1,
        }
    }

    /// Number of tables of a panel's columns in memory for this many hops. The very last sum is made only for kept
    /// rows, and needs no table.
    pub fn tables(self, hops: u32) -> u32 {
        match self {
            Self::Heat { .. } => 3,
            _ if hops == 1 && self.sums() == 1 => 1,
            Self::Ppr { .. } => 3,
            Self::Sym | Self::SymNoLoop | Self::Row | Self::RowLoop | Self::Col => 2,
        }
    }

    /// The operator's name in file names, with `-` instead of `:` and `,`.
    pub fn file_stem(self) -> String {
        self.to_string().replace([':', ','], "-")
    }

    /// Whether this is the file stem of an operator.
    pub(crate) fn is_file_stem(text: &str) -> bool {
        let is_number = |byte: u8| byte.is_ascii_digit() || b"e.-".contains(&byte);
        match text.strip_prefix("ppr-").or_else(|| text.strip_prefix("heat-")) {
            Some(parameters) => !parameters.is_empty() && parameters.bytes().all(is_number),
            None => text.parse::<Operator>().is_ok_and(|operator| operator.to_string() == text),
        }
    }
}

/// The name with all parameters, which parses as this operator.
impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sym => f.write_str("sym"),
            Self::SymNoLoop => f.write_str("sym-noloop"),
            Self::Row => f.write_str("row"),
            Self::RowLoop => f.write_str("row-loop"),
            Self::Col => f.write_str("col"),
            Self::Ppr { alpha, steps } => write!(f, "ppr:{alpha},{steps}"),
            Self::Heat { time, steps } => write!(f, "heat:{time},{steps}"),
        }
    }
}

impl FromStr for Operator {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, parameters) = match text.split_once(':') {
            Some((name, parameters)) => (name, Some(parameters)),
            None => (text, None),
        };
        let plain = |operator| match parameters {
            None => Ok(operator),
            Some(_) => Err(format!("'{text}': {name} takes no parameters")),
        };
        match name {
            "sym" => plain(Self::Sym),
            "sym-noloop" => plain(Self::SymNoLoop),
            "row" => plain(Self::Row),
            "row-loop" => plain(Self::RowLoop),
            "col" => plain(Self::Col),
            "ppr" => {
                let (alpha, steps) = numbers(text, "ppr:0.1", parameters)?;
                match (LEAST_PARAMETER..1.0).contains(&alpha) {
                    true => Ok(Self::Ppr { alpha, steps }),
                    false => Err(format!(
                        "'{text}': ALPHA must be between 0 and 1, and at least {LEAST_PARAMETER:e}"
                    )),
                }
            }
            "heat" => {
                let (time, steps) = numbers(text, "heat:3", parameters)?;
                match (LEAST_PARAMETER..=MOST_TIME).contains(&time) {
                    true => Ok(Self::Heat { time, steps }),
                    false => Err(format!("'{text}': TIME must be from {LEAST_PARAMETER:e} to {MOST_TIME}")),
                }
            }
            _ => {
                let names: Vec<&str> = OPERATORS.iter().map(|(name, _)| *name).collect();
                Err(format!("invalid operator '{text}': expected one of {}", names.join(", ")))
            }
        }
    }
}

/// The first parameter, and the steps.
fn numbers(text: &str, example: &str, parameters: Option<&str>) -> Result<(f64, u32), String> {
    let Some(parameters) = parameters else {
        return Err(format!("'{text}' lacks its parameter: for example {example}"));
    };
    let (first, steps) = match parameters.split_once(',') {
        Some((first, steps)) => (first, Some(steps)),
        None => (parameters, None),
    };
    let number: f64 = first
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite())
        .ok_or_else(|| format!("'{text}': '{first}' is not a number: for example {example}"))?;
    let steps = match steps {
        None => DEFAULT_STEPS,
        Some(steps) => steps
            .parse()
            .ok()
            .filter(|steps| (1..=MOST_STEPS).contains(steps))
            .ok_or_else(|| format!("'{text}': invalid T '{steps}': expected from 1 to {MOST_STEPS}"))?,
    };
    Ok((number, steps))
}

/// Parses several operators, separated by commas: `sym,ppr:0.1,10,row`. A word that begins with a digit belongs to the
/// operator before it.
///
/// # Errors
/// A message about the first name or parameter that is wrong, or an operator that occurs twice.
pub fn parse_operators(text: &str) -> Result<Vec<Operator>, String> {
    let mut texts: Vec<String> = Vec::new();
    for piece in text.split(',') {
        match texts.last_mut() {
            Some(last) if piece.starts_with(|first: char| first.is_ascii_digit()) => {
                *last = format!("{last},{piece}");
            }
            _ => texts.push(piece.to_owned()),
        }
    }
    let operators = texts.iter().map(|text| text.parse()).collect::<Result<Vec<Operator>, String>>()?;
    for (place, operator) in operators.iter().enumerate() {
        if operators[..place].contains(operator) {
            return Err(format!("{operator} is given twice"));
        }
    }
    Ok(operators)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_parsed_and_shown_by_their_names() {
        let text = "sym,ppr:0.1,row,heat:2.5,7,col,sym-noloop,row-loop";
        let operators = parse_operators(text).unwrap();
        let names: Vec<String> = operators.iter().map(Operator::to_string).collect();
        assert_eq!(
            names,
            ["sym", "ppr:0.1,10", "row", "heat:2.5,7", "col", "sym-noloop", "row-loop"],
            "steps are shown"
        );
        assert_eq!(operators[1].file_stem(), "ppr-0.1-10");
        for (operator, name) in operators.iter().zip(&names) {
            assert_eq!(name.parse(), Ok(*operator));
        }
    }

    #[test]
    fn the_longest_name_of_an_operator_is_that_of_a_file() {
        for text in ["ppr:1.2345678901234567e-9,100", "heat:1.2345678901234567e-9,100"] {
            let operator: Operator = text.parse().unwrap();
            assert!(operator.file_stem().len() < 60, "{}", operator.file_stem());
            assert!(Operator::is_file_stem(&operator.file_stem()));
            assert_eq!(operator.to_string().parse(), Ok(operator));
        }
    }

    #[test]
    fn an_unknown_operator_is_refused_with_the_known_ones() {
        for (text, says) in [
            ("sum", "invalid operator 'sum': expected one of sym, "),
            ("", "invalid operator ''"),
            ("sym,", "invalid operator ''"),
            ("sym:2", "takes no parameters"),
            ("ppr", "lacks its parameter: for example ppr:0.1"),
            ("ppr:x", "'x' is not a number"),
            ("ppr:0", "between 0 and 1"),
            ("ppr:1", "between 0 and 1"),
            ("ppr:NaN", "'NaN' is not a number"),
            ("ppr:0.1,0", "from 1 to 100"),
            ("ppr:0.1,101", "from 1 to 100"),
            ("ppr:1e-300,1", "'ppr:1e-300,1': ALPHA must be between 0 and 1, and at least 1e-9"),
            ("ppr:9.9e-10", "1e-9"),
            ("heat:1e-300", "1e-9"),
            ("heat:100.5", "from 1e-9 to 100"),
            ("heat:-1", "from 1e-9 to 100"),
            ("heat:0", "from 1e-9 to 100"),
            ("sym,row,sym", "sym is given twice"),
            ("ppr:0.1,ppr:0.1,10", "ppr:0.1,10 is given twice"),
        ] {
            let error = parse_operators(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}

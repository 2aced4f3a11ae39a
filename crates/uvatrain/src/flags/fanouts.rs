//! Fanouts as people write them: `15,10,5`, from the seeds outward.

use std::fmt;
use std::str::FromStr;

/// The layer number takes 5 bits of the random key, so no more hops than this can be told apart.
const MOST_LAYERS: usize = 32;

/// How many in-neighbours each hop samples, from the seeds outward; −1 takes all of them.
///
/// Never empty, and no entry is 0 or below −1.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Fanouts(Vec<i32>);

impl Fanouts {
    /// The fanout of each hop, the hop at the seeds first.
    pub fn as_slice(&self) -> &[i32] {
        &self.0
    }

    /// The number of hops, which is also the number of the model's layers.
    pub fn layers(&self) -> usize {
        self.0.len()
    }

    /// Whether some hop takes all neighbours (−1), so that no size of a batch can be computed before the run.
    pub fn take_all(&self) -> bool {
        self.0.contains(&-1)
    }
}

/// What is wrong with a list of fanouts.
#[derive(Debug, PartialEq, Eq)]
pub struct FanoutsError(String);

impl fmt::Display for FanoutsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FanoutsError {}

impl FromStr for Fanouts {
    type Err = FanoutsError;

    fn from_str(text: &str) -> Result<Fanouts, FanoutsError> {
        if text.trim().is_empty() {
            return Err(FanoutsError("no fanout given; write one number a hop, like 15,10,5".to_owned()));
        }
        let fanouts = text
            .split(',')
            .enumerate()
            .map(|(hop, entry)| {
                let entry = entry.trim();
                match entry.parse::<i32>() {
                    Ok(fanout) if fanout > 0 || fanout == -1 => Ok(fanout),
                    Ok(fanout) => Err(FanoutsError(format!(
                        "hop {hop} has fanout {fanout}; it must be at least 1, or -1 to take all neighbours"
                    ))),
                    Err(_) if entry.is_empty() => {
                        Err(FanoutsError(format!("hop {hop} is empty; write one number a hop, like 15,10,5")))
                    }
                    Err(_) => Err(FanoutsError(format!(
                        "hop {hop} is '{entry}', not a whole number from 1 to {}; -1 takes all neighbours",
                        i32::MAX
                    ))),
                }
            })
            .collect::<Result<Vec<i32>, FanoutsError>>()?;
        if fanouts.len() > MOST_LAYERS {
            return Err(FanoutsError(format!(
                "{} hops given; at most {MOST_LAYERS} are possible",
                fanouts.len()
            )));
        }
        Ok(Fanouts(fanouts))
    }
}

impl fmt::Display for Fanouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (hop, fanout) in self.0.iter().enumerate() {
            write!(f, "{}{fanout}", if hop == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        text.parse::<Fanouts>().unwrap_err().to_string()
    }

    #[test]
    fn fanouts_keep_their_order_from_the_seeds_outward() {
        let fanouts: Fanouts = "15, 10,5".parse().unwrap();
        assert_eq!(fanouts.as_slice(), [15, 10, 5]);
        assert_eq!(fanouts.layers(), 3);
        assert_eq!(fanouts.to_string(), "15,10,5");
    }

    #[test]
    fn minus_one_takes_all() {
        let fanouts: Fanouts = "-1,10".parse().unwrap();
        assert_eq!(fanouts.as_slice(), [-1, 10]);
        assert!(fanouts.take_all());
        assert!(!"1,1".parse::<Fanouts>().unwrap().take_all());
    }

    #[test]
    fn zero_and_minus_two_are_refused_with_the_hop_that_has_them() {
        assert!(refusal("15,0").contains("hop 1 has fanout 0"), "{}", refusal("15,0"));
        assert!(refusal("-2,5").contains("hop 0 has fanout -2"), "{}", refusal("-2,5"));
    }

    #[test]
    fn empty_lists_and_entries_are_refused() {
        assert!(refusal("").contains("no fanout"));
        assert!(refusal(" ").contains("no fanout"));
        assert!(refusal("15,,5").contains("hop 1 is empty"));
        assert!(refusal("15,").contains("hop 1 is empty"));
    }

    #[test]
    fn what_is_no_whole_number_is_refused_with_its_text() {
        assert!(refusal("15,ten").contains("'ten'"));
        assert!(refusal("1.5").contains("'1.5'"));
        assert!(refusal("99999999999").contains("'99999999999'"));
    }

    #[test]
    fn more_hops_than_the_key_has_bits_for_are_refused() {
        let hops = |n: usize| vec!["1"; n].join(",");
        assert!(hops(32).parse::<Fanouts>().is_ok());
        assert!(refusal(&hops(33)).contains("33 hops"));
    }
}

//! The CPU cores of a run, as requested.

use std::fmt;
use std::str::FromStr;

use uva_plan::OfStages;

use super::limits;
use crate::RuntimeError;
use crate::machine::pin_cores::{PinCores, check, listed};

/// The CPU cores of a run, and who divides them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cores {
    /// All that the process may use. How many threads each stage gets is found by timing the stages.
    Auto,
    /// These. All stages share them.
    Of(PinCores),
    /// These for each stage. A core may belong to several stages.
    Divided(OfStages<Vec<usize>>),
}

impl Cores {
    /// Keeps the calling thread, and all threads and processes that it starts from now on, on the cores that are listed.
    ///
    /// # Errors
    /// A core that the process may not use; the system's refusal.
    pub fn keep(&self) -> Result<(), RuntimeError> {
        let kept = match self {
            Self::Auto | Self::Of(PinCores::All) => return Ok(()),
            Self::Of(PinCores::Listed(listed)) => listed.clone(),
            Self::Divided(OfStages { sampling, gathering, training }) => {
                let mut all = [&sampling[..], gathering, training].concat();
                all.sort_unstable();
                all.dedup();
                all
            }
        };
        let refused = |reason| RuntimeError::option("cores", self.to_string(), reason);
        let not_allowed = |error| refused(format!("the system does not allow it: {error}"));
        check(&kept, &limits::allowed_cores().map_err(not_allowed)?).map_err(refused)?;
        limits::keep_on_cores(&kept).map_err(not_allowed)
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Of(cores) => cores.fmt(f),
            Self::Divided(OfStages { sampling, gathering, training }) => {
                write!(f, "{}/{}/{}", listed(sampling), listed(gathering), listed(training))
            }
        }
    }
}

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        let lists: Vec<&str> = text.split('/').collect();
        let of_stage = |list: &str| match list.parse()? {
            PinCores::Listed(cores) => Ok(cores),
            PinCores::All => Err("each stage's cores are a list, like 0/1/2-7".to_owned()),
        };
        match lists[..] {
            [all] => all.parse().map(Self::Of),
            [sampling, gathering, training] => Ok(Self::Divided(OfStages {
                sampling: of_stage(sampling)?,
                gathering: of_stage(gathering)?,
                training: of_stage(training)?,
            })),
            _ => Err(format!(
                "it has {} lists: expected one for all stages, or three, for sampling, gathering and training",
                lists.len()
            )),
        }
    }
}

uva_options::text_values!(Cores);

#[cfg(test)]
mod tests {
    use uva_options::OptionValue;

    use super::*;

    #[test]
    fn cores_are_read_and_written_in_the_same_form() {
        for text in ["auto", "all", "0,2,4-6", "0/1/2-5,8", "0/0/1"] {
            assert_eq!(text.parse::<Cores>().unwrap().text(), text);
        }
        let stages = OfStages { sampling: vec![0, 1], gathering: vec![2], training: vec![3] };
        assert_eq!("0-1/2/3".parse(), Ok(Cores::Divided(stages)));
    }

    #[test]
    fn what_names_no_cores_is_refused_with_the_part_that_is_wrong() {
        for (text, part) in [
            ("automatic", "'automatic'"),
            ("0/1", "2 lists"),
            ("0/1/2/3", "4 lists"),
            ("0/all/1", "a list"),
            ("0//1", "''"),
            ("0/1/2-", "''"),
        ] {
            let refused = text.parse::<Cores>().unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }
}

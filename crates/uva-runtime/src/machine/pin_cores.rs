//! The CPU cores that workers are kept on, as requested.

use std::fmt;
use std::str::FromStr;

use uva_options::OptionError;

use super::limits;
use crate::RuntimeError;

/// The largest number of a core that the system's calls can name.
const LAST_CORE: usize = limits::MOST_CORES - 1;

/// The CPU cores that workers are kept on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinCores {
    /// Those that the process may use.
    All,
    /// These, each once, in this order. There is at least one.
    Listed(Vec<usize>),
}

impl PinCores {
    /// Checks that a process may use the cores, given all those that it may.
    ///
    /// # Errors
    /// [`RuntimeError::Option`] that names the cores it may use.
    pub fn check(&self, allowed: &[usize]) -> Result<(), RuntimeError> {
        let Self::Listed(cores) = self else { return Ok(()) };
        check(cores, allowed).map_err(|reason| OptionError::new("pin_cores", self, reason).into())
    }

    /// The core of a worker, of those that the process may use, in round-robin order. `None` if there is none.
    #[must_use]
    pub fn core(&self, worker: usize, allowed: &[usize]) -> Option<usize> {
        let cores = match self {
            Self::All => allowed,
            Self::Listed(cores) => cores,
        };
        cores.get(worker.checked_rem(cores.len())?).copied()
    }
}

/// Checks that a process may use the cores, given all those that it may. The error names both.
pub(crate) fn check(cores: &[usize], allowed: &[usize]) -> Result<(), String> {
    match cores.iter().find(|core| !allowed.contains(core)) {
        None => Ok(()),
        Some(core) => {
            Err(format!("this process may not use core {core}: its affinity mask has {}", listed(allowed)))
        }
    }
}

/// Cores as a list, with ranges.
pub(crate) fn listed(cores: &[usize]) -> String {
    let runs = cores.chunk_by(|core, next| core + 1 == *next);
    let runs = runs.map(|run| match run {
        [] => String::new(),
        [core] => core.to_string(),
        [first, .., last] => format!("{first}-{last}"),
    });
    runs.collect::<Vec<_>>().join(",")
}

impl fmt::Display for PinCores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Listed(cores) => f.write_str(&listed(cores)),
        }
    }
}

impl FromStr for PinCores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let number = |word: &str| match word.trim().parse::<usize>() {
            Ok(core) if core <= LAST_CORE => Ok(core),
            Ok(core) => Err(format!("core {core} is greater than {LAST_CORE}")),
            Err(_) => Err(format!("invalid core '{word}': expected `all`, or cores like 0,2,4-7")),
        };
        let mut cores = Vec::new();
        for entry in text.split(',') {
            let (first, last) = match entry.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(entry)?, number(entry)?),
            };
            if first > last {
                return Err(format!("the range {entry} ends before it begins"));
            }
            for core in first..=last {
                if cores.contains(&core) {
                    return Err(format!("core {core} is listed twice"));
                }
                cores.push(core);
            }
        }
        Ok(Self::Listed(cores))
    }
}

uva_options::text_values!(PinCores);

#[cfg(test)]
mod tests {
    use uva_options::OptionValue;

    use super::*;

    #[test]
    fn lists_and_ranges_of_cores_are_read_and_written_in_the_same_form() {
        for (text, cores, written) in [
            ("3", vec![3], "3"),
            ("0,2,4-6", vec![0, 2, 4, 5, 6], "0,2,4-6"),
            ("5,1,2", vec![5, 1, 2], "5,1-2"),
        ] {
            let read: PinCores = text.parse().unwrap();
            assert_eq!(read, PinCores::Listed(cores));
            assert_eq!(read.text(), written);
            assert_eq!(PinCores::of_text(written), Some(read));
        }
        assert_eq!("all".parse(), Ok(PinCores::All));
        assert_eq!(PinCores::All.text(), "all");
    }

    #[test]
    fn what_names_no_cores_is_refused_with_the_part_that_is_wrong() {
        for (text, part) in [
            ("", "invalid core ''"),
            ("some", "'some'"),
            ("1,,2", "''"),
            ("2-", "''"),
            ("-1", "''"),
            ("5-3", "the range 5-3 ends before"),
            ("1,0-2", "core 1 is listed twice"),
            ("0-99999999999", "greater than 1023"),
        ] {
            let refused = text.parse::<PinCores>().unwrap_err();
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }

    #[test]
    fn workers_take_cores_round_robin_and_one_outside_the_mask_is_refused() {
        let allowed = [1, 2, 3, 8];
        let of = |pin: &PinCores| (0..5).map(|worker| pin.core(worker, &allowed)).collect::<Vec<_>>();
        assert_eq!(of(&PinCores::All), [Some(1), Some(2), Some(3), Some(8), Some(1)]);
        let two = PinCores::Listed(vec![8, 2]);
        assert_eq!(of(&two), [Some(8), Some(2), Some(8), Some(2), Some(8)]);
        assert_eq!(PinCores::All.core(0, &[]), None);
        two.check(&allowed).unwrap();
        let refused = PinCores::Listed(vec![2, 4]).check(&allowed).unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        let said = refused.to_string();
        assert!(said.contains("core 4") && said.contains("1-3,8"), "{said}");
    }
}

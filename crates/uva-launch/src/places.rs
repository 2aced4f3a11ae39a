//! GPUs and roles, parsed from options.

use std::fmt;
use std::str::FromStr;

/// Maximum number of ranks of a run.
pub const MAX_RANKS: u32 = 64;

/// The number of samplers that all ranks share, and the number of ranks: `S:T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedSamplers {
    /// Samplers.
    pub samplers: u32,
    /// Ranks, which train.
    pub ranks: u32,
}

impl FromStr for SharedSamplers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.parse().ok().filter(|number| (1..=MAX_RANKS).contains(number));
        let counts = text
            .split_once(':')
            .and_then(|(samplers, ranks)| Some(Self { samplers: number(samplers)?, ranks: number(ranks)? }));
        counts.ok_or_else(|| {
            format!(
                "expected the numbers of samplers and of ranks, 1 to {MAX_RANKS} each: 1:3 for one sampler and three ranks"
            )
        })
    }
}

impl fmt::Display for SharedSamplers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.samplers, self.ranks)
    }
}

/// GPU numbers, each once: `cuda:0,cuda:2`, or `cuda:2-7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuList(pub Vec<usize>);

impl FromStr for GpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |part: &str| {
            format!("'{part}' is not a GPU: expected cuda:0,cuda:1, or cuda:0-3 for the first four")
        };
        let mut gpus: Vec<usize> = Vec::new();
        for part in text.split(',') {
            let numbers = part.strip_prefix("cuda:").ok_or_else(|| wrong(part))?;
            let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
            let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) else {
                return Err(wrong(part));
            };
            if first > last || u32::from(last - first) >= MAX_RANKS {
                return Err(wrong(part));
            }
            for gpu in (first..=last).map(usize::from) {
                if gpus.contains(&gpu) {
                    return Err(format!("cuda:{gpu} is listed twice"));
                }
                gpus.push(gpu);
            }
        }
        Ok(Self(gpus))
    }
}

impl fmt::Display for GpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(|gpu| format!("cuda:{gpu}")).collect();
        f.write_str(&names.join(","))
    }
}

/// The number of a batch in its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchNumber(pub u32);

impl FromStr for BatchNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self).map_err(|_| "expected the number of a batch in its epoch, from 0".to_owned())
    }
}

impl fmt::Display for BatchNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An explicit value, or `auto` for the program's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrAuto<T> {
    /// The program's choice.
    Auto,
    /// The explicit value.
    Named(T),
}

impl<T: FromStr<Err = String>> FromStr for OrAuto<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            _ => text.parse().map(Self::Named).map_err(|why| format!("{why}, or auto")),
        }
    }
}

impl<T: fmt::Display> fmt::Display for OrAuto<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Named(value) => value.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_listed_by_number_or_as_a_stretch_and_each_once() {
        let list = |text: &str| text.parse::<GpuList>();
        assert_eq!(list("cuda:2"), Ok(GpuList(vec![2])));
        assert_eq!(list("cuda:0,cuda:2-4,cuda:1"), Ok(GpuList(vec![0, 2, 3, 4, 1])));
        assert_eq!(list("cuda:2-3").unwrap().to_string(), "cuda:2,cuda:3");
        for text in ["", "0", "cuda:", "cuda:1,", "cuda:3-1", "cuda:0-64", "cuda:1,cuda:0-2", "cuda:-1"] {
            assert!(list(text).is_err(), "{text} was taken");
        }
        assert_eq!("auto".parse(), Ok(OrAuto::<GpuList>::Auto));
        assert_eq!("cuda:1".parse(), Ok(OrAuto::Named(GpuList(vec![1]))));
    }
}

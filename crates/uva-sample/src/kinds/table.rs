//! The table of all kinds: every kind with a row here is available by its name everywhere.

use uva_options::Named;

use super::find_sampler::FindSampler;
use super::{labor, neighbor, per_node, ppr, together, walk, weighted};
use crate::hops::{ById, Divided, HopSampler, InTrees, Picks};
use crate::{BatchSampler, FanoutPer, SampleError, SamplerKind, SamplerOptions, TypedView};

/// Makes a sampler of one kind, from checked options.
type Make = for<'g> fn(
    TypedView<'g>,
    &SamplerOptions,
    Option<Divided<'g>>,
) -> Result<Box<dyn BatchSampler + 'g>, SampleError>;

/// One kind of sampler.
struct Row {
    kind: SamplerKind,
    make: Make,
}

/// A row for each algorithm ([`Picks`]). One that grows disjoint trees names what identifies their nodes.
macro_rules! table {
    ($($picks:ty $(=> $trees:ty)?),* $(,)?) => {
        &[$(Row {
            kind: <$picks as Picks<'_>>::KIND,
            make: |graph, options, divided| {
                $(if options.trees.is_some() {
                    return boxed(HopSampler::<$picks, $trees>::unchecked(graph, options.clone()));
                })?
                let sampler = HopSampler::<$picks, ById<'_>>::unchecked(graph, options.clone());
                boxed(sampler.map(|sampler| sampler.among(divided)))
            },
        }),*]
    };
}

/// All kinds, the default first. The order is that of `--help`.
const TABLE: &[Row] = table![
    neighbor::Uniform => InTrees,
    labor::Labor,
    weighted::WeightedSampler<'_> => InTrees,
    together::Together<together::Ladies>,
    together::Together<together::FastGcn>,
    together::Together<together::Saint<together::SaintNodes>>,
    together::Together<together::Saint<together::SaintEdges>>,
    FindSampler<walk::Walk>,
    FindSampler<ppr::Ppr>,
];

impl SamplerKind {
    /// All kinds, the default first.
    pub const ALL: [SamplerKind; TABLE.len()] = {
        let mut all = [TABLE[0].kind; TABLE.len()];
        let mut row = 0;
        while row < TABLE.len() {
            all[row] = TABLE[row].kind;
            row += 1;
        }
        all
    };

    /// The kind of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The names of the kinds that `fits` accepts, for a sentence: `neighbor, labor or weighted`.
    #[must_use]
    pub fn names_of(fits: impl Fn(Self) -> bool) -> String {
        let names: Vec<_> = Self::ALL.into_iter().filter(|&kind| fits(kind)).map(Self::name).collect();
        match names.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}

impl Default for SamplerKind {
    fn default() -> Self {
        Self::ALL[0]
    }
}

/// Makes the sampler for options that were checked against the graph, with its access to lists if these are divided
/// among ranks.
pub(super) fn make<'g>(
    graph: TypedView<'g>,
    options: &SamplerOptions,
    divided: Option<Divided<'g>>,
) -> Result<Box<dyn BatchSampler + 'g>, SampleError> {
    if options.fanout_per == FanoutPer::Node && graph.relations.len() > 1 {
        return match options.trees {
            None => boxed(HopSampler::<per_node::PerNode<'_>, ById<'_>>::unchecked(graph, options.clone())),
            Some(_) => boxed(HopSampler::<per_node::PerNode<'_>, InTrees>::unchecked(graph, options.clone())),
        };
    }
    match TABLE.iter().find(|row| row.kind == options.kind) {
        Some(row) => (row.make)(graph, options, divided),
        None => unreachable!("{} is in no table", options.kind),
    }
}

fn boxed<'g>(
    sampler: Result<impl BatchSampler + 'g, SampleError>,
) -> Result<Box<dyn BatchSampler + 'g>, SampleError> {
    Ok(Box::new(sampler?))
}

impl Named for SamplerKind {
    fn all() -> Vec<Self> {
        Self::ALL.to_vec()
    }

    fn name(self) -> &'static str {
        self.name()
    }

    fn help(self) -> &'static str {
        self.help()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own_and_a_line_of_help() {
        for (at, kind) in SamplerKind::ALL.into_iter().enumerate() {
            assert_eq!(SamplerKind::ALL.iter().position(|&other| other == kind), Some(at), "{kind}");
            assert_eq!(SamplerKind::from_name(kind.name()), Some(kind));
            assert!(!kind.help().is_empty() && !kind.help().ends_with('.'), "{kind}: {}", kind.help());
        }
        assert_eq!(SamplerKind::from_name("Neighbor"), None);
        assert_eq!(SamplerKind::default(), SamplerKind::NEIGHBOR);
    }

    #[test]
    fn names_are_listed_as_in_a_sentence() {
        assert_eq!(SamplerKind::names_of(|kind| kind == SamplerKind::LABOR), "labor");
        assert_eq!(SamplerKind::names_of(SamplerKind::replaces), "neighbor or weighted");
        assert_eq!(SamplerKind::names_of(|kind| kind.kernels().is_some()), "neighbor, labor or weighted");
        assert_eq!(SamplerKind::names_of(|_| false), "");
    }
}

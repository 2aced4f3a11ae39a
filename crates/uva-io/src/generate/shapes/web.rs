//! The web generator: the shape of uk-2006.
//!
//! Nodes are pages, sorted by address. The pages of a host are a run of ids, and within it the pages of a directory, 64
//! ids each. The list of a page, its in-neighbours, is its links. Hosts come from cutting 0..N in two, at random in the
//! middle half, again and again. A piece of at most N/64 pages (4096 on small graphs) stays whole with probability 1/8,
//! one of fewer than 64 pages always. Their sizes span several orders of magnitude. All pages of a host have one class.
//!
//! A link stays on the host (`within_host`) or not. On the host it is one of:
//! - One of the eight links that all pages of the directory carry (`copied`): navigation, which the web's copying model
//!   explains by authors who take over lists of links (Kleinberg et al. 1999). Each goes to a hub of the host.
//! - A link to a page near by (`near`), at a distance of up to 512 ids, 1 + 511 · w³ with w uniform.
//! - A link to a hub: the page at len · w⁴ from the front, so the r-th page of a host gets ~ r^(−3/4).
//!
//! A link to another host draws page N · w² of a keyed shuffle, so that large hosts are popular, and some hosts even
//! more. It goes to a hub of that page's host or, one time in four, to its front page.
//!
//! Lists have the lengths of the [citation](crate::generate::Citation) generator, without the growth in time. The result depends
//! only on integers and correctly rounded operations (+, −, ×, ÷, √), and every number is keyed by seed, purpose and
//! node. So the bytes are the same for any number of threads, on any machine.

use serde_json::{Map, Value, json};
use uva_graph::{GraphError, Split, mix};

use crate::generate::draws::permutation::Permutation;
use crate::generate::draws::random::{GeneratorPurpose, RandomStream};
use crate::generate::options::common::{Common, check_share};
use crate::generate::planted::{PlantedGraph, draw_list, list_length};
use crate::generate::recipe::{Generator, Planned, Recipe};

/// The number of pages of a directory.
const DIRECTORY: u64 = 64;

/// Links shared by all pages of a directory.
const NAVIGATION: u64 = 8;

/// The largest distance of a near page.
const NEAR: u64 = 512;

/// A graph in the shape of uk-2006, with planted classes.
#[derive(Debug, Clone, PartialEq)]
pub struct Web {
    /// The options shared by all shapes. By default 1.3 % of the nodes train, as is usual for uk-2006, 0.2 % validate
    /// and 0.3 % test; all are drawn uniformly.
    pub common: Common,
    /// Share of links that stay on their host.
    pub within_host: f64,
    /// Share of the links on a host that all pages of a directory have in common.
    pub copied: f64,
    /// Share of the links on a host that go to a page near by; with `copied` at most 1, the rest goes to the host's
    /// hubs.
    pub near: f64,
}

impl Default for Web {
    fn default() -> Web {
        Web {
            common: Common {
                average_degree: 35.0,
                train_share: 0.013,
                valid_share: 0.002,
                test_share: 0.003,
                ..Common::default()
            },
            within_host: 0.8,
            copied: 0.3,
            near: 0.4,
        }
    }
}

/// The row in the table.
pub(crate) static GENERATOR: Generator = Generator {
    name: "web",
    help: "Web pages of hosts, most links local or to a host's hubs; few training nodes, as in uk-2006",
    why_fewer_edges: "a link that repeats, passes its host's end or returns to its own page is redrawn three times and then dropped",
    takes: &[],
    defaults: || Box::new(Web::default()),
};

impl Recipe for Web {
    fn generator(&self) -> &'static Generator {
        &GENERATOR
    }

    fn common(&self) -> Common {
        self.common.clone()
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn plan(&self) -> Result<Planned<'_>, GraphError> {
        Ok(Planned::Graph(Box::new(Plan::new(self)?)))
    }
}

/// A run of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Host {
    start: u64,
    pages: u64,
}

impl Host {
    /// A popular page of the host: more likely near the front.
    fn hub(self, stream: &mut RandomStream) -> u64 {
        let w = stream.unit();
        self.start + ((w * w * w * w * self.pages as f64) as u64).min(self.pages - 1)
    }
}

/// The checked options and derived values.
struct Plan<'o> {
    options: &'o Web,
    permutation: Permutation,
    /// The first page of every host, ascending: 8 bytes a host, which has 40 pages or more on average.
    host_starts: Vec<u64>,
}

impl<'o> Plan<'o> {
    fn new(options: &'o Web) -> Result<Plan<'o>, GraphError> {
        let common = &options.common;
        common.check()?;
        check_share("within_host", options.within_host)?;
        check_share("copied", options.copied)?;
        check_share("near", options.near)?;
        let both = options.copied + options.near;
        if both > 1.0 + 1e-9 {
            return Err(GraphError::usage("copied", format!("with `near` it is {both}, more than 1")));
        }
        Ok(Plan {
            options,
            permutation: Permutation::new(common.nodes, common.seed),
            host_starts: host_starts(common.nodes, common.seed),
        })
    }

    /// The host of `page`.
    fn host_of(&self, page: u64) -> Host {
        let next = self.host_starts.partition_point(|&start| start <= page);
        let start = self.host_starts[next - 1];
        let end = self.host_starts.get(next).copied().unwrap_or(self.options.common.nodes);
        Host { start, pages: end - start }
    }

    /// One link of `page`, which is on `host`; `None` if the target does not exist.
    fn link(&self, page: u64, host: Host, stream: &mut RandomStream) -> Option<u64> {
        let options = self.options;
        let target = if stream.unit() >= options.within_host {
            let w = stream.unit();
            let nodes = options.common.nodes;
            let page = self.permutation.forward(((w * w * nodes as f64) as u64).min(nodes - 1));
            let host = self.host_of(page);
            if stream.below(4) == 0 { host.start } else { host.hub(stream) }
        } else {
            let kind = stream.unit();
            if kind < options.copied {
                let directory = (page - host.start) / DIRECTORY;
                let link = mix(host.start) ^ (directory * NAVIGATION + stream.below(NAVIGATION));
                host.hub(&mut RandomStream::new(options.common.seed, GeneratorPurpose::Navigation, link))
            } else if kind < options.copied + options.near {
                let w = stream.unit();
                let distance = 1 + (w * w * w * (NEAR - 1) as f64) as u64;
                let target = if stream.below(2) == 0 { page.checked_sub(distance)? } else { page + distance };
                // Outside the host's range there are no pages.
                target.checked_sub(host.start).filter(|&place| place < host.pages)?;
                target
            } else {
                host.hub(stream)
            }
        };
        (target != page).then_some(target)
    }
}

/// Cuts 0..`nodes` into hosts.
fn host_starts(nodes: u64, seed: u64) -> Vec<u64> {
    let most_pages = (nodes / 64).max(4096);
    let mut starts = Vec::new();
    // Pieces still to be cut, the first on top.
    let mut pieces = vec![(0, nodes)];
    while let Some((start, end)) = pieces.pop() {
        let pages = end - start;
        let mut stream = RandomStream::new(seed, GeneratorPurpose::Host, mix(start) ^ end);
        if pages <= most_pages && (pages < DIRECTORY || stream.next() >> 61 == 0) {
            starts.push(start);
        } else {
            let cut = start + pages / 4 + stream.below(pages / 2);
            pieces.extend([(cut, end), (start, cut)]);
        }
    }
    starts
}

impl PlantedGraph for Plan<'_> {
    fn neighbours_of(&self, node: u64, list: &mut Vec<u64>) {
        let common = &self.options.common;
        let mut stream = RandomStream::new(common.seed, GeneratorPurpose::Degree, node);
        let length = list_length(common.average_degree, &mut stream).min(common.nodes - 1);
        let host = self.host_of(node);
        let mut stream = RandomStream::new(common.seed, GeneratorPurpose::Neighbours, node);
        draw_list(list, length, || self.link(node, host, &mut stream));
    }

    fn class_of(&self, node: u64) -> u64 {
        let host = self.host_of(node);
        RandomStream::new(self.options.common.seed, GeneratorPurpose::HostClass, host.start)
            .below(self.options.common.classes)
    }

    fn split_of(&self, node: u64) -> Option<Split> {
        self.options.common.uniform_split(node)
    }

    fn description(&self) -> Map<String, Value> {
        let options = self.options;
        Map::from_iter([
            ("within_host".to_owned(), json!(options.within_host)),
            ("copied".to_owned(), json!(options.copied)),
            ("near".to_owned(), json!(options.near)),
        ])
    }
}

#[cfg(test)]
mod tests;

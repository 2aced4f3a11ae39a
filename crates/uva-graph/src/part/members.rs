//! The place of each node in a part.

/// A set of nodes with the rank of each in ascending order. Takes one bit per node and a word for each 64.
#[derive(Debug)]
pub(super) struct Members {
    bits: Vec<u64>,
    /// The number of members before each word of bits.
    before: Vec<u64>,
    len: usize,
}

impl Members {
    /// The set of the nodes below `nodes` for which `is_member` holds.
    pub(super) fn of(nodes: usize, is_member: impl Fn(usize) -> bool) -> Members {
        let mut members = Members {
            bits: vec![0; nodes.div_ceil(64)],
            before: Vec::with_capacity(nodes.div_ceil(64)),
            len: 0,
        };
        for node in (0..nodes).filter(|&node| is_member(node)) {
            members.bits[node / 64] |= 1 << (node % 64);
        }
        for word in &members.bits {
            members.before.push(members.len as u64);
            members.len += word.count_ones() as usize;
        }
        members
    }

    /// The number of members.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The members, ascending.
    pub(super) fn nodes(&self) -> impl Iterator<Item = usize> + '_ {
        (0..).zip(&self.bits).flat_map(|(word, &bits)| {
            let mut rest = bits;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(word * 64 + bit as usize)
            })
        })
    }

    /// The place of `node`; `None` if it is not a member.
    #[inline]
    pub(super) fn place(&self, node: usize) -> Option<usize> {
        let (word, bit) = (*self.bits.get(node / 64)?, 1_u64 << (node % 64));
        (word & bit != 0).then(|| self.before[node / 64] as usize + (word & (bit - 1)).count_ones() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_numbered_in_ascending_order_and_others_have_no_place() {
        for nodes in [0, 1, 63, 64, 65, 500] {
            let is_member = |node: usize| node % 7 == 3 || (100..180).contains(&node);
            let members = Members::of(nodes, is_member);
            let expected: Vec<usize> = (0..nodes).filter(|&node| is_member(node)).collect();
            assert!(members.nodes().eq(expected.iter().copied()), "{nodes}");
            assert_eq!(members.len(), expected.len());
            for node in 0..nodes + 70 {
                assert_eq!(members.place(node), expected.iter().position(|&member| member == node));
            }
        }
    }
}

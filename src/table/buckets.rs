//! The array of buckets.

use std::fmt;

use crate::sync::Arc;
use crate::tuning::TABLE_SPREAD;

use super::bucket::Head;

/// A power of two of buckets, settled for good. Clones share them.
#[derive(Clone)]
pub(super) struct Buckets {
    heads: Arc<[Head]>,
    /// What a spread hash is shifted by, after one bit.
    shift: u32,
}

impl Buckets {
    /// Makes at least `wanted` buckets.
    pub(super) fn new(wanted: usize) -> Self {
        assert!(
            wanted > 0,
            "graceperiod: a table with 0 buckets could hold nothing; ask for at least 1",
        );
        let Some(number) = wanted.checked_next_power_of_two() else {
            panic!("graceperiod: a table can't have {wanted} buckets");
        };
        let heads: Arc<[Head]> = (0..number).map(|_| Head::new()).collect();
        heads.iter().for_each(Head::settle);
        Self {
            heads,
            shift: u64::BITS - 1 - number.trailing_zeros(),
        }
    }

    /// The bucket of a hash.
    #[inline]
    pub(super) fn of(&self, hash: u64) -> &Head {
        // The upper bits of the product depend on all bits of the hash, so that also a plain integer will do.
        let spread = hash.wrapping_mul(TABLE_SPREAD) >> 1 >> self.shift;
        &self.heads[spread as usize]
    }

    /// The bucket of a number.
    pub(super) fn get(&self, number: usize) -> Option<&Head> {
        self.heads.get(number)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Head> {
        self.heads.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.heads.len()
    }
}

impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buckets")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_hash_has_a_bucket_and_every_bucket_a_hash() {
        for wanted in [1, 2, 3, 64, 1_000] {
            let buckets = Buckets::new(wanted);
            assert_eq!(buckets.len(), wanted.next_power_of_two());
            let mut used: Vec<_> = (0..wanted as u64 * 16)
                .chain([u64::MAX, 1 << 63])
                .map(|hash| std::ptr::from_ref(buckets.of(hash)))
                .collect();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), buckets.len());
        }
    }
}

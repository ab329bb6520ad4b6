//! The one hasher of all strategies: two multiplications per inode id, as in the kernel, so that the
//! figures tell about the tables and not about SipHash. It has no seed; a table that takes keys
//! from strangers keeps `RandomState`.

use std::hash::{BuildHasher, Hasher};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InodeHash;

impl BuildHasher for InodeHash {
    type Hasher = Fold;

    fn build_hasher(&self) -> Fold {
        Fold(0x9e37_79b9_7f4a_7c15)
    }
}

/// Multiplies to 128 bits and folds the halves, so that high and low bits are both well mixed.
#[derive(Debug)]
pub(crate) struct Fold(u64);

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * 0xd6e8_feb8_6659_fd93;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

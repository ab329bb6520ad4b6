//! Fingerprints of states: two states with the same one are taken for the same.
//!
//! 128 bits: among a thousand million states the chance of one pair that is mistaken is below one in 10^20.

use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A fingerprint, in a shape that packs well.
pub(crate) type Fingerprint = [u32; 4];

/// The fingerprint of a value.
pub(crate) fn of(value: &impl Hash) -> Fingerprint {
    let mut mixer = Mixer {
        low: 0x243F_6A88_85A3_08D3,
        high: 0x1319_8A2E_0370_7344,
    };
    value.hash(&mut mixer);
    let (low, high) = (mixer.low, mixer.high);
    [
        low as u32,
        (low >> 32) as u32,
        high as u32,
        (high >> 32) as u32,
    ]
}

/// Two lanes of multiply and fold, each with constants of its own.
struct Mixer {
    low: u64,
    high: u64,
}

impl Mixer {
    fn mix(&mut self, word: u64) {
        self.low = fold(self.low ^ word, 0x9E37_79B9_7F4A_7C15);
        self.high = fold(self.high ^ word.rotate_left(32), 0xC2B2_AE3D_27D4_EB4F)
            ^ self.low.rotate_left(23);
    }
}

fn fold(word: u64, factor: u64) -> u64 {
    // Zero would stay zero: that the word has been here must show.
    let product = u128::from(word ^ factor.rotate_left(29)) * u128::from(factor);
    (product as u64) ^ ((product >> 64) as u64)
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.low
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.mix(u64::from_le_bytes(word) ^ ((rest.len() as u64) << 60));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }
}

/// For tables whose keys are fingerprints: they need no hashing.
#[derive(Debug, Default)]
pub(crate) struct Identity(u64);

/// Builds [`Identity`].
pub(crate) type BuildIdentity = BuildHasherDefault<Identity>;

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<8>();
        self.0 = words.first().map_or(0, |word| u64::from_le_bytes(*word));
    }

    fn write_usize(&mut self, _length: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_values_have_different_fingerprints() {
        let mut seen = std::collections::HashSet::new();
        for a in 0..=255_u8 {
            for b in 0..=255_u8 {
                assert!(seen.insert(of(&(a, b))));
                assert!(seen.insert(of(&[a, b])));
                assert!(seen.insert(of(&[a, b, 0])));
            }
        }
    }
}

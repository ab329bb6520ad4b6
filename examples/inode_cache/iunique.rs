//! The kernel's `iunique`: inode numbers of 32 bits from a counter that wraps. The counter only proposes;
//! a number is reserved by inserting an inode under it, in the same step that checks the hash.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::counter::{Padded, SHARDS, shard};

/// Numbers that one thread takes at a time, so that the counter's cache line stays cool.
const BLOCK: u32 = 64;

/// Proposes inode numbers; never 0, which means "no inode" to programs.
pub(crate) struct IUnique {
    next_block: AtomicU32,
    blocks: [Padded<Mutex<Block>>; SHARDS],
}

#[derive(Default)]
struct Block {
    next: u32,
    left: u32,
}

impl IUnique {
    pub(crate) fn starting_at(first: u32) -> Self {
        IUnique {
            next_block: AtomicU32::new(first),
            blocks: Default::default(),
        }
    }

    /// Returns a number that may be taken: insert under it, and come back if that finds somebody there.
    pub(crate) fn propose(&self) -> u32 {
        let mut block = self.blocks[shard()]
            .0
            .lock()
            .expect("nothing panics under this lock");
        loop {
            if block.left == 0 {
                // Relaxed: blocks only have to differ. The addition wraps.
                block.next = self.next_block.fetch_add(BLOCK, Ordering::Relaxed);
                block.left = BLOCK;
            }
            let number = block.next;
            block.next = number.wrapping_add(1);
            block.left -= 1;
            if number != 0 {
                return number;
            }
        }
    }
}

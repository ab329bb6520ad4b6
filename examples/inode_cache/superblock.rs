//! What a file system does when a deleted inode goes for good: it takes a lock that everybody shares
//! and writes a log record. A transaction covers as many inodes as its owner likes,
//! which is the whole gain of deferred drops.

use std::sync::{Mutex, MutexGuard};

use crate::attributes::InodeId;

/// Log writes come in whole sectors, filled up and summed, however little they say.
const SECTOR_WORDS: usize = 64;

pub(crate) struct Superblock {
    /// `None` for a file system in memory, where freeing an inode touches nothing shared.
    log: Option<Mutex<Log>>,
}

struct Log {
    sequence: u64,
    sector: Vec<u64>,
    checksum: u64,
}

impl Superblock {
    pub(crate) fn in_memory() -> Self {
        Superblock { log: None }
    }

    pub(crate) fn journaled() -> Self {
        let sector = Vec::with_capacity(SECTOR_WORDS);
        Superblock {
            log: Some(Mutex::new(Log {
                sequence: 0,
                sector,
                checksum: 0,
            })),
        }
    }

    /// Takes the superblock's lock until the transaction is dropped.
    pub(crate) fn begin(&self) -> Transaction<'_> {
        let log = self
            .log
            .as_ref()
            .map(|log| log.lock().expect("nothing panics under this lock"));
        Transaction { log }
    }
}

pub(crate) struct Transaction<'a> {
    log: Option<MutexGuard<'a, Log>>,
}

impl Transaction<'_> {
    /// Records that an inode and its blocks are free.
    pub(crate) fn free(&mut self, id: InodeId) {
        if let Some(log) = &mut self.log {
            log.append(&[id.device, id.number]);
        }
    }

    /// Fills the last sector and makes the records durable (as far as memory goes).
    pub(crate) fn commit(self) {
        if let Some(mut log) = self.log {
            log.sequence += 1;
            let end = [u64::MAX, log.sequence];
            log.append(&end);
            log.write_sector();
        }
    }
}

impl Log {
    fn append(&mut self, record: &[u64; 2]) {
        if self.sector.len() == SECTOR_WORDS {
            self.write_sector();
        }
        self.sector.extend_from_slice(record);
    }

    fn write_sector(&mut self) {
        self.sector.resize(SECTOR_WORDS, 0);
        self.checksum = self.sector.iter().fold(self.checksum, |sum, word| {
            (sum.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
        });
        self.sector.clear();
    }
}

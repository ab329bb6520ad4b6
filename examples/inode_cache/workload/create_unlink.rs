//! Create and unlink in a loop: `open(O_CREAT)`, `unlink`, `close`, every thread in a directory of its own, on a file system
//! in memory. The worst case for memory that has to wait for a grace period.

use std::time::Duration;

use crate::attributes::{Attributes, InodeId};
use crate::cache::{Cache, Config, DropMode};
use crate::handle::Lookup;
use crate::store::Store;
use crate::workload::{End, Plan, Run, Sample, run_threads};

const DEVICE: u64 = 1;

/// Numbers handed out before the 32-bit counter wraps, so that every run meets the old files at its start.
const BEFORE_WRAP: u32 = 4096;

#[derive(Clone, Copy)]
pub(crate) struct CreateUnlink {
    pub(crate) threads: usize,
    /// Old files that stay in the cache all the time.
    pub(crate) objects: usize,
    /// How many files a thread creates before it unlinks them.
    pub(crate) burst: usize,
}

impl Plan for CreateUnlink {
    fn prepare<S: Store>(&self, drop: DropMode) -> Box<dyn Run> {
        let config = Config {
            objects: self.objects + self.threads * self.burst,
            device: DEVICE,
            first_number: 0u32.wrapping_sub(BEFORE_WRAP),
            journaled: false,
            drop,
        };
        let cache = Cache::<S>::new(config);
        for number in 1..=self.objects as u64 {
            if let Lookup::New(new) = cache.iget(InodeId {
                device: DEVICE,
                number,
            }) {
                new.fill(Attributes::empty_file());
            }
        }
        Box::new(Running { plan: *self, cache })
    }
}

struct Running<S: Store> {
    plan: CreateUnlink,
    cache: Cache<S>,
}

impl<S: Store> Run for Running<S> {
    fn sample(&mut self, length: Duration) -> Sample {
        let cache = &self.cache;
        run_threads(
            self.plan.threads,
            Some(length),
            || cache.waiting(),
            |_, stop| {
                let mut open = Vec::with_capacity(self.plan.burst);
                let mut files = 0;
                while !stop.requested() {
                    open.extend(
                        (0..self.plan.burst).map(|_| cache.create(Attributes::empty_file())),
                    );
                    for file in &open {
                        let named = cache
                            .ilookup(file.id())
                            .expect("an open file is in the cache");
                        named.unlink();
                    }
                    files += open.len() as u64;
                    open.clear();
                }
                cache.flush();
                files
            },
        )
    }

    fn check(&self) -> Result<(), String> {
        self.cache.check_idle(Some(self.plan.objects as i64))
    }

    fn finish(self: Box<Self>) -> End {
        End {
            counters: self.cache.umount(),
            findings: None,
        }
    }
}

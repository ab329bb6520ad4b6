//! Mass delete: a cache full of files, and every thread deletes its share of them as fast as it can. The file system keeps
//! a log, so each deletion ends under the superblock's lock.

use std::sync::Mutex;
use std::time::Duration;

use crate::attributes::{Attributes, InodeId};
use crate::cache::{Cache, Config, DropMode};
use crate::store::Store;
use crate::workload::{End, Plan, Run, Sample, run_threads};

#[derive(Clone, Copy)]
pub(crate) struct MassDelete {
    pub(crate) threads: usize,
    /// Files per round, over all threads.
    pub(crate) objects: usize,
}

impl Plan for MassDelete {
    fn prepare<S: Store>(&self, drop: DropMode) -> Box<dyn Run> {
        let config = Config {
            objects: self.objects,
            device: 1,
            first_number: 1,
            journaled: true,
            drop,
        };
        Box::new(Running {
            plan: *self,
            cache: Cache::<S>::new(config),
        })
    }
}

struct Running<S: Store> {
    plan: MassDelete,
    cache: Cache<S>,
}

impl<S: Store> Running<S> {
    fn round(&self) -> Sample {
        let (cache, threads) = (&self.cache, self.plan.threads);
        let shares: Vec<Mutex<Vec<InodeId>>> = (0..threads).map(|_| Mutex::default()).collect();
        run_threads(
            threads,
            None,
            || 0,
            |index, _| {
                let files = (index..self.plan.objects).step_by(threads);
                let made = files
                    .map(|_| cache.create(Attributes::empty_file()).id())
                    .collect();
                *shares[index].lock().expect("each share has one thread") = made;
                0
            },
        );
        run_threads(
            threads,
            None,
            || cache.waiting(),
            |index, _| {
                let files = shares[index].lock().expect("each share has one thread");
                for &id in files.iter() {
                    let file = cache
                        .ilookup(id)
                        .expect("a linked file without memory pressure is cached");
                    file.unlink();
                }
                // What is still to be dropped is part of the work.
                cache.flush();
                files.len() as u64
            },
        )
    }
}

impl<S: Store> Run for Running<S> {
    fn sample(&mut self, length: Duration) -> Sample {
        let mut sum = self.round();
        while sum.elapsed < length {
            let round = self.round();
            sum.operations += round.operations;
            sum.elapsed += round.elapsed;
            sum.peak_waiting = sum.peak_waiting.max(round.peak_waiting);
        }
        sum
    }

    fn check(&self) -> Result<(), String> {
        self.cache.check_idle(Some(0))
    }

    fn finish(self: Box<Self>) -> End {
        End {
            counters: self.cache.umount(),
            findings: None,
        }
    }
}

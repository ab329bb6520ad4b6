//! What many threads cost: memory for each, and grace periods and updates beside them.
//!
//! ```text
//! cargo run --release --example many_threads -- 1000 10000
//! ```
//!
//! Each thread enters once, replaces one value, and waits. Then one thread makes grace periods and updates beside them.
//! At last the threads are replaced by new ones, which must take over what those have left: nothing may grow.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use graceperiod::{Domain, RcuCell};

/// Counts the bytes that live.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Threads that have done something once and wait until they are let go.
struct Parked {
    go: Arc<Barrier>,
    threads: Vec<JoinHandle<()>>,
}

impl Parked {
    fn new(count: usize, once: impl Fn() + Clone + Send + 'static) -> Self {
        let there = Arc::new(Barrier::new(count + 1));
        let go = Arc::new(Barrier::new(count + 1));
        let threads = (0..count)
            .map(|_| {
                let (there, go, once) = (Arc::clone(&there), Arc::clone(&go), once.clone());
                thread::Builder::new()
                    .stack_size(64 << 10)
                    .spawn(move || {
                        once();
                        there.wait();
                        go.wait();
                    })
                    .expect("no more threads are to be had: raise `ulimit -u` or ask for fewer")
            })
            .collect();
        there.wait();
        Self { go, threads }
    }

    fn end(self) {
        self.go.wait();
        for thread in self.threads {
            thread.join().expect("no panic");
        }
    }
}

/// The median time of one of `batch` calls, over 15 rounds.
fn median(batch: u32, mut call: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..15)
        .map(|_| {
            let begun = Instant::now();
            (0..batch).for_each(|_| call());
            begun.elapsed() / batch
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let counts = std::env::args().skip(1).map(|argument| {
        argument
            .parse()
            .unwrap_or_else(|_| panic!("`{argument}` isn't a number of threads"))
    });
    let mut counts: Vec<usize> = counts.collect();
    if counts.is_empty() {
        counts = vec![1_000];
    }
    counts.insert(0, 0);
    println!(
        "{:>8} {:>14} {:>16} {:>12} {:>16}",
        "threads", "bytes/thread", "grace period ns", "update ns", "after churn"
    );
    for count in counts {
        let idle_before = LIVE.load(Relaxed);
        let idle = Parked::new(count, || ());
        let idle_bytes = LIVE.load(Relaxed) - idle_before;
        idle.end();

        let domain = Domain::new();
        let cell = Arc::new(RcuCell::new_in([0_u64; 4], &domain));
        let once = {
            let (domain, cell) = (domain.clone(), Arc::clone(&cell));
            move || {
                assert!(cell.load(&domain.enter())[0] < 2);
                cell.replace([1; 4]);
            }
        };
        once();
        let before = LIVE.load(Relaxed);
        let parked = Parked::new(count, once.clone());
        let bytes = (LIVE.load(Relaxed) - before).saturating_sub(idle_bytes);
        let period = median(200, || domain.synchronize());
        let update = median(200_000, || cell.replace([1; 4]));
        parked.end();

        domain.barrier();
        let settled = LIVE.load(Relaxed);
        for _ in 0..3 {
            Parked::new(count, once.clone()).end();
        }
        domain.barrier();
        let grown = LIVE.load(Relaxed).saturating_sub(settled);
        println!(
            "{count:>8} {:>14} {:>16} {:>12.1} {:>10} bytes",
            bytes.checked_div(count).unwrap_or(0),
            period.as_nanos(),
            update.as_nanos() as f64,
            grown
        );
        assert_eq!(domain.stats().pending_objects, 0);
        assert!(
            grown < 64 * 1024 + count * 8,
            "{grown} bytes more after the threads came and went"
        );
    }
}

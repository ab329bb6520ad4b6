//! The kernel refuses `membarrier` to a process that has used it: what idled unfenced then must not hang anybody.
//!
//! One test in a process of its own, since a seccomp filter can't be taken off.
#![cfg(target_os = "linux")]

#[path = "refused/seccomp.rs"]
mod seccomp;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use graceperiod::{AfterGrace, Domain, Slab};

use seccomp::refuse_membarrier;

struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn nobody_waits_for_oneself_or_for_threads_that_have_gone() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let counted = || Counted(Arc::clone(&dropped));
    let boxes = Domain::new();
    let [kept, closed] = [(), ()].map(|()| {
        let domain = Domain::new();
        let slab: Slab<u32, Counted, AfterGrace, Domain> =
            Slab::builder().domain(&domain).build(|_| 0);
        (domain, slab)
    });
    let use_all = || {
        drop(boxes.enter());
        boxes.retire(Box::new(counted()));
        drop(kept.1.insert(counted()));
        drop(closed.1.insert(counted()));
    };
    use_all();
    thread::scope(|scope| scope.spawn(use_all).join().expect("no panic"));
    refuse_membarrier();
    // A hang must end the run with a word, which a thread that waits for ever can't say itself.
    let (done, dones) = mpsc::channel::<()>();
    thread::spawn(move || {
        if dones.recv_timeout(Duration::from_secs(60)) == Err(mpsc::RecvTimeoutError::Timeout) {
            eprintln!("somebody waits for ever after membarrier was refused");
            std::process::exit(1);
        }
    });
    // At least, since a slab in a debug mode may have recycled already.
    boxes.barrier();
    assert!(dropped.load(SeqCst) >= 2);
    kept.0.barrier();
    assert!(dropped.load(SeqCst) >= 4);
    drop(closed.1);
    assert_eq!(closed.0.drain().left, 0);
    assert_eq!(dropped.load(SeqCst), 6);
    boxes.synchronize();
    drop((boxes, kept, closed.0, done));
}

//! Readers that stay too long are told of, by name.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use graceperiod::{Domain, Stall};

const AFTER: Duration = Duration::from_millis(5);

/// Stalls a reader of `domain` for `time` on a thread with a name while `work` runs.
fn beside_a_stalled_reader(domain: &Domain, time: Duration, work: impl FnOnce()) {
    let (inside, is_inside) = mpsc::channel();
    thread::scope(|scope| {
        thread::Builder::new()
            .name(String::from("stalled-reader"))
            .spawn_scoped(scope, move || {
                let _guard = domain.enter();
                inside.send(()).expect("the test waits");
                thread::sleep(time);
            })
            .expect("a thread");
        is_inside.recv().expect("enters");
        work();
    });
}

fn telling() -> (Domain, Arc<Mutex<Vec<Stall>>>) {
    let told: Arc<Mutex<Vec<Stall>>> = Arc::default();
    let list = Arc::clone(&told);
    let domain = Domain::builder()
        .on_stall(AFTER, move |stall| {
            list.lock().expect("no panic").push(stall.clone())
        })
        .build();
    (domain, told)
}

#[test]
fn barrier_tells_who_holds_it_up_and_again_when_the_wait_has_doubled() {
    let (domain, told) = telling();
    beside_a_stalled_reader(&domain, Duration::from_millis(100), || {
        domain.defer(|| ());
        domain.barrier();
    });
    let told = told.lock().expect("no panic");
    assert!((2..=8).contains(&told.len()), "{told:?}");
    for stall in told.iter() {
        assert_eq!(stall.thread.as_deref(), Some("stalled-reader"));
        assert!(stall.waited >= AFTER);
        assert!(stall.to_string().contains("stalled-reader"), "{stall}");
    }
    assert!(
        told.windows(2)
            .all(|pair| pair[1].waited >= pair[0].waited * 2)
    );
}

#[test]
fn retiring_threads_tell_too_but_synchronize_runs_nobodys_code() {
    let (domain, told) = telling();
    beside_a_stalled_reader(&domain, Duration::from_millis(60), || {
        domain.synchronize();
    });
    assert!(told.lock().expect("no panic").is_empty());
    beside_a_stalled_reader(&domain, Duration::from_millis(60), || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(40) {
            domain.retire(Box::new([0_u64; 4]));
        }
        let oldest = domain.stats().oldest_guard.expect("a reader is inside");
        assert!(oldest >= AFTER);
    });
    assert!(!told.lock().expect("no panic").is_empty());
    domain.barrier();
    assert_eq!(domain.stats().oldest_guard, None);
}

#[test]
fn panicking_hook_goes_to_the_barrier() {
    let domain = Domain::builder()
        .on_stall(AFTER, |_| panic!("a stall hook's"))
        .build();
    beside_a_stalled_reader(&domain, Duration::from_millis(40), || {
        domain.defer(|| ());
        let resumed = std::panic::catch_unwind(|| domain.barrier()).expect_err("resumed");
        assert_eq!(
            *resumed.downcast_ref::<&str>().expect("a message"),
            "a stall hook's"
        );
    });
}

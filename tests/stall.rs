//! Readers that stay too long are told of, by name.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use graceperiod::{Domain, Global, Stall};

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
fn task_that_awaits_a_grace_period_is_enough_to_be_told() {
    let (domain, told) = telling();
    let begun = Instant::now();
    let guard = domain.enter();
    let mut task = domain.start_grace_period().into_future();
    let polled = Pin::new(&mut task).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    while told.lock().expect("no panic").is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "not told");
        thread::sleep(AFTER);
    }
    drop(guard);
}

#[test]
fn stall_counts_periods_and_garbage_as_the_statistics_do() {
    let (domain, told) = telling();
    domain.synchronize();
    let completed = domain.stats().grace_periods;
    beside_a_stalled_reader(&domain, Duration::from_millis(50), || {
        domain.retire(Box::new([0_u8; 64]));
        domain.barrier();
    });
    let told = told.lock().expect("no panic");
    let stall = told.first().expect("told");
    assert_eq!(stall.grace_period, completed + 1);
    assert_eq!((stall.pending_objects, stall.pending_bytes), (1, 64));
}

#[test]
fn several_threads_that_notice_tell_once_for_each_doubling() {
    let (domain, told) = telling();
    for _ in 0..20 {
        beside_a_stalled_reader(&domain, Duration::from_millis(20), || {
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| domain.barrier());
                }
            });
        });
    }
    let told = told.lock().expect("no panic");
    let mut stalls: Vec<_> = told
        .iter()
        .map(|stall| (stall.grace_period, stall.waited))
        .collect();
    stalls.sort();
    for pair in stalls.windows(2) {
        let [(period, waited), (next, longer)] = [pair[0], pair[1]];
        assert!(period != next || longer >= waited * 2, "{pair:?}");
    }
}

#[test]
fn hook_of_the_global_domain_can_be_set_and_taken_off() {
    let (tell, told) = mpsc::channel();
    let hook = move |stall: &Stall| {
        let _told = tell.send(stall.thread.clone());
    };
    Global.set_stall_hook(AFTER, Some(Arc::new(hook)));
    let guard = graceperiod::enter_owned();
    thread::scope(|scope| {
        scope.spawn(|| {
            graceperiod::defer(|| ());
            graceperiod::barrier();
        });
        let name = told.recv_timeout(Duration::from_secs(20)).expect("told");
        let own = thread::current().name().map(String::from);
        assert_eq!(name, own, "who entered the owned guard");
        drop(guard);
    });
    Global.set_stall_hook(AFTER, None);
    // What was told before comes first; then nothing, since the hook has been dropped.
    let end = loop {
        if let Err(end) = told.recv_timeout(Duration::from_secs(20)) {
            break end;
        }
    };
    assert_eq!(end, mpsc::RecvTimeoutError::Disconnected);
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

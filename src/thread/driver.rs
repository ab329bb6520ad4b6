//! A thread that looks after what futures wait for.
//!
//! Nobody calls into the crate while a task sleeps, so somebody must ask for its grace period. One thread does so for the
//! whole process, started when a future has to wait, and ended when none has for a while.
//!
//! # Protocol
//!
//! - *watch*: add to the list; start the thread if it isn't there, else wake it.
//! - *drive*: ask each entry whether it is done, waiting longer and longer in between, until somebody comes; drop those that
//!   are, and those whose future has gone. Entries run foreign code (wakers), so they are asked without the lock.
//! - *end*: with an empty list for [`DRIVER_IDLE`], under the lock under which `watch` looks.

use std::panic::{self, AssertUnwindSafe};

use crate::sync::{Mutex, MutexGuard, Weak, park_timeout, thread};
use crate::tuning::DRIVER_IDLE;

use super::fork::{Forkable, Held};
use super::{Snooze, discard};

/// Something that a task waits for.
pub(crate) trait Watched: Send + Sync {
    /// Makes one attempt, and wakes the task if it is done. Doesn't unwind.
    fn is_done(&self) -> bool;
}

struct Driver {
    watched: Vec<Weak<dyn Watched>>,
    /// While it runs.
    thread: Option<thread::Thread>,
}

static DRIVER: Mutex<Driver> = Mutex::new(Driver {
    watched: Vec::new(),
    thread: None,
});

/// The driver, for a fork.
pub(super) struct TheDriver;

impl Forkable for TheDriver {
    fn hold(&self) -> Box<dyn Held + '_> {
        Box::new(HeldDriver(DRIVER.lock()))
    }
}

struct HeldDriver(MutexGuard<'static, Driver>);

impl Held for HeldDriver {
    fn settle(&mut self, _: bool) {}

    /// What the thread had taken is lost with it; so the rest is, too, and the next future starts another.
    unsafe fn reset(&mut self) {
        self.0.watched.clear();
        self.0.thread = None;
    }
}

/// Has the driver ask `watched` until it is done or has gone.
///
/// # Panics
///
/// Panics if the thread can't be started.
pub(crate) fn watch(watched: Weak<dyn Watched>) {
    let mut driver = DRIVER.lock();
    driver.watched.push(watched);
    if let Some(thread) = &driver.thread {
        thread.unpark();
        return;
    }
    let name = String::from("graceperiod-driver");
    match thread::Builder::new().name(name).spawn(drive) {
        Ok(handle) => driver.thread = Some(handle.thread().clone()),
        Err(error) => {
            driver.watched.pop();
            drop(driver);
            panic!("graceperiod: the thread that drives futures can't be started: {error}");
        }
    }
}

/// Takes what has been added; whether anything was.
fn take(mine: &mut Vec<Weak<dyn Watched>>) -> bool {
    let mut driver = DRIVER.lock();
    let any = !driver.watched.is_empty();
    mine.append(&mut driver.watched);
    any
}

/// Whether nothing has been added, so that the thread is to end.
fn ends() -> bool {
    let mut driver = DRIVER.lock();
    let ends = driver.watched.is_empty();
    if ends {
        driver.thread = None;
    }
    ends
}

/// Asks one entry. The last reference to it may go here, and with it what a user put into a waker.
fn is_pending(watched: &Weak<dyn Watched>) -> bool {
    let asked = panic::catch_unwind(AssertUnwindSafe(|| {
        let watched = watched.upgrade();
        watched.is_some_and(|watched| !watched.is_done())
    }));
    asked.unwrap_or_else(|payload| {
        discard(payload);
        false
    })
}

fn drive() {
    let mut mine = Vec::new();
    let mut snooze = Snooze::new();
    loop {
        // Who comes doesn't wait as long as those who wait already.
        if take(&mut mine) {
            snooze = Snooze::new();
        }
        mine.retain(is_pending);
        if !mine.is_empty() {
            snooze.wait_parked();
            continue;
        }
        park_timeout(DRIVER_IDLE);
        if ends() {
            return;
        }
    }
}

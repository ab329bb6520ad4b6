//! Forks, and what became of the child.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

/// A child that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `code` in a child of this process, and fails as it does.
///
/// No other thread may be starting or ending: the standard library takes a lock then, without which the child can't start
/// one.
pub(crate) fn in_child(code: impl FnOnce()) {
    // SAFETY: neither thread nor child uses the crate before the guard has gone, nor what other threads protect after.
    let guard = unsafe { graceperiod::prepare_fork() };
    // SAFETY: the child runs on one thread, and leaves by `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("no child: {}", std::io::Error::last_os_error()),
        0 => {
            let done = catch_unwind(AssertUnwindSafe(|| {
                guard.child();
                code();
            }));
            let status = done.map_or_else(|payload| tell(&*payload), |()| 0);
            // SAFETY: ends the child.
            unsafe { libc::_exit(status) }
        }
        child => {
            drop(guard);
            wait_for(child);
        }
    }
}

/// Writes a panic's message where the test harness, whose threads the child hasn't got, doesn't catch it.
fn tell(payload: &(dyn Any + Send)) -> i32 {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    let line = format!("in the child: {}\n", text.unwrap_or("a panic"));
    // SAFETY: writes what is there.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    1
}

fn wait_for(child: libc::pid_t) {
    let begun = Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: writes to `status` only.
        match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
            0 if begun.elapsed() < PATIENCE => thread::sleep(Duration::from_micros(200)),
            0 => {
                // SAFETY: the child is this process's own, and not yet waited for.
                unsafe { libc::kill(child, libc::SIGKILL) };
                // SAFETY: as above.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                panic!("the child hangs");
            }
            _ => return assert_eq!(status, 0, "the child failed"),
        }
    }
}

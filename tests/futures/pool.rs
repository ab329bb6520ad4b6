//! As little of an executor with several threads as the tests need.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Gives the thread to the next task once.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(move |cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    work: Mutex<Option<Work>>,
    pool: Arc<Pool>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let pool = Arc::clone(&self.pool);
        pool.ready.lock().expect("no panic").push_back(self);
        pool.changed.notify_one();
    }
}

/// Tasks that are polled by whichever thread is free.
#[derive(Default)]
pub(crate) struct Pool {
    ready: Mutex<VecDeque<Arc<Task>>>,
    changed: Condvar,
    left: AtomicUsize,
}

impl Pool {
    /// Adds a task; any thread may poll it, hence the bounds.
    pub(crate) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        self.left.fetch_add(1, SeqCst);
        let task = Task {
            work: Mutex::new(Some(Box::pin(work))),
            pool: Arc::clone(self),
        };
        Arc::new(task).wake();
    }

    /// Runs all tasks to their end on `threads` threads.
    pub(crate) fn run(self: &Arc<Self>, threads: usize) {
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| while self.turn() {});
            }
        });
    }

    fn turn(&self) -> bool {
        let mut ready = self.ready.lock().expect("no panic");
        let task = loop {
            if let Some(task) = ready.pop_front() {
                break task;
            }
            if self.left.load(SeqCst) == 0 {
                return false;
            }
            let (again, waited) = self
                .changed
                .wait_timeout(ready, PATIENCE)
                .expect("no panic");
            assert!(!waited.timed_out(), "no task is ready");
            ready = again;
        };
        drop(ready);
        // A task that is woken while it is polled waits here for its next turn.
        let mut work = task.work.lock().expect("no panic");
        let waker = Waker::from(Arc::clone(&task));
        if let Some(future) = work.as_mut()
            && future
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_ready()
        {
            *work = None;
            self.left.fetch_sub(1, SeqCst);
            let _ready = self.ready.lock().expect("no panic");
            self.changed.notify_all();
        }
        true
    }
}

//! loom models of the cell, in a domain whose grace periods end with the model.

use std::any::Any;
use std::ptr::NonNull;

use loom::sync::Arc;
use loom::thread;

use crate::reclaim::ReadSection;
use crate::sync::{AtomicPtr, Mutex, UnsafeCell, edge};

use super::RcuOption;

/// A domain that drops at once, or not before the model ends.
#[derive(Clone, Debug)]
enum Waiting {
    Never,
    ToTheEnd(Arc<Mutex<Vec<Retired>>>),
}

/// What waits, and how to drop it.
#[derive(Debug)]
struct Retired(NonNull<()>, unsafe fn(NonNull<()>));

// SAFETY: `retire_raw` promises that it may be dropped on any thread.
unsafe impl Send for Retired {}

// SAFETY: `Never` is used where nobody reads beside a writer, and `ToTheEnd` drops when all readers have gone.
unsafe impl ReadSection for Waiting {
    type Guard<'d> = ();
    type Inner = Self;

    fn enter(&self) {}
    fn inner(&self) -> Self {
        self.clone()
    }
    fn id(_: &Self) -> u64 {
        u64::MAX
    }
    fn admits(_: &Self, (): &()) -> bool {
        true
    }
    fn protect_load<T>((): &(), source: &AtomicPtr<T>) -> *mut T {
        // Acquire: what the trait asks for (O80).
        source.load(edge!(O80, Acquire))
    }
    unsafe fn retire_raw(inner: &Self, ptr: NonNull<()>, drop: unsafe fn(NonNull<()>), _: usize) {
        match inner {
            // SAFETY: as the implementation's.
            Self::Never => unsafe { drop(ptr) },
            Self::ToTheEnd(retired) => retired.lock().push(Retired(ptr, drop)),
        }
    }
    fn report_panic(_: &Self, payload: Box<dyn Any + Send>) {
        std::panic::resume_unwind(payload);
    }
}

/// A number that loom watches.
struct Watched(UnsafeCell<u64>);

// SAFETY: the models only read it but for its drop; loom checks that.
unsafe impl Sync for Watched {}
// SAFETY: as above.
unsafe impl Send for Watched {}

impl Watched {
    fn new(value: u64) -> Self {
        let watched = Self(UnsafeCell::new(0));
        // SAFETY: nobody else has it yet.
        watched.0.with_mut(|place| unsafe { *place = value });
        watched
    }

    fn get(&self) -> u64 {
        // SAFETY: the cell protects it.
        self.0.with(|place| unsafe { *place })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: dropped by the only one who has it; a write, so that loom sees who hasn't.
        self.0.with_mut(|place| unsafe { *place = u64::MAX });
    }
}

/// Runs a writer beside a reader, and drops what the writer retired when both have gone.
fn beside_a_reader(write: fn(&RcuOption<Watched, Waiting>)) {
    loom::model(move || {
        let retired = Arc::new(Mutex::new(Vec::new()));
        let domain = Waiting::ToTheEnd(Arc::clone(&retired));
        let cell = Arc::new(RcuOption::new_in(Some(Watched::new(1)), &domain));
        // loom lets the spawner run first, and doesn't always come to move a writer's load and exchange before a reader.
        let reader = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || {
                let seen = cell.load(&()).expect("never empty").get();
                assert!((1..=2).contains(&seen));
            })
        };
        write(&cell);
        reader.join().expect("no panic");
        drop(cell);
        for Retired(ptr, drop) in retired.lock().drain(..) {
            // SAFETY: nobody reads any more.
            unsafe { drop(ptr) };
        }
    });
}

#[test]
fn o80_reader_sees_all_of_a_value_that_replaced_another() {
    beside_a_reader(|cell| cell.replace(Some(Watched::new(2))));
}

#[test]
fn o80_reader_sees_all_of_a_value_that_an_update_made() {
    beside_a_reader(|cell| {
        cell.update(&(), |old| {
            Some(Watched::new(old.map_or(0, Watched::get) + 1))
        });
    });
}

#[test]
fn o80_whoever_takes_a_value_out_may_drop_it() {
    loom::model(|| {
        let cell = Arc::new(RcuOption::empty_in(&Waiting::Never));
        let writer = {
            let cell = Arc::clone(&cell);
            thread::spawn(move || cell.replace(Some(Watched::new(1))))
        };
        cell.replace(Some(Watched::new(2)));
        writer.join().expect("no panic");
    });
}

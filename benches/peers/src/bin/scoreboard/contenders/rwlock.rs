//! A box behind a reader-writer lock.

use crate::payload::Payload;
use crate::scheme::{Role, Scheme};

macro_rules! locked {
    ($scheme:ident, $name:literal, $module:path, $open:path) => {
        #[doc = concat!("`", $name, "`.")]
        pub struct $scheme;

        const _: () = {
            use $module as lock;

            impl Scheme for $scheme {
                const NAME: &'static str = $name;
                const ROLES: &'static [Role] = &[Role::Guard, Role::Deref, Role::Update, Role::Mix];

                type Cell<P: Payload> = lock::RwLock<Box<P>>;
                type Local = ();
                type Guard<'a, P: Payload> = lock::RwLockReadGuard<'a, Box<P>>;

                fn new() -> Self {
                    Self
                }

                fn cell<P: Payload>(&self, value: P) -> Self::Cell<P> {
                    lock::RwLock::new(Box::new(value))
                }

                fn local(&self) {}

                #[inline]
                fn enter<'a, P: Payload>(
                    &'a self,
                    (): &'a mut (),
                    cell: &'a Self::Cell<P>,
                ) -> Self::Guard<'a, P> {
                    $open(cell.read())
                }

                #[inline]
                fn load<'a, P: Payload>(
                    guard: &mut Self::Guard<'a, P>,
                    _: &'a Self::Cell<P>,
                ) -> u64 {
                    guard.first()
                }

                #[inline]
                fn replace<P: Payload>(&self, (): &mut (), cell: &Self::Cell<P>, value: P) {
                    let new = Box::new(value);
                    let old = std::mem::replace(&mut *$open(cell.write()), new);
                    old.leave();
                    drop(old);
                }
            }
        };
    };
}

/// What a lock's answer becomes where locks can be poisoned.
fn unpoisoned<T>(answer: std::sync::LockResult<T>) -> T {
    answer.expect("nobody panics with the lock held")
}

locked!(Std, "rwlock", std::sync, unpoisoned);
locked!(
    ParkingLot,
    "rwlock:parking-lot",
    parking_lot,
    std::convert::identity
);

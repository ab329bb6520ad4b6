//! What a look-up hands out: [`Inode`], one use of an inode that ends when it is dropped, and [`NewInode`], the duty
//! to read one in.

use crate::attributes::{Attributes, InodeId};
use crate::cache::Cache;
use crate::store::{Pin, Store};

/// The answer of `iget`.
pub(crate) enum Lookup<'c, S: Store> {
    Cached(Inode<'c, S>),
    New(NewInode<'c, S>),
}

/// A use of a complete inode. Dropping it is `iput`.
pub(crate) struct Inode<'c, S: Store> {
    cache: &'c Cache<S>,
    /// Taken out by `drop` alone.
    pin: Option<S::Pin>,
}

impl<'c, S: Store> Inode<'c, S> {
    pub(crate) fn new(cache: &'c Cache<S>, pin: S::Pin) -> Self {
        Inode {
            cache,
            pin: Some(pin),
        }
    }

    pub(crate) fn id(&self) -> InodeId {
        self.pin().body().id()
    }

    pub(crate) fn attributes(&self) -> &Attributes {
        self.pin()
            .body()
            .attributes()
            .expect("only complete inodes are handed out")
    }

    /// Removes one name of the file. With the last one gone the inode goes, too, when its last user does.
    pub(crate) fn unlink(&self) -> bool {
        self.pin().body().unlink()
    }

    fn pin(&self) -> &S::Pin {
        self.pin
            .as_ref()
            .expect("the reference is there until the drop")
    }
}

impl<S: Store> Drop for Inode<'_, S> {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.cache.iput(pin);
        }
    }
}

/// An inode that nobody else can use yet. Dropped without having been filled, it leaves the cache, and those who
/// wait for it look again.
pub(crate) struct NewInode<'c, S: Store> {
    cache: &'c Cache<S>,
    /// Taken out by `fill` and `drop` alone.
    pin: Option<S::Pin>,
}

impl<'c, S: Store> NewInode<'c, S> {
    pub(crate) fn new(cache: &'c Cache<S>, pin: S::Pin) -> Self {
        NewInode {
            cache,
            pin: Some(pin),
        }
    }

    /// Completes the inode and lets the others in.
    pub(crate) fn fill(mut self, attributes: Attributes) -> Inode<'c, S> {
        let pin = self
            .pin
            .take()
            .expect("the reference is there until the end");
        self.cache.unlock_new(&pin, attributes);
        Inode::new(self.cache, pin)
    }
}

impl<S: Store> Drop for NewInode<'_, S> {
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.cache.fail_new(&pin);
        }
    }
}

//! What the types refuse, each beside a twin that compiles. The names are those of the bugs elsewhere.
//!
//! # Threads
//!
//! Stable part and value are shared among threads, whether one is `!Send`
//!
//! ```compile_fail,E0277
//! let slab: graceperiod::Slab<std::rc::Rc<u8>> = graceperiod::Slab::new(|_| std::rc::Rc::new(1));
//! ```
//!
//! ```
//! let slab: graceperiod::Slab<std::sync::Arc<u8>> = graceperiod::Slab::new(|_| std::sync::Arc::new(1));
//! ```
//!
//! or only `!Sync`:
//!
//! ```compile_fail,E0277
//! let slab: graceperiod::Slab<std::cell::Cell<u8>> = graceperiod::Slab::new(|_| std::cell::Cell::new(1));
//! ```
//!
//! ```compile_fail,E0277
//! let slab: graceperiod::Slab<(), std::cell::Cell<u8>> = graceperiod::Slab::new(|_| ());
//! ```
//!
//! ```
//! use std::sync::atomic::AtomicU8;
//! let slab: graceperiod::Slab<AtomicU8, AtomicU8> = graceperiod::Slab::new(|_| AtomicU8::new(1));
//! ```
//!
//! They borrow nothing, since nobody knows how long a page waits for its readers:
//!
//! ```compile_fail,E0597
//! let name = String::from("short-lived");
//! let slab: graceperiod::Slab<(), &'static str> = graceperiod::Slab::new(|_| ());
//! let value = slab.insert(name.as_str());
//! ```
//!
//! ```
//! let name = String::from("long-lived");
//! let slab: graceperiod::Slab<(), String> = graceperiod::Slab::new(|_| ());
//! let value = slab.insert(name);
//! ```
//!
//! # hlist_nulls: a node's end marker was zeroed when its slot was allocated again
//!
//! What readers walk is the stable part, and nobody, owner included, may write it but through its own cells:
//!
//! ```compile_fail,E0594
//! use graceperiod::Slab;
//! struct Node { next: usize }
//! let slab: Slab<Node, u8> = Slab::new(|_| Node { next: 1 });
//! let vacant = slab.reserve();
//! vacant.stable().next = 0;
//! ```
//!
//! ```
//! use graceperiod::Slab;
//! use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
//! struct Node { next: AtomicUsize }
//! let slab: Slab<Node, u8> = Slab::new(|_| Node { next: AtomicUsize::new(1) });
//! let vacant = slab.reserve();
//! vacant.stable().next.store(3, Relaxed);
//! ```
//!
//! # conntrack: fields of an entry were read before its count was known to be taken
//!
//! A value is reached through a counted reference, never through a candidate:
//!
//! ```compile_fail,E0614
//! use graceperiod::{Ref, Slab};
//! let slab: Slab<(), u32> = Slab::new(|_| ());
//! let entry = slab.insert(7);
//! let guard = graceperiod::enter();
//! let found = slab.candidate(&guard, Ref::key(&entry)).unwrap();
//! assert_eq!(*found, 7);
//! ```
//!
//! ```
//! use graceperiod::{Ref, Slab};
//! let slab: Slab<(), u32> = Slab::new(|_| ());
//! let entry = slab.insert(7);
//! let guard = graceperiod::enter();
//! let found = slab.candidate(&guard, Ref::key(&entry)).unwrap();
//! assert_eq!(*found.try_get().unwrap(), 7);
//! ```
//!
//! # fget: an object was used after the look-up's critical section
//!
//! ```compile_fail,E0505
//! use graceperiod::{AfterGrace, Ref, Slab};
//! let slab: Slab<(), u32, AfterGrace> = Slab::new(|_| ());
//! let file = slab.insert(7);
//! let guard = graceperiod::enter();
//! let seen = slab.candidate(&guard, Ref::key(&file)).unwrap().value();
//! drop(guard);
//! assert_eq!(*seen, 7);
//! ```
//!
//! ```
//! use graceperiod::{AfterGrace, Ref, Slab};
//! let slab: Slab<(), u32, AfterGrace> = Slab::new(|_| ());
//! let file = slab.insert(7);
//! let guard = graceperiod::enter();
//! let seen = slab.candidate(&guard, Ref::key(&file)).unwrap().value();
//! assert_eq!(*seen, 7);
//! drop(guard);
//! ```
//!
//! # VMA: a reference that was taken to the wrong owner's object was given back to it
//!
//! A count is given back by dropping the reference that owns it, once:
//!
//! ```compile_fail,E0382
//! use graceperiod::Slab;
//! let slab: Slab<(), u32> = Slab::new(|_| ());
//! let area = slab.insert(7);
//! drop(area);
//! drop(area);
//! ```
//!
//! ```
//! use graceperiod::Slab;
//! let slab: Slab<(), u32> = Slab::new(|_| ());
//! let area = slab.insert(7);
//! drop(area.clone());
//! drop(area);
//! ```

//! Random sequences of operations on a slab, held against a plain model of who owns what.

use std::collections::{HashMap, HashSet};

use graceperiod::{AfterGrace, Cursor, Domain, Immediate, Key, Policy, Ref, Released, Slab};

/// A generator of numbers that are random enough (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// What a model knows of an object.
struct Known<P: Policy<Domain>> {
    value: u64,
    refs: Vec<Ref<u64, u64, P, Domain>>,
    kept: bool,
    bulk: u64,
}

impl<P: Policy<Domain>> Known<P> {
    fn is_alive(&self) -> bool {
        !self.refs.is_empty() || self.kept || self.bulk > 0
    }
}

/// One thread's objects in a slab that others use as well.
struct Model<'a, P: Policy<Domain>> {
    domain: &'a Domain,
    slab: &'a Slab<u64, u64, P, Domain>,
    random: Random,
    alive: HashMap<Key, Known<P>>,
    dead: Vec<Key>,
    /// An id that only this thread asks for.
    reserved: u64,
    /// Whether what is dead waits.
    waits: bool,
}

impl<'a, P: Policy<Domain>> Model<'a, P> {
    fn new(
        domain: &'a Domain,
        slab: &'a Slab<u64, u64, P, Domain>,
        seed: u64,
        reserved: u64,
    ) -> Self {
        Self {
            domain,
            slab,
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            alive: HashMap::new(),
            dead: Vec::new(),
            reserved,
            waits: std::any::TypeId::of::<P>() == std::any::TypeId::of::<AfterGrace>(),
        }
    }

    fn some_key(&mut self) -> Option<Key> {
        let n = self.random.below(self.alive.len().max(1));
        self.alive.keys().nth(n).copied()
    }

    fn know(&mut self, key: Key, known: Known<P>) {
        assert!(!self.dead.contains(&key) && self.alive.insert(key, known).is_none());
    }

    /// Forgets an object that nobody owns any more.
    fn settle(&mut self, key: Key) {
        if !self.alive[&key].is_alive() {
            self.alive.remove(&key);
            self.dead.push(key);
        }
    }

    fn step(&mut self) {
        match self.random.below(14) {
            0..3 => self.insert(),
            3 => self.insert_at(),
            _ => {
                if let Some(key) = self.some_key() {
                    self.change(key);
                    self.settle(key);
                }
                self.ask_for_the_dead();
            }
        }
    }

    fn insert(&mut self) {
        let value = self.random.next();
        let mut known = Known {
            value,
            refs: Vec::new(),
            kept: false,
            bulk: 0,
        };
        let key = if self.random.below(2) == 0 {
            known.kept = true;
            self.slab.insert_kept(value)
        } else {
            known.refs.push(self.slab.insert(value));
            Ref::key(&known.refs[0])
        };
        assert!(key.index() >= 8, "a reserved id");
        self.know(key, known);
    }

    fn insert_at(&mut self) {
        let value = self.random.next();
        let is_taken = self.alive.keys().any(|key| key.index() == self.reserved);
        match self.slab.insert_at(self.reserved, value) {
            Ok(object) => {
                assert!(!is_taken);
                let key = Ref::key(&object);
                assert_eq!(key.index(), self.reserved);
                let refs = vec![object];
                let (kept, bulk) = (false, 0);
                self.know(
                    key,
                    Known {
                        value,
                        refs,
                        kept,
                        bulk,
                    },
                );
            }
            // A dead one may be waiting for its grace period.
            Err(refused) => assert!(is_taken || self.waits, "{refused}"),
        }
    }

    fn change(&mut self, key: Key) {
        let slab = self.slab;
        let n = self.random.below(1_000) as u64;
        let what = self.random.below(9);
        let known = self.alive.get_mut(&key).expect("known");
        assert_eq!(slab.retained(key), known.bulk);
        match what {
            0 => known.refs.push(slab.get(key).expect("alive")),
            1 => known.refs.push(slab.get_index(key.index()).expect("alive")),
            2 | 3 => drop(known.refs.pop()),
            4 => {
                if let Some(one) = known.refs.pop() {
                    assert_eq!(Ref::keep(one), key);
                    known.kept = true;
                }
            }
            5 => {
                let removed = slab.remove(key);
                assert_eq!(removed.is_some(), known.kept);
                known.kept = false;
                known.refs.extend(removed);
            }
            6 => {
                assert!(slab.retain(key, n));
                known.bulk += n;
            }
            7 => {
                if let Some(one) = known.refs.first() {
                    Ref::retain(one, n);
                    known.bulk += n;
                }
            }
            _ => {
                let n = if n.is_multiple_of(2) { known.bulk } else { n };
                let expected = match known.bulk.checked_sub(n) {
                    _ if known.bulk == 0 => Released::Unknown,
                    None => Released::Unknown,
                    Some(0) => Released::Last,
                    Some(_) => Released::Live,
                };
                assert_eq!(slab.release(key, n), expected);
                if expected != Released::Unknown {
                    known.bulk -= n;
                }
            }
        }
        for object in &known.refs {
            assert_eq!((Ref::key(object), **object), (key, known.value));
        }
    }

    fn ask_for_the_dead(&mut self) {
        if self.dead.is_empty() {
            return;
        }
        let key = self.dead[self.random.below(self.dead.len())];
        assert!(self.slab.get(key).is_none());
        assert!(self.slab.remove(key).is_none());
        assert!(!self.slab.retain(key, 1));
        assert_eq!(self.slab.release(key, 1), Released::Unknown);
    }

    /// Everything that lives is shown by a scan, with its value.
    fn check_scan(&self) {
        let domain_wide: HashSet<Key> = self.all_keys();
        assert!(self.alive.keys().all(|key| domain_wide.contains(key)));
        assert!(self.dead.iter().all(|key| !domain_wide.contains(key)));
    }

    fn all_keys(&self) -> HashSet<Key> {
        let mut cursor = Cursor::new();
        let mut keys = HashSet::new();
        while cursor.laps() == 0 {
            let guard = self.domain.enter();
            for found in self.slab.scan(&guard, &mut cursor, 50) {
                assert!(keys.insert(found.key()), "shown twice");
            }
        }
        keys
    }
}

fn objects<P: Policy<Domain>>(domain: &Domain) -> Slab<u64, u64, P, Domain> {
    Slab::builder()
        .domain(domain)
        .reserve_ids(8)
        .build(|blank| blank.index())
}

fn one_thread_agrees_with_the_model<P: Policy<Domain>>() {
    for seed in 1..20 {
        let domain = Domain::new();
        let slab = objects::<P>(&domain);
        let mut model = Model::new(&domain, &slab, seed, seed % 8);
        for step in 0..1_500 {
            model.step();
            assert_eq!(slab.len(), model.alive.len());
            if step % 500 == 250 {
                model.check_scan();
                domain.barrier();
                slab.shrink();
            }
        }
        // What only the slab owns goes with a clear, the rest stays.
        let owned = model
            .alive
            .values()
            .filter(|known| known.kept || known.bulk > 0);
        assert_eq!(slab.clear(), owned.count());
        model.alive.retain(|_, known| !known.refs.is_empty());
        assert_eq!(slab.len(), model.alive.len());
        model.check_scan();
        model.alive.clear();
        domain.barrier();
        assert_eq!((slab.len(), slab.stats().waiting), (0, 0));
        drop(slab);
        assert_eq!(domain.drain().left, 0);
    }
}

#[test]
fn one_thread_agrees_with_the_model_immediate() {
    one_thread_agrees_with_the_model::<Immediate>();
}

#[test]
fn one_thread_agrees_with_the_model_after_grace() {
    one_thread_agrees_with_the_model::<AfterGrace>();
}

fn each_of_four_threads_agrees_with_its_model<P: Policy<Domain>>() {
    let domain = Domain::new();
    let slab = objects::<P>(&domain);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (domain, slab) = (&domain, &slab);
            scope.spawn(move || {
                let mut model = Model::new(domain, slab, thread + 100, thread);
                for step in 0..6_000 {
                    model.step();
                    if step % 2_000 == 1_000 {
                        model.check_scan();
                        slab.shrink();
                    }
                }
            });
        }
    });
    // The references went with the models.
    slab.clear();
    domain.barrier();
    assert_eq!((slab.len(), slab.stats().waiting), (0, 0));
    slab.shrink();
    drop(slab);
    assert_eq!(domain.drain().left, 0);
}

#[test]
fn each_of_four_threads_agrees_with_its_model_immediate() {
    each_of_four_threads_agrees_with_its_model::<Immediate>();
}

#[test]
fn each_of_four_threads_agrees_with_its_model_after_grace() {
    each_of_four_threads_agrees_with_its_model::<AfterGrace>();
}

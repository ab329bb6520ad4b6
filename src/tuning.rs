//! Every constant that was chosen, not derived.

use std::time::Duration;

/// Lines of a thread's table from a structure's identity to its node: 16 bytes each.
pub(crate) const LOCAL_LINES: usize = 8;

/// Structures that a thread remembers before it looks for those that have gone.
pub(crate) const PRUNE_FROM: usize = 32;

/// Nodes that a walk over a registry fetches ahead: as many cache misses at once. Most cores can wait for ten.
pub(crate) const WALK_AHEAD: usize = 6;

/// How long the thread that drives futures waits for more before it ends.
#[cfg(not(loom))]
pub(crate) const DRIVER_IDLE: Duration = Duration::from_secs(1);

/// Yields before a waiting thread begins to sleep.
pub(crate) const SNOOZE_YIELDS: u32 = 64;

/// First sleep of a waiting thread.
pub(crate) const SNOOZE_MIN: Duration = Duration::from_micros(20);

/// Longest sleep of a waiting thread.
pub(crate) const SNOOZE_MAX: Duration = Duration::from_millis(1);

/// Panics that the drop of one panic's payload may raise before the last payload is leaked.
pub(crate) const PAYLOADS_DEEP: usize = 8;

/// Retired objects per batch, one cookie each: so many if they are plain memory, down to 102 if they are closures with
/// three words of state.
pub(crate) const BATCH: usize = 256;

/// Objects of a thread's first batch, so that a thread that retires little costs little.
pub(crate) const FIRST_BATCH: usize = 32;

/// Batches that a thread closes before it asks for a grace period.
pub(crate) const BATCHES_PER_PERIOD: u64 = 1;

/// Retirements between two drops of ready objects, and how many those are: few enough that a malloc's thread cache takes
/// them, enough to share one section, mark and frame.
pub(crate) const DROP_EVERY: usize = 8;

/// Ready objects from which a closing batch drops [`CATCH_UP`] more. In a steady state there are fewer: what is freed
/// beside the rhythm of the allocations overflows a malloc's thread cache, which costs 2 of 16 ns per replacement.
pub(crate) const CATCH_UP_FROM: usize = 4 * BATCH;

/// Ready objects dropped besides when a batch is closed and many are ready.
pub(crate) const CATCH_UP: usize = BATCH / 2;

/// A batch closes early when it holds this part of the limit in bytes.
pub(crate) const BATCH_SHARE: usize = 8;

/// Records that a scan looks at for each closed batch: the more records, the fewer scans.
pub(crate) const RECORDS_PER_BATCH: u64 = 64;

/// Objects that one call to retire drops at most while it helps.
pub(crate) const HELP_DROPS: usize = 4 * BATCH;

/// Ready objects dropped besides when a batch is closed above the limit.
pub(crate) const CATCH_UP_AT_LIMIT: usize = BATCH;

/// Retired objects waiting on one thread from which that thread helps.
pub(crate) const LIMIT_OBJECTS: usize = 2_048;

/// Bytes waiting on one thread from which that thread helps.
pub(crate) const LIMIT_BYTES: usize = 64 << 20;

/// Longest that a retiring thread helps at its limit before it lets the backlog grow.
pub(crate) const PATIENCE: Duration = Duration::from_millis(1);

/// Age from which a part-full batch is closed by whoever comes by.
pub(crate) const MAX_DELAY: Duration = Duration::from_millis(10);

/// Shortest time between two attempts that polling a cookie makes, in nanoseconds.
pub(crate) const POLL_INTERVAL_NANOS: u64 = 2_000;

/// Rounds of a drain before it says what is left.
pub(crate) const DRAIN_ROUNDS: usize = 128;

/// Age in nanoseconds from which a grace period pays for a heavy fence to park the idle threads that hold it up.
pub(crate) const PARK_AFTER: u64 = 20_000;

/// Heavy fences within [`FENCE_MODE_WINDOW`] from which readers fence instead: about one in a thousand of the time that a
/// membarrier beside running threads takes.
pub(crate) const FENCE_MODE_HEAVIES: u32 = 16;

/// The window over which heavy fences are counted, in nanoseconds.
pub(crate) const FENCE_MODE_WINDOW: u64 = 16_000_000;

/// How long readers fence before it is tried without, in nanoseconds.
pub(crate) const FENCE_MODE_FOR: u64 = 100_000_000;

/// Yields of a retiring thread whose backlog is being taken over before it uses another record's.
pub(crate) const TAKER_YIELDS: u32 = 16;

/// Yields after which a fork no longer waits for an owner whose whereabouts the system refuses to tell.
pub(crate) const FORK_YIELDS: u32 = 64;

/// Slots per magazine of a slab.
#[cfg(not(loom))]
pub(crate) const MAGAZINE: usize = 32;
/// Few, so that models reach the depot.
#[cfg(loom)]
pub(crate) const MAGAZINE: usize = 1;

/// Smallest page of a slab in bytes.
pub(crate) const PAGE_BYTES: usize = 64 << 10;

/// Slots that a page has at least; it grows for large types.
pub(crate) const PAGE_SLOTS_MIN: usize = 8;

/// Slots that a page has at most.
#[cfg(not(loom))]
pub(crate) const PAGE_SLOTS_MAX: usize = 1 << 20;
/// Few, since loom tracks each.
#[cfg(loom)]
pub(crate) const PAGE_SLOTS_MAX: usize = 2;

/// Pages in the first segment of a slab's directory; each further segment doubles.
#[cfg(not(loom))]
pub(crate) const DIRECTORY_FIRST: usize = 64;
/// Few, since loom tracks each.
#[cfg(loom)]
pub(crate) const DIRECTORY_FIRST: usize = 1;

/// Segments of a slab's directory: more pages than there are addresses for.
pub(crate) const DIRECTORY_SEGMENTS: usize = 32;

/// Slots that a walk over a slab looks at inside one guard.
pub(crate) const SCAN_CHUNK: usize = 256;

/// Indices that a slab's ids must leave room for above the first: more than there is memory for slots.
pub(crate) const ID_ROOM: u64 = 1 << 48;

/// Most tag bits of a key.
pub(crate) const TAG_BITS_MAX: u32 = 8;

/// First bytes of exported generations.
pub(crate) const GENERATIONS_MAGIC: [u8; 4] = *b"GPG\x01";

/// Bytes per exported generation, which has 40 bits.
pub(crate) const GENERATION_BYTES: usize = 5;

/// FNV-1a's first sum.
pub(crate) const CHECKSUM_BEGIN: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a's multiplier.
pub(crate) const CHECKSUM_STEP: u64 = 0x0000_0100_0000_01b3;

/// What a line of `/proc/slabinfo` counts pages in, in bytes.
pub(crate) const SLABINFO_PAGE: usize = 4096;

/// Age in nanoseconds from which a part-full magazine of dead slots takes its cookie.
pub(crate) const MAGAZINE_DELAY_NANOS: u64 = 1_000_000;

/// Dead slots between two looks at the clock; a power of two.
pub(crate) const MAGAZINE_CLOCK_EVERY: usize = 8;

/// Freed slots that pass before a slot in quarantine is used again.
pub(crate) const QUARANTINE: usize = 1_024;

/// What the bytes of a value in quarantine are: not a likely number, length or pointer.
pub(crate) const POISON: u8 = 0xDB;

/// Environment variable that sets the debug mode of slabs.
pub(crate) const DEBUG_VARIABLE: &str = "GRACEPERIOD_SLAB_DEBUG";

/// Longest that a reservation at the slab's limit waits for a page that another thread is building, in nanoseconds.
pub(crate) const FULL_PATIENCE_NANOS: u64 = 100_000_000;

/// Longest that a reservation at the slab's limit, or a shrink, works on a grace period, in nanoseconds.
pub(crate) const GRACE_PATIENCE_NANOS: u64 = 1_000_000;

/// Items of one thread that make a full batch of a queue: where the gain of taking locks once has been had.
pub(crate) const QUEUE_BATCH: usize = 32;

/// Items of one thread that may wait in a queue: from there on they leave the caches.
pub(crate) const QUEUE_LIMIT: usize = 256;

/// Age from which a part-full batch of a queue is late.
pub(crate) const QUEUE_MAX_DELAY: Duration = Duration::from_millis(1);

/// Pushes between two looks at the clock where no worker looks.
pub(crate) const QUEUE_LOOK_EVERY: usize = 16;

/// Empty buffers that a thread keeps for one queue: a full limit of batches, and one in hand.
pub(crate) const QUEUE_SPARES: usize = 8;

/// Most places of a queue's line before it has to grow, a power of two.
pub(crate) const QUEUE_PLACES: usize = 16;

/// Attempts at reading two counts of one moment.
pub(crate) const QUEUE_READ_TRIES: usize = 16;

/// Name of a queue's background thread.
pub(crate) const QUEUE_NAME: &str = "graceperiod-queue";

// The table.

/// Walks that end in another bucket before a look-up takes the lock of its own.
pub(crate) const TABLE_RESTARTS: u32 = 16;

/// Nodes that a walk passes before it counts as one that leads nowhere.
pub(crate) const TABLE_STEPS: u32 = 1 << 16;

/// Spreads a hash over the bits that choose the bucket: 2^64 divided by the golden ratio, odd.
pub(crate) const TABLE_SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Counters of a table's members, among which the threads are dealt out.
#[cfg(not(loom))]
pub(crate) const TABLE_COUNTERS: usize = 8;
/// One, since loom must not see the order in which threads are numbered.
#[cfg(loom)]
pub(crate) const TABLE_COUNTERS: usize = 1;

//! Every constant that was chosen, not derived.

use std::time::Duration;

/// Lines of a thread's table from a structure's identity to its node: 16 bytes each.
pub(crate) const LOCAL_LINES: usize = 8;

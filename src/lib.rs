//! Concurrent memory reclamation the way the Linux VFS does it.

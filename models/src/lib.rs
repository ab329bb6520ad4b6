//! Explores every execution of graceperiod's grace-period protocol, for a few threads and periods, under three memory
//! models. `README.md` says what it covers; [`protocol`] is the protocol, step by step.

pub mod cases;
pub mod cpu;
pub mod explore;
mod fingerprint;
pub mod memory;
pub mod op;
pub mod place;
pub mod plan;
pub mod protocol;
pub mod report;
pub mod rules;
mod state;
pub mod step;
pub mod word;

pub use memory::Model;

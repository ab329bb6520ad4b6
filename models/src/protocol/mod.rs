//! The protocol, step by step: what `rcu/record` and `rcu/clock` do, in the same order and under the same names.
//!
//! [`reader`] is the reader's side, [`driver`] the driver's, [`retirer`] what a user does around them, [`owner`] how
//! records change hands, [`mode`] how fence mode changes. Wrong versions stand beside the right ones, each behind the
//! [`Mistake`](crate::rules::Mistake) that it makes.

pub mod driver;
pub mod mode;
pub mod owner;
pub mod reader;
pub mod retirer;

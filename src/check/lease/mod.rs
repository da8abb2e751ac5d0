//! Leases of questions: what was charged for a request of another service, until its cost is
//! known.
//!
//! What windows and buckets have charged leaves the process as a sealed token, so any node with
//! the same store can settle it, and no node keeps it. Units in flight are held by the node that
//! has admitted them: a node that ends gives back what it holds.

mod end;
mod ends;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod held;
mod seal;
mod token;

pub use end::End;
pub use ends::Ends;
pub use held::{GivenBack, HeldLeases, Look, Place, Renewal, Renewed, Returned};
pub use seal::{Seal, Sealer, Unsealed};
pub use token::{Dynamic, LeaseToken, LeasedCharge, MAX_NAME};

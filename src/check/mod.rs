//! The doors for programs that ask for decisions and carry them out themselves.

pub(crate) mod rls;

//! The real program on real sockets, seen from outside.

mod support;

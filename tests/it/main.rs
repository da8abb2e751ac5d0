//! The real program on real sockets, seen from outside.

mod support;

mod access_log;
mod answers;
mod bodies;
mod connections;
mod failures;
mod forwarding;
mod keys;
mod limits;
mod malformed;
mod pools;
mod program;
mod shutdown;

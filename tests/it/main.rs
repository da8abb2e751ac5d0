//! The real program on real sockets, seen from outside.

mod support;

mod abuse;
mod access_log;
mod algorithms;
mod answers;
mod bodies;
mod concurrency;
mod connections;
mod costs;
mod failures;
mod forwarding;
mod inbound;
mod interim;
mod keys;
mod limits;
mod malformed;
mod modes;
mod ordinary;
mod overrides;
mod pools;
mod program;
mod redis;
mod refusals;
mod reload;
mod routes;
mod settlements;
mod shutdown;
mod smuggling;
mod systemd;
mod takeover;
mod upstreams;
mod websocket;

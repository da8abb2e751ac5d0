//! Forward-auth: other proxies ask whether they may forward the requests of their clients.

#![expect(dead_code, reason = "no service uses it yet")]

mod family;

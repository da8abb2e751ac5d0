//! Questions of other proxies and services, asked of the real program.

mod api;

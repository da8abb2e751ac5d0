//! Questions of other proxies and services.

mod api;
mod auth;
mod authorization;
mod grpc;
mod store;

//! Questions of other proxies and services.

mod api;
mod auth;
mod authorization;
mod domains;
mod grpc;
mod store;

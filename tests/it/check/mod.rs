//! Questions of other proxies and services.

mod auth;
mod grpc;

//! Questions of other proxies and services.

mod api;
mod api_key;
mod auth;
mod authorization;
mod credentials;
mod domains;
mod grpc;
mod joined;
mod leases;
mod settle;
mod spellings;
mod statuses;
mod store;
mod together;
pub(crate) mod xds;

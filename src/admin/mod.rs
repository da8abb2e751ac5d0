//! The admin listener: what operators see and change of a running gateway.
//!
//! Guarantees: without a credential a client learns only whether the gateway is alive and ready.
//! A web page of another origin changes nothing and reads nothing. A call takes a bounded time and
//! bounded memory, runs on the control thread, and never makes a worker wait. GET changes nothing.
//! Every change, every call that shows whole keys, and every failed login is recorded.

mod answer;
mod audit;
mod body;
mod bounds;
mod browser;
mod call;
mod calls;
mod candidates;
mod client;
mod cluster;
mod config_call;
mod credentials;
mod events;
mod figures;
mod masked_config;
mod node;
mod openapi;
mod outcomes;
mod page;
mod parameter;
mod problem;
mod refusals;
mod rejected;
mod reveal;
mod service;
mod settings;
mod spec;
mod state;
mod status;
mod target;
mod words;

pub use client::Access;
pub use cluster::{ClusterFigures, Publisher};
pub use config_call::{ConfigCall, ConfigRequest, Refused, Replaced, RunningConfig};
pub use credentials::Token;
pub use masked_config::MaskedConfig;
pub use node::{Checked, EffectiveConfig, Node, Origins, Phase, PutBy, Readers, ShownConfig, View};
pub use problem::ConfigProblem;
pub use service::Admin;
pub use settings::{
    AdminSettings, ClientSettings, ProbeSettings, Role, TokenDigest, TokenSettings,
};

//! What operators see and change of a running gateway.

mod settings;

pub(crate) use settings::{
    AdminSettings, ClientSettings, ProbeSettings, Role, TokenDigest, TokenSettings,
};

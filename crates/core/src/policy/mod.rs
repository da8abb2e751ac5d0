//! Policies: they determine the counter of a request, its limit and its cost. This module
//! is pure: it does no I/O and reads no clock.
//!
//! [`Clients::subject`] recognises the client of a request. [`Subject::key`],
//! [`Subject::limit`] and [`Subject::cost`] say which counter each policy uses for it,
//! up to which limit, and how many units the request costs. A value that a client sends
//! is used only if it can do no harm: forwarding fields and user fields from trusted
//! peers, tokens with a valid signature, and values that no backend can read
//! differently.

mod access;
#[cfg(feature = "agents")]
mod agent;
mod api_key;
mod auth;
mod body;
mod cidr;
mod class;
mod classes;
mod client;
mod client_ip;
mod conditions;
mod cost;
mod counter;
mod definition;
mod estimate;
mod fields;
mod fold;
mod forwarded;
#[cfg(all(feature = "jwt", any(test, feature = "testing")))]
pub mod fuzzing;
mod geo;
mod identified;
#[cfg(feature = "jwt")]
mod jwt;
mod key;
mod key_forms;
mod key_limit;
mod key_settings;
mod key_text;
mod limit;
mod misfits;
mod missing_key;
mod model_path;
mod override_limit;
mod pairs;
mod partition;
mod password;
mod password_settings;
mod plan;
mod preflight;
mod replaced_key;
mod reservation;
mod shown_key;
mod signer;
pub mod spec;
mod subject;
mod template;
#[cfg(test)]
mod tests;
mod token;
mod token_fault;
mod value;
mod warn;
mod whole_number;

pub use access::{
    AccessEffect, AccessList, AccessMode, AccessRule, AccessStep, AccessVerdict, AccessVerdicts,
    Denial, DenialAnswer, DenialCause, exact_value,
};
#[cfg(feature = "agents")]
pub use agent::{Agent, AgentFault, Agents, MAX_AGENTS};
pub(crate) use api_key::OwnLimit;
pub use auth::{AuthFault, AuthMethod, AuthRefusal, Challenges, Scheme};
pub use body::{BodyContent, BodyReading, BodyWords, MAX_POINTERS};
pub use cidr::are_everywhere;
pub use classes::{
    ClassTable, ClientClass, MAX_CLASSES, MAX_NAME_BYTES, MAX_SEARCHED, MAX_TEXT_BYTES, MAX_TEXTS,
};
pub use client::{ApiKeySettings, ClientSettings, ForwardedHeader, UserSource};
pub use client_ip::{AddressOrigin, Unbelieved};
pub use counter::Beside;
pub use definition::{
    Cost, Count, Elastic, Exempt, Left, Mode, Overridable, Penalty, Plan, Plans, Policy,
    Preflights, Unit,
};
#[cfg(any(test, feature = "testing"))]
pub use geo::writer as geo_writer;
pub use geo::{GeoCode, GeoCodeError, Place, Places};
#[cfg(feature = "geo")]
pub use geo::{GeoDatabase, GeoError};
pub use identified::{Identified, KnownKey};
#[cfg(feature = "jwt")]
pub use jwt::{
    JwtSettings, KeyError, KeySet, LeftOut, RefreshRequest, TokenKeys, UsableKeys, VerifyingKey,
};
pub use key::{KeyExpr, KeyExprError};
pub use key_forms::{KEY_FORMS, key_forms};
pub use key_limit::UnfitLimit;
pub use key_settings::{IdentityPart, KeySettings};
pub use key_text::{KeyTextError, KeyTexts};
pub use limit::Limit;
pub(crate) use misfits::Misfits;
pub use missing_key::MissingKey;
pub use override_limit::{LimitOwner, OverrideLimit};
pub(crate) use pairs::{Reading, cookie_readings, parameter_readings};
pub(crate) use partition::LastPrincipal;
pub use partition::{Exemption, KeyFor};
pub use password_settings::{PasswordAnswer, PasswordSettings};
pub use plan::{LimitChoice, PlanId};
pub use reservation::{Estimate, Reservation, ReserveSettings};
pub use shown_key::MaskedAddress;
pub use subject::{Clients, RouteView, Subject};
pub use template::Template;
pub use token::{Claims, Fault, VerifyToken};
pub use token_fault::TokenFault;
pub use warn::{MAX_SHARES, WarnShares};

//! The calls of the admin API: [`API`] is the table of them.
//!
//! A new call is one entry in the table of its group, and a function in a module beside it. The
//! entry says all that is said of the call: the service, the roles, the record of changes, the
//! allowed methods and the API's document are made from it.

mod access;
mod api_keys;
mod caller;
mod configuration;
mod health;
mod keys;
mod page;
mod policies;
#[cfg(test)]
mod tests;
mod traffic;

use super::spec::Api;

/// All calls.
pub static API: Api = Api {
    groups: &[
        health::GROUP,
        caller::GROUP,
        configuration::GROUP,
        policies::GROUP,
        access::GROUP,
        keys::GROUP,
        api_keys::GROUP,
        traffic::GROUP,
        page::GROUP,
    ],
};

//! The gateways that are asked, as this crate sees them. The caller has the connections.

use std::fmt;
use std::pin::Pin;

use serde_json::Value;

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    /// The URL of its admin listener, by which it is named.
    pub url: String,
    /// Calls it.
    pub api: Box<dyn AdminApi>,
}

/// Calls the admin API of one gateway. The futures run on the thread that makes them.
pub trait AdminApi: fmt::Debug {
    /// The answer to a GET of `path`, with its query.
    fn get<'a>(&'a self, path: &'a str) -> Answer<'a>;

    /// The answer to a DELETE of `path`.
    fn delete<'a>(&'a self, path: &'a str) -> Answer<'a>;
}

/// The answer to a call, when it is there: a document, or the reason why there is none.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Value, Failure>> + 'a>>;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason, for people. It may have any character.
    pub text: String,
    /// Whether other calls of the same gateway may have an answer.
    pub is_of_one_call: bool,
}

//! How users are known by name and password, and what a check of a password says.

use std::sync::Arc;

use http::HeaderValue;

use crate::passwords::PasswordTable;

/// Users by name and password.
#[derive(Clone, Debug)]
pub struct PasswordSettings {
    /// The users.
    pub table: Arc<PasswordTable>,
    /// The value of `WWW-Authenticate` for clients without a right password.
    pub challenge: HeaderValue,
}

/// What is known of the user and the password of a request.
#[derive(Clone, Debug)]
pub enum PasswordAnswer {
    /// The password is that of this user.
    Right(Box<str>),
    /// There is no such user, or the password is another one.
    Wrong,
    /// It cannot be found out at the moment.
    Away,
}

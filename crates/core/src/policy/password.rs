//! Users by name and password (RFC 7617).
//!
//! The hash of a password takes milliseconds, so a subject does not check passwords. It says which
//! user and password a request has, and gets the answer.

use super::fields::{self, Lack};
use super::password_settings::{PasswordAnswer, PasswordSettings};
use super::{ClientSettings, KeyExpr, Subject, UserSource};
use crate::passwords::{Login, PasswordTable};

impl ClientSettings {
    /// How users are known by name and password, if they are.
    pub const fn passwords(&self) -> Option<&PasswordSettings> {
        match &self.user {
            Some(UserSource::Basic(settings)) => Some(settings),
            _ => None,
        }
    }
}

impl KeyExpr {
    /// Whether the user is it, or a part of it.
    pub fn has_user(&self) -> bool {
        let mut has_user = false;
        self.visit(&mut |key| has_user |= matches!(key, Self::User));
        has_user
    }
}

impl<'r> Subject<'r, '_> {
    /// The user and the password that are to be checked, and the users. None: the request has none,
    /// or what it has cannot be right.
    pub fn login(&self) -> Option<(Login, &'r PasswordTable)> {
        let settings = self.clients.settings.passwords()?;
        let credentials = fields::basic(self.request.fields()).ok()?;
        let login = Login::parse(credentials);
        if login.is_none() {
            self.answer_password(PasswordAnswer::Wrong);
        }
        login.map(|login| (login, &*settings.table))
    }

    /// The password of the request was checked. A second answer is ignored.
    pub fn answer_password(&self, answer: PasswordAnswer) {
        // It fails only if there is an answer.
        let _ = self.password.set(answer);
    }

    /// Whether the password of the request was found wrong, or cannot be right.
    pub fn has_wrong_password(&self) -> bool {
        matches!(self.password.get(), Some(PasswordAnswer::Wrong))
    }

    /// Takes the password of the request for that of its user, if there is such a user. Returns
    /// whether there is a password to check.
    pub fn assume_password(&self) -> bool {
        let Some((login, table)) = self.login() else { return false };
        self.answer_password(match table.contains(&login.user) {
            true => PasswordAnswer::Right(login.user),
            false => PasswordAnswer::Wrong,
        });
        true
    }

    /// The user, if the password is right. A password that was not checked is like one that cannot
    /// be checked at the moment.
    pub(super) fn user_by_password(&self) -> Result<&[u8], Lack> {
        fields::basic(self.request.fields())?;
        match self.password.get() {
            Some(PasswordAnswer::Right(user)) => Ok(user.as_bytes()),
            Some(PasswordAnswer::Wrong) => Err(Lack::Invalid),
            Some(PasswordAnswer::Away) | None => Err(Lack::Unverifiable),
        }
    }
}

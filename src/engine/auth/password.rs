//! The password of a request, before the credential of the request is judged.

use tollgate_core::passwords::{Login, PasswordTable};
use tollgate_core::policy::{AuthFault, AuthMethod, AuthRefusal, PasswordAnswer, Subject};
use tollgate_core::routes::Route;
use tollgate_core::time::Timestamp;

use super::Authentication;

/// A wrong password that was counted.
pub struct PasswordFailure {
    /// None: the request passes.
    pub refusal: Option<AuthRefusal>,
}

impl Authentication {
    /// Has the password of a request checked, if its route needs to know the user. One whose result
    /// is not known is not checked for an address with too many failures.
    pub async fn check_password(&self, route: &Route, subject: &Subject<'_, '_>, now: Timestamp) {
        if !route.needs_user() {
            return;
        }
        if let Some((login, table)) = subject.login() {
            let answer = self.password_answer(login, table, subject, now).await;
            subject.answer_password(answer);
        }
    }

    /// Counts a wrong password of a route that needs to know the user and does not demand one. None:
    /// nothing is counted.
    pub fn count_password(
        &self,
        route: &Route,
        subject: &Subject<'_, '_>,
        now: Timestamp,
    ) -> Option<PasswordFailure> {
        let is_shadow = subject.is_shadow();
        // Where a user is demanded, the failure counts when it is told, except in shadow mode.
        let counts_when_told = route.auth.contains(&AuthMethod::User) && !is_shadow;
        if counts_when_told || !route.needs_user() || !subject.has_wrong_password() {
            return None;
        }
        let wait = self.failures.count(subject, subject.failures()?, now);
        let refusal = wait.filter(|_| !is_shadow).map(|wait| {
            let fault = AuthFault::TooManyFailures(wait);
            self.metrics.count(Some(AuthMethod::User), fault.word());
            AuthRefusal { fault, challenges: subject.challenges(&route.auth) }
        });
        Some(PasswordFailure { refusal })
    }

    async fn password_answer(
        &self,
        login: Login,
        table: &PasswordTable,
        subject: &Subject<'_, '_>,
        now: Timestamp,
    ) -> PasswordAnswer {
        let hash = *table.hash(&login.user);
        let user = login.user.clone();
        let result = match self.passwords.known(&login, &hash, now) {
            Some(known) => Ok(known),
            None => {
                let left = subject.failures().map(|limit| self.failures.left(subject, limit, now));
                if left == Some(0) {
                    // When the failure is counted, the answer is 429.
                    return PasswordAnswer::Wrong;
                }
                let left = left.unwrap_or(u64::MAX);
                self.passwords.check(login, hash, subject.address(), left, now).await
            }
        };
        match result {
            Ok(true) => PasswordAnswer::Right(user),
            Ok(false) => PasswordAnswer::Wrong,
            Err(_) => PasswordAnswer::Away,
        }
    }
}

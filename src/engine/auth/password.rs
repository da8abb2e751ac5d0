//! The password of a request, before the credential of the request is judged.

use tollgate_core::passwords::{Login, PasswordTable};
use tollgate_core::policy::{PasswordAnswer, Subject};
use tollgate_core::routes::Route;
use tollgate_core::time::Timestamp;

use super::Authentication;

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
                    // The failure is counted where it is told, and the answer is then 429.
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

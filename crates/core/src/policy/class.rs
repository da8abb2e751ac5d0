//! The class of a request's client.

use http::header::USER_AGENT;

use super::Subject;
use super::fields::{self, Lack};

impl<'r> Subject<'r, '_> {
    /// The name of the client's class. None: it is in no class, or there are none.
    pub fn class(&self) -> Option<&'r str> {
        self.class_or_lack().ok()
    }

    /// The same, or why there is none.
    pub(super) fn class_or_lack(&self) -> Result<&'r str, Lack> {
        let Some(table) = self.clients.settings.classes.as_deref() else {
            return Err(Lack::Absent);
        };
        let find = || {
            table.class_of(
                |networks| networks.contains(self.client_ip()),
                |places| self.is_in_one_of(places),
                |agents| self.agent().is_some_and(|it| agents.iter().any(|name| **name == *it)),
                || fields::header(self.request.fields(), &USER_AGENT),
            )
        };
        *self.class.get_or_init(find)
    }
}

#[cfg(all(test, feature = "classes"))]
mod tests;

//! API keys that a question names by their text, instead of a request that contains them.

use tollgate_core::policy::{AuthRefusal, Challenges, Clients, Identified, Subject};
use tollgate_core::request::RequestView;

use super::Engine;

/// A key that a question names, and what it has proved.
#[derive(Debug)]
pub struct NamedKey<'r> {
    text: &'r [u8],
    identified: Identified<'r>,
    /// Why it is not accepted. None: it is, or only known keys need be.
    pub refusal: Option<AuthRefusal>,
}

impl<'r> NamedKey<'r> {
    /// The id of the key, if it is accepted.
    pub fn id(&self) -> Option<&str> {
        match &self.identified {
            Identified::Known(key) => Some(key.key.id.as_str()),
            _ => None,
        }
    }

    /// The client of a request, which has this key and no other.
    pub fn client<'q>(&self, subject: Subject<'r, 'q>) -> Subject<'r, 'q>
    where
        'r: 'q,
    {
        let subject = subject.with_api_key(self.text);
        subject.identify_as(self.identified.clone());
        subject
    }
}

impl Engine {
    /// Whether the key with this text is accepted for `request`. A wrong one counts against the
    /// client's address if `counts`.
    pub async fn prove_key<'r>(
        &self,
        clients: &'r Clients,
        text: &'r [u8],
        request: &RequestView<'_>,
        counts: bool,
    ) -> NamedKey<'r> {
        let now = self.clock.now();
        let subject = clients.subject(request, None, self.clock.wall()).with_api_key(text);
        let fault = match clients.knows_keys() {
            true => self.deciding.auth.check_key(&subject, now, counts).await.err(),
            false => None,
        };
        let refusal = fault.map(|fault| AuthRefusal { fault, challenges: Challenges::default() });
        NamedKey { text, identified: subject.identified().clone(), refusal }
    }
}

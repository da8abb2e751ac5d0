//! The agent that has signed a request.

use super::Subject;
use super::fields::Lack;

impl<'r> Subject<'r, '_> {
    /// The name of the agent that has signed the request. None: none has, or none is known.
    pub fn agent(&self) -> Option<&'r str> {
        self.agent_or_lack().ok()
    }

    /// The same, or why there is none.
    #[cfg(feature = "agents")]
    pub(super) fn agent_or_lack(&self) -> Result<&'r str, Lack> {
        let Some(agents) = self.clients.settings.agents.as_deref() else {
            return Err(Lack::Absent);
        };
        *self.agent.get_or_init(|| {
            let message = super::agent::Message::of(self.request);
            agents.identify(&message, self.now).map(|name| &**name).map_err(|_| Lack::Absent)
        })
    }

    /// Without the feature `agents`, no agent is known.
    #[cfg(not(feature = "agents"))]
    pub(super) fn agent_or_lack(&self) -> Result<&'r str, Lack> {
        *self.agent.get_or_init(|| Err(Lack::Absent))
    }
}

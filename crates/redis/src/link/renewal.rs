//! Adopts other credentials and certificates while a connection is in use. The connection stays
//! in use until the server has accepted them.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_core::store::OutageCause;

use super::super::connect::{self, Connected};
use super::super::failure::StoreError;
use super::super::settings::RedisSettings;
use super::super::wire::Wire;
use super::{Connection, Shared};

/// The time between two attempts to adopt settings that the server does not accept.
const RETRY: Duration = Duration::from_secs(5);

impl Shared {
    /// Opens a connection with the settings of now. If the server does not accept the user or the
    /// password, it may accept those of the last connection.
    pub(super) async fn handshake(&self) -> Result<Connected, StoreError> {
        let settings = Rc::new(self.live.peek());
        let error = match self.open(&settings).await {
            Ok(connected) => {
                self.accept(settings);
                return Ok(connected);
            }
            Err(error) => error,
        };
        let before = self.accepted.borrow().clone().filter(|it| !it.opens_like(&settings));
        match before {
            Some(before) if is_of_credentials(error.cause()) => {
                self.open(&before).await.map_err(|_| error)
            }
            _ => Err(error),
        }
    }

    /// Adopts each change of the settings on this connection. Returns another connection if the
    /// settings need one.
    pub(super) async fn successor(&self, connection: &Connection) -> Connected {
        let mut live = self.live.clone();
        loop {
            match self.adopt(Rc::new(live.current()), connection).await {
                Ok(Some(successor)) => return successor,
                Ok(None) => live.changed().await,
                Err(error) => {
                    // A server that does not answer is found by calls and probes.
                    if !error.cause().is_silence() {
                        self.renewal.borrow_mut().give_up(self.outage(&error));
                    }
                    // Either is a reason to try again.
                    let _ = timeout(RETRY, live.changed()).await;
                }
            }
        }
    }

    /// Adopts these settings on the connection, or opens another one with them.
    async fn adopt(
        &self,
        settings: Rc<RedisSettings>,
        connection: &Connection,
    ) -> Result<Option<Connected>, StoreError> {
        let used = self.accepted.borrow().clone();
        let used = used.as_ref();
        let successor = if used.is_some_and(|used| used.opens_like(&settings)) {
            None
        } else {
            let limit = connect::handshake_timeout(&settings);
            let adopted = async {
                if used.is_some_and(|used| used.differs_in_password(&settings)) {
                    authenticate(connection.wire.clone(), &settings).await.map(|()| None)
                } else {
                    self.open(&settings).await.map(Some)
                }
            };
            timeout(limit, adopted).await.unwrap_or(Err(StoreError::Timeout))?
        };
        self.accept(settings);
        Ok(successor)
    }

    async fn open(&self, settings: &RedisSettings) -> Result<Connected, StoreError> {
        let redirected = self.state.borrow().redirected;
        connect::connect(self.transport, settings, &self.target, redirected).await
    }

    fn accept(&self, settings: Rc<RedisSettings>) {
        self.accepted.replace(Some(settings));
        self.renewal.borrow_mut().resume();
    }
}

/// Authenticates again on an open connection. If the server refuses, the connection keeps its
/// user.
async fn authenticate(mut wire: Wire, settings: &RedisSettings) -> Result<(), StoreError> {
    let commands = connect::authentication(&settings.credentials);
    for reply in wire.send(&commands).await? {
        reply.extract_error()?;
    }
    Ok(())
}

/// Whether other credentials may be accepted.
const fn is_of_credentials(cause: OutageCause) -> bool {
    matches!(
        cause,
        OutageCause::PasswordMissing | OutageCause::PasswordWrong | OutageCause::PasswordUnknown
    )
}

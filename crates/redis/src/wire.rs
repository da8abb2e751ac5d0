//! An open connection with Redis' protocol. Unlike redis-rs it reports when it has closed, so
//! that the reconnect task can open another one before a call needs it.

use std::rc::Rc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, RedisConnectionInfo, Value};
use tokio::sync::watch;
use tokio::task::{AbortHandle, spawn_local};

use super::failure::StoreError;
use super::stream::Stream;

/// The number of commands that a connection takes before callers must wait. Batches are few,
/// and there is room for a probe.
const COMMANDS: usize = 64;

/// A connection. It closes with its last clone.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    commands: MultiplexedConnection,
    driver: Rc<Driver>,
}

/// The task that reads and writes.
#[derive(Debug)]
struct Driver {
    task: AbortHandle,
    /// The task holds the receiver, so this is closed when the connection is.
    open: watch::Sender<()>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Wire {
    /// A connection over `stream`, on which nothing was sent: a handshake of redis-rs would hide
    /// the errors of the server.
    ///
    /// # Errors
    /// If the system refuses the stream.
    pub(super) async fn over(stream: Box<dyn Stream>) -> Result<Self, StoreError> {
        let client = &RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP2)
            .set_skip_set_lib_name();
        // Callers have their own deadlines: redis-rs' limit is off.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(COMMANDS);
        let (commands, driver) =
            MultiplexedConnection::new_with_config(client, stream, config).await?;
        let (open, is_open) = watch::channel(());
        let task = spawn_local(async move {
            driver.await;
            drop(is_open);
        });
        let driver = Rc::new(Driver { task: task.abort_handle(), open });
        Ok(Self { commands, driver })
    }

    /// Sends commands together. Returns one reply for each.
    ///
    /// # Errors
    /// If the connection breaks.
    pub(super) async fn send(&mut self, commands: &Pipeline) -> Result<Vec<Value>, StoreError> {
        Ok(self.commands.send_packed_commands(commands, 0, commands.len()).await?)
    }

    /// Sends one command.
    ///
    /// # Errors
    /// If the connection breaks.
    pub(super) async fn send_one(&mut self, command: &Cmd) -> Result<Value, StoreError> {
        Ok(self.commands.send_packed_command(command).await?)
    }

    /// Whether the server has closed the connection, so that no further command arrives.
    pub(super) fn is_closed(&self) -> bool {
        self.driver.open.is_closed()
    }

    /// Returns when the connection has closed.
    pub(super) async fn closed(&self) {
        self.driver.open.closed().await;
    }
}

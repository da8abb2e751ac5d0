//! Commands other than the script in a cluster. A node to which the slot has moved or is moving
//! is asked too, once.

use redis::{Pipeline, Value, pipe};
use tollgate_core::in_time::in_time;

use super::Shared;
use crate::StoreError;
use crate::connect;
use crate::link::Link;

type Answers = Result<Vec<Value>, StoreError>;

impl Shared {
    /// Sends commands to the node of `slot`, as [`Link::look_up`] does, or to the node to
    /// which that node redirects.
    pub(super) async fn look_up(&self, slot: u16, commands: &Pipeline) -> Answers {
        self.follow(slot, commands, Link::look_up).await
    }

    /// The same as [`Link::query`] does. No request waits for it, so it also waits for the first
    /// connection to a node. The next read of the map can remove a node that has no slots yet,
    /// and with it the link. So a later query would not find it connected either.
    pub(super) async fn query(&self, slot: u16, commands: &Pipeline) -> Answers {
        let limit = connect::handshake_timeout(&self.live.peek());
        let send = async |link: &Link, commands: &Pipeline| {
            // Without a connection the query fails.
            let _ = in_time(limit, link.settled()).await;
            link.query(commands).await
        };
        self.follow(slot, commands, send).await
    }

    async fn follow(
        &self,
        slot: u16,
        commands: &Pipeline,
        send: impl AsyncFn(&Link, &Pipeline) -> Answers,
    ) -> Answers {
        let node = self.node_of(slot).ok_or(StoreError::Away)?;
        let answers = send(node.link(slot), commands).await;
        let error = match &answers {
            Ok(answers) => answers.iter().find_map(refused),
            Err(error) => Some(error.clone()),
        };
        let Some(error) = error else { return answers };
        self.stale.notify_one();
        match self.redirected(&error, slot, &node) {
            Some((link, false)) => send(&link, commands).await,
            Some((link, true)) => Ok(without_asking(send(&link, &asking(commands)).await?)),
            None => answers,
        }
    }
}

/// The error in a reply.
fn refused(answer: &Value) -> Option<StoreError> {
    match answer {
        Value::ServerError(error) => Some(redis::RedisError::from(error.clone()).into()),
        _ => None,
    }
}

/// The same commands for a node to which another node redirects and that does not have the slot
/// yet. `ASKING` holds for one command.
fn asking(commands: &Pipeline) -> Pipeline {
    let mut introduced = pipe();
    for command in commands.cmd_iter() {
        introduced.cmd("ASKING").add_command(command.clone());
    }
    introduced
}

/// The replies without those to `ASKING`.
fn without_asking(answers: Vec<Value>) -> Vec<Value> {
    answers.into_iter().skip(1).step_by(2).collect()
}

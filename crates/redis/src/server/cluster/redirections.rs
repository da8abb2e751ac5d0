//! Commands other than the script in a cluster. Those of keys that have moved to another node are
//! sent there too, once.

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

    /// Sends commands, and sends those that the node redirects once more, to the other node. While
    /// a slot moves, its node answers for the keys that it still has. The other node has the moved
    /// keys only, and answers for all others as if they did not exist.
    async fn follow(
        &self,
        slot: u16,
        commands: &Pipeline,
        send: impl AsyncFn(&Link, &Pipeline) -> Answers,
    ) -> Answers {
        let node = self.node_of(slot).ok_or(StoreError::Away)?;
        let answered = send(node.link(slot), commands).await;
        let mut answers = answered.inspect_err(|_| self.stale.notify_one())?;
        let errors = answers.iter().enumerate();
        let errors = errors.filter_map(|(index, answer)| Some((index, refused(answer)?)));
        let errors: Vec<(usize, StoreError)> = errors.collect();
        if errors.is_empty() {
            return Ok(answers);
        }
        self.stale.notify_one();
        // All commands have one slot, so there is one other node.
        let to = errors.iter().find_map(|(_, error)| self.redirected(error, slot, &node));
        let Some((link, is_asking)) = to else { return Ok(answers) };
        let redirected = errors.iter().filter(|(_, error)| error.is_redirection());
        let redirected: Vec<usize> = redirected.map(|(index, _)| *index).collect();
        let further = send(&link, &selected(commands, &redirected, is_asking)).await?;
        // Each reply to `ASKING` comes before that to its command.
        let extra = usize::from(is_asking);
        let further = further.into_iter().skip(extra).step_by(1 + extra);
        for (index, answer) in redirected.into_iter().zip(further) {
            answers[index] = answer;
        }
        Ok(answers)
    }
}

/// The error in a reply.
fn refused(answer: &Value) -> Option<StoreError> {
    match answer {
        Value::ServerError(error) => Some(redis::RedisError::from(error.clone()).into()),
        _ => None,
    }
}

/// The commands at these places, each after `ASKING` if they go to a node that does not have the
/// slot yet. `ASKING` holds for one command.
fn selected(commands: &Pipeline, places: &[usize], is_asking: bool) -> Pipeline {
    let mut selected = pipe();
    for (_, command) in commands.cmd_iter().enumerate().filter(|(at, _)| places.contains(at)) {
        if is_asking {
            selected.cmd("ASKING");
        }
        selected.add_command(command.clone());
    }
    selected
}

//! The domains of the rate limit service from another server: the client of the protocol, and the
//! way of its rules to the workers.
//!
//! A worker exchanges a pointer. The rules before are freed on a thread of their own, because that
//! takes a moment if there are many.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_blocking, spawn_local};
use tokio::time::sleep;

use super::worker::Command;
use crate::check::rls::Domains;
use crate::check::{CheckSettings, XdsClient, XdsCondition, XdsSettings};

/// How often it is looked whether the last question that uses rules has ended.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The rules of another server, and the task that asks for them.
#[derive(Default)]
pub struct Xds {
    /// What the workers have.
    in_use: Rc<RefCell<Option<Arc<Domains>>>>,
    running: Option<Running>,
}

struct Running {
    settings: Arc<XdsSettings>,
    condition: Arc<XdsCondition>,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Xds {
    /// Another configuration is in use. If its server is another one, or is reached otherwise, there
    /// is another stream, and the rules stay until the first response. Returns how the stream is.
    pub fn renew(
        &mut self,
        check: &CheckSettings,
        workers: Vec<mpsc::UnboundedSender<Command>>,
    ) -> Option<Arc<XdsCondition>> {
        let Some(settings) = check.xds() else {
            if self.running.take().is_some() {
                tell(&workers, None);
                retire(self.in_use.take());
            }
            return None;
        };
        if let Some(same) = self.running.as_ref().filter(|it| it.settings == *settings) {
            return Some(Arc::clone(&same.condition));
        }
        let condition = Arc::new(XdsCondition::new(settings.server.to_string()));
        let in_use = Rc::clone(&self.in_use);
        let client = XdsClient::new(Arc::clone(settings), Arc::clone(&condition), in_use);
        let before = Rc::new(RefCell::new(self.in_use.borrow().clone()));
        let apply = async move |rules: Arc<Domains>| {
            for told in tell(&workers, Some(&rules)) {
                // A worker that stops or panics does not reply.
                let _ = told.await;
            }
            retire(before.replace(Some(rules)));
        };
        let task = spawn_local(client.run(apply));
        let settings = Arc::clone(settings);
        self.running = Some(Running { settings, condition: Arc::clone(&condition), task });
        Some(condition)
    }
}

/// Gives rules to the workers. The replies come when they have them.
fn tell(
    workers: &[mpsc::UnboundedSender<Command>],
    rules: Option<&Arc<Domains>>,
) -> Vec<oneshot::Receiver<()>> {
    let tell = |worker: &mpsc::UnboundedSender<Command>| {
        let (reply, replied) = oneshot::channel();
        // A worker that has panicked receives nothing.
        let _ = worker.send(Command::Domains(rules.cloned(), reply));
        replied
    };
    workers.iter().map(tell).collect()
}

/// Frees rules when the last question that uses them has ended.
fn retire(rules: Option<Arc<Domains>>) {
    let Some(rules) = rules else { return };
    spawn_local(async move {
        while Arc::strong_count(&rules) > 1 {
            sleep(LOOK_INTERVAL).await;
        }
        spawn_blocking(move || drop(rules));
    });
}

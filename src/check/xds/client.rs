//! Keeps a stream to the server, one after another, and puts into use what the server tells.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use prost::Message as _;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, sleep_until};
use tollgate_core::time::monotonic;
use tracing::{debug, error, info, warn};

use super::Condition;
use super::connection::{Ended, Stream};
use super::exchange::{Exchange, wait_before};
use super::messages::{DiscoveryResponse, Node};
use super::resources::{Terms, read};
use crate::check::grpc::ratelimit::{Kind, ProtoValue, Struct};
use crate::check::rls::Domains;
use crate::check::settings::XdsSettings;

/// How often the server is sent a PING.
const PING_EACH: Duration = Duration::from_secs(30);
/// The interval for a server that wants fewer of them. Servers in Go take one each 5 minutes, unless
/// they are told otherwise, and close the connection after a few more.
const RARE_PING_EACH: Duration = Duration::from_secs(6 * 60);
/// The longest interval.
const MAX_PING_EACH: Duration = Duration::from_secs(60 * 60);

/// Keeps the stream to a server.
pub struct Client {
    settings: Arc<XdsSettings>,
    condition: Arc<Condition>,
    /// The rules in use, which outlast this client.
    in_use: Rc<RefCell<Option<Arc<Domains>>>>,
}

/// The response to which an answer belongs.
struct Head {
    version: String,
    nonce: String,
}

/// What is to be told of streams that have ended.
struct Outage {
    failures: u32,
    /// The reason that the log has told last.
    told: String,
    ping_each: Duration,
}

impl Client {
    /// A client with these settings. `in_use` has the rules that workers have.
    pub const fn new(
        settings: Arc<XdsSettings>,
        condition: Arc<Condition>,
        in_use: Rc<RefCell<Option<Arc<Domains>>>>,
    ) -> Self {
        Self { settings, condition, in_use }
    }

    /// Keeps the stream until the future is dropped. `apply` gives rules to all workers, and returns
    /// when all of them have the rules.
    pub async fn run(self, apply: impl AsyncFn(Arc<Domains>)) {
        let mut outage = Outage { failures: 0, told: String::new(), ping_each: PING_EACH };
        let mut rng = Rng::new();
        loop {
            let ended = match self.stream(&apply, &mut outage).await {
                Ok(never) => match never {},
                Err(ended) => ended,
            };
            self.condition.set_connected(false);
            self.tell(&ended, &mut outage);
            sleep(wait_before(outage.failures, rng.f64())).await;
            outage.failures = outage.failures.saturating_add(1);
        }
    }

    /// Keeps one stream until it ends.
    async fn stream(
        &self,
        apply: &impl AsyncFn(Arc<Domains>),
        outage: &mut Outage,
    ) -> Result<std::convert::Infallible, Ended> {
        let mut exchange = Exchange::new(self.in_use.borrow().clone());
        let first = exchange.first(self.node());
        let mut stream = Stream::open(&self.settings, &first, outage.ping_each).await?;
        info!(server = self.condition.server(), "connected to the xDS server");
        outage.told.clear();
        self.condition.set_connected(true);
        loop {
            let message = tokio::select! {
                message = stream.next() => message?,
                () = until(exchange.forgets_at()) => {
                    if let Some(told) = exchange.forget() {
                        info!("domains that the xDS server has not told again are forgotten");
                        self.use_rules(told, apply).await;
                    }
                    continue;
                }
            };
            let answer = self.answer(message, &mut exchange, apply).await?;
            stream.send(&answer)?;
            outage.failures = 0;
        }
    }

    /// Checks a response, puts it into use, and returns the answer.
    async fn answer(
        &self,
        message: Bytes,
        exchange: &mut Exchange,
        apply: &impl AsyncFn(Arc<Domains>),
    ) -> Result<super::messages::DiscoveryRequest, Ended> {
        let settings = Arc::clone(&self.settings);
        // Large responses take a second. The thread of the control goes on meanwhile.
        let checked = spawn_blocking(move || {
            let response = DiscoveryResponse::decode(message)?;
            let head = Head { version: response.version_info, nonce: response.nonce };
            let terms = Terms { merge: settings.merge_domains, own: &settings.own_domains };
            Ok::<_, Ended>((head, read(response.resources, terms)))
        });
        let (head, checked) = checked.await.expect("checks do not panic")?;
        let Head { version, nonce } = head;
        match checked {
            Ok(told) => {
                let domains = told.names().count();
                let descriptors = told.len();
                self.use_rules(exchange.take(told, monotonic()), apply).await;
                self.condition.taken();
                info!(version, domains, descriptors, "the limits of the xDS server are in use");
                Ok(exchange.taken(version, nonce))
            }
            Err(why) => {
                self.condition.rejected();
                error!(
                    version,
                    "what the xDS server sends has mistakes, the limits in use stay:\n{why}"
                );
                let (answer, wait) = exchange.rejected(&version, nonce, why);
                sleep(wait).await;
                Ok(answer)
            }
        }
    }

    async fn use_rules(&self, rules: Arc<Domains>, apply: &impl AsyncFn(Arc<Domains>)) {
        self.in_use.replace(Some(Arc::clone(&rules)));
        apply(rules).await;
    }

    fn tell(&self, ended: &Ended, outage: &mut Outage) {
        if matches!(ended, Ended::TooManyPings) {
            outage.ping_each = (outage.ping_each * 2).clamp(RARE_PING_EACH, MAX_PING_EACH);
        }
        let server = self.condition.server();
        let why = ended.to_string();
        if outage.told == why {
            debug!(server, why, "the xDS server is still away");
            return;
        }
        let effect = match &*self.in_use.borrow() {
            Some(_) => "the limits stay as they are",
            None => "until it has told the limits, calls fail",
        };
        warn!(server, why, "there is no stream to the xDS server: {effect}");
        outage.told = why;
    }

    /// How this node names itself.
    fn node(&self) -> Node {
        let value = |text: &String| ProtoValue { kind: Some(Kind::String(text.clone())) };
        let fields = self.settings.metadata.iter();
        let fields: BTreeMap<_, _> = fields.map(|(name, it)| (name.clone(), value(it))).collect();
        Node {
            id: self.settings.node.clone(),
            metadata: (!fields.is_empty()).then_some(Struct { fields }),
            user_agent_name: "tollgate".to_owned(),
            user_agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Returns at this time, or never.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use h2::Reason;

    use super::*;
    use crate::proxy::Target;

    #[test]
    fn a_server_that_wants_fewer_pings_gets_fewer() {
        let settings = XdsSettings {
            server: Target::H2c("eg:18001".parse().unwrap()),
            tls: None,
            node: "n".to_owned(),
            metadata: Vec::new(),
            max_bytes: 1,
            wait: true,
            merge_domains: false,
            own_domains: std::collections::BTreeSet::new(),
        };
        let condition = Arc::new(Condition::new("h2c://eg:18001".to_owned()));
        let client = Client::new(Arc::new(settings), condition, Rc::default());
        let mut outage = Outage { failures: 0, told: String::new(), ping_each: PING_EACH };
        let mut after = |reason: Reason| {
            client.tell(&Ended::from(h2::Error::from(reason)), &mut outage);
            outage.ping_each.as_secs()
        };
        assert_eq!(after(Reason::NO_ERROR), 30);
        let calm = [0; 6].map(|_| after(Reason::ENHANCE_YOUR_CALM));
        assert_eq!(calm, [360, 720, 1440, 2880, 3600, 3600]);
    }
}

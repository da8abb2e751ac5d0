//! Asks gateways for their figures. All answers are made safe for a terminal here.

use std::cell::Cell;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tollgate_core::time::{Clock, Span, Timestamp};

use super::admin::{AdminApi, Failure, Gateway};
use super::args::{Scope, TopOptions};
use super::clean;
use super::figures::{Answers, Part, word};
use super::table::Client;
use super::texts::{amount, wait};

/// The shortest time between two questions for the history.
const HISTORY: Span = Span::from_secs(5);
/// The most pages of a list that are asked for.
const MAX_PAGES: usize = 20;

/// The gateways that are asked.
#[derive(Debug)]
pub(super) struct Gateways {
    clients: Vec<Box<dyn AdminApi>>,
    /// When each was last asked for its history.
    histories: Vec<Cell<Option<Timestamp>>>,
    scope: Scope,
    policy: Option<String>,
}

impl Gateways {
    /// The gateways that were found.
    pub(super) fn new(found: Vec<Gateway>, options: &TopOptions) -> Self {
        let clients: Vec<_> = found.into_iter().map(|it| it.api).collect();
        let histories = clients.iter().map(|_| Cell::new(None)).collect();
        Self { clients, histories, scope: options.scope, policy: options.policy.clone() }
    }

    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.clients.len()
    }

    /// The figures of one gateway. Parts that it refuses to tell are missing in them.
    ///
    /// # Errors
    /// If it does not answer, or tells nothing, with the reason.
    pub(super) async fn ask(&self, index: usize) -> Result<Answers, String> {
        let client = &**self.clients.get(index).ok_or("there is no such gateway")?;
        let policy = self.policy.as_deref().map(|name| format!("&policy={}", encoded(name)));
        let policy = policy.unwrap_or_default();
        let (scope, lists): (_, &[&str]) = match self.scope {
            Scope::Node => ("", &["minutes=0", "minutes=1"]),
            Scope::Cluster => ("&scope=cluster", &["scope=cluster"]),
        };
        let mut parts = Parts { client, failures: Vec::new(), is_known: false };
        let status = parts.get(Part::Status, "/v1/status").await?;
        let path = format!("/v1/policies?limit=1000{scope}");
        let policies = parts.pages(Part::Policies, &path).await?;
        let mut clients = Vec::new();
        for list in lists {
            let path = format!("/v1/top?limit=128&{list}{policy}");
            clients.push(parts.get(Part::Clients, &path).await?);
        }
        let path = format!("/v1/refusals?limit=200{policy}");
        let refusals = parts.get(Part::Refusals, &path).await?;
        let upstreams = parts.pages(Part::Upstreams, "/v1/upstreams?limit=1000").await?;
        let nodes = parts.pages(Part::Nodes, "/v1/nodes?limit=1000").await?;
        let history = match self.needs_history(index) {
            true => parts.get(Part::History, "/v1/history?step=10").await?,
            false => Value::Null,
        };
        let failures = parts.end()?;
        Ok(Answers { status, policies, clients, refusals, upstreams, nodes, history, failures })
    }

    /// Whether the history of a gateway is asked for now. It has steps of ten seconds, so it is
    /// not needed each second.
    fn needs_history(&self, index: usize) -> bool {
        let Some(last) = self.histories.get(index) else { return false };
        let now = Clock::System.now();
        let is_due = last.get().is_none_or(|last| now.since(last) >= HISTORY);
        if is_due {
            last.set(Some(now));
        }
        is_due
    }

    /// What the counters of a client say, in lines. Of several gateways, the first that
    /// knows the client is asked.
    pub(super) async fn look(&self, of: &Client) -> Vec<String> {
        let mut why = String::new();
        for client in &self.clients {
            match get(&**client, &path_with_plan(of)).await {
                Ok(key) => return lines(&key),
                Err(error) => why = error,
            }
        }
        vec![format!("Its counters are not known: {why}")]
    }

    /// Resets the counters of a client on each gateway, and says what has come of it.
    pub(super) async fn reset(&self, of: &Client) -> String {
        let mut done = 0;
        let mut is_whole = true;
        let mut why = String::new();
        for client in &self.clients {
            match client.delete(&path(of)).await {
                Ok(answer) => {
                    done += 1;
                    is_whole &= answer["api_key"] != "unknown";
                }
                Err(failure) => why = clean::text(&failure.text),
            }
        }
        // The key of a client is in its requests, if the policy counts by something else.
        let but =
            if is_whole { "" } else { ", but not a counter of an API key with another window" };
        match (done, self.clients.len()) {
            (0, _) => format!("not reset: {why}"),
            (_, 1) => format!("{} is reset{but}", of.text),
            // With a common store one is enough; nodes that have not seen the client do not
            // know its id.
            (done, all) => format!("{} is reset by {done} of {all} gateways{but}", of.text),
        }
    }
}

/// The parts that one gateway is asked for.
struct Parts<'c> {
    client: &'c dyn AdminApi,
    failures: Vec<(Part, String)>,
    /// Whether the gateway has told any part.
    is_known: bool,
}

impl Parts<'_> {
    /// A part, or null if the gateway answers that it does not tell it.
    ///
    /// # Errors
    /// If there is no answer, or no other part would have one: then the gateway need not be asked
    /// for the others.
    async fn get(&mut self, part: Part, path: &str) -> Result<Value, String> {
        match self.client.get(path).await {
            Ok(answer) => {
                self.is_known = true;
                Ok(clean::document(answer))
            }
            Err(Failure { text, is_of_one_call: true }) => {
                let is_new = self.failures.iter().all(|(it, _)| *it != part);
                self.failures.extend(is_new.then(|| (part, clean::text(&text))));
                Ok(Value::Null)
            }
            Err(failure) => Err(clean::text(&failure.text)),
        }
    }

    /// A part that is a list, with the items of all its pages: of the first [`MAX_PAGES`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    async fn pages(&mut self, part: Part, path: &str) -> Result<Value, String> {
        let mut list = self.get(part, path).await?;
        for _ in 1..MAX_PAGES {
            let Some(after) = list["next"].as_str().map(encoded) else { break };
            let mut page = self.get(part, &format!("{path}&after={after}")).await?;
            let Some(more) = page["items"].as_array_mut().map(std::mem::take) else { break };
            if let Some(items) = list["items"].as_array_mut() {
                items.extend(more);
            }
            list["next"] = page["next"].take();
        }
        Ok(list)
    }

    /// The parts that have failed.
    ///
    /// # Errors
    /// If all have failed, with the reason of the first.
    fn end(self) -> Result<Vec<(Part, String)>, String> {
        match self.failures.first() {
            Some((_, why)) if !self.is_known => Err(why.clone()),
            _ => Ok(self.failures),
        }
    }
}

async fn get(client: &dyn AdminApi, path: &str) -> Result<Value, String> {
    let answer = client.get(path).await;
    answer.map(clean::document).map_err(|failure| clean::text(&failure.text))
}

fn path(of: &Client) -> String {
    format!("/v1/policies/{}/keys/~{}", encoded(&of.policy), encoded(&of.id))
}

/// The plan of a client is in its requests, so the gateway is told.
fn path_with_plan(of: &Client) -> String {
    let plan = of.plan.as_ref().map(|plan| format!("?plan={}", encoded(plan)));
    path(of) + &plan.unwrap_or_default()
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// The counters of a key in lines.
fn lines(key: &Value) -> Vec<String> {
    if key["limit"] == "unlimited" {
        return vec!["The key has no limit".to_owned()];
    }
    let amount = |name: &str| amount(key[name].as_u64().unwrap_or(0), key["unit"].as_str());
    let time = |name: &str| match &key[name] {
        Value::Number(ms) => Some(wait(ms.as_u64().unwrap_or(0))),
        Value::String(never) => Some(never.clone()),
        _ => None,
    };
    let fits = match time("retry_after_ms") {
        None => "one more request is admitted now".to_owned(),
        Some(wait) => format!("one more request fits in {wait}"),
    };
    let mut lines = vec![
        format!(
            "Used      {} of {} ({})",
            amount("used"),
            amount("limit"),
            word(&key["limit_from"])
        ),
        format!("Left      {}; {fits}", amount("remaining")),
    ];
    lines.extend(time("banned_for_ms").map(|wait| format!("Banned    for {wait}")));
    lines.extend(
        time("reset_after_ms").map(|wait| format!("Empty     in {wait}, without requests")),
    );
    lines.extend(match &key["api_key"] {
        Value::String(id) if id == "unknown" => Some(
            "API key   not known here: a key with a limit of its own has other numbers".to_owned(),
        ),
        Value::String(id) => Some(format!("API key   {id}")),
        _ => None,
    });
    lines.push(format!("Source    {} ({})", word(&key["source"]), word(&key["scope"])));
    lines
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use serde_json::json;

    use super::super::admin::Answer;
    use super::*;

    #[test]
    fn counters_are_told_in_lines() {
        let key = json!({
            "limit": 3, "limit_from": "policy", "used": 3, "remaining": 0, "source": "store",
            "scope": "cluster", "retry_after_ms": 14_200, "reset_after_ms": 60_000,
            "banned_for_ms": null,
        });
        let told = lines(&key);
        assert_eq!(told[0], "Used      3 of 3 (policy)");
        assert_eq!(told[1], "Left      0; one more request fits in 14.2 s");
        assert_eq!(told[2], "Empty     in 1 min 0 s, without requests");
        assert_eq!(lines(&json!({ "limit": "unlimited" })), ["The key has no limit"]);
        let of = Client { policy: "a/b".to_owned(), id: "0z".to_owned(), ..Client::default() };
        assert_eq!(path_with_plan(&of), "/v1/policies/a%2Fb/keys/~0z");
        let of = Client { plan: Some("a b".to_owned()), ..of };
        assert_eq!(path_with_plan(&of), "/v1/policies/a%2Fb/keys/~0z?plan=a%20b");
    }

    #[test]
    fn units_of_money_and_the_api_key_of_a_limit_are_told() {
        let key = json!({
            "limit": 1_250_000, "limit_from": "override", "used": 0, "remaining": 1_000_000,
            "unit": "usd-6", "source": "store", "scope": "cluster", "retry_after_ms": null,
            "reset_after_ms": 0, "banned_for_ms": null, "api_key": "7f2m9qd0v3xk",
        });
        let told = lines(&key);
        assert_eq!(told[0], "Used      0.00 usd of 1.25 usd (override)");
        assert_eq!(told[1], "Left      1.00 usd; one more request is admitted now");
        assert!(told.contains(&"API key   7f2m9qd0v3xk".to_owned()), "{told:?}");
        let told = lines(&json!({ "limit": 5, "api_key": "unknown" }));
        assert!(told.iter().any(|line| line.starts_with("API key   not known here")), "{told:?}");
    }

    /// A gateway whose lists have one item on each of many pages.
    #[derive(Debug, Default)]
    struct Paged(RefCell<Vec<String>>);

    impl AdminApi for Paged {
        fn get<'a>(&'a self, path: &'a str) -> Answer<'a> {
            self.0.borrow_mut().push(path.to_owned());
            let page = path.split_once("after=p%20").map_or(0, |(_, it)| it.parse().expect("one"));
            let next = (page < 40).then(|| format!("p {}", page + 1));
            let page = json!({ "items": [{ "name": format!("p {page}") }], "next": next });
            Box::pin(async move { Ok(page) })
        }

        fn delete<'a>(&'a self, _: &'a str) -> Answer<'a> {
            unreachable!("nothing is reset")
        }
    }

    #[test]
    fn lists_have_the_items_of_all_pages_up_to_a_bound() {
        let paged = Paged::default();
        let mut parts = Parts { client: &paged, failures: Vec::new(), is_known: false };
        let asked = pin!(parts.pages(Part::Policies, "/v1/policies?limit=1000"));
        let Poll::Ready(Ok(list)) = asked.poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("the gateway answers at once");
        };
        let names: Vec<_> = list["items"].as_array().expect("a list").iter().collect();
        assert_eq!(names.len(), MAX_PAGES);
        assert_eq!(names[MAX_PAGES - 1]["name"], "p 19");
        assert_eq!(
            paged.0.borrow()[..2],
            ["/v1/policies?limit=1000", "/v1/policies?limit=1000&after=p%201"]
        );
    }
}

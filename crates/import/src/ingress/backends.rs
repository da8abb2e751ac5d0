//! Backends: Services of the cluster, by their names.

use super::limits::Annotations;
use super::objects::Objects;
use super::settings::Settings;
use crate::nginx::keys::Maps;
use crate::node::Node;
use crate::notes::Notes;
use crate::out::Map;
use crate::plan::Plan;
use crate::report::Loss;

/// What an Ingress says of all of its upstreams.
pub struct Backends<'a> {
    /// The namespace.
    pub namespace: &'a str,
    /// The objects with ports.
    pub objects: &'a Objects,
    scheme: Result<&'static str, String>,
    balance: Option<Map>,
    connect: u64,
}

impl<'a> Backends<'a> {
    /// Reads the annotations about upstreams.
    pub fn new(
        namespace: &'a str,
        objects: &'a Objects,
        own: &Annotations<'_>,
        settings: &Settings,
        notes: &mut Notes,
    ) -> Self {
        let scheme = match own.get("backend-protocol") {
            None => Ok("http"),
            Some((text, place)) => match &*text.to_ascii_uppercase() {
                "HTTP" | "AUTO_HTTP" => Ok((place, "http")),
                "HTTPS" | "GRPCS" => Ok((place, "https")),
                "GRPC" => Ok((place, "h2c")),
                other => {
                    let why = format!("{other} is not spoken here");
                    notes.lost("backend-protocol", place, &*why);
                    Err(why)
                }
            }
            .map(|(place, scheme)| {
                notes.taken("backend-protocol", place, format!("endpoints with {scheme}://"));
                scheme
            }),
        };
        let balance = own.get("upstream-hash-by").and_then(|(text, place)| {
            let key = Maps::default().key(text, None).ok().and_then(|key| key.value);
            match key {
                Some(key) => {
                    notes.different("upstream-hash-by", place, "balance by another hash");
                    Some(Map::default().with("hash", key))
                }
                None => {
                    let what = "its key is no key here: least_requests instead";
                    notes.not_taken("upstream-hash-by", place, Loss::Harmless, what);
                    None
                }
            }
        });
        let connect = own.get("proxy-connect-timeout").map(|(text, place)| {
            let seconds = text.trim_end_matches('s').parse::<u64>().ok().filter(|it| *it > 0);
            notes.taken("proxy-connect-timeout", place, "timeouts.connect of the upstream");
            seconds.unwrap_or(settings.connect_timeout)
        });
        let connect = connect.unwrap_or(settings.connect_timeout).min(60);
        Self { namespace, objects, scheme, balance, connect }
    }

    /// The name of the upstream of a backend.
    ///
    /// # Errors
    /// Why it is none.
    pub fn upstream(&self, backend: &Node, plan: &mut Plan) -> Result<String, String> {
        let scheme = self.scheme.clone()?;
        let service = backend.get("service");
        // The form before networking.k8s.io/v1 has two fields.
        let (name, port) = match service.is_null() {
            true => (backend.str("serviceName"), backend.get("servicePort")),
            false => match service.at(&["port", "number"]).is_null() {
                true => (service.str("name"), service.at(&["port", "name"])),
                false => (service.str("name"), service.at(&["port", "number"])),
            },
        };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err("the backend is no Service".to_owned());
        }
        let port = port.text().unwrap_or_default();
        let number =
            port.parse::<u64>().ok().or_else(|| self.objects.port(self.namespace, name, port));
        let Some(number) = number.filter(|it| (1..=65_535).contains(it)) else {
            return Err(format!("the number of port {port:?} is in no Service of these files"));
        };
        let url = format!("{scheme}://{name}.{}.svc:{number}", self.namespace);
        let mut upstream = Map::default().with("endpoints", vec![url]);
        if let Some(balance) = &self.balance {
            upstream.put("balance", balance.clone());
        }
        upstream.put("timeouts", Map::default().with("connect", format!("{}s", self.connect)));
        if scheme == "https" {
            // The controller does not verify them unless told.
            upstream.put("tls", Map::default().with("verify", false));
        }
        let wish = format!("{}-{name}-{number}", self.namespace);
        Ok(plan.upstreams.shared(&wish, backend.place, upstream))
    }
}

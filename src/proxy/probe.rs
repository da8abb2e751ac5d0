//! Asks the endpoints of an upstream, so that an operator can check them before a gateway starts: the
//! name, the connection, TLS, and the health check. It says more of a failure than a request does,
//! whose client must not learn it.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustls::ProtocolVersion;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tollgate_core::time::monotonic;

use super::check;
use super::endpoint_shared::{Address, EndpointShared, Protocol};
use super::health::HealthState;
use super::resolve;
use super::settings::{EndpointSettings, Target, UpstreamSettings};
use super::tls::HandshakeFailure;

/// The most addresses of one name that are asked.
const MAX_ADDRESSES: usize = 16;

/// What was found at one address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointReport {
    /// The address. None: the name has none.
    pub address: Option<String>,
    /// The time until the connection was open, without TLS.
    pub connected_in: Option<Duration>,
    /// The version of TLS and the protocol that the endpoint has chosen.
    pub tls: Option<String>,
    /// The status of the response to the health check, if there is one.
    pub check: Option<u16>,
    /// Why no request could be served. None: requests can be sent there.
    pub failure: Option<ProbeFailure>,
}

/// Why an endpoint cannot be used, and what an operator can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeFailure {
    /// What has failed.
    pub what: String,
    /// What an operator can do.
    pub remedy: String,
}

impl ProbeFailure {
    fn new(what: impl Into<String>, remedy: &str) -> Self {
        Self { what: what.into(), remedy: remedy.to_owned() }
    }
}

/// Asks all addresses of an endpoint. No step takes longer than `limit`, whatever the settings say.
/// An endpoint inside the process has none.
pub async fn probe(
    upstream: &UpstreamSettings,
    endpoint: &EndpointSettings,
    limit: Duration,
) -> Vec<EndpointReport> {
    let addresses = match &endpoint.target {
        Target::Echo => return Vec::new(),
        Target::Unix(path) => vec![Address::Path(path.clone())],
        Target::Http(name) | Target::H2c(name) | Target::Https(name, _) => {
            match resolved(name.to_string(), limit).await {
                Ok(found) => found.into_iter().map(Address::Socket).collect(),
                Err(failure) => return vec![unresolved(failure)],
            }
        }
    };
    join_all(addresses.into_iter().map(|address| ask(upstream, endpoint, address, limit))).await
}

fn unresolved(failure: ProbeFailure) -> EndpointReport {
    let failure = Some(failure);
    EndpointReport { address: None, connected_in: None, tls: None, check: None, failure }
}

async fn resolved(name: String, limit: Duration) -> Result<Vec<SocketAddr>, ProbeFailure> {
    let failed = |said: &str| {
        let what = format!("its name cannot be looked up: {said}");
        ProbeFailure::new(what, "compare the name with those that the resolver of this machine has")
    };
    let found = timeout(limit, resolve::lookup(name)).await;
    let found = found.map_err(|_| failed(&format!("no answer within {limit:?}")))?;
    let mut addresses = found.map_err(|error| failed(&error.to_string()))?;
    addresses.sort_unstable();
    addresses.dedup();
    addresses.truncate(MAX_ADDRESSES);
    if addresses.is_empty() { Err(failed("it has no address")) } else { Ok(addresses) }
}

async fn ask(
    upstream: &UpstreamSettings,
    settings: &EndpointSettings,
    address: Address,
    limit: Duration,
) -> EndpointReport {
    let mut report = EndpointReport {
        address: Some(address.to_string()),
        connected_in: None,
        tls: None,
        check: None,
        failure: None,
    };
    let health = HealthState::default();
    let Some(endpoint) = EndpointShared::new(upstream, settings, address, health) else {
        let what = "it has no TLS settings";
        report.failure = Some(ProbeFailure::new(what, "write tls under the upstream"));
        return report;
    };
    let connect_timeout = upstream.connect_timeout.min(limit);
    let began = monotonic();
    let opened = timeout(connect_timeout, open(&endpoint, &mut report, began)).await;
    report.failure = match opened {
        Ok(opened) => opened.err(),
        Err(_) => {
            let (step, remedy) = match report.connected_in {
                Some(_) => ("TLS handshake", "see whether it has TLS on this port"),
                None => ("connection", "see whether a firewall drops packets to it"),
            };
            let what = format!("no {step} within {connect_timeout:?}");
            let remedy = format!("{remedy}, or raise timeouts.connect of the upstream");
            Some(ProbeFailure::new(what, &remedy))
        }
    };
    if report.failure.is_none() {
        report.failure = checked(upstream, &endpoint, limit, &mut report.check).await;
    }
    report
}

/// Opens a connection, and closes it again.
async fn open(
    endpoint: &EndpointShared,
    report: &mut EndpointReport,
    began: Instant,
) -> Result<(), ProbeFailure> {
    let unreachable = |error: io::Error| {
        let what = format!("it cannot be reached: {error}");
        ProbeFailure::new(what, "see whether it runs, and whether the address is right")
    };
    let stream = match &endpoint.address {
        Address::Path(path) => {
            UnixStream::connect(path).await.map_err(unreachable)?;
            report.connected_in = Some(began.elapsed());
            return Ok(());
        }
        Address::Socket(address) => TcpStream::connect(address).await.map_err(unreachable)?,
    };
    report.connected_in = Some(began.elapsed());
    let Protocol::Tls { config, server_name } = &endpoint.protocol else { return Ok(()) };
    let connector = TlsConnector::from(config.clone());
    let stream = connector.connect(server_name.clone(), stream).await;
    let stream = stream.map_err(|error| {
        let failure = HandshakeFailure::of(&error);
        ProbeFailure::new(failure.to_string(), failure.remedy)
    })?;
    let session = stream.get_ref().1;
    let version = match session.protocol_version() {
        Some(ProtocolVersion::TLSv1_2) => "TLS 1.2",
        _ => "TLS 1.3",
    };
    let protocol = match session.alpn_protocol() {
        Some(b"h2") => "HTTP/2",
        _ => "HTTP/1.1",
    };
    report.tls = Some(format!("{version}, {protocol}"));
    Ok(())
}

/// Sends the health check of the upstream, if it has one.
async fn checked(
    upstream: &UpstreamSettings,
    endpoint: &EndpointShared,
    limit: Duration,
    status: &mut Option<u16>,
) -> Option<ProbeFailure> {
    let settings = upstream.check.as_ref()?;
    let path = settings.path.path();
    let within = settings.timeout.min(limit);
    let what = match timeout(within, check::status(endpoint, settings)).await {
        Ok(Ok(found)) => {
            *status = Some(found.as_u16());
            if check::is_good(found) {
                return None;
            }
            format!("the health check of {path} has the status {}", found.as_u16())
        }
        Ok(Err(fault)) => format!("the health check of {path} fails: {}", fault.failure()),
        Err(_) => format!("the health check of {path} has no answer within {within:?}"),
    };
    let remedy =
        "it gets no requests until checks succeed: see its log, and health of the upstream";
    Some(ProbeFailure::new(what, remedy))
}

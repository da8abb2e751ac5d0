//! Opening one connection: finding the server, being let in, and making sure
//! that it can decide before anybody is sent there.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo as _,
    ProtocolVersion, RedisConnectionInfo, TlsCertificates, Value, cmd, pipe,
};
use tokio::time::timeout;

use super::failure::{Refusal, StoreError};
use super::script::Script;
use super::settings::{Address, RedisSettings, Topology};

/// Commands that a connection takes before it makes its callers wait. Batches
/// are few; this is room for a probe among them.
const COMMANDS: usize = 64;

/// The server that a connection leads to.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// It stands at this address.
    Fixed(Address),
    /// The sentinels of the settings know it.
    Master,
}

/// What a log calls it.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(address) => address.fmt(f),
            Self::Master => f.write_str("the sentinels' master"),
        }
    }
}

/// How long a whole handshake may take. Nobody waits for it, so it is generous:
/// a far server that is quick enough for decisions must get through.
pub(super) fn patience(settings: &RedisSettings) -> Duration {
    (settings.timeout * 10).max(Duration::from_millis(500))
}

/// A connection to a master that has the script and answers in time.
///
/// # Errors
/// Says what stood in the way.
pub(super) async fn dial(
    settings: &RedisSettings,
    script: &Script,
    target: &Target,
) -> Result<MultiplexedConnection, StoreError> {
    let mut connection = match target {
        Target::Fixed(address) => open(settings, address, Door::Server).await?,
        Target::Master => open(settings, &master(settings).await?, Door::Server).await?,
    };
    let mut prepare = pipe();
    prepare.cmd("ROLE").cmd("SCRIPT").arg("LOAD").arg(script.source);
    let answers = connection.send_packed_commands(&prepare, 0, 2).await?;
    let [role, loaded] = <[Value; 2]>::try_from(answers)
        .map_err(|_| StoreError::Garbage("not as many answers as commands"))?;
    // Users may be forbidden to ask for the role; then the first write tells.
    if let Value::Array(role) = role
        && role.first() == Some(&Value::BulkString(b"slave".to_vec()))
    {
        return Err(StoreError::Refused(Refusal::ReadOnly, "it is a replica".to_owned()));
    }
    loaded.extract_error()?;
    ping(&mut connection, settings.timeout).await?;
    Ok(connection)
}

/// Whether the server answers as fast as a decision needs it.
///
/// # Errors
/// Says why not.
pub(super) async fn ping(
    connection: &mut MultiplexedConnection,
    limit: Duration,
) -> Result<(), StoreError> {
    let command = cmd("PING");
    let answer = timeout(limit, connection.send_packed_command(&command)).await;
    let answer = answer.map_err(|_| StoreError::Timeout)??;
    match answer.extract_error()? {
        Value::SimpleString(pong) if pong == "PONG" => Ok(()),
        _ => Err(StoreError::Garbage("a PING is not answered by PONG")),
    }
}

/// Whose door we knock at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Door {
    /// A server that keeps counters: user, password and database are for it.
    Server,
    /// A sentinel. It has neither, or the same password.
    Sentinel { with_password: bool },
}

/// A connection, and nothing asked yet.
///
/// # Errors
/// Says what stood in the way.
pub(super) async fn open(
    settings: &RedisSettings,
    address: &Address,
    door: Door,
) -> Result<MultiplexedConnection, StoreError> {
    // Time is kept by those who call: redis-rs' own limits are off.
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(COMMANDS);
    let client = client(settings, address, door)?;
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

fn client(settings: &RedisSettings, address: &Address, door: Door) -> Result<Client, StoreError> {
    let mut about = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP2)
        .set_lib_name("tollgate", env!("CARGO_PKG_VERSION"));
    if door != (Door::Sentinel { with_password: false }) {
        if let Some(username) = &settings.username {
            about = about.set_username(username);
        }
        if let Some(password) = &settings.password {
            about = about.set_password(password.expose());
        }
    }
    if door == Door::Server {
        about = about.set_db(settings.database.into());
    }
    let tcp = TcpSettings::default().set_nodelay(true);
    let at = |place: ConnectionAddr| {
        place
            .into_connection_info()
            .map(|info| info.set_tcp_settings(tcp).set_redis_settings(about))
    };
    match (address, &settings.tls) {
        (Address::Unix(path), _) => Ok(Client::open(at(ConnectionAddr::Unix(path.clone()))?)?),
        (Address::Tcp { host, port }, None) => {
            Ok(Client::open(at(ConnectionAddr::Tcp(host.clone(), *port))?)?)
        }
        (Address::Tcp { host, port }, Some(tls)) => {
            // Fails only where somebody has chosen before us: then theirs is used.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
            let (host, port) = (host.clone(), *port);
            let place = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
            let client_tls = tls.identity.as_ref().map(|identity| ClientTlsConfig {
                client_cert: identity.cert.clone(),
                client_key: identity.key.clone(),
            });
            let certificates = TlsCertificates { client_tls, root_cert: tls.ca.clone() };
            Ok(Client::build_with_tls(at(place)?, certificates)?)
        }
    }
}

/// Where the master is, as the first sentinel says that knows it
/// (Redis' "Guidelines for Redis clients with support for Redis Sentinel").
async fn master(settings: &RedisSettings) -> Result<Address, StoreError> {
    let Topology::Sentinel { sentinels, master_name } = &settings.topology else {
        unreachable!("only sentinels have a target without an address");
    };
    // One silent sentinel must leave time to ask the others.
    let count = u32::try_from(sentinels.len()).unwrap_or(u32::MAX);
    let limit = patience(settings) / (count + 1);
    let mut error = StoreError::Away;
    for sentinel in sentinels {
        match timeout(limit, ask_sentinel(settings, sentinel, master_name)).await {
            Ok(Ok(address)) => return Ok(address),
            Ok(Err(why)) => error = why,
            Err(_) => error = StoreError::Timeout,
        }
    }
    Err(error)
}

async fn ask_sentinel(
    settings: &RedisSettings,
    sentinel: &Address,
    master_name: &str,
) -> Result<Address, StoreError> {
    let mut question = cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(master_name);
    let mut with_password = false;
    let answer = loop {
        let door = Door::Sentinel { with_password };
        let mut connection = open(settings, sentinel, door).await?;
        let answer = connection.send_packed_command(&question).await?;
        match answer.extract_error().map_err(StoreError::from) {
            Err(StoreError::Refused(Refusal::Unauthorised, _)) if !with_password => {
                with_password = true;
            }
            answer => break answer?,
        }
    };
    let (host, port) = redis::from_redis_value::<Option<(String, u16)>>(answer)
        .map_err(|_| StoreError::Garbage("a sentinel does not answer with host and port"))?
        .ok_or_else(|| {
            let what = format!("the sentinels know no master \"{master_name}\"");
            StoreError::Refused(Refusal::Other, what)
        })?;
    Ok(Address::tcp(host, port))
}

//! Opening one connection: finding the server, being let in, and making sure
//! that it can decide before anybody is sent there.

use std::time::Duration;

use redis::{ProtocolVersion, RedisConnectionInfo, RedisError, Value, cmd, pipe};
use tokio::time::timeout;

use super::failure::{Refusal, StoreError};
use super::script::Script;
use super::settings::{Address, RedisSettings, Topology};
use super::stream;
use super::wire::Wire;
use crate::store::in_time::in_time;

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
) -> Result<Wire, StoreError> {
    let mut wire = match target {
        Target::Fixed(address) => open(settings, address, Door::Server).await?,
        Target::Master => open(settings, &master(settings).await?, Door::Server).await?,
    };
    let mut prepare = pipe();
    prepare.cmd("ROLE").cmd("SCRIPT").arg("LOAD").arg(script.source);
    let answers = wire.send(&prepare).await?;
    let [role, loaded] = <[Value; 2]>::try_from(answers)
        .map_err(|_| StoreError::Garbage("not as many answers as commands"))?;
    // Users may be forbidden to ask for the role; then the first write tells.
    if let Value::Array(role) = role
        && role.first() == Some(&Value::BulkString(b"slave".to_vec()))
    {
        return Err(StoreError::Refused(Refusal::ReadOnly, "it is a replica".to_owned()));
    }
    loaded.extract_error()?;
    ping(&mut wire, settings.timeout).await?;
    Ok(wire)
}

/// Whether the server answers as fast as a decision needs it.
///
/// # Errors
/// Says why not.
pub(super) async fn ping(wire: &mut Wire, limit: Duration) -> Result<(), StoreError> {
    let command = cmd("PING");
    let answer = in_time(limit, wire.send_one(&command)).await;
    let answer = answer.unwrap_or(Err(StoreError::Timeout))?;
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
) -> Result<Wire, StoreError> {
    #[cfg(test)]
    if let Some(stream) = super::checker::connect(settings, address).await {
        return Wire::over(stream.map_err(RedisError::from)?, &client(settings, door)).await;
    }
    let stream = stream::connect(address, settings.tls.as_ref()).await;
    Wire::over(stream.map_err(RedisError::from)?, &client(settings, door)).await
}

/// What a connection says of its client.
fn client(settings: &RedisSettings, door: Door) -> RedisConnectionInfo {
    let mut client = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP2)
        .set_lib_name("tollgate", env!("CARGO_PKG_VERSION"));
    if door != (Door::Sentinel { with_password: false }) {
        if let Some(username) = &settings.username {
            client = client.set_username(username);
        }
        if let Some(password) = &settings.password {
            client = client.set_password(password.expose());
        }
    }
    if door == Door::Server {
        client = client.set_db(settings.database.into());
    }
    client
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
        let mut wire = open(settings, sentinel, door).await?;
        let answer = wire.send_one(&question).await?;
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

//! Opens one connection: finds the server, authenticates, and checks that the server can
//! decide before calls are sent there.

use std::collections::HashMap;
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
    /// The server at this address.
    Fixed(Address),
    /// The master that the sentinels of the settings name.
    Master,
    /// A replica that the sentinels name, for reads only.
    Replica,
    /// A replica of a cluster at this address, for reads only.
    ReplicaAt(Address),
}

/// The name of the target in logs.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(address) => address.fmt(f),
            Self::Master => f.write_str("the sentinels' master"),
            Self::Replica => f.write_str("a replica of the sentinels' master"),
            Self::ReplicaAt(address) => write!(f, "the replica {address}"),
        }
    }
}

/// How long a whole handshake may take. No request waits for it, so the limit is generous:
/// a distant server that is fast enough for decisions must pass.
pub(super) fn handshake_timeout(settings: &RedisSettings) -> Duration {
    (settings.timeout * 10).max(Duration::from_millis(500))
}

/// Opens a connection to a master that has the script and answers in time.
///
/// # Errors
/// If a step of the handshake fails.
pub(super) async fn connect(
    settings: &RedisSettings,
    script: &Script,
    target: &Target,
) -> Result<Wire, StoreError> {
    let mut wire = match target {
        Target::Fixed(address) => open(settings, address, Peer::Server).await?,
        Target::Master => open(settings, &master(settings).await?, Peer::Server).await?,
        Target::Replica => return connect_replica(settings, &replica(settings).await?, None).await,
        Target::ReplicaAt(address) => {
            return connect_replica(settings, address, Some(cmd("READONLY"))).await;
        }
    };
    let mut prepare = pipe();
    prepare.cmd("ROLE").cmd("SCRIPT").arg("LOAD").arg(script.source);
    let answers = wire.send(&prepare).await?;
    let [role, loaded] = <[Value; 2]>::try_from(answers)
        .map_err(|_| StoreError::InvalidReply("not as many answers as commands"))?;
    // A user may not be allowed to ask for the role. Then the first write shows it.
    if let Value::Array(role) = role
        && role.first() == Some(&Value::BulkString(b"slave".to_vec()))
    {
        return Err(StoreError::Refused(Refusal::ReadOnly, "it is a replica".to_owned()));
    }
    loaded.extract_error()?;
    ping(&mut wire, settings.timeout).await?;
    Ok(wire)
}

/// Opens a connection to a replica, which decides nothing.
async fn connect_replica(
    settings: &RedisSettings,
    address: &Address,
    prepare: Option<redis::Cmd>,
) -> Result<Wire, StoreError> {
    let mut wire = open(settings, address, Peer::Server).await?;
    if let Some(prepare) = prepare {
        wire.send_one(&prepare).await?.extract_error()?;
    }
    ping(&mut wire, settings.timeout).await?;
    Ok(wire)
}

/// Checks that the server answers as fast as a decision needs it.
///
/// # Errors
/// If it does not answer within `limit`.
pub(super) async fn ping(wire: &mut Wire, limit: Duration) -> Result<(), StoreError> {
    let command = cmd("PING");
    let answer = in_time(limit, wire.send_one(&command)).await;
    let answer = answer.unwrap_or(Err(StoreError::Timeout))?;
    match answer.extract_error()? {
        Value::SimpleString(pong) if pong == "PONG" => Ok(()),
        _ => Err(StoreError::InvalidReply("a PING is not answered by PONG")),
    }
}

/// The kind of server at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// A server that stores counters: it has the user, the password and the database.
    Server,
    /// A sentinel. It has no password, or the same one.
    Sentinel { with_password: bool },
}

/// Opens a connection on which no command has been sent.
///
/// # Errors
/// If a step of the handshake fails.
pub(super) async fn open(
    settings: &RedisSettings,
    address: &Address,
    peer: Peer,
) -> Result<Wire, StoreError> {
    #[cfg(test)]
    if let Some(stream) = super::checker::connect(settings, address).await {
        return Wire::over(stream.map_err(RedisError::from)?, &client(settings, peer)).await;
    }
    let stream = stream::connect(address, settings.tls.as_ref()).await;
    Wire::over(stream.map_err(RedisError::from)?, &client(settings, peer)).await
}

/// What a connection tells the server about its client.
fn client(settings: &RedisSettings, peer: Peer) -> RedisConnectionInfo {
    let mut client = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP2)
        .set_lib_name("tollgate", env!("CARGO_PKG_VERSION"));
    if peer != (Peer::Sentinel { with_password: false }) {
        if let Some(username) = &settings.username {
            client = client.set_username(username);
        }
        if let Some(password) = &settings.password {
            client = client.set_password(password.expose());
        }
    }
    if peer == Peer::Server {
        client = client.set_db(settings.database.into());
    }
    client
}

/// The address of the master, from the first sentinel that knows it
/// (Redis' "Guidelines for Redis clients with support for Redis Sentinel").
async fn master(settings: &RedisSettings) -> Result<Address, StoreError> {
    let master = |answer, name: &str| {
        let (host, port) = redis::from_redis_value::<Option<(String, u16)>>(answer)
            .map_err(|_| StoreError::InvalidReply("a sentinel does not answer with host and port"))?
            .ok_or_else(|| {
                let what = format!("the sentinels know no master \"{name}\"");
                StoreError::Refused(Refusal::Other, what)
            })?;
        Ok(Address::tcp(host, port))
    };
    ask_sentinels(settings, "GET-MASTER-ADDR-BY-NAME", master).await
}

/// The address of a healthy replica, from the first sentinel that knows one.
async fn replica(settings: &RedisSettings) -> Result<Address, StoreError> {
    let replica = |answer, name: &str| {
        let replicas = redis::from_redis_value::<Vec<HashMap<String, String>>>(answer)
            .map_err(|_| StoreError::InvalidReply("a sentinel does not answer with replicas"))?;
        let well: Vec<Address> = replicas.iter().filter_map(healthy_replica).collect();
        fastrand::choice(well).ok_or_else(|| {
            let what = format!("the sentinels know no replica of \"{name}\" that is well");
            StoreError::Refused(Refusal::Other, what)
        })
    };
    ask_sentinels(settings, "REPLICAS", replica).await
}

/// The address of a replica that is up and follows its master.
fn healthy_replica(told: &HashMap<String, String>) -> Option<Address> {
    let is = |field, wanted| told.get(field).is_some_and(|it| it == wanted);
    let port = told.get("port")?.parse().ok()?;
    let host = told.get("ip")?;
    (is("flags", "slave") && is("master-link-status", "ok")).then(|| Address::tcp(host, port))
}

/// The answer of the first sentinel that has one.
async fn ask_sentinels(
    settings: &RedisSettings,
    question: &str,
    read: impl Fn(Value, &str) -> Result<Address, StoreError>,
) -> Result<Address, StoreError> {
    let Topology::Sentinel { sentinels, master_name } = &settings.topology else {
        unreachable!("only sentinels have a target without an address");
    };
    // A sentinel that does not answer must leave time for the others.
    let count = u32::try_from(sentinels.len()).unwrap_or(u32::MAX);
    let limit = handshake_timeout(settings) / (count + 1);
    let mut error = StoreError::Away;
    for sentinel in sentinels {
        let asked = timeout(limit, ask_sentinel(settings, sentinel, question, master_name)).await;
        let answer = asked.unwrap_or(Err(StoreError::Timeout));
        match answer.and_then(|answer| read(answer, master_name)) {
            Ok(address) => return Ok(address),
            Err(why) => error = why,
        }
    }
    Err(error)
}

async fn ask_sentinel(
    settings: &RedisSettings,
    sentinel: &Address,
    question: &str,
    master_name: &str,
) -> Result<Value, StoreError> {
    let mut asked = cmd("SENTINEL");
    asked.arg(question).arg(master_name);
    let mut with_password = false;
    loop {
        let peer = Peer::Sentinel { with_password };
        let mut wire = open(settings, sentinel, peer).await?;
        let answer = wire.send_one(&asked).await?;
        match answer.extract_error().map_err(StoreError::from) {
            Err(StoreError::Refused(Refusal::Unauthorised, _)) if !with_password => {
                with_password = true;
            }
            answer => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_replica_that_is_up_and_follows_its_master_is_chosen() {
        let told = |flags: &str, link: &str| {
            [("ip", "10.0.0.2"), ("port", "6380"), ("flags", flags), ("master-link-status", link)]
                .map(|(field, value)| (field.to_owned(), value.to_owned()))
                .into()
        };
        assert_eq!(healthy_replica(&told("slave", "ok")), Some(Address::tcp("10.0.0.2", 6380)));
        for (flags, link) in
            [("slave", "err"), ("s_down,slave", "ok"), ("slave,disconnected", "ok")]
        {
            assert_eq!(healthy_replica(&told(flags, link)), None, "{flags} {link}");
        }
        assert_eq!(healthy_replica(&HashMap::new()), None);
    }
}

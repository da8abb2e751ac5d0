//! Opening one connection: finding the server, being let in, and making sure
//! that it can decide before anybody is sent there.

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
    /// It stands at this address.
    Fixed(Address),
    /// The sentinels of the settings know it.
    Master,
    /// One of the replicas that the sentinels know, for what is only read.
    Replica,
    /// A replica of a cluster at this address, for what is only read.
    ReplicaAt(Address),
}

/// What a log calls it.
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
        Target::Replica => return dial_replica(settings, &replica(settings).await?, None).await,
        Target::ReplicaAt(address) => {
            return dial_replica(settings, address, Some(cmd("READONLY"))).await;
        }
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

/// A connection to a replica, which is not asked to decide anything.
async fn dial_replica(
    settings: &RedisSettings,
    address: &Address,
    prepare: Option<redis::Cmd>,
) -> Result<Wire, StoreError> {
    let mut wire = open(settings, address, Door::Server).await?;
    if let Some(prepare) = prepare {
        wire.send_one(&prepare).await?.extract_error()?;
    }
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
    let master = |answer, name: &str| {
        let (host, port) = redis::from_redis_value::<Option<(String, u16)>>(answer)
            .map_err(|_| StoreError::Garbage("a sentinel does not answer with host and port"))?
            .ok_or_else(|| {
                let what = format!("the sentinels know no master \"{name}\"");
                StoreError::Refused(Refusal::Other, what)
            })?;
        Ok(Address::tcp(host, port))
    };
    ask_sentinels(settings, "GET-MASTER-ADDR-BY-NAME", master).await
}

/// Where one of the replicas is that are well, as the first sentinel says that
/// knows one.
async fn replica(settings: &RedisSettings) -> Result<Address, StoreError> {
    let replica = |answer, name: &str| {
        let replicas = redis::from_redis_value::<Vec<HashMap<String, String>>>(answer)
            .map_err(|_| StoreError::Garbage("a sentinel does not answer with replicas"))?;
        let well: Vec<Address> = replicas.iter().filter_map(replica_that_is_well).collect();
        fastrand::choice(well).ok_or_else(|| {
            let what = format!("the sentinels know no replica of \"{name}\" that is well");
            StoreError::Refused(Refusal::Other, what)
        })
    };
    ask_sentinels(settings, "REPLICAS", replica).await
}

/// The address of a replica that is up and follows its master.
fn replica_that_is_well(told: &HashMap<String, String>) -> Option<Address> {
    let is = |field, wanted| told.get(field).is_some_and(|it| it == wanted);
    let port = told.get("port")?.parse().ok()?;
    let host = told.get("ip")?;
    (is("flags", "slave") && is("master-link-status", "ok")).then(|| Address::tcp(host, port))
}

/// What the first sentinel says that knows it.
async fn ask_sentinels(
    settings: &RedisSettings,
    question: &str,
    read: impl Fn(Value, &str) -> Result<Address, StoreError>,
) -> Result<Address, StoreError> {
    let Topology::Sentinel { sentinels, master_name } = &settings.topology else {
        unreachable!("only sentinels have a target without an address");
    };
    // One silent sentinel must leave time to ask the others.
    let count = u32::try_from(sentinels.len()).unwrap_or(u32::MAX);
    let limit = patience(settings) / (count + 1);
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
        let door = Door::Sentinel { with_password };
        let mut wire = open(settings, sentinel, door).await?;
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
        assert_eq!(
            replica_that_is_well(&told("slave", "ok")),
            Some(Address::tcp("10.0.0.2", 6380))
        );
        for (flags, link) in
            [("slave", "err"), ("s_down,slave", "ok"), ("slave,disconnected", "ok")]
        {
            assert_eq!(replica_that_is_well(&told(flags, link)), None, "{flags} {link}");
        }
        assert_eq!(replica_that_is_well(&HashMap::new()), None);
    }
}

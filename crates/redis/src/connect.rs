//! Opens one connection: finds the server, authenticates, and checks that the server can
//! decide before calls are sent there.

use std::collections::HashMap;
use std::time::Duration;

use redis::{Cmd, Pipeline, Value, cmd, pipe};
use tokio::time::timeout;
use tollgate_core::in_time::in_time;
use tollgate_core::store::OutageCause;

use super::failure::{Refusal, StoreError};
use super::first_byte::FirstByte;
use super::settings::{Address, Credentials, RedisSettings, Topology};
use super::test_write::{Found, TestWrite};
use super::transport::Transport;
use super::wire::Wire;

/// The server that a connection leads to.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// The server at this address.
    Fixed(Address),
    /// The node of a cluster at this address, which has this slot among others.
    InCluster(Address, u16),
    /// The master that the sentinels of the settings name.
    Master,
    /// A replica that the sentinels name, for reads only.
    Replica,
    /// A replica of a cluster at this address, for reads only.
    ReplicaAt(Address),
}

impl Target {
    /// The test write of a connection to it.
    pub(super) const fn test_write(&self) -> TestWrite {
        match self {
            Self::InCluster(_, slot) => TestWrite::InSlot(*slot),
            _ => TestWrite::TwoSlots,
        }
    }
}

/// The name of the target in logs.
impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(address) | Self::InCluster(address, _) => address.fmt(f),
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

/// A connection that can be used.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) wire: Wire,
    pub(super) found: Found,
}

impl From<Wire> for Connected {
    fn from(wire: Wire) -> Self {
        Self { wire, found: Found::default() }
    }
}

/// Opens a connection to a master that has the script, lets this gateway count, and answers in
/// time. The server must have the slot for which it has `redirected` a call before.
///
/// # Errors
/// If a step of the handshake fails.
pub(super) async fn connect(
    transport: &dyn Transport,
    settings: &RedisSettings,
    target: &Target,
    redirected: Option<u16>,
) -> Result<Connected, StoreError> {
    let address = match target {
        Target::Fixed(address) | Target::InCluster(address, _) => address.clone(),
        Target::Master => master(transport, settings).await?,
        Target::Replica => {
            let address = replica(transport, settings).await?;
            return Ok(connect_replica(transport, settings, &address, None).await?.into());
        }
        Target::ReplicaAt(address) => {
            let prepare = Some(cmd("READONLY"));
            return Ok(connect_replica(transport, settings, address, prepare).await?.into());
        }
    };
    let test_write = target.test_write();
    let mut first = pipe();
    first.cmd("ROLE").add_command(test_write.command(&settings.prefix));
    let (mut wire, answers) = open(transport, settings, &address, Peer::Server, &first).await?;
    let [role, written] = <[Value; 2]>::try_from(answers)
        .map_err(|_| StoreError::InvalidReply("not as many answers as commands"))?;
    check_role(&role)?;
    let found = test_write.conclude(&mut wire, written, &settings.prefix, redirected).await?;
    // The script is longer than what a server accepts without a password. It is called once with
    // a time and without a decision.
    let mut load = pipe();
    let script = transport.script();
    load.cmd("SCRIPT").arg("LOAD").arg(script.source);
    load.cmd("EVALSHA").arg(&*script.sha).arg(0).arg(1);
    for reply in wire.send(&load).await? {
        reply.extract_error()?;
    }
    ping(&mut wire, settings.timeout).await?;
    Ok(Connected { wire, found })
}

/// Checks that a server is a master. A user may not be allowed to ask for the role. Then the test
/// write shows it.
pub(super) fn check_role(role: &Value) -> Result<(), StoreError> {
    let Value::Array(role) = role else { return Ok(()) };
    match role.first() {
        Some(Value::BulkString(role)) if role == b"slave" => {
            Err(StoreError::Refused(Refusal::ReadOnly, "ROLE is slave".to_owned()))
        }
        Some(Value::BulkString(role)) if role == b"sentinel" => {
            Err(StoreError::NotConnected(OutageCause::Sentinel, "ROLE is sentinel".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Opens a connection to a replica, which decides nothing.
async fn connect_replica(
    transport: &dyn Transport,
    settings: &RedisSettings,
    address: &Address,
    prepare: Option<Cmd>,
) -> Result<Wire, StoreError> {
    let mut first = pipe();
    if let Some(command) = prepare {
        first.add_command(command);
    }
    let (mut wire, answers) = open(transport, settings, address, Peer::Server, &first).await?;
    for answer in answers {
        answer.extract_error()?;
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
#[derive(Clone, Copy, Debug)]
pub(super) enum Peer<'s> {
    /// A server that stores counters: it has the user, the password and the database.
    Server,
    /// A sentinel, with these credentials.
    Sentinel(&'s Credentials),
}

/// Opens a connection, authenticates, and sends the `first` commands together with that. Returns
/// their replies, which may be errors.
///
/// # Errors
/// If a step of the handshake fails.
pub(super) async fn open(
    transport: &dyn Transport,
    settings: &RedisSettings,
    address: &Address,
    peer: Peer<'_>,
    first: &Pipeline,
) -> Result<(Wire, Vec<Value>), StoreError> {
    let stream = FirstByte::of(transport.open(settings, address).await?);
    let is_foreign = stream.is_foreign();
    let wire = Wire::over(Box::new(stream)).await?;
    introduce(wire, settings, peer, first).await.map_err(|error| match error {
        StoreError::Lost(_) if is_foreign.get() => {
            StoreError::InvalidReply("it does not follow the protocol")
        }
        // In TLS 1.3 a server checks the client's certificate after its own handshake.
        StoreError::Lost(said) if said.contains("fatal alert") => {
            StoreError::NotConnected(OutageCause::Tls, said)
        }
        other => other,
    })
}

/// Tells the server about its client.
async fn introduce(
    mut wire: Wire,
    settings: &RedisSettings,
    peer: Peer<'_>,
    first: &Pipeline,
) -> Result<(Wire, Vec<Value>), StoreError> {
    let (credentials, database) = match peer {
        Peer::Server => (&settings.credentials, settings.database),
        Peer::Sentinel(credentials) => (credentials, 0),
    };
    let mut commands = authentication(credentials);
    if database != 0 {
        commands.cmd("SELECT").arg(database);
    }
    let checked = commands.len();
    // Servers before Redis 7.2 do not know it.
    let version = env!("CARGO_PKG_VERSION");
    commands.cmd("CLIENT").arg("SETINFO").arg("LIB-NAME").arg("tollgate");
    commands.cmd("CLIENT").arg("SETINFO").arg("LIB-VER").arg(version);
    let before = commands.len();
    for command in first.cmd_iter() {
        commands.add_command(command.clone());
    }
    let mut answers = wire.send(&commands).await?;
    let rest = answers.split_off(before.min(answers.len()));
    for answer in answers.into_iter().take(checked) {
        answer.extract_error()?;
    }
    Ok((wire, rest))
}

/// The command that authenticates with these credentials, or none.
pub(super) fn authentication(credentials: &Credentials) -> Pipeline {
    let mut commands = pipe();
    if let Some(password) = &credentials.password {
        commands.cmd("AUTH").arg(&credentials.username).arg(password.expose());
    }
    commands
}

/// The address of the master, from the first sentinel that knows it
/// (Redis' "Guidelines for Redis clients with support for Redis Sentinel").
async fn master(
    transport: &dyn Transport,
    settings: &RedisSettings,
) -> Result<Address, StoreError> {
    ask_sentinels(transport, settings, MASTER, named_master).await
}

/// The question for the master.
pub(super) const MASTER: &str = "GET-MASTER-ADDR-BY-NAME";
/// The question for the replicas of the master.
pub(super) const REPLICAS: &str = "REPLICAS";

/// The address in an answer to [`MASTER`] about the master with this name.
///
/// # Errors
/// If the sentinel does not know the master.
pub(super) fn named_master(answer: Value, name: &str) -> Result<Address, StoreError> {
    let (host, port) = redis::from_redis_value::<Option<(String, u16)>>(answer)
        .map_err(|_| StoreError::InvalidReply("a sentinel does not answer with host and port"))?
        .ok_or_else(|| {
            let what = format!("they know no master \"{name}\"");
            StoreError::NotConnected(OutageCause::MasterUnknown, what)
        })?;
    Ok(Address::tcp(host, port))
}

/// The address of a healthy replica, from the first sentinel that knows one.
async fn replica(
    transport: &dyn Transport,
    settings: &RedisSettings,
) -> Result<Address, StoreError> {
    let replica = |answer, name: &str| {
        let well = healthy_replicas(answer, name)?;
        Ok(fastrand::choice(well).expect("there is at least one"))
    };
    ask_sentinels(transport, settings, REPLICAS, replica).await
}

/// The replicas that are well in an answer to [`REPLICAS`] about the master with this name. There is
/// at least one.
///
/// # Errors
/// If there is none.
pub(super) fn healthy_replicas(answer: Value, name: &str) -> Result<Vec<Address>, StoreError> {
    let replicas = redis::from_redis_value::<Vec<HashMap<String, String>>>(answer)
        .map_err(|_| StoreError::InvalidReply("a sentinel does not answer with replicas"))?;
    let well: Vec<Address> = replicas.iter().filter_map(healthy_replica).collect();
    if well.is_empty() {
        let what = format!("they know no replica of \"{name}\" that is well");
        return Err(StoreError::NotConnected(OutageCause::Unreachable, what));
    }
    Ok(well)
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
    transport: &dyn Transport,
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
        let asked =
            timeout(limit, ask_sentinel(transport, settings, sentinel, question, master_name))
                .await;
        let answer = asked.unwrap_or(Err(StoreError::Timeout));
        match answer.and_then(|answer| read(answer, master_name)) {
            Ok(address) => return Ok(address),
            // One that refuses says more than one that does not answer.
            Err(why) if error.cause().is_silence() => error = of_sentinel(why, sentinel),
            Err(_) => {}
        }
    }
    Err(error)
}

/// The error of a sentinel, which is another server than the one that the settings are about.
pub(super) fn of_sentinel(error: StoreError, sentinel: &Address) -> StoreError {
    let cause = match error.cause() {
        OutageCause::PasswordMissing
        | OutageCause::PasswordWrong
        | OutageCause::PasswordUnknown
        | OutageCause::CommandForbidden => OutageCause::SentinelPassword,
        OutageCause::CommandMissing => OutageCause::NoSentinel,
        cause => cause,
    };
    let said = error.said().unwrap_or("no answer");
    StoreError::NotConnected(cause, format!("the sentinel {sentinel}: {said}"))
}

/// Asks a sentinel with its own credentials. Without any it is asked without a password, and then
/// with that of the servers.
///
/// # Errors
/// If it does not answer.
pub(super) async fn ask_sentinel(
    transport: &dyn Transport,
    settings: &RedisSettings,
    sentinel: &Address,
    question: &str,
    master_name: &str,
) -> Result<Value, StoreError> {
    let mut asked = pipe();
    asked.cmd("SENTINEL").arg(question).arg(master_name);
    let ask = async |credentials: &Credentials| {
        let peer = Peer::Sentinel(credentials);
        let (_wire, answers) = open(transport, settings, sentinel, peer, &asked).await?;
        let missing = StoreError::InvalidReply("a sentinel does not answer");
        Ok(answers.into_iter().next().ok_or(missing)?.extract_error()?)
    };
    if let Some(own) = &settings.sentinel_credentials {
        return ask(own).await;
    }
    match ask(&Credentials::default()).await {
        Err(StoreError::Refused(Refusal::Unusable(cause), _))
            if matches!(cause, OutageCause::PasswordMissing | OutageCause::CommandForbidden)
                && settings.credentials.password.is_some() =>
        {
            ask(&settings.credentials).await
        }
        answer => answer,
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

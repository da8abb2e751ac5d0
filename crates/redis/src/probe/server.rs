//! Asks one server what the store needs of it, in an order in which the first questions are those
//! without which no other has an answer.

use std::time::Duration;

use redis::{Cmd, Value, cmd, pipe};
use tokio::time::timeout;
use tollgate_core::store::OutageCause;
use tollgate_core::time::monotonic;

use super::facts;
use super::report::{ServerKind, ServerReport};
use super::rights;
use super::scope::ProbeScope;
use crate::connect::{self, Peer, Target, check_role};
use crate::failure::StoreError;
use crate::remedy::remedy;
use crate::script::SCRIPT;
use crate::settings::{Address, RedisSettings};
use crate::stream;
use crate::test_write::TestWrite;
use crate::transport::NETWORK;
use crate::wire::Wire;

/// The most servers of one kind that are asked.
pub(super) const MAX_SERVERS: usize = 256;
/// How often a command is sent to measure its time.
const SAMPLES: usize = 9;
/// No further sample is taken after this time.
const MEASURED: Duration = Duration::from_millis(500);

/// Asks a server that should decide. `target` is [`Target::Fixed`] or [`Target::InCluster`].
pub(super) async fn master(
    settings: &RedisSettings,
    address: &Address,
    target: &Target,
    scope: ProbeScope,
) -> ServerReport {
    let mut report = ServerReport::new(address, ServerKind::Master);
    let ProbeScope { limit, with_api_keys } = scope;
    let asked = ask_master(settings, address, target, with_api_keys, &mut report);
    let asked = timeout(limit, asked).await;
    conclude(&mut report, asked.ok(), settings, address, limit).await;
    report
}

/// Asks a server from which limits of single keys are read. `slot` is one of those of its master in
/// a cluster.
pub(super) async fn replica(
    settings: &RedisSettings,
    address: &Address,
    slot: Option<u16>,
    limit: Duration,
) -> ServerReport {
    let mut report = ServerReport::new(address, ServerKind::Replica);
    let asked = timeout(limit, ask_replica(settings, address, slot, &mut report)).await;
    conclude(&mut report, asked.ok(), settings, address, limit).await;
    report
}

/// Reports how the questions to a server have ended. `asked` is None if they took longer than the
/// limit.
pub(super) async fn conclude(
    report: &mut ServerReport,
    asked: Option<Result<(), StoreError>>,
    settings: &RedisSettings,
    address: &Address,
    limit: Duration,
) {
    match asked {
        Some(Ok(())) => {}
        Some(Err(error)) => report.fail(&error, settings),
        None if report.is_connected => {
            let said = format!("not everything could be asked within {limit:?}");
            report.refuse(OutageCause::NoAnswer, &said, remedy(OutageCause::NoAnswer, settings));
        }
        None => report.fail(&silence(address, limit).await, settings),
    }
}

/// The error of a server that has not answered within `limit`: there is no connection, or nothing
/// comes over it.
async fn silence(address: &Address, limit: Duration) -> StoreError {
    match timeout(limit / 2, stream::connect(address, None, None)).await {
        Ok(Ok(_)) => StoreError::Timeout,
        Ok(Err(error)) => error,
        Err(_) => {
            let said = format!("no connection within {limit:?}");
            StoreError::NotConnected(OutageCause::Unreachable, said)
        }
    }
}

async fn ask_master(
    settings: &RedisSettings,
    address: &Address,
    target: &Target,
    with_api_keys: bool,
    report: &mut ServerReport,
) -> Result<(), StoreError> {
    let (mut wire, role) = open(settings, address, None, report).await?;
    if let Err(error) = check_role(&role) {
        report.fail(&error, settings);
        if error.cause() == OutageCause::Sentinel {
            report.kind = ServerKind::Sentinel;
            return Ok(());
        }
        report.kind = ServerKind::Replica;
    }
    report.ping = measured(&mut wire, &cmd("PING"), settings, report).await?;
    let test = target.test_write();
    let script = &*SCRIPT;
    let key = test.key(&settings.prefix);
    let refused =
        rights::of_master(&mut wire, settings, script, &key, with_api_keys, report).await?;
    if matches!(target, Target::InCluster(..)) {
        rights::of_node(&mut wire, settings, report).await?;
    }
    // What removes its field must be permitted, so that nothing is left behind.
    if !refused.any_of(&["EVAL", "HDEL"]) && !report.has(OutageCause::ReadOnly) {
        test_write(&mut wire, test, settings, report).await?;
    }
    if !refused.any_of(&["EVALSHA", "SCRIPT LOAD"]) {
        let call = cmd("EVALSHA").arg(&*script.sha).arg(0).arg(1).take();
        report.script = measured(&mut wire, &call, settings, report).await?;
    }
    if !refused.any_of(&["TIME"]) {
        report.clock = facts::clock(&mut wire).await?;
    }
    facts::memory(&mut wire, report).await?;
    facts::version(&mut wire, report).await
}

async fn ask_replica(
    settings: &RedisSettings,
    address: &Address,
    slot: Option<u16>,
    report: &mut ServerReport,
) -> Result<(), StoreError> {
    // It refuses to read in a cluster before this command.
    let prepare = slot.map(|_| cmd("READONLY"));
    let (mut wire, _) = open(settings, address, prepare, report).await?;
    report.ping = measured(&mut wire, &cmd("PING"), settings, report).await?;
    let key = slot.map_or(TestWrite::TwoSlots, TestWrite::InSlot).key(&settings.prefix);
    rights::of_replica(&mut wire, settings, &key, report).await?;
    facts::version(&mut wire, report).await
}

/// Opens a connection. Returns it with the reply to `ROLE`, which may be an error.
async fn open(
    settings: &RedisSettings,
    address: &Address,
    prepare: Option<Cmd>,
    report: &mut ServerReport,
) -> Result<(Wire, Value), StoreError> {
    let mut first = pipe();
    first.cmd("ROLE").cmd("PING");
    if let Some(command) = prepare {
        first.add_command(command);
    }
    let (wire, answers) = connect::open(&*NETWORK, settings, address, Peer::Server, &first).await?;
    let mut answers = answers.into_iter();
    let role = answers.next().unwrap_or_default();
    for answer in answers {
        if let Err(error) = answer.extract_error().map_err(StoreError::from)
            && error.cause() != OutageCause::CommandForbidden
        {
            return Err(error);
        }
    }
    report.is_connected = true;
    Ok((wire, role))
}

/// The median time of a command that changes nothing. If it is longer than a decision waits, this is
/// reported, once. None if the server refuses the command.
async fn measured(
    wire: &mut Wire,
    command: &Cmd,
    settings: &RedisSettings,
    report: &mut ServerReport,
) -> Result<Option<Duration>, StoreError> {
    let begin = monotonic();
    let mut samples = Vec::with_capacity(SAMPLES);
    while samples.len() < SAMPLES && begin.elapsed() < MEASURED {
        let sent = monotonic();
        if wire.send_one(command).await?.extract_error().is_err() {
            return Ok(None);
        }
        samples.push(sent.elapsed());
    }
    samples.sort_unstable();
    let median = samples[samples.len() / 2];
    if median > settings.timeout && !report.has(OutageCause::NoAnswer) {
        let said = format!(
            "{} ms from a command to its reply, and the timeout is {} ms",
            median.as_millis(),
            settings.timeout.as_millis()
        );
        let remedy = remedy(OutageCause::NoAnswer, settings) + ", or raise the timeout";
        report.refuse(OutageCause::NoAnswer, &said, remedy);
    }
    Ok(Some(median))
}

/// Writes and deletes as decisions do. What this finds besides missing rights is reported.
async fn test_write(
    wire: &mut Wire,
    test: TestWrite,
    settings: &RedisSettings,
    report: &mut ServerReport,
) -> Result<(), StoreError> {
    let prefix = &settings.prefix;
    let written = wire.send_one(&test.command(prefix)).await;
    let written = match written {
        Ok(reply) => test.conclude(wire, reply, prefix, None).await,
        Err(error) => Err(error),
    };
    match written {
        Ok(found) => {
            report.has_all_slots = found.has_slots;
            report.lacks_time_in_scripts = found.time.is_some();
        }
        Err(error @ StoreError::Lost(_)) => return Err(error),
        Err(error) if report.has(error.cause()) => {}
        Err(error) => report.fail(&error, settings),
    }
    Ok(())
}

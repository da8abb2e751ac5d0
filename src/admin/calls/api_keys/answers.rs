//! The answers to calls about API keys.

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_core::api_keys::KeyId;
use tollgate_core::store::keys::{StorageError, Version, Written};
use tollgate_core::time::Timestamp;

use crate::admin::answer::Answer;
use crate::admin::audit::Change;
use crate::admin::body::read_json;
use crate::admin::call::Call;
use crate::admin::problem::{Mistake, Problem};
use crate::admin::spec::Asked;
use crate::api_keys::{
    CreatedKey, Filter, Import, Imported, ImportedKey, KeyError, KeyPatch, Keys, MAX_IMPORTED,
    NewKeyForm, Rotation, Seen, ShownKey, ShownTeam, TeamForm, Unique,
};
use crate::message::json::First;

type Answered = Result<Answer, Problem>;

/// All teams.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Teams")]
pub struct AllTeams {
    items: Vec<ShownTeam>,
}

pub async fn list(asked: Asked<'_>) -> Answered {
    let call = asked.call;
    let after = call.parameter("after");
    if let Some(Err(error)) = after.map(str::parse::<KeyId>) {
        return Err(Problem::bad_request(format!("after: {error}")));
    }
    let filter = Filter { team: call.parameter("team"), state: call.parameter("state") };
    let listed =
        keys(&asked)?.list(filter, after, call.number("limit"), &call.teams, now(&asked)).await;
    Ok(Answer::json(&listed.map_err(problem)?))
}

pub async fn create(asked: Asked<'_>) -> Answered {
    let form: NewKeyForm = read_json(&asked.body)?;
    let made = keys(&asked)?.create(None, &form, &asked.call.teams, now(&asked)).await;
    Ok(created(made.map_err(problem)?, Value::Null))
}

pub async fn put(asked: Asked<'_>) -> Answered {
    let form: NewKeyForm = read_json(&asked.body)?;
    if asked.call.if_none_match.as_deref().map(str::trim) != Some("*") {
        let detail = "send If-None-Match: * to make a key; PATCH changes one";
        return Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, detail));
    }
    let id = asked.call.value(0);
    let made = keys(&asked)?.create(Some(id), &form, &asked.call.teams, now(&asked)).await;
    Ok(created(made.map_err(problem)?, Value::Null))
}

pub async fn show(asked: Asked<'_>) -> Answered {
    let id = asked.call.value(0);
    let shown = keys(&asked)?.show(id, &asked.call.teams, now(&asked)).await;
    let (shown, version) = shown.map_err(problem)?;
    Ok(tagged(Answer::json(&shown), &version))
}

pub async fn patch(asked: Asked<'_>) -> Answered {
    let form: KeyPatch = read_json(&asked.body)?;
    let Some(seen) = seen(asked.call) else {
        let detail = "send If-Match with the ETag of GET /v1/keys/{id}, so that no other change is \
                      overwritten; If-Match: * forces it";
        return Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, detail));
    };
    let id = asked.call.value(0);
    let done = keys(&asked)?.change(id, &form, &seen, &asked.call.teams, now(&asked)).await;
    let (before, after, written) = done.map_err(problem)?;
    announced(&after, changed(&before, &after), written)
}

pub async fn revoke(asked: Asked<'_>) -> Answered {
    let seen = seen(asked.call).unwrap_or(Seen::Anything);
    let id = asked.call.value(0);
    let done = keys(&asked)?.revoke(id, &seen, &asked.call.teams, now(&asked)).await;
    let (before, after, written) = done.map_err(problem)?;
    announced(&after, changed(&before, &after), written)
}

pub async fn rotate(asked: Asked<'_>) -> Answered {
    let form: Rotation = read_json(&asked.body)?;
    let seen = seen(asked.call).unwrap_or(Seen::Anything);
    let id = asked.call.value(0);
    let done = keys(&asked)?.rotate(id, &form, &seen, &asked.call.teams, now(&asked)).await;
    let (before, made, version) = done.map_err(problem)?;
    Ok(created((made, version), json!(before)))
}

pub async fn find(asked: Asked<'_>) -> Answered {
    let Unique { key } = read_json(&asked.body)?;
    let found = keys(&asked)?.find(&key, &asked.call.teams, now(&asked)).await.map_err(problem)?;
    let change = Change { key_id: Some(found.id.clone()), ..Change::default() };
    Ok(Answer::changed(&found, change))
}

/// The body of an import.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ImportForm {
    keys: First<MAX_IMPORTED, ImportedKey>,
    weak: bool,
}

pub async fn import(asked: Asked<'_>) -> Answered {
    let ImportForm { keys: First(imported), weak } = read_json(&asked.body)?;
    let import = Import { keys: imported, weak };
    let change = |done: &Imported| {
        let Imported { stored, present, refused, .. } = done;
        let after = json!({
            "stored": stored, "present": present.len(), "refused": refused.len(),
        });
        Change { after, ..Change::default() }
    };
    match keys(&asked)?.import(&import, &asked.call.teams, 0).await {
        Ok(done) => Ok(Answer::changed(&done, change(&done))),
        Err(KeyError::Interrupted { done, error }) => {
            Err(problem(error.into()).after(change(&done)))
        }
        Err(error) => Err(problem(error)),
    }
}

pub async fn teams(asked: Asked<'_>) -> Answered {
    let items = keys(&asked)?.teams(&asked.call.teams).await.map_err(problem)?;
    Ok(Answer::json(&AllTeams { items }))
}

pub async fn show_team(asked: Asked<'_>) -> Answered {
    let shown = keys(&asked)?.team(asked.call.value(0), &asked.call.teams).await;
    let (shown, version) = shown.map_err(problem)?;
    Ok(tagged(Answer::json(&shown), &version))
}

pub async fn put_team(asked: Asked<'_>) -> Answered {
    let form: TeamForm = read_json(&asked.body)?;
    let call = asked.call;
    let seen = seen(call);
    if seen.is_none() && call.if_none_match.as_deref().map(str::trim) != Some("*") {
        let detail = "send If-None-Match: * for a new team, or If-Match with the ETag of GET \
                      /v1/teams/{name}";
        return Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, detail));
    }
    let done = keys(&asked)?.set_team(call.value(0), &form, seen.as_ref(), &call.teams).await;
    let (before, after, written) = done.map_err(problem)?;
    let change = Change { before: json!(before), after: json!(after), ..Change::default() };
    announced(&after, change, written)
}

/// The keys of the store.
fn keys(asked: &Asked<'_>) -> Result<Keys, Problem> {
    let keys = asked.node.keys.as_ref().ok_or_else(|| {
        let detail = "there is no store for API keys: add store: { redis: ... }, or store: { keys: \
                      { path: keys.redb } }";
        Problem::conflict(detail)
    })?;
    let settings = asked.view.snapshot.rules.clients().settings().keys.as_deref();
    if settings.is_some_and(|settings| !settings.in_store) {
        let detail = "no key is looked up in the store, because client.keys.store is false";
        return Err(Problem::conflict(detail));
    }
    Ok(keys.under(settings, &asked.view.snapshot.policies))
}

fn now(asked: &Asked<'_>) -> Timestamp {
    asked.state.clock.wall()
}

/// The answer with the text of a key. The audit log gets all but the text.
fn created((made, version): (CreatedKey, Version), before: Value) -> Answer {
    let key_id = Some(made.shown.id.clone());
    let change = Change { key_id, before, after: json!(made.shown), ..Change::default() };
    tagged(Answer::created(&made, change), &version)
}

/// The change of a key for the audit log.
fn changed(before: &ShownKey, after: &ShownKey) -> Change {
    let key_id = Some(after.id.clone());
    Change { key_id, before: json!(before), after: json!(after), ..Change::default() }
}

/// The answer to a change, or 503 if the other nodes could not be told of it. The audit log gets the
/// change in both cases.
fn announced<T: Serialize + JsonSchema>(after: &T, change: Change, written: Written) -> Answered {
    match written.check() {
        Ok(version) => Ok(tagged(Answer::changed(after, change), &version)),
        Err(error) => Err(problem(error.into()).after(change)),
    }
}

fn tagged(mut answer: Answer, version: &Version) -> Answer {
    answer.etag = Some(version.as_str().to_owned());
    answer
}

/// What the caller has seen. None: it does not say so.
fn seen(call: &Call) -> Option<Seen> {
    let tag = call.if_match.as_deref()?.trim();
    Some(match tag {
        "*" => Seen::Anything,
        // No version has a comma.
        tags => Seen::Versions(
            tags.split(',').map(|it| it.trim().trim_matches('"').to_owned()).collect(),
        ),
    })
}

fn problem(error: KeyError) -> Problem {
    let detail = error.to_string();
    let status = match &error {
        KeyError::NoKey | KeyError::NoTeam => StatusCode::NOT_FOUND,
        KeyError::Team(_) => StatusCode::FORBIDDEN,
        KeyError::State(_) | KeyError::InFile { .. } => StatusCode::CONFLICT,
        KeyError::Mistakes(_) => StatusCode::UNPROCESSABLE_ENTITY,
        KeyError::OtherSecret(_)
        | KeyError::OtherId(_)
        | KeyError::Revoked(_)
        | KeyError::OtherTeam => StatusCode::CONFLICT,
        KeyError::Store(error) | KeyError::Interrupted { error, .. } => match error {
            StorageError::Stale => StatusCode::PRECONDITION_FAILED,
            StorageError::Taken(_) | StorageError::Full => StatusCode::CONFLICT,
            StorageError::NotBegun | StorageError::Away(_) | StorageError::NotAnnounced(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        },
    };
    let errors = match error {
        KeyError::Mistakes(mistakes) => {
            mistakes.into_iter().map(|it| Mistake::new(it.message, it.help)).collect()
        }
        _ => Vec::new(),
    };
    let detail = if errors.is_empty() { detail } else { "the key has mistakes".to_owned() };
    Problem { errors, ..Problem::new(status, detail) }
}

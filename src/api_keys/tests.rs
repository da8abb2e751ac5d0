//! The life of keys in a file of a test.

use tollgate_core::api_keys::{KeyForm, KeyRefusal, Override};
use tollgate_core::store::keys::{KeysFile, StorageError};
use tollgate_core::time::{Span, Timestamp};

use super::forms::StateWord;
use super::*;

fn at(seconds: u64) -> Timestamp {
    Timestamp::default().plus(Span::from_secs(1_795_000_000 + seconds))
}

fn readers() -> Readers {
    Readers {
        limit: |text| {
            let units = text.parse().map_err(|_| format!("\"{text}\" is not a limit"))?;
            Ok(Override::Limited { units, window: None }.into())
        },
        date: |text| match text {
            "2027-06-30" => Ok(at(10)),
            _ => Err(format!("\"{text}\" is not a date")),
        },
        span: |text| {
            let seconds = text.trim_end_matches('s').parse().map_err(|_| "no span".to_owned())?;
            Ok(Span::from_secs(seconds))
        },
    }
}

fn run(test: impl AsyncFnOnce(Keys)) {
    let directory = tempfile::tempdir().unwrap();
    let file = KeysFile::open(&directory.path().join("keys.redb")).unwrap();
    let keys = Keys::new(std::rc::Rc::new(file), readers());
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.build_local(Default::default()).unwrap().block_on(test(keys));
}

fn form(team: Option<&str>) -> NewKeyForm {
    let fields = KeyFields { team: team.map(str::to_owned), ..KeyFields::default() };
    NewKeyForm { fields, first: false }
}

async fn admitted(keys: &Keys, text: &str, now: Timestamp) -> Result<(), KeyRefusal> {
    let id = KeyForm::default().parse(text.as_bytes()).unwrap();
    let (record, _) = keys.known(id.as_str(), &Teams::All).await.unwrap();
    record.admit(&tollgate_core::api_keys::KeyDigest::of(text.as_bytes()), now)
}

#[test]
fn a_key_is_made_shown_changed_and_revoked() {
    run(async |keys| {
        let all = Teams::All;
        let mut new = form(Some("acme"));
        new.fields.expires = Some("2027-06-30".into());
        let (created, version) = keys.create(None, &new, &all, at(0)).await.unwrap();
        let id = created.shown.id.clone();
        assert_eq!(admitted(&keys, &created.key, at(0)).await, Ok(()));
        let (shown, same) = keys.show(&id, &all, at(0)).await.unwrap();
        assert_eq!((&shown, &same), (&created.shown, &version));
        assert_eq!(keys.find(&created.key, &all, at(0)).await.unwrap().id, id);
        let patch =
            KeyPatch { plan: Some(Some("pro".into())), team: Some(None), ..KeyPatch::default() };
        let old = Seen::Versions(vec!["x".to_owned(), version.as_str().to_owned()]);
        let (before, after, _) = keys.change(&id, &patch, &old, &all, at(1)).await.unwrap();
        assert_eq!((before.team.as_deref(), after.team.as_deref()), (Some("acme"), None));
        assert_eq!(after.expires, before.expires);
        let stale = keys.change(&id, &patch, &old, &all, at(1)).await;
        assert_eq!(stale.map(drop), Err(StorageError::Stale.into()));
        let (_, revoked, _) = keys.revoke(&id, &Seen::Anything, &all, at(2)).await.unwrap();
        assert_eq!(revoked.state, StateWord::Revoked);
        assert_eq!(admitted(&keys, &created.key, at(2)).await, Err(KeyRefusal::Revoked));
        let again = keys.change(&id, &patch, &Seen::Anything, &all, at(3)).await;
        assert!(matches!(again, Err(KeyError::State(_))));
        assert!(keys.revoke(&id, &Seen::Anything, &all, at(9)).await.is_ok());
    });
}

#[test]
fn a_chosen_id_is_given_once() {
    run(async |keys| {
        let create =
            async || keys.create(Some("7f2m9qd0v3xk"), &form(None), &Teams::All, at(0)).await;
        assert_eq!(create().await.unwrap().0.shown.id, "7f2m9qd0v3xk");
        assert_eq!(create().await.map(drop), Err(StorageError::Stale.into()));
        let wrong = keys.create(Some("x"), &form(None), &Teams::All, at(0)).await;
        assert!(matches!(wrong, Err(KeyError::Mistakes(_))));
    });
}

#[test]
fn two_secrets_of_a_rotation_overlap_and_a_third_is_refused() {
    run(async |keys| {
        let (old, _) = keys.create(None, &form(None), &Teams::All, at(0)).await.unwrap();
        let id = old.shown.id.clone();
        let rotate = async |overlap: &str, now| {
            let rotation = Rotation { overlap: Some(overlap.to_owned()) };
            keys.rotate(&id, &rotation, &Seen::Anything, &Teams::All, now).await
        };
        let (_, new, _) = rotate("10s", at(0)).await.unwrap();
        assert_eq!(admitted(&keys, &old.key, at(9)).await, Ok(()));
        assert_eq!(admitted(&keys, &new.key, at(9)).await, Ok(()));
        assert!(matches!(rotate("10s", at(9)).await, Err(KeyError::State(_))));
        assert_eq!(admitted(&keys, &old.key, at(10)).await, Err(KeyRefusal::Expired));
        let (_, newest, _) = rotate("10s", at(10)).await.unwrap();
        assert_eq!(admitted(&keys, &old.key, at(10)).await, Err(KeyRefusal::Unknown));
        let (_, last, _) = rotate("0s", at(11)).await.unwrap();
        assert_eq!(admitted(&keys, &newest.key, at(11)).await, Err(KeyRefusal::Expired));
        assert_eq!(admitted(&keys, &last.key, at(11)).await, Ok(()));
        let too_long = rotate("2592001s", at(12)).await;
        assert!(matches!(too_long, Err(KeyError::Mistakes(_))));
    });
}

#[test]
fn a_caller_with_teams_sees_and_changes_theirs_only() {
    run(async |keys| {
        let only = Teams::Only(vec!["acme".into()]);
        let (other, _) = keys.create(None, &form(Some("b")), &Teams::All, at(0)).await.unwrap();
        let (own, _) = keys.create(None, &form(Some("acme")), &only, at(0)).await.unwrap();
        for team in [None, Some("b")] {
            let refused = keys.create(None, &form(team), &only, at(0)).await;
            assert!(matches!(refused.map(drop), Err(KeyError::Team(_))));
        }
        assert_eq!(keys.show(&other.shown.id, &only, at(0)).await.map(drop), Err(KeyError::NoKey));
        assert_eq!(keys.find(&other.key, &only, at(0)).await, Err(KeyError::NoKey));
        let away = KeyPatch { team: Some(Some("b".into())), ..KeyPatch::default() };
        let moved = keys.change(&own.shown.id, &away, &Seen::Anything, &only, at(0)).await;
        assert!(matches!(moved.map(drop), Err(KeyError::Team(_))));
        let page = keys.list(Filter::default(), None, 100, &only, at(0)).await.unwrap();
        assert_eq!(page.items, [own.shown]);
        let set = keys.set_team("b", &TeamForm::default(), None, &only).await;
        assert!(matches!(set.map(drop), Err(KeyError::Team(_))));
    });
}

#[test]
fn pages_have_every_key_once_and_filters_hold() {
    run(async |keys| {
        let all = Teams::All;
        for number in 0..30 {
            let team = if number % 3 == 0 { "a" } else { "b" };
            keys.create(None, &form(Some(team)), &all, at(0)).await.unwrap();
        }
        let mut seen = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page =
                keys.list(Filter::default(), after.as_deref(), 7, &all, at(0)).await.unwrap();
            assert!(page.items.len() <= 7);
            seen.extend(page.items.into_iter().map(|key| key.id));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 30);
        let of =
            async |filter| keys.list(filter, None, 100, &all, at(0)).await.unwrap().items.len();
        assert_eq!(of(Filter { team: Some("a"), state: None }).await, 10);
        assert_eq!(of(Filter { team: None, state: Some("revoked") }).await, 0);
        assert_eq!(of(Filter { team: Some("b"), state: Some("active") }).await, 20);
    });
}

#[test]
fn keys_are_imported_by_text_or_hash_and_exported_again() {
    run(async |keys| {
        let all = Teams::All;
        let foreign = "an-old-key-of-another-program";
        let import = |key: ImportedKey, weak| Import { keys: vec![key], weak };
        let text = |text: &str| ImportedKey { key: Some(text.into()), ..ImportedKey::default() };
        let done = keys.import(&import(text(foreign), false), &all, 0).await.unwrap();
        assert_eq!((done.stored.len(), done.refused.len()), (1, 0));
        assert_eq!(keys.find(foreign, &all, at(0)).await.unwrap().id, done.stored[0]);
        let again = keys.import(&import(text(foreign), false), &all, 0).await.unwrap();
        assert_eq!(again.present, done.stored);
        let weak = keys.import(&import(text("hunter2"), false), &all, 0).await.unwrap();
        assert!(weak.refused[0].contains("22 characters") && !weak.refused[0].contains("hunter2"));
        assert_eq!(
            keys.import(&import(text("hunter2"), true), &all, 0).await.unwrap().stored.len(),
            1
        );
        let id = keys.find("hunter2", &all, at(0)).await.unwrap().id;
        let overlap = Rotation { overlap: Some("9s".into()) };
        keys.rotate(&id, &overlap, &Seen::Anything, &all, at(0)).await.map(drop).unwrap();
        let mut exported = Vec::new();
        keys.export(|key| {
            exported.push(key);
            Ok(())
        })
        .await
        .unwrap();
        assert_eq!(exported.len(), 2);
        assert!(
            exported.iter().all(|key: &ImportedKey| key.sha256.len() == 1),
            "ended secrets end"
        );
        let directory = tempfile::tempdir().unwrap();
        let file = KeysFile::open(&directory.path().join("keys.redb")).unwrap();
        let other = Keys::new(std::rc::Rc::new(file), readers());
        let import = Import { keys: exported, weak: false };
        assert_eq!(other.import(&import, &all, 0).await.unwrap().stored.len(), 2);
        assert!(other.find(foreign, &all, at(0)).await.is_ok());
    });
}

/// A key with the end of its line was stored, and its client got 401: a field has no such end.
#[test]
fn a_key_that_no_field_can_have_is_not_imported() {
    run(async |keys| {
        let all = Teams::All;
        let own = keys.create(None, &form(None), &all, at(0)).await.unwrap().0.key;
        let foreign = "an-old-key-of-another-program";
        for text in [
            String::new(),
            format!("{foreign}\n"),
            format!(" {foreign}"),
            format!("{foreign}\t"),
            foreign.replace("-of", "\r\n"),
            foreign.replace("-of", "\u{7f}"),
            format!("{own}\n"),
        ] {
            let import = Import { weak: true, ..import(&text, None) };
            let done = keys.import(&import, &all, 0).await.unwrap();
            assert_eq!((done.stored.len(), done.present.len()), (0, 0), "{text:?}");
            assert!(done.refused[0].contains("no client can send it"), "{:?}", done.refused);
        }
        let inner = import("an old key of another program", None);
        assert_eq!(keys.import(&inner, &all, 0).await.unwrap().stored.len(), 1);
    });
}

fn import(key: &str, id: Option<&str>) -> Import {
    let key = Some(key.to_owned());
    let id = id.map(str::to_owned);
    Import { keys: vec![ImportedKey { key, id, ..ImportedKey::default() }], weak: false }
}

/// A secret that a rotation has replaced was `present`, although no key accepts it.
#[test]
fn a_replaced_secret_is_refused_when_it_is_imported_again() {
    run(async |keys| {
        let all = Teams::All;
        let import = import("an-old-key-of-another-program", None);
        let id = keys.import(&import, &all, 0).await.unwrap().stored.remove(0);
        assert_eq!(keys.import(&import, &all, 0).await.unwrap().present, std::slice::from_ref(&id));
        for _ in 0..2 {
            let overlap = Rotation { overlap: Some("0s".into()) };
            keys.rotate(&id, &overlap, &Seen::Anything, &all, at(0)).await.map(drop).unwrap();
        }
        let again = keys.import(&import, &all, 6).await.unwrap();
        assert_eq!((again.stored.len(), again.present.len()), (0, 0));
        let [why] = &*again.refused else { panic!("{again:?}") };
        assert!(why.starts_with("key 7: ") && why.contains(&id) && why.contains("another secret"));
    });
}

/// Both were counted as `present`, or not at all.
#[test]
fn a_key_under_the_id_of_another_one_is_refused_and_the_same_one_is_present() {
    run(async |keys| {
        let all = Teams::All;
        let (own, _) = keys.create(None, &form(None), &all, at(0)).await.unwrap();
        let id = own.shown.id;
        let same = keys.import(&import(&own.key, None), &all, 0).await.unwrap();
        assert_eq!(same.present, std::slice::from_ref(&id));
        // Regression: it was stored, and no request with it was accepted.
        let unlike = keys.import(&import(&own.key, Some("aaaaaaaaaaac")), &all, 0).await.unwrap();
        assert_eq!((unlike.stored.len(), unlike.present.len()), (0, 0));
        assert!(unlike.refused[0].contains(&format!("has the id {id}")), "{unlike:?}");
        let other = import("an-old-key-of-another-program", Some(&id));
        let other = keys.import(&other, &all, 0).await.unwrap();
        assert_eq!((other.stored.len(), other.present.len()), (0, 0));
        assert!(other.refused[0].contains(&id), "{other:?}");
        let free = import("an-old-key-of-another-program", None);
        assert_eq!(keys.import(&free, &all, 0).await.unwrap().stored.len(), 1);
    });
}

#[test]
fn a_team_is_replaced_only_as_it_was_seen() {
    run(async |keys| {
        let all = Teams::All;
        let team = |plan: &str| TeamForm { plan: Some(plan.into()), ..TeamForm::default() };
        let (before, _, version) = keys.set_team("acme", &team("free"), None, &all).await.unwrap();
        assert_eq!(before, None);
        let taken = keys.set_team("acme", &team("pro"), None, &all).await;
        assert_eq!(taken.map(drop), Err(StorageError::Stale.into()));
        let seen = Seen::Versions(vec![version.version.as_str().to_owned()]);
        let (before, after, _) =
            keys.set_team("acme", &team("pro"), Some(&seen), &all).await.unwrap();
        assert_eq!((before.unwrap().plan, after.plan), (Some("free".into()), Some("pro".into())));
        assert_eq!(keys.teams(&all).await.unwrap().len(), 1);
        let wrong = keys.set_team(" x", &team("pro"), None, &all).await;
        assert!(matches!(wrong.map(drop), Err(KeyError::Mistakes(_))));
    });
}

/// A revoked key was `present`, although it is refused for ever.
#[test]
fn a_revoked_key_is_refused_when_it_is_imported_again() {
    run(async |keys| {
        let all = Teams::All;
        let import = import("an-old-key-of-another-program", None);
        let id = keys.import(&import, &all, 0).await.unwrap().stored.remove(0);
        keys.revoke(&id, &Seen::Anything, &all, at(0)).await.map(drop).unwrap();
        let again = keys.import(&import, &all, 6).await.unwrap();
        assert_eq!((again.stored.len(), again.present.len()), (0, 0));
        let [why] = &*again.refused else { panic!("{again:?}") };
        assert!(
            why.starts_with("key 7: ") && why.contains(&id) && why.contains("revoked"),
            "{why}"
        );
    });
}

/// A caller with teams was told the id of a key of another team, and that its own key is stored.
#[test]
fn a_caller_with_teams_learns_no_id_of_another_team_by_an_import() {
    run(async |keys| {
        let only = Teams::Only(vec!["acme".into(), "b".into()]);
        let all = Teams::All;
        let of_team = |text: &str, team: Option<&str>| {
            let mut import = import(text, None);
            import.keys[0].fields.team = team.map(str::to_owned);
            import
        };
        let (own, _) = keys.create(None, &form(Some("c")), &all, at(0)).await.unwrap();
        let text = "an-old-key-of-another-program";
        let stored = keys.import(&of_team(text, Some("c")), &all, 0).await.unwrap().stored;
        let none = "a-key-of-no-team-of-another-program";
        assert_eq!(keys.import(&of_team(none, None), &all, 0).await.unwrap().stored.len(), 1);
        for text in [text, none, &own.key] {
            let asked = keys.import(&of_team(text, Some("acme")), &only, 0).await.unwrap();
            assert_eq!((asked.stored.len(), asked.present.len()), (0, 0), "{text}");
            let [why] = &*asked.refused else { panic!("{asked:?}") };
            assert!(why.contains("another team") && !why.contains(&stored[0]), "{why}");
        }
        // A key of another one of its teams is there.
        let theirs = "a-key-of-team-b-of-another-program";
        let stored = keys.import(&of_team(theirs, Some("b")), &all, 0).await.unwrap().stored;
        let again = keys.import(&of_team(theirs, Some("acme")), &only, 0).await.unwrap();
        assert_eq!(again.present, stored);
    });
}

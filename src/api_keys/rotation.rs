//! A new secret for a key, beside the old one for a while.

use smallvec::SmallVec;
use tollgate_core::api_keys::{HeldDigest, KeyRecord, NewKey};
use tollgate_core::store::keys::{Expected, Version};
use tollgate_core::time::{Span, Timestamp};

use super::forms::{CreatedKey, Rotation, ShownKey};
use super::{KeyError, KeyMistake, Keys, Seen, Teams};

/// How long the old secret is accepted if the caller does not say it.
const OVERLAP: Span = Span::from_secs(86_400);
/// The longest time for which two secrets are accepted.
const LONGEST_OVERLAP: Span = Span::from_secs(30 * 86_400);

impl Keys {
    /// Makes a new secret. Returns the key as it was, the new text, and its version.
    pub async fn rotate(
        &self,
        text: &str,
        rotation: &Rotation,
        seen: &Seen,
        teams: &Teams,
        now: Timestamp,
    ) -> Result<(ShownKey, CreatedKey, Version), KeyError> {
        let overlap = self.overlap(rotation)?;
        let (before, stored) = self.seen(text, seen, teams).await?;
        if before.revoked.is_some() {
            return Err(KeyError::State("a revoked key stays revoked: make another one"));
        }
        let new = NewKey::with_id(&self.form, before.id);
        let digest = HeldDigest { digest: new.digest, until: None };
        let digests = rotated(&before, digest, overlap, now)?;
        let after = KeyRecord { digests, ..before.clone() };
        let expected = Expected::Version(stored.version.clone());
        let written = self.write(&after, &expected, None, &[]).await?;
        let shown = |record| ShownKey::of(record, Some(&stored), now);
        let (made, version) = CreatedKey::of(new.text, shown(&after), written);
        Ok((shown(&before), made, version))
    }

    fn overlap(&self, rotation: &Rotation) -> Result<Span, KeyError> {
        let read = rotation.overlap.as_deref().map(self.readers.span).transpose();
        let mistake = |error: String| KeyError::Mistakes(vec![KeyMistake::of("overlap", error)]);
        let overlap = read.map_err(mistake)?.unwrap_or(OVERLAP);
        if overlap > LONGEST_OVERLAP {
            return Err(mistake("it is 0s to 30d".to_owned()));
        }
        Ok(overlap)
    }
}

/// The secrets after a rotation.
fn rotated(
    before: &KeyRecord,
    new: HeldDigest,
    overlap: Span,
    now: Timestamp,
) -> Result<SmallVec<[HeldDigest; 1]>, KeyError> {
    let is_good = |held: &&HeldDigest| held.until.is_none_or(|until| now < until);
    if overlap.is_zero() {
        // The old ones end now, and are kept so that their owner learns it: at most one of them.
        let last = before.digests.last().copied();
        let ended = last.map(|held| HeldDigest {
            until: Some(held.until.map_or(now, |it| it.min(now))),
            ..held
        });
        return Ok(ended.into_iter().chain([new]).collect());
    }
    let good: Vec<&HeldDigest> = before.digests.iter().filter(is_good).collect();
    if good.len() > 1 {
        let why = "two secrets of this key are accepted already; wait for the end of the older one, \
                   or rotate with overlap 0s";
        return Err(KeyError::State(why));
    }
    let until = Some(now.plus(overlap));
    let old = good.first().map(|held| HeldDigest { until, ..**held });
    Ok(old.into_iter().chain([new]).collect())
}

//! Reading of small bodies as a whole, and the check of their type.

use std::error::Error;

use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body;

/// Why there is no whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// It has more bytes than it may have.
    TooLarge,
    /// It broke off.
    Incomplete,
}

/// The whole of a body that may have `max_bytes`.
///
/// # Errors
/// If it has more bytes, of which at most one frame is read; and if it breaks off.
pub async fn read_body<B>(body: B, max_bytes: usize) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    read_with_trailers(body, max_bytes).await.map(|(bytes, _)| bytes)
}

/// The same with the trailers behind the body.
///
/// # Errors
/// As for [`read_body`].
pub async fn read_with_trailers<B>(
    body: B,
    max_bytes: usize,
) -> Result<(Bytes, Option<HeaderMap>), BodyError>
where
    B: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>>,
{
    match Limited::new(body, max_bytes).collect().await {
        Ok(body) => {
            let trailers = body.trailers().cloned();
            Ok((body.to_bytes(), trailers))
        }
        Err(error) if error.is::<LengthLimitError>() => Err(BodyError::TooLarge),
        Err(_) => Err(BodyError::Incomplete),
    }
}

/// Whether a body has one of these media types. Their parameters are ignored. A type that is
/// stated twice is none.
pub fn has_content_type(fields: &HeaderMap, allowed: &[&str]) -> bool {
    let mut types = fields.get_all(CONTENT_TYPE).iter();
    let given = types.next().and_then(|it| it.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    types.next().is_none() && allowed.iter().any(|it| it.eq_ignore_ascii_case(essence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_is_stated_once() {
        let has = |values: &[&str]| {
            let parse = |value: &&str| (CONTENT_TYPE, value.parse().expect("it is a value"));
            has_content_type(&values.iter().map(parse).collect(), &["text/csv", "application/json"])
        };
        assert!(has(&["application/json"]) && has(&["Application/JSON; charset=utf-8"]));
        assert!(has(&["text/csv"]));
        let json = "application/json";
        for wrong in [&[][..], &["text/plain"], &["application/jsonx"], &[json, json]] {
            assert!(!has(wrong), "{wrong:?}");
        }
    }
}

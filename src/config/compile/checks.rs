//! Checks that several sections share.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};

use super::Compiler;
use crate::config::field::{Entries, Field, Spanned};
use crate::config::node::Span as Place;
use crate::config::raw::List;
use crate::config::scalar::{FieldName, FieldValue, Period};
use crate::time::Span;

/// The shortest and the longest time that a limit on waiting may be.
pub(super) const TIMEOUT: RangeInclusive<Span> = Span::MILLISECOND..=Span::from_secs(7 * 86_400);
/// Names stand in log lines and header fields.
const MAX_NAME_CHARS: usize = 128;

impl Compiler<'_> {
    /// A number, if it is given and within `range`.
    pub(super) fn number(
        &self,
        field: &Field<u64>,
        name: &str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        let given = field.given()?;
        self.within(given.value, given.span, name, range)
    }

    /// A number that stands at `place`, if it is within `range`.
    pub(super) fn within(
        &self,
        number: u64,
        place: Place,
        name: &str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        if range.contains(&number) {
            return Some(number);
        }
        let advice = format!("write a number from {} to {}", range.start(), range.end());
        self.problems.error(place, &format!("\"{name}\" is out of range"), &advice);
        None
    }

    /// A number of things that memory can hold.
    pub(super) fn count(
        &self,
        field: &Field<u64>,
        name: &str,
        range: RangeInclusive<u64>,
    ) -> Option<usize> {
        usize::try_from(self.number(field, name, range)?).ok()
    }

    /// A limit on waiting, or `default`.
    pub(super) fn timeout(&self, field: &Field<Period>, name: &str, default: Duration) -> Duration {
        self.span(field, name, TIMEOUT).map_or(default, Duration::from)
    }

    /// A length of time, if it is given and within `range`.
    pub(super) fn span(
        &self,
        field: &Field<Period>,
        name: &str,
        range: RangeInclusive<Span>,
    ) -> Option<Span> {
        let given = field.given()?;
        let span = Span::from(given.value.0);
        if range.contains(&span) {
            return Some(span);
        }
        let advice = format!("write a duration from {} to {}", range.start(), range.end());
        self.problems.error(given.span, &format!("\"{name}\" is out of range"), &advice);
        None
    }

    /// A status within `range`, or `default`.
    pub(super) fn status(
        &self,
        field: &Field<u64>,
        range: RangeInclusive<u64>,
        default: StatusCode,
    ) -> StatusCode {
        let status = self.number(field, "status", range);
        let status = status.and_then(|status| u16::try_from(status).ok());
        status.and_then(|status| StatusCode::from_u16(status).ok()).unwrap_or(default)
    }

    /// Whether a policy, route or upstream may be called so.
    pub(super) fn check_name(&self, name: &Spanned<String>, of: &str) {
        let good = |c: char| c == ' ' || c.is_ascii_graphic();
        if name.value.is_empty() || name.value.trim() != name.value {
            let message = format!("a {of} needs a name without blanks around it");
            self.problems.error(name.span, &message, "");
        } else if name.value.len() > MAX_NAME_CHARS || !name.value.chars().all(good) {
            // Names go out in header fields, where nothing else is allowed.
            let message = format!("the name of a {of} has at most 128 characters, all ASCII");
            self.problems.error(name.span, &message, "use letters, digits and -");
        }
    }

    /// Values of header fields by name, each name being checked.
    pub(super) fn header_values(
        &self,
        field: &Field<Entries<FieldValue>>,
    ) -> Vec<(HeaderName, HeaderValue)> {
        let entries = field.value().map_or(&[][..], |entries| &entries.0);
        let checked =
            entries.iter().filter_map(|(name, value)| match name.value.parse::<FieldName>() {
                Ok(FieldName(parsed)) => Some((parsed, value.value()?.0.clone())),
                Err(_) => {
                    let message = format!("\"{}\" is no name of a header field", name.value);
                    self.problems.error(name.span, &message, "use letters, digits and -");
                    None
                }
            });
        checked.collect()
    }

    /// The text of the file that is named; an error if it cannot be read.
    pub(super) fn file(&self, path: &Spanned<String>) -> Option<String> {
        let read = self.around.read(&path.value);
        read.map_err(|message| {
            let message = match &path.written {
                Some(written) => format!("the file that {written:?} stands for cannot be read"),
                None => message,
            };
            self.problems.error(path.span, &message, "");
        })
        .ok()
    }

    /// A list that may be left out but not be empty.
    pub(super) fn not_empty<T>(&self, list: &List<T>, message: &str, advice: &str) {
        if let Some(given) = list.given().filter(|given| given.value.is_empty()) {
            self.problems.error(given.span, message, advice);
        }
    }
}

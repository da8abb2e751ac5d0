//! What every section is compiled with: the problems found so far, the files around the
//! configuration, and the checks that several sections share.

use std::ops::RangeInclusive;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use tollgate_core::policy::spec::{Remark, name_fault};
use tollgate_core::time::Span;

use crate::config::field::{Entries, Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::problem::Problems;
use crate::config::scalar::{FieldName, FieldValue, Period};
use crate::config::surroundings::Surroundings;
use crate::message::FieldEdits;

/// The shortest and the longest time limit.
pub const TIMEOUT: RangeInclusive<Span> = Span::MILLISECOND..=Span::from_secs(7 * 86_400);

/// What every section is compiled with.
pub struct Context<'a> {
    /// The problems found so far.
    pub problems: &'a Problems,
    /// The environment and the files around the configuration.
    pub around: &'a Surroundings<'a>,
}

impl Context<'_> {
    /// Records a mistake.
    pub fn error(&self, span: TextSpan, message: &str, advice: &str) {
        self.problems.error(span, message, advice);
    }

    /// Records something that is most likely not intended.
    pub fn warning(&self, span: TextSpan, message: &str, advice: &str) {
        self.problems.warning(span, message, advice);
    }

    /// The value of the field. If the field is absent, there is an error at `owner`.
    pub fn required<'f, T>(
        &self,
        field: &'f Field<T>,
        owner: TextSpan,
        message: &str,
        advice: &str,
    ) -> Option<&'f T> {
        if field.is_absent() {
            self.error(owner, message, advice);
        }
        field.value()
    }

    /// Reports a list that is given but empty.
    pub fn not_empty<T>(&self, list: &List<T>, message: &str, advice: &str) {
        if let Some(given) = list.given().filter(|given| given.value.is_empty()) {
            self.error(given.span, message, advice);
        }
    }

    /// Reports a list with more than `most` items.
    pub fn at_most<T>(&self, list: &List<T>, name: &str, most: usize) {
        if let Some(given) = list.given().filter(|given| given.value.len() > most) {
            let message = format!("there are more than {most} \"{name}\"");
            self.error(given.span, &message, "remove some");
        }
    }

    /// A number, if it is given and within `range`.
    pub fn number<N: TryFrom<u64>>(
        &self,
        field: &Field<u64>,
        name: &str,
        range: RangeInclusive<u64>,
    ) -> Option<N> {
        let given = field.given()?;
        N::try_from(self.within(given.value, given.span, name, range)?).ok()
    }

    /// A number that is written at `span`, if it is within `range`.
    pub fn within(
        &self,
        number: u64,
        span: TextSpan,
        name: &str,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        if range.contains(&number) {
            return Some(number);
        }
        let advice = format!("write a number from {} to {}", range.start(), range.end());
        self.error(span, &format!("\"{name}\" is out of range"), &advice);
        None
    }

    /// A time limit, or `default`.
    pub fn timeout(&self, field: &Field<Period>, name: &str, default: Duration) -> Duration {
        self.duration(field, name, TIMEOUT).map_or(default, Duration::from)
    }

    /// A duration, if it is given and within `range`.
    pub fn duration(
        &self,
        field: &Field<Period>,
        name: &str,
        range: RangeInclusive<Span>,
    ) -> Option<Span> {
        let given = field.given()?;
        let duration = Span::from(given.value.0);
        if range.contains(&duration) {
            return Some(duration);
        }
        let advice = format!("write a duration from {} to {}", range.start(), range.end());
        self.error(given.span, &format!("\"{name}\" is out of range"), &advice);
        None
    }

    /// A status within `range`, or `default`.
    pub fn status(
        &self,
        field: &Field<u64>,
        name: &str,
        range: RangeInclusive<u64>,
        default: StatusCode,
    ) -> StatusCode {
        let status = self.number(field, name, range);
        status.and_then(|status: u16| StatusCode::from_u16(status).ok()).unwrap_or(default)
    }

    /// Checks the name of a field that identifies clients. A field that frames the message or belongs to
    /// the connection cannot identify them.
    pub fn check_identifying_field(&self, name: &Spanned<FieldName>) {
        let FieldName(header) = &name.value;
        if FieldEdits::is_reserved(header) {
            let message =
                format!("the field \"{header}\" belongs to the connection or the message");
            self.error(name.span, &message, "choose another name");
        }
    }

    /// Checks the name of a policy, a route, an upstream or a plan; `of` says which.
    pub fn check_name(&self, name: &Spanned<String>, of: &str) {
        if let Some(Remark { message, advice }) = name_fault(&name.value, of) {
            self.error(name.span, &message, &advice);
        }
    }

    /// Header fields with their values. Each name is checked.
    pub fn header_values(
        &self,
        field: &Field<Entries<FieldValue>>,
    ) -> Vec<(HeaderName, HeaderValue)> {
        let checked = field.entries().iter().filter_map(|(name, value)| {
            match name.value.parse::<FieldName>() {
                Ok(FieldName(parsed)) => Some((parsed, value.value()?.0.clone())),
                Err(_) => {
                    let message =
                        format!("\"{}\" is not a valid name of a header field", name.shown());
                    self.error(name.span, &message, "use letters, digits and -");
                    None
                }
            }
        });
        checked.collect()
    }

    /// The text of the file at `path`. There is an error if the file cannot be read.
    pub fn file(&self, path: &Spanned<String>) -> Option<String> {
        self.readable(path, self.around.read(&path.value))
    }

    /// The contents of the file at `path`. There is an error if the file cannot be read.
    pub fn file_bytes(&self, path: &Spanned<String>) -> Option<Vec<u8>> {
        self.readable(path, self.around.bytes(&path.value))
    }

    fn readable<T>(&self, path: &Spanned<String>, read: Result<T, String>) -> Option<T> {
        read.map_err(|message| {
            let message = match &path.written {
                Some(written) => format!("the file that {written:?} names cannot be read"),
                None => message,
            };
            self.error(path.span, &message, "");
        })
        .ok()
    }
}

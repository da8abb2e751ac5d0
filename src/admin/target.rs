//! The parts of the target of a call: its path and its query.

use percent_encoding::percent_decode_str;

use super::problem::Problem;

/// Whether `path` matches `template`.
pub fn is_at(template: &str, path: &str) -> bool {
    let mut names = template.split('/');
    let mut segments = path.split('/');
    loop {
        match (names.next(), segments.next()) {
            (None, None) => return true,
            (Some(name), Some(segment)) if name.starts_with('{') => {
                if segment.is_empty() {
                    return false;
                }
            }
            (Some(name), Some(segment)) if name == segment => {}
            _ => return false,
        }
    }
}

/// The text of a part that is percent-encoded.
pub fn decoded(text: &str) -> Result<String, Problem> {
    let decoded = percent_decode_str(text).decode_utf8();
    let wrong = |_| Problem::bad_request("the target is not UTF-8 text");
    decoded.map(|text| text.into_owned()).map_err(wrong)
}

/// The names and values of a query.
pub fn pairs(query: Option<&str>) -> Result<Vec<(String, String)>, Problem> {
    let parts = query.unwrap_or_default().split('&').filter(|part| !part.is_empty());
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Ok((decoded(name)?, decoded(&value.replace('+', " "))?))
    };
    parts.map(pair).collect()
}

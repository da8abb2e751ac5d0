//! Whole numbers with digit separators, which rates, sizes and durations contain.

use super::ScalarError;

/// The number at the beginning of `text`, and the rest. There may be `_` between digits. `what` and
/// `advice` are for messages.
///
/// # Errors
/// If the text does not begin with a whole number below 2^64.
pub fn leading<'t>(
    text: &'t str,
    what: &str,
    advice: &'static str,
) -> Result<(u64, &'t str), ScalarError> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (written, rest) = text.split_at(end);
    let digits: String = written.chars().filter(|c| *c != '_').collect();
    if digits.is_empty() || written.starts_with('_') {
        let message = if text.is_empty() {
            format!("{what} is empty")
        } else {
            format!("{what} \"{text}\" does not begin with a number")
        };
        return Err(ScalarError::new(message, advice));
    }
    if rest.starts_with(['.', ',']) {
        let message = format!("{what} \"{text}\" is not a whole number");
        return Err(ScalarError::new(message, "use a smaller unit instead of a fraction"));
    }
    let number = digits
        .parse()
        .map_err(|_| ScalarError::new(format!("the number {written} is too large"), ""))?;
    Ok((number, rest))
}

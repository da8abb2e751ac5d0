//! The byte order mark, which editors and shells of Windows write before a text in UTF-8. It is not
//! a part of the text.

const MARK: char = '\u{feff}';

/// The text behind the mark, or all of it if it has none.
pub fn behind(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// Removes the mark.
pub fn remove(text: &mut String) {
    if text.starts_with(MARK) {
        text.remove(0);
    }
}

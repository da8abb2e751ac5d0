//! Characters in texts for people and programs, which clients may have sent. Pure.

use std::fmt::Write as _;

use crate::request::scan;

/// Whether a character only shows itself: in a terminal, a browser or an editor it moves nothing,
/// ends no line, changes no direction, and has a width.
///
/// Others are those of the general categories Cc, Cf, Zl and Zp (UAX #44, section 5.7.1), those
/// that are ignored if they have no glyph (`Default_Ignorable_Code_Point`), and noncharacters.
pub const fn is_printable(c: char) -> bool {
    match c {
        ' '..='~' => true,
        '\0'..'\u{a0}' => false,
        '\u{ad}'
        | '\u{34f}'
        | '\u{600}'..='\u{605}'
        | '\u{61c}'
        | '\u{6dd}'
        | '\u{70f}'
        | '\u{890}'..='\u{891}'
        | '\u{8e2}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fdd0}'..='\u{fdef}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{110bd}'
        | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}' => false,
        _ => c as u32 & 0xfffe != 0xfffe,
    }
}

/// A character as it is shown: U+FFFD instead of one that is not [printable](is_printable).
pub const fn printable(c: char) -> char {
    if is_printable(c) { c } else { char::REPLACEMENT_CHARACTER }
}

/// Adds a JSON string (RFC 8259, section 7). What is not [printable](is_printable) is escaped, so that
/// no text can end the string or its line, or change how the line looks.
pub fn push_json(json: &mut String, text: &str) {
    json.push('"');
    finish_json(json, text);
}

/// The same without the first quote.
pub fn finish_json(json: &mut String, text: &str) {
    let mut rest = text;
    if !is_plain(text) {
        while let Some(at) = rest.find(|c: char| c == '"' || c == '\\' || !is_printable(c)) {
            json.push_str(&rest[..at]);
            let special = rest[at..].chars().next().unwrap_or_default();
            match special {
                '"' | '\\' => json.extend(['\\', special]),
                _ => escape(json, special),
            }
            rest = &rest[at + special.len_utf8()..];
        }
    }
    json.push_str(rest);
    json.push('"');
}

fn escape(json: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        write!(json, "\\u{unit:04x}").expect("writing to a string does not fail");
    }
}

/// Whether JSON writes the text as it is.
fn is_plain(text: &str) -> bool {
    let is_plain = |byte| (b' '..=b'~').contains(&byte) & (byte != b'"') & (byte != b'\\');
    scan::all(text.as_bytes(), is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_turns_or_hides_text_is_not_printable() {
        let all = || (0..=u32::from(char::MAX)).filter_map(char::from_u32);
        assert!(all().filter(|c| c.is_control()).all(|c| !is_printable(c)));
        // What is not printable takes no place of a letter, a digit or a sign: only four fillers,
        // which have no width, are letters.
        let letters: String = all().filter(|c| c.is_alphanumeric() && !is_printable(*c)).collect();
        assert_eq!(letters, "\u{115f}\u{1160}\u{3164}\u{ffa0}");
        for c in ['\u{7f}', '\u{85}', '\u{ad}', '\u{200b}', '\u{200e}', '\u{2028}', '\u{2029}']
            .into_iter()
            .chain(['\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{feff}', '\u{ffff}'])
            .chain(['\u{e0001}', '\u{e007f}', '\u{10fffe}'])
        {
            assert_eq!((is_printable(c), printable(c)), (false, '\u{fffd}'), "{c:?}");
        }
        for c in "größe 東京 עברית العربية ~\u{a0}\u{301}🦀\u{fffd}\u{10fffd}".chars()
        {
            assert_eq!((is_printable(c), printable(c)), (true, c), "{c:?}");
        }
    }
}

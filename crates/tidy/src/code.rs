//! Rust source without its comments and literals, so that a rule on code ignores
//! their words. Line numbers stay the same.

/// `source` with blanks instead of every comment and literal.
pub(crate) fn only(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let blank = match &rest[..word] {
            "" => comment_or_literal(rest),
            "r" | "br" | "cr" => raw_string(&rest[word..]).map_or(0, |length| word + length),
            _ => 0,
        };
        let keep = if blank > 0 { 0 } else { word.max(first.len_utf8()) };
        code.push_str(&rest[..keep]);
        code.extend(rest[..blank].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &rest[keep + blank..];
    }
    code
}

/// Whether `c` may be part of a name.
pub(crate) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The number of the line, from 1, that contains byte `offset` of `code`.
pub(crate) fn line_of(code: &str, offset: usize) -> usize {
    1 + code[..offset].matches('\n').count()
}

/// The length in bytes of the comment or literal at the start of `rest`; 0 if there is
/// none.
fn comment_or_literal(rest: &str) -> usize {
    if rest.starts_with("//") {
        rest.find('\n').unwrap_or(rest.len())
    } else if rest.starts_with("/*") {
        block_comment(rest)
    } else if rest.starts_with('"') {
        quoted(rest, '"')
    } else if is_char_literal(rest) {
        quoted(rest, '\'')
    } else {
        0
    }
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_u32;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// A lifetime begins with the same mark as a character, but has no closing mark.
fn is_char_literal(rest: &str) -> bool {
    let mut chars = rest.chars();
    chars.next() == Some('\'') && (chars.next() == Some('\\') || chars.next() == Some('\''))
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + quote.len_utf8();
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

/// The length in bytes of the raw string whose opening marks are at the start of
/// `rest`; none for a raw name.
fn raw_string(rest: &str) -> Option<usize> {
    let hashes = rest.find(|c| c != '#')?;
    let body = rest[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&end).map_or(rest.len(), |at| hashes + 1 + at + end.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<String> {
        only(source).split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn comments_are_removed_and_code_stays() {
        assert_eq!(words("a // b\nc /* d /* e */ f */ g //! h"), ["a", "c", "g"]);
    }

    #[test]
    fn strings_are_removed_with_quotes_and_escapes() {
        assert_eq!(words(r#"a "b \" c" d b"e" g "//" h"#), ["a", "d", "b", "g", "h"]);
    }

    #[test]
    fn raw_strings_are_removed_and_raw_names_stay() {
        assert_eq!(words("a r\"\\\" b br#\"c \" d\"# e r#type"), ["a", "b", "e", "r#type"]);
    }

    #[test]
    fn characters_are_removed_and_lifetimes_stay() {
        assert_eq!(words("a '\"' b '\\'' c <'d> 'é' e"), ["a", "b", "c", "<'d>", "e"]);
    }

    #[test]
    fn line_numbers_stay_the_same() {
        let code = only("/* one\ntwo */ \"three\nfour\" here");
        assert_eq!(line_of(&code, code.find("here").unwrap()), 3);
    }
}

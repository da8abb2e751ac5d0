//! Published crates that compile with Rust 1.85, the version of Debian 13, contain no let chains:
//! these need Rust 1.88. For the library of standard, clippy makes the same comparison
//! (`incompatible_msrv`).

use crate::code;
use crate::tree::{Finding, Tree};

/// The directories of crates that compile with Rust 1.85.
const OLD: [&str; 2] = ["crates/core/", "limiter/"];

/// Conditions that join `let` with another condition.
pub(crate) fn let_chains(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.rust().filter(|file| OLD.iter().any(|it| file.path.starts_with(it))) {
        let code = code::only(&file.text);
        for keyword in ["if", "while"] {
            for (offset, _) in code.match_indices(keyword) {
                if is_word(&code, offset, keyword) && is_chain(&code[offset..]) {
                    let what = "Rust 1.85 knows no let chains: nest the conditions";
                    findings.push(file.finding(code::line_of(&code, offset), what));
                }
            }
        }
    }
    findings
}

/// Whether a whole word begins at `offset`.
fn is_word(code: &str, offset: usize, word: &str) -> bool {
    let before = code[..offset].chars().next_back();
    let after = code[offset + word.len()..].chars().next();
    !before.is_some_and(code::is_name) && !after.is_some_and(code::is_name)
}

/// Whether the condition at the start of `code` joins a `let` with another condition. The condition
/// ends at the first brace outside of parentheses that does not belong to a pattern, or at `=>`.
fn is_chain(code: &str) -> bool {
    let mut depth = 0_u32;
    let mut has_let = false;
    let mut is_pattern = false;
    let mut joins = 0_u32;
    let mut bytes = code.bytes().enumerate().peekable();
    while let Some((at, byte)) = bytes.next() {
        let next = bytes.peek().map(|(_, byte)| *byte);
        match byte {
            b'(' | b'[' => depth += 1,
            b'{' if is_pattern => depth += 1,
            b')' | b']' | b'}' if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            b'{' | b'}' | b';' => break,
            b'=' if next == Some(b'>') => break,
            b'=' => is_pattern = false,
            b'&' if next == Some(b'&') => joins += 1,
            b'l' if is_word(code, at, "let") && code[at..].starts_with("let") => {
                has_let = true;
                is_pattern = true;
            }
            _ => {}
        }
    }
    has_let && joins > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        let_chains(&Tree::sample(&[("crates/core/src/a.rs", text)])).len()
    }

    #[test]
    fn a_condition_that_joins_a_let_is_found_in_either_order() {
        assert_eq!(count("if let Some(a) = b\n    && a > 1\n{}"), 1);
        assert_eq!(count("if x && let S { a, .. } = b {}"), 1);
        assert_eq!(count("while let Some(a) = b.pop() && a {}"), 1);
    }

    #[test]
    fn other_conditions_are_not_found() {
        assert_eq!(count("if let Some(a) = b.find(|c| c && d) { if x && y {} }"), 0);
        assert_eq!(count("if let S { a, .. } = b {}\nif a && b { let c = d; }"), 0);
        assert_eq!(count("match a { Some(b) if b => c && d, _ => {} }"), 0);
        assert_eq!(let_chains(&Tree::sample(&[("src/a.rs", "if a && let b = c {}")])).len(), 0);
    }
}

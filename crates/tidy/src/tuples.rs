//! Statements that define several variables at once, by a tuple that exists for nothing else.

use crate::code;
use crate::tree::{File, Finding, Tree};

/// Statements like `let (a, b) = (1, 2);`.
pub(crate) fn tuples_in_let(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(in_file).collect()
}

fn in_file(file: &File) -> Vec<Finding> {
    let code = code::only(&file.text);
    let found = code.match_indices("let (").filter(|(at, begin)| {
        let rest = &code[at + begin.len()..];
        value_of_names(rest).is_some_and(ends_with_statement)
    });
    let what = "a tuple defines several variables: give each a `let` of its own";
    found.map(|(at, _)| file.finding(code::line_of(&code, at), what)).collect()
}

/// What follows the opening bracket of the value, if names in brackets are given a tuple.
fn value_of_names(rest: &str) -> Option<&str> {
    let (names, rest) = rest.split_once(')')?;
    let is_of_names = |c: char| code::is_name(c) || c == ',' || c.is_whitespace();
    if !names.chars().all(is_of_names) {
        return None;
    }
    // A type may stand between them.
    let value = match rest.strip_prefix(':') {
        Some(typed) => typed.split_once(" =")?.1,
        None => rest.trim_start().strip_prefix('=')?,
    };
    value.trim_start().strip_prefix('(')
}

/// Whether the statement ends after the bracket that closes `value`.
fn ends_with_statement(value: &str) -> bool {
    let mut depth = 1;
    for (at, c) in value.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return value[at + 1..].trim_start().starts_with(';');
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        tuples_in_let(&Tree::sample(&[("src/a.rs", text)])).len()
    }

    #[test]
    fn a_tuple_that_only_defines_variables_is_found() {
        assert_eq!(count("let (a, mut b) = (c(1, (2)), 3);\n"), 1);
        assert_eq!(count("let (a, b) =\n    (1, 2);\n"), 1);
        assert_eq!(count("let (a, b): (u8, u8) = (1, 2);\n"), 1);
    }

    #[test]
    fn tuples_that_are_taken_apart_stay() {
        for text in ["let (a, b) = c;", "let (a, b) = (c).d;", "let (a, (b, c)) = (d, e());"] {
            assert_eq!(count(text), 0, "{text}");
        }
    }
}

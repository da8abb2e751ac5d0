//! The lengths of functions.
//!
//! The lint `too_many_lines` of clippy is not used: it takes `/*` in a string for the beginning of a
//! comment, and does not see async functions.

use crate::code;
use crate::tree::{File, Finding, Tree};

/// The most lines of code that a function may have, with its signature.
const MAX_LINES: usize = 80;

/// Functions with more lines of code than [`MAX_LINES`].
pub(crate) fn too_long(tree: &Tree) -> Vec<Finding> {
    tree.rust().flat_map(long_functions).collect()
}

fn long_functions(file: &File) -> Vec<Finding> {
    let code = code::only(&file.text);
    let mut findings = Vec::new();
    // The innermost function comes last. rustfmt indents the end of a function like its beginning.
    let mut open: Vec<Function> = Vec::new();
    for (number, line) in (1..).zip(code.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let indent = line.len() - line.trim_start().len();
        if is_begin(line) && !line.trim_end().ends_with(';') {
            open.push(Function { begin: number, indent, lines: 0 });
        }
        for function in &mut open {
            function.lines += 1;
        }
        let ends = |function: &Function| {
            function.indent == indent && (line.trim().ends_with('}') || line.trim().ends_with(';'))
        };
        if let Some(function) = open.pop_if(|function| ends(function))
            && function.lines > MAX_LINES
        {
            let what = format!(
                "a function of {} lines of code, {MAX_LINES} at most: give one of its steps a name",
                function.lines
            );
            findings.push(file.finding(function.begin, what));
        }
    }
    findings
}

/// A function whose end was not read yet.
struct Function {
    begin: usize,
    indent: usize,
    lines: usize,
}

/// Whether a function begins in the line.
fn is_begin(line: &str) -> bool {
    let Some((before, name)) = line.split_once("fn ") else { return false };
    let is_qualifier = |c: char| code::is_name(c) || " ():".contains(c);
    name.starts_with(code::is_name) && before.chars().all(is_qualifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        too_long(&Tree::sample(&[("src/a.rs", text)])).len()
    }

    fn body(lines: usize) -> String {
        "    step();\n".repeat(lines)
    }

    #[test]
    fn a_function_may_have_as_many_lines_of_code_as_the_bound_but_not_one_more() {
        let within = format!("fn a() {{\n{}    // A comment.\n\n}}\n", body(MAX_LINES - 2));
        assert_eq!(count(&within), 0);
        assert_eq!(count(&within.replacen("step", "step();\n    step", 1)), 1);
    }

    #[test]
    fn async_functions_and_those_with_marks_of_comments_in_strings_are_measured() {
        let begins = [
            "pub async fn a() {",
            "pub(crate) fn a(\n    b: u8,\n) -> u8 {",
            "pub(in crate::b1) const fn a() {",
        ];
        for begin in begins {
            let text = format!("{begin}\n    b(\"/*\");\n{}}}\n", body(MAX_LINES));
            assert_eq!(count(&text), 1, "{begin}");
        }
    }

    #[test]
    fn each_function_is_measured_alone() {
        let short = format!("fn a() {{\n{}}}\n", body(MAX_LINES / 2));
        assert_eq!(count(&short.repeat(3)), 0);
        let methods = "trait A {\n    fn a();\n    fn b(\n        c: u8,\n    );\n}\n";
        assert_eq!(count(&format!("{methods}{}", short.repeat(2))), 0);
        let types = format!("{}struct A(fn(u8) -> u8);\n{}", short, short.repeat(2));
        assert_eq!(count(&types), 0);
        let empty = "fn a() {}\n".repeat(MAX_LINES + 1);
        assert_eq!(count(&format!("{empty}{short}")), 0);
    }
}

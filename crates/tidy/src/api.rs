//! The public interface of the library, as text: what its users can name. The names are those
//! that its `lib.rs` re-exports. `limiter/api.txt` holds it, so that no change of it is an
//! accident.

use std::collections::BTreeMap;

use crate::code;
use crate::tree::{File, Tree};

/// The sources of the interface.
const SOURCES: [&str; 6] = [
    "limiter/src/library/",
    "limiter/src/layer/",
    "crates/core/src/decision/settings.rs",
    "crates/core/src/algorithm/kind.rs",
    "crates/core/src/consistency.rs",
    "crates/core/src/policy/missing_key.rs",
];

/// The names of the interface by those that the sources have.
type Names = BTreeMap<String, String>;

/// Marks what the gateway alone uses.
const HIDDEN: &str = "#[doc(hidden)]";

/// The interface: for each item its attributes, signature, variants and methods.
pub(crate) fn interface(tree: &Tree) -> String {
    let Some(root) = tree.file("limiter/src/lib.rs") else {
        return String::new();
    };
    let names = exported(&code::only(&root.text));
    let sources = tree.rust().filter(|file| {
        let is_source = SOURCES.iter().any(|source| file.path.starts_with(source));
        is_source && !file.path.contains("/tests")
    });
    let items = sources.flat_map(|file| items(file, &names));
    let mut items: Vec<String> = items.map(|item| renamed(&item, &names)).collect();
    items.sort();
    items.join("\n")
}

/// The item under the names of the interface.
fn renamed(item: &str, names: &Names) -> String {
    let words = item.split_inclusive(|c| !code::is_name(c));
    let renamed = words.map(|word| {
        let (name, end) = word.split_at(word.trim_end_matches(|c| !code::is_name(c)).len());
        format!("{}{end}", names.get(name).map_or(name, String::as_str))
    });
    renamed.collect()
}

/// The names that `pub use` brings to the root.
fn exported(code: &str) -> Names {
    let mut names = Names::new();
    for (at, part) in
        code.match_indices("pub use ").map(|(at, word)| (at, &code[at + word.len()..]))
    {
        if code[..at].trim_end().ends_with(HIDDEN) {
            continue;
        }
        let path = part.split(';').next().unwrap_or_default();
        let list = path.rsplit("::").next().unwrap_or(path);
        let list = path.split_once('{').map_or(list, |(_, list)| list.trim_end_matches('}'));
        for name in list.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            let (own, public) = name.split_once(" as ").unwrap_or((name, name));
            names.insert(own.to_owned(), public.to_owned());
        }
    }
    names
}

/// The public items of a file that are exported. It relies on the form of rustfmt: an item ends
/// with a line that has its closing brace at its own depth.
fn items(file: &File, names: &Names) -> Vec<String> {
    let code = code::only(&file.text);
    // Attributes contain literals, which only the text has. Lines have the same numbers.
    let lines: Vec<(&str, &str)> = code.lines().zip(file.text.lines()).collect();
    let mut items = Vec::new();
    let mut at = 0;
    let mut attributes: Vec<String> = Vec::new();
    while at < lines.len() {
        let (line, full) = lines[at];
        let depth = line.len() - line.trim_start().len();
        let word = line.trim();
        at += 1;
        if word.starts_with("#[") {
            attributes.push(full.trim().to_owned());
            continue;
        }
        if word.is_empty() {
            continue;
        }
        let kept = std::mem::take(&mut attributes);
        let is_item = ["pub struct ", "pub enum ", "pub trait ", "pub const "];
        let is_impl = depth == 0 && (word.starts_with("impl ") || word.starts_with("impl<"));
        if !is_impl && !is_item.iter().any(|start| word.starts_with(start)) {
            continue;
        }
        let begin = at - 1;
        let mut head = String::new();
        let mut last = begin;
        while last < lines.len() {
            head.push_str(lines[last].0.trim());
            if head.ends_with(['{', ';', '}']) {
                break;
            }
            head.push(' ');
            last += 1;
        }
        let is_open = head.ends_with('{');
        let head = head.trim_end_matches([' ', '{', ';']).to_owned();
        if !is_named(&head, names) {
            continue;
        }
        let mut item = String::new();
        for attribute in kept.iter().filter(|it| is_promise(it)) {
            item.push_str(&format!("{attribute}\n"));
        }
        item.push_str(&format!("{head}\n"));
        if is_open {
            let members = members(&lines[last + 1..], depth, &head);
            item.push_str(&members);
        }
        items.push(item);
    }
    items
}

/// Whether users notice a change of this attribute.
fn is_promise(attribute: &str) -> bool {
    ["#[derive", "#[non_exhaustive", "#[cfg", "#[must_use"]
        .iter()
        .any(|start| attribute.starts_with(start))
}

/// Whether the type of this head is exported, and so is the trait if it is one of the crate.
fn is_named(head: &str, names: &Names) -> bool {
    let words = |text: &str| -> Vec<String> {
        text.split(|c| !code::is_name(c)).map(str::to_owned).collect()
    };
    if let Some(rest) = head.strip_prefix("impl") {
        let subject = rest.split_once(" for ").map_or(rest, |(_, subject)| subject);
        let subject = subject.split(" where ").next().unwrap_or_default();
        return !head.contains("SharedLimiter")
            && words(subject).iter().any(|word| names.contains_key(word));
    }
    let name = head.split_whitespace().nth(2).unwrap_or_default();
    words(name).first().is_some_and(|name| names.contains_key(name))
}

/// The members that users can name: public ones of types, all of enums, traits and
/// implementations of traits.
fn members(lines: &[(&str, &str)], depth: usize, head: &str) -> String {
    let names_all = head.starts_with("pub enum") || head.starts_with("pub trait");
    let mut members = String::new();
    let mut attributes = String::new();
    let mut open: Option<String> = None;
    let mut is_hidden = false;
    for (line, full) in lines {
        let own_depth = line.len() - line.trim_start().len();
        let word = line.trim();
        if word.is_empty() {
            continue;
        }
        if own_depth == depth && word.starts_with('}') {
            break;
        }
        if let Some(signature) = &mut open {
            signature.push(' ');
            signature.push_str(word);
        } else if own_depth != depth + 4 || word.starts_with('}') {
            continue;
        } else if word == HIDDEN {
            is_hidden = true;
            continue;
        } else if word.starts_with("#[") {
            if is_promise(word) {
                attributes.push_str(&format!("    {}\n", full.trim()));
            }
            continue;
        } else {
            let is_public = word.starts_with("pub ");
            if std::mem::take(&mut is_hidden) || !is_public && !names_all {
                attributes.clear();
                continue;
            }
            members.push_str(&std::mem::take(&mut attributes));
            open = Some(word.to_owned());
        }
        if let Some(signature) = open.take_if(|it| is_whole(it)) {
            let signature = signature.trim_end_matches([' ', '{', ';', ',']);
            members.push_str(&format!("    {signature}\n"));
        }
    }
    members
}

/// Whether this is all of a member but a body. The parameters of a function end with commas.
fn is_whole(member: &str) -> bool {
    let is_function = member.contains("fn ");
    member.ends_with(['{', ';']) || !is_function && member.ends_with([',', '}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_has_what_users_can_name_and_nothing_else() {
        let root = "mod library;\npub use library::{A, B};\n";
        let source = "/// Doc.\n#[derive(Clone)]\n#[allow(x)]\npub struct A {\n    pub(super) a: u8,\n}\n\
            impl A {\n    /// Doc.\n    #[must_use]\n    pub fn f(\n        self,\n    ) -> u8 {\n        if x {\n        }\n    }\n\n    fn g() {}\n}\n\
            impl fmt::Debug for A {\n    fn fmt() {}\n}\npub enum B {\n    /// Doc.\n    One,\n    Two(u8),\n}\n\
            pub struct C;\nimpl C {\n    pub fn h() {}\n}\n";
        let tree =
            Tree::sample(&[("limiter/src/lib.rs", root), ("limiter/src/library/a.rs", source)]);
        let expected = "#[derive(Clone)]\npub struct A\n\nimpl A\n    #[must_use]\n    pub fn f( self, ) -> u8\n\nimpl fmt::Debug for A\n\npub enum B\n    One\n    Two(u8)\n";
        assert_eq!(interface(&tree), expected);
    }

    #[test]
    fn a_type_of_the_core_has_the_name_that_the_library_gives_it() {
        let root = "pub use tollgate_core::consistency::StoreMode as Counting;\n";
        let source = "pub enum StoreMode {\n    Exact,\n}\npub enum OnFailure {\n    Local,\n}\n";
        let core = "crates/core/src/consistency.rs";
        let tree = Tree::sample(&[("limiter/src/lib.rs", root), (core, source)]);
        assert_eq!(interface(&tree), "pub enum Counting\n    Exact\n");
    }
}

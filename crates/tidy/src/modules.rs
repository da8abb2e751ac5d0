//! The modules of a crate, and which modules each of them uses. Code for tests is left
//! out.

use std::collections::{BTreeMap, BTreeSet};

use crate::code::{self, is_name};
use crate::tree::Tree;

/// A module as its names from the crate root on.
pub(crate) type Module = Vec<String>;

/// The modules of one crate.
pub(crate) struct Modules(BTreeMap<Module, Source>);

/// What is known of the code of a module.
pub(crate) struct Source {
    code: String,
    /// The names that `use` declarations bring in, with their paths as written.
    imports: BTreeMap<String, Vec<String>>,
}

impl Modules {
    /// Reads the files below `root`.
    pub(crate) fn read(tree: &Tree, root: &str) -> Self {
        let mut files: BTreeMap<Module, String> = BTreeMap::new();
        let mut for_tests = BTreeSet::new();
        for file in tree.rust() {
            let Some(path) = file.path.strip_prefix(root).and_then(|it| it.strip_prefix('/'))
            else {
                continue;
            };
            let module = module_of(path);
            let (code, left_out) = without_tests(&code::only(&file.text));
            for name in left_out {
                for_tests.insert([module.clone(), vec![name]].concat());
            }
            files.entry(module).or_default().push_str(&code);
        }
        files.retain(|module, _| {
            (1..=module.len()).all(|length| !for_tests.contains(&module[..length]))
        });
        let source = |code: String| Source { imports: imports(&code), code };
        Self(files.into_iter().map(|(module, code)| (module, source(code))).collect())
    }

    /// All modules.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Module, &Source)> {
        self.0.iter()
    }

    /// The modules that the code of `module` uses.
    pub(crate) fn uses(&self, module: &Module, source: &Source) -> BTreeSet<Module> {
        let declares =
            |name: &str| self.0.contains_key(&[&module[..], &[name.to_owned()]].concat());
        let mut used = BTreeSet::new();
        for (path, is_reexport) in paths(&source.code) {
            let is_relative = path.first().is_some_and(|first| declares(first));
            // A re-export of a child is counted for the module that uses the name.
            if is_reexport && (is_relative || path[0] == "self") {
                continue;
            }
            let is_rooted = ["crate", "super", "self"].contains(&&*path[0]);
            if is_rooted || is_relative {
                used.extend(self.resolve(module, &path, 8));
            }
        }
        used.remove(module);
        used
    }

    /// The module that defines what `path`, written in `module`, stands for.
    fn resolve(&self, module: &Module, path: &[String], depth: usize) -> Option<Module> {
        let mut at = module.clone();
        let mut rest = path;
        match rest.first().map(String::as_str) {
            Some("crate") => {
                at.clear();
                rest = &rest[1..];
            }
            Some("self") => rest = &rest[1..],
            _ => {}
        }
        while let [first, more @ ..] = rest
            && first == "super"
        {
            at.pop()?;
            rest = more;
        }
        while let [name, more @ ..] = rest {
            let child = [&at[..], std::slice::from_ref(name)].concat();
            if self.0.contains_key(&child) {
                (at, rest) = (child, more);
                continue;
            }
            let source = self.0.get(&at)?;
            return match source.imports.get(name).filter(|_| depth > 0) {
                // An import of this module; one of a foreign crate leads nowhere.
                Some(import) => {
                    let is_own = ["crate", "super", "self"].contains(&&*import[0])
                        || self.0.contains_key(&[&at[..], &import[..1]].concat());
                    is_own.then(|| self.resolve(&at, import, depth - 1)).flatten()
                }
                None => Some(at),
            };
        }
        Some(at)
    }
}

/// The module of the file at `path`.
fn module_of(path: &str) -> Module {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    match stem {
        "lib" | "main" => Vec::new(),
        stem => stem.split('/').map(str::to_owned).collect(),
    }
}

/// `code` without items for tests and fuzz targets, and the names of the modules among
/// these.
fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut kept = String::new();
    let mut names = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(") {
        let end = at + rest[at..].find(")]").map_or(rest.len() - at, |end| end + 2);
        let condition = &rest[at..end];
        let is_for_tests = ["test", "fuzzing"].iter().any(|word| condition.contains(word))
            && !condition.contains("not(");
        kept.push_str(&rest[..at]);
        rest = &rest[end..];
        if is_for_tests {
            let item = &rest[..item_len(rest)];
            names.extend(
                item.split_once("mod ")
                    .and_then(|(_, name)| Some(name.trim().strip_suffix(';')?.trim().to_owned())),
            );
            rest = &rest[item.len()..];
        }
    }
    kept.push_str(rest);
    (kept, names)
}

/// Bytes of the item that `code` begins with: to its `;` or the end of its block.
fn item_len(code: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' | ')' | ']' => depth = depth.saturating_sub(1),
            ';' | ',' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// All paths in `code`, with whether each stands in a re-export (`pub use`). Groups are
/// written out; visibilities are left out.
fn paths(code: &str) -> Vec<(Vec<String>, bool)> {
    let mut paths = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let rest = &code[at..];
        let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        if len == 0 {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        }
        let before = code[..at].trim_end();
        let is_visibility = before.ends_with("pub(") || before.ends_with("pub(in");
        let continues = before.ends_with("::") || before.ends_with('.');
        let mut found = Vec::new();
        let used = if continues { len } else { path(rest, &mut Vec::new(), &mut found) };
        let is_reexport = before.strip_suffix("use").is_some_and(|it| {
            let it = it.trim_end();
            it.ends_with("pub") || (it.ends_with(')') && it.contains("pub("))
        });
        let is_import = before.ends_with("use");
        if !is_visibility {
            let found = found.into_iter().filter(|path| path.len() > 1 || is_import);
            paths.extend(found.map(|path| (path, is_reexport)));
        }
        at += used.max(len);
    }
    paths
}

/// Reads the path that `code` begins with, and adds it with `prefix` to `found`, once for
/// each name of a group. Returns its length.
fn path(code: &str, prefix: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> usize {
    let depth = prefix.len();
    let mut at = 0;
    loop {
        let len = code[at..].find(|c| !is_name(c)).unwrap_or(code.len() - at);
        let name = &code[at..at + len];
        if len > 0 && (name != "self" || prefix.is_empty()) {
            prefix.push(name.to_owned());
        }
        at += len;
        match code[at..].strip_prefix("::") {
            Some(rest) if rest.starts_with(is_name) => at += 2,
            Some(rest) if rest.starts_with('{') => {
                at += 3;
                loop {
                    at += code[at..].len() - code[at..].trim_start_matches([' ', '\n', ',']).len();
                    if code[at..].starts_with('}') || at >= code.len() {
                        break;
                    }
                    let used = path(&code[at..], prefix, found);
                    // An alias (`as`) and foreign signs are skipped.
                    at += used;
                    at += code[at..].find([',', '}']).unwrap_or(code.len() - at);
                }
                at += 1;
                break;
            }
            _ => {
                found.push(prefix.clone());
                break;
            }
        }
    }
    prefix.truncate(depth);
    at
}

/// The names that the `use` declarations of `code` bring in, with their paths.
fn imports(code: &str) -> BTreeMap<String, Vec<String>> {
    let mut imports = BTreeMap::new();
    for (at, _) in code.match_indices("use ") {
        if code[..at].ends_with(is_name) {
            continue;
        }
        let mut found = Vec::new();
        path(&code[at + 4..], &mut Vec::new(), &mut found);
        imports.extend(found.into_iter().filter_map(|path| Some((path.last()?.clone(), path))));
    }
    imports
}

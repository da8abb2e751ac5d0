//! The files that are read: their names, their bound, and what may be included.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// The most bytes of all files together.
pub const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// The most files.
const MAX_FILES: usize = 10_000;
/// Standard input.
const STDIN: &str = "-";

/// A line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Place {
    /// The number of the file.
    pub file: u32,
    /// The line, from 1; 0 is the file as a whole.
    pub line: u32,
}

/// The text of a file.
#[derive(Clone, Debug)]
pub struct Source {
    /// The number of the file.
    pub file: u32,
    /// The text.
    pub text: String,
}

/// Why nothing is imported.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// The file, and the line if it is known.
    pub at: String,
    /// What is wrong, and what to do.
    pub why: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.why)
    }
}

impl std::error::Error for Unreadable {}

/// The files, and those that they include.
#[derive(Debug, Default)]
pub struct Files {
    names: Vec<String>,
    paths: Vec<PathBuf>,
    roots: BTreeSet<PathBuf>,
    sources: Vec<Source>,
    bytes: u64,
}

impl Files {
    /// Reads the files that were named.
    ///
    /// # Errors
    /// If one of them cannot be read, is too large, or is a template.
    pub fn open(paths: &[PathBuf]) -> Result<Self, Unreadable> {
        let mut files = Self::default();
        for path in paths {
            if let Some(parent) = root_of(path) {
                files.roots.insert(parent);
            }
        }
        for path in paths {
            let source = files.read(path)?;
            files.sources.push(source);
        }
        Ok(files)
    }

    /// The texts that were named, for the fuzz targets.
    #[cfg(any(test, feature = "testing"))]
    pub fn of_text(text: &str) -> Self {
        let source = Source { file: 0, text: text.to_owned() };
        Self {
            names: vec!["input".to_owned()],
            paths: vec![PathBuf::from("input")],
            sources: vec![source],
            ..Self::default()
        }
    }

    /// The files that were named.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// The names of all files that were read, by their numbers.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The directory of a file.
    pub fn directory(&self, file: u32) -> PathBuf {
        let path = usize::try_from(file).ok().and_then(|at| self.paths.get(at));
        path.and_then(|path| path.parent()).map(Path::to_path_buf).unwrap_or_default()
    }

    /// What is wrong at a place.
    pub fn unreadable(&self, place: Place, why: impl Into<String>) -> Unreadable {
        let name = usize::try_from(place.file).ok().and_then(|at| self.names.get(at));
        let name = name.map_or("", String::as_str);
        let at = match place.line {
            0 => name.to_owned(),
            line => format!("{name}:{line}"),
        };
        Unreadable { at, why: why.into() }
    }

    /// The files that a pattern with `*` and `?` names, from the directory of the first file. Those
    /// that were named on the command line are left out, because they are read anyway.
    ///
    /// # Errors
    /// If a file is outside of the directories of the files that were named, or cannot be read.
    pub fn include(&mut self, pattern: &str) -> Result<Vec<Source>, String> {
        let pattern_path = self.directory(0).join(pattern);
        // Without this, a directory that is not on this machine would be one without files.
        if !self.is_inside(&fixed(&pattern_path)) {
            return Err("it is outside of the directories of the files that were named".to_owned());
        }
        let mut found = Vec::new();
        expand(&pattern_path, &mut found).map_err(|error| error.to_string())?;
        found.sort();
        if found.is_empty() && !pattern.contains(['*', '?']) {
            return Err("there is no such file".to_owned());
        }
        let named = self.sources.len();
        let named: Vec<PathBuf> = self.paths.iter().take(named).filter_map(canonical).collect();
        let mut sources = Vec::new();
        for path in found {
            let whole = path.canonicalize().map_err(|error| error.to_string())?;
            if !self.is_inside(&whole) {
                let why = "it is outside of the directories of the files that were named";
                return Err(format!("{}: {why}", path.display()));
            }
            if !named.contains(&whole) {
                sources.push(self.read(&path).map_err(|error| error.to_string())?);
            }
        }
        Ok(sources)
    }

    /// Whether a path, or the nearest directory above it that exists, is below a file that was named.
    fn is_inside(&self, path: &Path) -> bool {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let mut ancestors = path.ancestors();
        let existing = ancestors.find_map(|it| match it.as_os_str().is_empty() {
            true => Path::new(".").canonicalize().ok(),
            false => it.canonicalize().ok(),
        });
        existing.is_some_and(|it| self.roots.iter().any(|root| it.starts_with(root)))
    }

    /// Whether a file is there.
    pub fn has(&self, path: &Path) -> bool {
        self.directory(0).join(path).is_file()
    }

    fn read(&mut self, path: &Path) -> Result<Source, Unreadable> {
        // It is written into comments.
        let name = path.display().to_string().replace(char::is_control, "?");
        let fail = |why: String| Unreadable { at: name.clone(), why };
        if self.names.len() >= MAX_FILES {
            return Err(fail(format!("there are more than {MAX_FILES} files")));
        }
        let left = MAX_BYTES - self.bytes;
        let bytes = match path.as_os_str() == STDIN {
            true => bounded(io::stdin().lock(), left),
            false => regular(path).and_then(|file| bounded(file, left)),
        };
        let bytes = bytes.map_err(|error| fail(format!("it cannot be read: {error}")))?;
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if self.bytes > MAX_BYTES {
            return Err(fail("all files together are larger than 64 MiB".to_owned()));
        }
        let text = String::from_utf8(bytes).map_err(|_| fail("it is not UTF-8 text".to_owned()))?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned();
        if let Some(line) = text.lines().position(|line| line.contains("{{")) {
            let at = format!("{name}:{}", line + 1);
            let why = "it is a template ({{): render it first, and import the result";
            return Err(Unreadable { at, why: why.to_owned() });
        }
        let file = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name);
        self.paths.push(path.to_owned());
        Ok(Source { file, text })
    }
}

fn bounded(input: impl Read, left: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(left + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file. Another kind of file could block for ever.
fn regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    File::open(path)
}

fn root_of(path: &Path) -> Option<PathBuf> {
    if path.as_os_str() == STDIN {
        return None;
    }
    let parent = path.parent()?;
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    parent.canonicalize().ok()
}

fn canonical(path: impl AsRef<Path>) -> Option<PathBuf> {
    path.as_ref().canonicalize().ok()
}

/// The directory of a path before its first `*` or `?`.
fn fixed(pattern: &Path) -> PathBuf {
    let has_sign = |it: &Component<'_>| it.as_os_str().to_string_lossy().contains(['*', '?']);
    let parent = pattern.parent().unwrap_or(pattern);
    parent.components().take_while(|it| !has_sign(it)).collect()
}

/// The files that a path with `*` and `?` names.
fn expand(pattern: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut bases = vec![PathBuf::new()];
    for component in pattern.components() {
        let name = component.as_os_str().to_string_lossy().into_owned();
        if !matches!(component, Component::Normal(_)) || !name.contains(['*', '?']) {
            bases.iter_mut().for_each(|base| base.push(component));
            continue;
        }
        let mut next = Vec::new();
        for base in &bases {
            let directory = if base.as_os_str().is_empty() { Path::new(".") } else { base };
            let Ok(entries) = fs::read_dir(directory) else { continue };
            for entry in entries {
                let entry = entry?.file_name();
                if matches(&name, &entry.to_string_lossy()) {
                    next.push(base.join(entry));
                }
                if next.len() > MAX_FILES {
                    return Err(io::Error::other(format!("there are more than {MAX_FILES} files")));
                }
            }
        }
        bases = next;
    }
    found.extend(bases.into_iter().filter(|path| path.is_file()));
    Ok(())
}

/// Whether a name fits a pattern. `*` does not match a dot at the beginning.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let name: Vec<char> = name.chars().collect();
    // The rows of a table: whether the pattern so far matches so many characters.
    let mut row = vec![false; name.len() + 1];
    row[0] = true;
    for sign in pattern {
        let mut next = vec![false; name.len() + 1];
        next[0] = sign == '*' && row[0];
        for at in 0..name.len() {
            next[at + 1] = match sign {
                '*' => row[at + 1] || next[at],
                '?' => row[at],
                sign => row[at] && name[at] == sign,
            };
        }
        row = next;
    }
    row.last().copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        let fits = [("*.conf", "a.conf"), ("a?c", "abc"), ("*", "x"), ("a*b*c", "aXbYc")];
        for (pattern, name) in fits {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("*.conf", "a.con"), ("*", ".x"), ("a?c", "ac"), ("a", "ab")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_template_is_refused_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.conf");
        fs::write(&path, "a;\nlisten {{ port }};\n").unwrap();
        let error = Files::open(&[path]).unwrap_err();
        assert!(error.at.ends_with("a.conf:2") && error.why.contains("render it"), "{error}");
    }

    #[test]
    fn an_included_file_stays_below_the_files_that_were_named() {
        let directory = tempfile::tempdir().unwrap();
        let inner = directory.path().join("inner");
        fs::create_dir_all(inner.join("conf.d")).unwrap();
        fs::write(directory.path().join("secret.conf"), "x;").unwrap();
        fs::write(inner.join("conf.d/b.conf"), "b;").unwrap();
        fs::write(inner.join("conf.d/a.conf"), "a;").unwrap();
        let main = inner.join("nginx.conf");
        fs::write(&main, "").unwrap();
        let mut files = Files::open(&[main]).unwrap();
        let texts = files.include("conf.d/*.conf").unwrap();
        let texts: Vec<&str> = texts.iter().map(|source| &*source.text).collect();
        assert_eq!(texts, ["a;", "b;"]);
        assert!(files.include("../secret.conf").unwrap_err().contains("outside"));
        std::os::unix::fs::symlink("../../secret.conf", inner.join("conf.d/c.conf")).unwrap();
        assert!(files.include("conf.d/c.conf").unwrap_err().contains("outside"));
        assert!(files.include("absent.conf").is_err());
        assert!(files.include("/absent/nginx/*.conf").unwrap_err().contains("outside"));
        assert_eq!(files.include("absent/*.conf").unwrap().len(), 0);
    }

    #[test]
    fn all_files_together_are_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("large.conf");
        let file = File::create(&path).unwrap();
        file.set_len(MAX_BYTES).unwrap();
        Files::open(std::slice::from_ref(&path)).expect("the bound itself");
        file.set_len(MAX_BYTES + 1).unwrap();
        assert!(Files::open(&[path]).unwrap_err().why.contains("64 MiB"));
    }
}

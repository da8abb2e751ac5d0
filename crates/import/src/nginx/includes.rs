//! Replaces `include` by what is in the files.

use super::syntax::{Directive, MAX_DEPTH, parse};
use crate::files::{Files, Source, Unreadable};
use crate::notes::Notes;

/// The most directives of all files, with those of files that are included several times.
const MAX_DIRECTIVES: usize = 2_000_000;
/// Files that nginx brings, whose directives are not needed here.
const NEEDLESS: [&str; 8] = [
    "mime.types",
    "fastcgi_params",
    "fastcgi.conf",
    "uwsgi_params",
    "scgi_params",
    "modules-enabled/*.conf",
    "koi-utf",
    "koi-win",
];

/// All directives, with those of included files.
///
/// # Errors
/// If a file cannot be parsed, or includes itself.
pub fn directives(files: &mut Files, notes: &mut Notes) -> Result<Vec<Directive>, Unreadable> {
    let mut all = Vec::new();
    for source in files.sources().to_vec() {
        let mut includer = Includer { files, notes, left: MAX_DIRECTIVES };
        let parsed = includer.parsed(&source, 0)?;
        all.extend(includer.expanded(parsed, 0)?);
    }
    Ok(all)
}

struct Includer<'a> {
    files: &'a mut Files,
    notes: &'a mut Notes,
    left: usize,
}

impl Includer<'_> {
    fn parsed(&self, source: &Source, depth: usize) -> Result<Vec<Directive>, Unreadable> {
        parse(source, depth).map_err(|error| self.files.unreadable(error.place, error.why))
    }

    fn expanded(
        &mut self,
        directives: Vec<Directive>,
        depth: usize,
    ) -> Result<Vec<Directive>, Unreadable> {
        let mut expanded = Vec::with_capacity(directives.len());
        for mut directive in directives {
            self.left = self.left.saturating_sub(1);
            if self.left == 0 || depth > MAX_DEPTH {
                let why = "there are too many directives, or a file includes itself";
                return Err(self.files.unreadable(directive.place, why));
            }
            if directive.name == "include" {
                self.include(&directive, depth, &mut expanded)?;
                continue;
            }
            if let Some(block) = directive.block.take() {
                directive.block = Some(self.expanded(block, depth + 1)?);
            }
            expanded.push(directive);
        }
        Ok(expanded)
    }

    fn include(
        &mut self,
        directive: &Directive,
        depth: usize,
        expanded: &mut Vec<Directive>,
    ) -> Result<(), Unreadable> {
        let pattern = directive.arg(0);
        if NEEDLESS.iter().any(|name| pattern == *name || pattern.ends_with(&format!("/{name}"))) {
            self.notes.needless(
                "include",
                directive.place,
                format!("{pattern}: types and parameters"),
            );
            return Ok(());
        }
        match self.files.include(pattern) {
            Ok(sources) => {
                let count = sources.len();
                self.notes.taken(
                    "include",
                    directive.place,
                    format!("{pattern}: {count} more files"),
                );
                for source in sources {
                    let parsed = self.parsed(&source, depth + 1)?;
                    expanded.extend(self.expanded(parsed, depth + 1)?);
                }
            }
            Err(why) => {
                let what = format!("{pattern}: {why}: copy it to the directory of the first file");
                self.notes.lost("include", directive.place, what);
            }
        }
        Ok(())
    }
}

//! The levels around a place: http, server, location, and locations in it.

use super::syntax::Directive;

/// The levels, the outermost first.
#[derive(Clone, Debug, Default)]
pub struct Levels<'a>(Vec<&'a [Directive]>);

impl<'a> Levels<'a> {
    /// With one more level inside.
    pub fn with(&self, level: &'a [Directive]) -> Self {
        let mut levels = self.0.clone();
        levels.push(level);
        Self(levels)
    }

    /// All directives of this name at the innermost level that has one. This is how nginx inherits:
    /// a level with its own drops those above it.
    pub fn nearest(&self, name: &str) -> Vec<&'a Directive> {
        let of = |level: &&'a [Directive]| -> Vec<&'a Directive> {
            level.iter().filter(|it| it.name == name).collect()
        };
        self.0.iter().rev().map(of).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The same for several names that a level replaces together, such as `allow` and `deny`.
    pub fn nearest_of(&self, names: &[&str]) -> Vec<&'a Directive> {
        let of = |level: &&'a [Directive]| -> Vec<&'a Directive> {
            level.iter().filter(|it| names.contains(&&*it.name)).collect()
        };
        self.0.iter().rev().map(of).find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The last directive of this name at the innermost level that has one.
    pub fn setting(&self, name: &str) -> Option<&'a Directive> {
        self.nearest(name).pop()
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.setting(name).is_some_and(|it| it.arg(0) == "on")
    }

    /// The directives of this name at the innermost level only.
    pub fn own(&self, name: &str) -> Option<&'a Directive> {
        self.0.last()?.iter().find(|it| it.name == name)
    }
}

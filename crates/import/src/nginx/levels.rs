//! The levels around a place: http, server, location, and locations in it.

use std::collections::HashMap;
use std::rc::Rc;

use super::syntax::Directive;

/// The directives of a level by their names, each with its number, so that a level with many
/// directives is read once.
type Level<'a> = HashMap<&'a str, Vec<(usize, &'a Directive)>>;

/// The levels, the outermost first.
#[derive(Clone, Debug, Default)]
pub struct Levels<'a>(Vec<Rc<Level<'a>>>);

impl<'a> Levels<'a> {
    /// With one more level inside.
    pub fn with(&self, level: &'a [Directive]) -> Self {
        let mut index: Level<'a> = HashMap::new();
        for (number, directive) in level.iter().enumerate() {
            index.entry(&directive.name).or_default().push((number, directive));
        }
        let mut levels = self.0.clone();
        levels.push(Rc::new(index));
        Self(levels)
    }

    /// All directives of this name at the innermost level that has one. This is how nginx inherits:
    /// a level with its own drops those above it.
    pub fn nearest(&self, name: &str) -> Vec<&'a Directive> {
        self.nearest_of(&[name])
    }

    /// The same for several names that a level replaces together, such as `allow` and `deny`, in the
    /// order in which they are written.
    pub fn nearest_of(&self, names: &[&str]) -> Vec<&'a Directive> {
        for level in self.0.iter().rev() {
            let found = names.iter().filter_map(|name| level.get(name)).flatten();
            let mut found: Vec<(usize, &Directive)> = found.copied().collect();
            if !found.is_empty() {
                found.sort_by_key(|(number, _)| *number);
                return found.into_iter().map(|(_, directive)| directive).collect();
            }
        }
        Vec::new()
    }

    /// The last directive of this name at the innermost level that has one.
    pub fn setting(&self, name: &str) -> Option<&'a Directive> {
        self.nearest(name).pop()
    }

    /// The location with a name such as `@a`.
    pub fn named(&self, name: &str) -> Option<&'a Directive> {
        let locations = self.0.iter().filter_map(|level| level.get("location")).flatten();
        let mut named =
            locations.map(|(_, it)| *it).filter(|it| name.starts_with('@') && it.arg(0) == name);
        named.next()
    }

    /// Whether a switch is on.
    pub fn is_on(&self, name: &str) -> bool {
        self.setting(name).is_some_and(|it| it.arg(0) == "on")
    }

    /// `$server_name`: the first name of the server, without the dot before it. It is empty without a
    /// name.
    pub fn server_name(&self) -> String {
        let first = self.nearest("server_name").first().map_or("", |it| it.arg(0));
        match first.starts_with('~') {
            true => first.to_owned(),
            false => first.strip_prefix('.').unwrap_or(first).to_ascii_lowercase(),
        }
    }

    /// The first directive of this name at the innermost level only.
    pub fn own(&self, name: &str) -> Option<&'a Directive> {
        self.0.last()?.get(name)?.first().map(|(_, directive)| *directive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Source;
    use crate::nginx::syntax::parse;

    #[test]
    fn the_name_of_a_server_is_its_first_one() {
        for (text, is) in [
            ("server_name .A.example b; server_name c;", "a.example"),
            ("server_name _;", "_"),
            ("server_name ~^A;", "~^A"),
            ("listen 80;", ""),
        ] {
            let parsed = parse(&Source { file: 0, text: text.to_owned() }, 0).unwrap();
            assert_eq!(Levels::default().with(&parsed).with(&[]).server_name(), is, "{text}");
        }
    }

    #[test]
    fn a_level_with_its_own_drops_those_above() {
        let parsed = |text: &str| parse(&Source { file: 0, text: text.to_owned() }, 0).unwrap();
        let outer = parsed("a 1; a 2; deny 1; allow 2; deny 3; x on;");
        let inner = parsed("b 1; a 3;");
        let levels = Levels::default().with(&outer);
        let shown = |found: Vec<&Directive>| {
            found
                .iter()
                .map(|it| format!("{} {}", it.name, it.arg(0)))
                .collect::<Vec<_>>()
                .join(", ")
        };
        assert_eq!(shown(levels.nearest("a")), "a 1, a 2");
        assert_eq!(shown(levels.nearest_of(&["allow", "deny"])), "deny 1, allow 2, deny 3");
        let levels = levels.with(&inner);
        assert_eq!(shown(levels.nearest("a")), "a 3");
        assert!(levels.is_on("x") && levels.own("x").is_none() && levels.own("b").is_some());
    }
}

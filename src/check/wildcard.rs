//! Texts with wildcards: each `*` matches any text, also an empty one.

/// A pattern of which some parts may be any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wildcard {
    /// The fixed texts: those before, between and after the stars.
    fixed: Box<[Box<str>]>,
}

impl Wildcard {
    /// The pattern of this text. Without a `*` only the text itself fits it.
    pub fn new(text: &str) -> Self {
        Self { fixed: text.split('*').map(Box::from).collect() }
    }

    /// Whether the whole of `text` fits the pattern. The time is at most the product of both
    /// lengths.
    pub fn matches(&self, text: &str) -> bool {
        let (first, middle, last) = match &*self.fixed {
            [first, middle @ .., last] => (first, middle, last),
            [only] => return **only == *text,
            [] => return false,
        };
        let Some(rest) = text.strip_prefix(&**first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&**last) else { return false };
        // The first place of each part leaves the most room for those behind it.
        middle.iter().all(|part| match rest.split_once(&**part) {
            Some((_, behind)) => {
                rest = behind;
                true
            }
            None => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        let cases: [(&str, &[&str], &[&str]); 10] = [
            ("chat", &["chat"], &["chats", "cha", ""]),
            ("value*", &["value", "value1", "value*"], &["valu", "xvalue"]),
            ("*-eu", &["chat-eu", "-eu"], &["-eu-"]),
            ("*", &["", "x"], &[]),
            ("**", &["", "anything"], &[]),
            (
                "/api/*/action",
                &["/api/1/action", "/api//action", "/api/a/b/action"],
                &["/api/action", "/api/1/other"],
            ),
            (
                "foo*bar*baz",
                &["foobarbaz", "foo-bar-bar-baz"],
                &["foobaz", "foobarba", "foobazbar"],
            ),
            ("a*a", &["aa", "aba"], &["a"]),
            ("a**b", &["ab", "acb"], &["a", "b"]),
            ("a*b*b*c", &["abbc", "a-b-bc"], &["abc"]),
        ];
        for (pattern, fits, fails) in cases {
            let wildcard = Wildcard::new(pattern);
            for text in fits {
                assert!(wildcard.matches(text), "{pattern} {text}");
            }
            for text in fails {
                assert!(!wildcard.matches(text), "{pattern} {text}");
            }
        }
    }
}

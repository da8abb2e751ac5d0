//! What of a text of the file may be shown: in `GET /v1/config`, in excerpts of the file, and in
//! messages.

/// The fields whose values are secret.
pub const SECRET_FIELDS: [&str; 3] = ["password", "secret", "token"];
/// Replaces a text that is not shown.
pub const MASK: &str = "***";
/// What a private key contains if it stands in the file itself, instead of its path (RFC 7468).
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// What of a text is secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Secrecy {
    /// The credentials and the query of a URL.
    #[default]
    OfUrl,
    /// The query of any text, too.
    OfTarget,
    /// All of it, unless it only says where the secret is.
    All,
}

impl Secrecy {
    /// The form of a text that may be shown. `text` has its `${...}` as they are written.
    pub fn form(self, text: &str) -> String {
        let is_hidden = match self {
            Self::All => !is_reference(text),
            Self::OfUrl | Self::OfTarget => text.contains(PRIVATE_KEY),
        };
        if is_hidden {
            return MASK.to_owned();
        }
        let shown = without_credentials(text);
        match (self, shown.split_once('?')) {
            (Self::OfTarget, Some((path, _))) => format!("{path}?{MASK}"),
            _ => shown,
        }
    }

    /// Whether all of a text may be shown.
    pub fn shows_all(self, text: &str) -> bool {
        self.form(text) == text
    }

    /// Whether a text lacks what was masked when the file was shown.
    pub fn is_mask(self, text: &str) -> bool {
        match self {
            Self::All => text == MASK,
            Self::OfUrl | Self::OfTarget => text != MASK && is_masked(text),
        }
    }
}

/// Whether a text contains the name of a secret, which may follow.
pub fn contains_secret_field(text: &str) -> bool {
    SECRET_FIELDS.iter().any(|secret| text.contains(secret))
}

/// Whether a text that was shown is not shown whole.
pub fn is_masked(text: &str) -> bool {
    text.starts_with(MASK) || text.contains("://***@") || text.ends_with("?***")
}

/// Whether a text is one reference without a default, which tells only where the value is.
pub fn is_reference(text: &str) -> bool {
    let inner = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|inner| match inner.strip_prefix("file:") {
        Some(path) => !path.contains(['{', '}']),
        None => inner.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
    })
}

/// A text without what precedes `@` in the authority of a URL, and without its query.
fn without_credentials(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        return match text.rsplit_once('@') {
            // A URL whose scheme is not written, or not correctly.
            Some((user, host)) if user.contains(':') && !user.contains(char::is_whitespace) => {
                format!("{MASK}@{host}")
            }
            _ => text.to_owned(),
        };
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // A password may contain a slash by mistake.
    let end = rest.rfind('@').map_or(end, |at| end.max(at + 1));
    let (authority, path) = rest.split_at(end);
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{MASK}@{host}"),
        None => authority.to_owned(),
    };
    match path.split_once('?') {
        Some((path, _)) => format!("{scheme}://{host}{path}?{MASK}"),
        None => format!("{scheme}://{host}{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_passwords_and_queries() {
        for (text, expected) in [
            ("redis://:hunter2@r:1/0", "redis://***@r:1/0"),
            ("redis://u:hunter2@r:1/0", "redis://***@r:1/0"),
            ("redis://u:hun/ter2@r:1/0", "redis://***@r:1/0"),
            ("${R:-redis://:hunter2@r}", "${R:-redis://***@r}"),
            ("https://i.example/keys?key=hunter2", "https://i.example/keys?***"),
            ("https://i.example/keys", "https://i.example/keys"),
            ("user@host", "user@host"),
            ("redis:/u:hunter2@r", "***@r"),
            ("u:hunter2@r:6379", "***@r:6379"),
            ("ask: a@example.com", "ask: a@example.com"),
            ("/path?query", "/path?query"),
            ("-----BEGIN PRIVATE KEY-----\nhunter2", "***"),
        ] {
            assert_eq!(Secrecy::OfUrl.form(text), expected);
        }
        assert_eq!(Secrecy::OfTarget.form("/health?key=hunter2"), "/health?***");
        assert_eq!(Secrecy::OfTarget.form("/health"), "/health");
        assert_eq!(Secrecy::OfTarget.form("https:/i/keys?key=hunter2"), "https:/i/keys?***");
    }

    #[test]
    fn a_secret_is_shown_only_if_it_is_elsewhere() {
        for (text, is_shown) in [
            ("hunter2", false),
            ("${TOKEN}", true),
            ("${file:/run/token}", true),
            ("${TOKEN:-hunter2}", false),
            ("x${TOKEN}", false),
            ("${hunter-2}", false),
            ("${A}hunter2${B}", false),
        ] {
            assert_eq!(Secrecy::All.shows_all(text), is_shown, "{text}");
        }
    }
}

//! Keys: they determine the counter of a request.

use std::str::FromStr;

use http::HeaderName;
use smallvec::SmallVec;

use super::key_forms::{KEY_FORMS, key_forms, takes_name};
use crate::api_keys::is_label;
use crate::meter::{Pointer, PointerError};
use crate::request::{ContentWord, is_parameter_name};

/// The parts of a request from which a policy's key is made.
///
/// An empty value always counts as absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyExpr {
    /// `ip`: the client's address, cut to its prefix.
    Ip,
    /// `api_key`: the same key, whichever part of the request carries it.
    ApiKey,
    /// `api_key:NAME`: the team, the plan or a label of a known API key.
    ApiKeyPart(Box<str>),
    /// `user`: the user's id.
    User,
    /// `cookie:NAME`: the value of the cookie, without quotes.
    Cookie(Box<str>),
    /// `header:NAME`: the field's value. A field with several lines that differ
    /// is ambiguous, and the request is refused.
    Header(HeaderName),
    /// `query:NAME`: the value of the parameter, decoded.
    Query(Box<str>),
    /// `jwt:CLAIM`: a claim of the verified token, dots between nested names.
    Jwt(Box<str>),
    /// `tls:subject`: the subject of the client's certificate.
    TlsSubject,
    /// `authorizer:FIELD`: a field that the authorizer of the route has given the request.
    Authorizer(HeaderName),
    /// `json:POINTER`, `form:NAME`, `mcp:method` and `mcp:tool`: a value in the body.
    Body(ContentWord),
    /// `param:NAME`: a parameter of the route's path.
    Param(Box<str>),
    /// `path`
    Path,
    /// `method`
    Method,
    /// `host`
    Host,
    /// `route`: the route's name.
    Route,
    /// `country`: the country that the client's address is in, as `DE`.
    Country,
    /// `region`: the region, with its country, as `DE-BE`.
    Region,
    /// `asn`: the network (autonomous system) that the address belongs to, as `AS64500`.
    Asn,
    /// `class`: the name of the client's class.
    Class,
    /// `agent`: the origin of the agent that has signed the request.
    Agent,
    /// `global`: one counter for all.
    Global,
    /// `{ fold: KEY }`: the value of a word without the differences between spellings of one name.
    Fold(Box<KeyExpr>),
    /// A value that an application passes itself. No request has it, and no text names it.
    Custom,
    /// `{ first: [...] }`: the first one that the request has.
    First(Vec<KeyExpr>),
    /// `{ all: [...] }`: all of them together; absent if one of them is absent.
    All(Vec<KeyExpr>),
}

/// The errors of a text that is not a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyExprError {
    /// `ipp`
    #[error("there is no key `{0}`: keys are {keys}", keys = key_forms("and"))]
    Unknown(String),
    /// `cookie`
    #[error("`{0}` needs a name: `{0}:NAME`")]
    NoName(String),
    /// `ip:x`
    #[error("`{0}` takes no name")]
    Name(String),
    /// `header:a b`
    #[error("`{0}` is not the name of a header field")]
    Header(String),
    /// `cookie:a=b`
    #[error("`{0}` is not the name of a cookie")]
    Cookie(String),
    /// `api_key:a b`
    #[error("`{0}` is not the name of a label: it consists of letters, digits, `-`, `_` and `.`")]
    Label(String),
    /// `jwt:org..id`
    #[error(
        "`{0}` is not a claim: names of nested claims have one dot between them, as in `org.id`"
    )]
    Claim(String),
    /// `tls:issuer`
    #[error("`tls:{0}` is not a key: the only key from a client's certificate is tls:subject")]
    Tls(String),
    /// `json:model`
    #[error("`json:` needs a JSON Pointer: {0}")]
    Pointer(#[from] PointerError),
    /// `mcp:id`
    #[error("`mcp:{0}` is not a key: the keys from a message are mcp:method and mcp:tool")]
    Mcp(String),
    /// `param:{id}`
    #[error("`{0}` is not the name of a path parameter: it consists of letters, digits and `_`")]
    Param(String),
}

/// Parses a single word. The configuration parses lists.
impl FromStr for KeyExpr {
    type Err = KeyExprError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some((kind, name)) => named(kind, name),
            None => plain(text),
        }
    }
}

fn plain(word: &str) -> Result<KeyExpr, KeyExprError> {
    if !KEY_FORMS.contains(&word) {
        let error = if takes_name(word) { KeyExprError::NoName } else { KeyExprError::Unknown };
        return Err(error(word.into()));
    }
    Ok(match word {
        "ip" => KeyExpr::Ip,
        "api_key" => KeyExpr::ApiKey,
        "user" => KeyExpr::User,
        "path" => KeyExpr::Path,
        "method" => KeyExpr::Method,
        "host" => KeyExpr::Host,
        "route" => KeyExpr::Route,
        "country" => KeyExpr::Country,
        "region" => KeyExpr::Region,
        "asn" => KeyExpr::Asn,
        "class" => KeyExpr::Class,
        "agent" => KeyExpr::Agent,
        "global" => KeyExpr::Global,
        _ => return Err(KeyExprError::Unknown(word.into())),
    })
}

fn named(kind: &str, name: &str) -> Result<KeyExpr, KeyExprError> {
    if !takes_name(kind) {
        plain(kind)?;
        return Err(KeyExprError::Name(kind.into()));
    }
    if name.is_empty() {
        return Err(KeyExprError::NoName(kind.into()));
    }
    match kind {
        "api_key" if !is_label(name) => Err(KeyExprError::Label(name.into())),
        "api_key" => Ok(KeyExpr::ApiKeyPart(name.into())),
        "cookie" if name.bytes().any(|b| b <= b' ' || b >= 0x7f || b"=;,\"".contains(&b)) => {
            Err(KeyExprError::Cookie(name.into()))
        }
        "cookie" => Ok(KeyExpr::Cookie(name.into())),
        "header" => name
            .parse()
            .map(KeyExpr::Header)
            .map_err(|_: http::header::InvalidHeaderName| KeyExprError::Header(name.into())),
        "authorizer" => name
            .parse()
            .map(KeyExpr::Authorizer)
            .map_err(|_: http::header::InvalidHeaderName| KeyExprError::Header(name.into())),
        "jwt" if name.split('.').any(str::is_empty) => Err(KeyExprError::Claim(name.into())),
        "jwt" => Ok(KeyExpr::Jwt(name.into())),
        "json" => {
            name.parse::<Pointer>()?;
            Ok(KeyExpr::Body(ContentWord::Json(name.into())))
        }
        "form" => Ok(KeyExpr::Body(ContentWord::Form(name.into()))),
        "mcp" if name == "method" => Ok(KeyExpr::Body(ContentWord::McpMethod)),
        "mcp" if name == "tool" => Ok(KeyExpr::Body(ContentWord::McpTool)),
        "mcp" => Err(KeyExprError::Mcp(name.into())),
        "tls" if name == "subject" => Ok(KeyExpr::TlsSubject),
        "tls" => Err(KeyExprError::Tls(name.into())),
        "param" if !is_parameter_name(name) => Err(KeyExprError::Param(name.into())),
        "param" => Ok(KeyExpr::Param(name.into())),
        "query" => Ok(KeyExpr::Query(name.into())),
        _ => Err(KeyExprError::Unknown(kind.into())),
    }
}

impl KeyExpr {
    /// Whether a part of the key comes from the client's certificate.
    pub fn asks_for_certificate(&self) -> bool {
        self.has(&Self::TlsSubject)
    }

    /// Whether the word names the identity of the client, by a credential. The value is known only after
    /// the credential was verified.
    pub fn is_identity(&self) -> bool {
        match self {
            Self::ApiKey | Self::ApiKeyPart(_) | Self::User | Self::Jwt(_) => true,
            Self::First(keys) | Self::All(keys) => keys.iter().any(Self::is_identity),
            Self::Fold(word) => word.is_identity(),
            Self::Ip
            | Self::Cookie(_)
            | Self::Header(_)
            | Self::Query(_)
            | Self::TlsSubject
            | Self::Authorizer(_)
            | Self::Body(_)
            | Self::Param(_)
            | Self::Path
            | Self::Method
            | Self::Host
            | Self::Route
            | Self::Country
            | Self::Region
            | Self::Asn
            | Self::Class
            | Self::Agent
            | Self::Global
            | Self::Custom => false,
        }
    }

    /// The fields of an authorizer that are parts of the key.
    pub fn authorizer_fields(&self) -> Vec<&HeaderName> {
        let mut fields = Vec::new();
        self.visit(&mut |key| {
            if let Self::Authorizer(name) = key {
                fields.push(name);
            }
        });
        fields
    }

    /// Whether a part of the key comes from an authorizer.
    pub fn needs_authorizer(&self) -> bool {
        let mut needs = false;
        self.visit(&mut |key| needs |= matches!(key, Self::Authorizer(_)));
        needs
    }

    /// The values in the body that are parts of the key.
    pub fn body_words(&self) -> Vec<&ContentWord> {
        let mut words = Vec::new();
        self.visit(&mut |key| {
            if let Self::Body(word) = key {
                words.push(word);
            }
        });
        words
    }

    /// Whether a part of the key comes from the body.
    pub fn needs_body(&self) -> bool {
        let mut needs = false;
        self.visit(&mut |key| needs |= matches!(key, Self::Body(_)));
        needs
    }

    /// The word whose value is folded; every other key is its own word.
    pub fn unfolded(&self) -> &Self {
        match self {
            Self::Fold(word) => word,
            other => other,
        }
    }

    /// The parts of the key that come from the place of the client's address.
    pub fn places(&self) -> Vec<&Self> {
        let mut places = Vec::new();
        self.visit(&mut |key| {
            if key.is_place() {
                places.push(key);
            }
        });
        places
    }

    /// Whether the key is the country, the region or the network.
    pub fn is_place(&self) -> bool {
        matches!(self, Self::Country | Self::Region | Self::Asn)
    }

    /// Whether every request on a route that may use this key has it.
    pub(super) fn is_never_missing(&self) -> bool {
        match self {
            Self::First(keys) => keys.iter().any(Self::is_never_missing),
            Self::All(keys) => keys.iter().all(Self::is_never_missing),
            Self::Ip
            | Self::Param(_)
            | Self::Path
            | Self::Method
            | Self::Host
            | Self::Route
            | Self::Global => true,
            _ => false,
        }
    }

    /// Adds to `chosen` what a request counts by that has the words for which `has` returns true,
    /// in the order in which it is digested: words, and each list of [`All`](Self::All) before
    /// its own. Returns whether the request has the key. If not, nothing is added.
    pub(super) fn choose<'k>(
        &'k self,
        has: &impl Fn(&Self) -> bool,
        chosen: &mut SmallVec<[&'k Self; 4]>,
    ) -> bool {
        let before = chosen.len();
        let found = match self {
            Self::First(keys) => keys.iter().any(|key| key.choose(has, chosen)),
            Self::All(keys) => {
                chosen.push(self);
                keys.iter().all(|key| key.choose(has, chosen))
            }
            word => {
                chosen.push(word);
                *word == Self::Global || has(word)
            }
        };
        if !found {
            chosen.truncate(before);
        }
        found
    }

    /// Whether `word` is a part of the key.
    pub fn has(&self, word: &Self) -> bool {
        let mut has = false;
        self.visit(&mut |part| has |= part == word);
        has
    }

    /// Whether a request with these words has this key.
    pub fn can_consist_of(&self, words: &[Self]) -> bool {
        self.choose(&|word| words.contains(word.unfolded()), &mut SmallVec::new())
    }

    /// Whether `word` counts for some request that has no words but these.
    pub fn can_use(&self, word: &Self, words: &[Self]) -> bool {
        match self {
            Self::First(keys) => keys.iter().any(|key| key.can_use(word, words)),
            Self::All(keys) => {
                self.can_consist_of(words) && keys.iter().any(|key| key.can_use(word, words))
            }
            own => own.unfolded() == word && words.contains(word),
        }
    }

    /// Calls `see` with this key and all its parts.
    pub fn visit<'k>(&'k self, see: &mut impl FnMut(&'k Self)) {
        see(self);
        match self {
            Self::First(keys) | Self::All(keys) => keys.iter().for_each(|key| key.visit(see)),
            Self::Fold(word) => word.visit(see),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_needs_certain_words_and_uses_certain_words() {
        let word = |text: &str| text.parse::<KeyExpr>().unwrap();
        let words = |text: &str| text.split_whitespace().map(word).collect::<Vec<_>>();
        let all = KeyExpr::All;
        let first = KeyExpr::First;
        let either = first(words("api_key ip"));
        let both = all(vec![either.clone(), word("global"), word("path")]);
        let nested = first(vec![all(words("ip path")), word("user")]);
        // A key, the words that are known, whether they are enough, and those that count.
        let cases = [
            (&either, "ip", true, "ip"),
            (&either, "api_key ip", true, "api_key ip"),
            (&either, "path", false, ""),
            (&both, "ip path", true, "ip path"),
            (&both, "api_key ip path user", true, "api_key ip path"),
            (&both, "ip api_key", false, ""),
            (&nested, "ip user", true, "user"),
            (&nested, "ip", false, ""),
        ];
        for (key, known, is_enough, counting) in cases {
            let known = words(known);
            assert_eq!(key.can_consist_of(&known), is_enough, "{key:?} {known:?}");
            let used: Vec<_> = known.iter().filter(|it| key.can_use(it, &known)).collect();
            assert_eq!(used, words(counting).iter().collect::<Vec<_>>(), "{key:?} {known:?}");
        }
        assert!(word("global").can_consist_of(&[]) && !word("ip").can_consist_of(&[]));
    }

    #[test]
    fn every_form_of_a_single_word_is_parsed() {
        let cases = [
            ("ip", KeyExpr::Ip),
            ("api_key", KeyExpr::ApiKey),
            ("user", KeyExpr::User),
            ("cookie:session", KeyExpr::Cookie("session".into())),
            ("header:X-Tenant", KeyExpr::Header(HeaderName::from_static("x-tenant"))),
            ("query:token", KeyExpr::Query("token".into())),
            ("jwt:org.id", KeyExpr::Jwt("org.id".into())),
            ("jwt:https://example.com/plan", KeyExpr::Jwt("https://example.com/plan".into())),
            ("tls:subject", KeyExpr::TlsSubject),
            ("authorizer:Remote-User", KeyExpr::Authorizer(HeaderName::from_static("remote-user"))),
            ("json:/user/0/id", KeyExpr::Body(ContentWord::Json("/user/0/id".into()))),
            ("form:user:name", KeyExpr::Body(ContentWord::Form("user:name".into()))),
            ("mcp:method", KeyExpr::Body(ContentWord::McpMethod)),
            ("mcp:tool", KeyExpr::Body(ContentWord::McpTool)),
            ("param:tenant", KeyExpr::Param("tenant".into())),
            ("path", KeyExpr::Path),
            ("method", KeyExpr::Method),
            ("host", KeyExpr::Host),
            ("route", KeyExpr::Route),
            ("country", KeyExpr::Country),
            ("region", KeyExpr::Region),
            ("asn", KeyExpr::Asn),
            ("class", KeyExpr::Class),
            ("agent", KeyExpr::Agent),
            ("global", KeyExpr::Global),
        ];
        for (text, key) in cases {
            assert_eq!(text.parse(), Ok(key), "{text}");
        }
    }

    #[test]
    fn every_form_in_the_list_is_parsed() {
        for form in KEY_FORMS {
            let text = form.replace("POINTER", "/model").replace("CLAIM", "org");
            assert!(text.parse::<KeyExpr>().is_ok(), "{form}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_key_is_refused_with_advice() {
        use KeyExprError as Error;
        let cases = [
            ("", Error::Unknown(String::new())),
            ("ipp", Error::Unknown("ipp".into())),
            ("heder:x", Error::Unknown("heder".into())),
            ("cookie", Error::NoName("cookie".into())),
            ("jwt:", Error::NoName("jwt".into())),
            ("ip:24", Error::Name("ip".into())),
            ("header:a b", Error::Header("a b".into())),
            ("cookie:a=b", Error::Cookie("a=b".into())),
            ("tls:issuer", Error::Tls("issuer".into())),
            ("jwt:org..id", Error::Claim("org..id".into())),
            ("json:model", Error::Pointer(PointerError::NoSlash("model".into()))),
            ("json:", Error::NoName("json".into())),
            ("mcp:id", Error::Mcp("id".into())),
            ("param:{id}", Error::Param("{id}".into())),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<KeyExpr>(), Err(error), "{text}");
        }
    }
}

//! The text of a client's key for operators: enough to recognise a client, not enough to
//! act as that client. The whole text is made only for operators that may see it.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use super::value::{Single, Tag};
use super::{ClientSettings, KeyExpr, KeyTexts, Policy, Subject};
use crate::text::printable;

/// Characters of a value that are shown.
const SHOWN: usize = 2;
/// Characters of a path, a route or a host that are shown.
const MAX_SHOWN: usize = 80;
/// Characters of a value in a whole text.
const MAX_WHOLE: usize = 256;
/// Bytes of a whole text. Clients choose the values.
const MAX_WHOLE_BYTES: usize = 512;

/// How much of each value a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Enough to recognise the client.
    Masked,
    /// All of it.
    Whole,
}

/// An address without the part that identifies a person: the first 24 bits of an IPv4
/// address, or the first 48 bits of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskedAddress(pub IpAddr);

impl MaskedAddress {
    /// The address of the network that is shown, and the length of its prefix in bits.
    #[must_use]
    pub fn network(self) -> (IpAddr, u8) {
        match self.0.to_canonical() {
            IpAddr::V4(address) => {
                let [a, b, c, _] = address.octets();
                (IpAddr::from([a, b, c, 0]), 24)
            }
            IpAddr::V6(address) => {
                let [a, b, c, ..] = address.segments();
                (IpAddr::from([a, b, c, 0, 0, 0, 0, 0]), 48)
            }
        }
    }
}

impl fmt::Display for MaskedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, length) = self.network();
        write!(f, "{address}/{length}")
    }
}

impl Subject<'_, '_> {
    /// The key of `policy` in this request, for operators: the kind of each value and the
    /// value. Addresses are masked, and of values that only their clients know, the first
    /// two characters are shown. Paths, routes, hosts, methods and places are whole.
    pub fn shown_key(&self, policy: &Policy) -> String {
        self.text(policy, Extent::Masked)
    }

    /// The same with whole values, of which some are secrets of clients: 256 characters of
    /// each value and 512 bytes in all at most. What is longer ends with `…`.
    pub fn whole_key(&self, policy: &Policy) -> String {
        const CUT: char = '…';
        let mut text = self.text(policy, Extent::Whole);
        if text.len() > MAX_WHOLE_BYTES {
            let mut end = MAX_WHOLE_BYTES - CUT.len_utf8();
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push(CUT);
        }
        text
    }

    fn text(&self, policy: &Policy, extent: Extent) -> String {
        let mut shown = String::with_capacity(32); // long enough for most masked keys
        if !self.show(&policy.key, extent, &mut shown) {
            shown = "no key, ".to_owned();
            self.show(&KeyExpr::Ip, extent, &mut shown);
        }
        shown
    }

    /// Adds the values of `key`. Returns false if the request lacks one.
    fn show(&self, key: &KeyExpr, extent: Extent, shown: &mut String) -> bool {
        match key {
            KeyExpr::All(keys) => keys.iter().enumerate().all(|(index, key)| {
                if index > 0 {
                    shown.push_str(" + ");
                }
                self.show(key, extent, shown)
            }),
            KeyExpr::First(keys) => self
                .first(keys, |key| {
                    let mut one = String::new();
                    self.single(key).map(|_| self.show(key, extent, &mut one).then_some(one))
                })
                .ok()
                .flatten()
                .is_some_and(|one| {
                    shown.push_str(&one);
                    true
                }),
            KeyExpr::Ip => {
                let address = self.client_ip().to_canonical();
                let _ = match extent {
                    Extent::Masked => write!(shown, "ip {}", MaskedAddress(address)),
                    Extent::Whole => write!(shown, "ip {address}"),
                };
                true
            }
            _ => self.single(key).is_ok_and(|single| {
                write_single(&single, self.clients.settings.extent(key, extent), shown);
                true
            }),
        }
    }
}

impl KeyTexts<'_> {
    /// The same as [`Subject::shown_key`] for a key as a person writes it. None: it has
    /// several words, or is none of the policy.
    pub fn shown(&self, key: &KeyExpr, text: &str) -> Option<String> {
        let mut shown = String::new();
        match key {
            KeyExpr::First(_) | KeyExpr::All(_) => return None,
            KeyExpr::Ip => write!(shown, "ip {}", MaskedAddress(text.parse().ok()?)).ok()?,
            single => {
                let extent = self.client.extent(single, Extent::Masked);
                write_single(&self.single(single, text).ok()?, extent, &mut shown);
            }
        }
        Some(shown)
    }
}

impl ClientSettings {
    /// How much of a value is shown. The id of an API key is not secret.
    fn extent(&self, key: &KeyExpr, usual: Extent) -> Extent {
        let is_id = *key == KeyExpr::ApiKey && self.keys.is_some();
        if is_id { Extent::Whole } else { usual }
    }
}

fn write_single(Single { tag, name, value }: &Single<'_>, extent: Extent, shown: &mut String) {
    let (kind, is_public) = kind(*tag);
    shown.push_str(kind);
    if let Some(name) = name {
        shown.push(' ');
        shown.push_str(name);
    }
    let text = String::from_utf8_lossy(value);
    if text.is_empty() {
        return;
    }
    shown.push(' ');
    let most = match extent {
        Extent::Whole => MAX_WHOLE,
        Extent::Masked if is_public => MAX_SHOWN,
        // A value of one or two characters is not shown whole.
        Extent::Masked => SHOWN.min(text.chars().count() / 2),
    };
    shown.extend(text.chars().take(most).map(printable));
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
}

/// What operators call a kind of value, and whether all may see its values.
const fn kind(tag: Tag) -> (&'static str, bool) {
    match tag {
        Tag::Ip | Tag::StandIn => ("ip", false),
        Tag::ApiKey => ("api_key", false),
        // The operator has chosen it.
        Tag::ApiKeyPart => ("api_key", true),
        Tag::User => ("user", false),
        Tag::Cookie => ("cookie", false),
        Tag::Header => ("header", false),
        Tag::Query => ("query", false),
        Tag::Jwt => ("jwt", false),
        Tag::Param => ("param", false),
        Tag::TlsSubject => ("tls:subject", false),
        Tag::Authorizer => ("authorizer", false),
        Tag::Custom => ("custom", false),
        Tag::Json => ("json", false),
        Tag::Form => ("form", false),
        Tag::McpMethod => ("mcp:method", false),
        Tag::McpTool => ("mcp:tool", false),
        Tag::Path => ("path", true),
        Tag::Method => ("method", true),
        Tag::Host => ("host", true),
        Tag::Route => ("route", true),
        Tag::Country => ("country", true),
        Tag::Region => ("region", true),
        Tag::Asn => ("asn", true),
        Tag::Class => ("class", true),
        Tag::Agent => ("agent", true),
        Tag::Global => ("all clients", true),
        Tag::All => ("", true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::{Case, policy, policy_of, with};

    fn shown(case: &Case, key: KeyExpr) -> String {
        case.shown(&policy_of(key))
    }

    #[test]
    fn values_of_clients_are_masked_and_the_names_of_places_are_whole() {
        let case = Case {
            host: "shop.example",
            path: "/t/secret-tenant",
            peer: [203, 0, 113, 9].into(),
            ..with(&[("x-api-key", "4f9d8e"), ("cookie", "sid=abcdef"), ("x-user", "é")])
        };
        let of = |key: &str| case.shown(&policy(key));
        assert_eq!(of("ip"), "ip 203.0.113.0/24");
        assert_eq!(of("header:x-api-key"), "header x-api-key 4f…");
        assert_eq!(of("cookie:sid"), "cookie sid ab…");
        assert_eq!(of("header:x-user"), "header x-user …", "one character is not shown");
        assert_eq!(of("param:tenant"), "param tenant se…");
        assert_eq!(of("path"), "path /t/secret-tenant");
        assert_eq!(of("host"), "host shop.example");
        assert_eq!(of("global"), "all clients");
        assert_eq!(of("header:absent"), "no key, ip 203.0.113.0/24");
    }

    #[test]
    fn combined_keys_show_what_the_request_has() {
        let case = Case { peer: [203, 0, 113, 9].into(), ..with(&[("x-team", "blue")]) };
        let key = |text: &str| text.parse::<KeyExpr>().expect("a key");
        let all = KeyExpr::All(vec![key("header:x-team"), key("ip")]);
        assert_eq!(shown(&case, all), "header x-team bl… + ip 203.0.113.0/24");
        let first = KeyExpr::First(vec![key("header:absent"), key("header:x-team"), key("ip")]);
        assert_eq!(shown(&case, first), "header x-team bl…");
    }

    #[test]
    fn a_long_or_strange_path_is_cut_and_has_no_control_characters() {
        let path: &str = format!("/{}", "é".repeat(200)).leak();
        let case = Case { path, ..with(&[]) };
        let text = case.shown(&policy("path"));
        assert!(text.chars().count() <= 90 && text.ends_with('…'), "{text}");
        assert!(text.chars().all(crate::text::is_printable));
        let case = with(&[("x-user", "\u{202e}bcd")]);
        assert_eq!(case.shown(&policy("header:x-user")), "header x-user \u{fffd}b…");
    }

    #[test]
    fn a_whole_text_has_all_of_short_values_and_is_bounded() {
        let address = [203, 0, 113, 9].into();
        let case = Case { peer: address, ..with(&[("x-api-key", "4f9d8e"), ("x-team", "a")]) };
        let whole = |case: &Case, key: KeyExpr| case.whole(&policy_of(key));
        let key = |text: &str| text.parse::<KeyExpr>().expect("a key");
        assert_eq!(whole(&case, key("ip")), "ip 203.0.113.9");
        assert_eq!(whole(&case, key("header:x-api-key")), "header x-api-key 4f9d8e");
        assert_eq!(whole(&case, key("header:absent")), "no key, ip 203.0.113.9");
        let all = KeyExpr::All(vec![key("header:x-team"), key("ip")]);
        assert_eq!(whole(&case, all), "header x-team a + ip 203.0.113.9");

        let long: &str = "é".repeat(2000).leak();
        let case = with(&[("x-api-key", &long[..300]), ("x-team", long)]);
        assert_eq!(
            whole(&case, key("header:x-api-key")),
            format!("header x-api-key {}", &long[..300])
        );
        let one = whole(&case, key("header:x-team"));
        assert!(one.len() <= MAX_WHOLE_BYTES && one.ends_with("é…"), "{}: {one}", one.len());
        let all = KeyExpr::All(vec![key("header:x-team"); 8]);
        let all = whole(&case, all);
        assert!(all.len() <= MAX_WHOLE_BYTES && all.ends_with('…'), "{}: {all}", all.len());
    }

    #[test]
    fn an_address_of_version_6_is_masked_too() {
        let address: IpAddr = "2001:db8:1:2::3".parse().expect("an address");
        assert_eq!(MaskedAddress(address).to_string(), "2001:db8:1::/48");
        let zero = IpAddr::from([0x2001, 0xdb8, 0, 7, 0, 0, 0, 1]);
        assert_eq!(MaskedAddress(zero).to_string(), "2001:db8::/48");
    }
}

//! The identity of a client, from its certificate.

use std::fmt::Write as _;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use x509_parser::asn1_rs::Any;
use x509_parser::extensions::GeneralName;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Name};

/// The subject of the certificate, as in `C=FI, O=Example, CN=orders`. If it has none,
/// its first alternative name that is a URI (as with SPIFFE) or a DNS name.
///
/// No alternative name has the text of a subject, which has a `=` behind the first name: names
/// count only if they are URIs with a scheme or names of hosts.
pub fn identity(certificate: &CertificateDer<'_>) -> Option<Arc<str>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let subject = text(parsed.subject());
    if !subject.is_empty() {
        return Some(subject.into());
    }
    let others = alternatives(&parsed, |name| match name {
        GeneralName::URI(name) if is_uri(name) => Some((*name).to_owned()),
        GeneralName::DNSName(name) if is_host(name) => Some((*name).to_owned()),
        _ => None,
    });
    others.into_iter().next().map(Arc::from)
}

/// Whether a text begins with a scheme (RFC 3986, section 3.1) and is printable ASCII.
fn is_uri(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
    };
    let scheme = text.split_once(':').map(|(scheme, _)| scheme);
    scheme.is_some_and(is_scheme) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a text has only characters of names of hosts. Many have `_`, and the first label may
/// be `*` (RFC 6125, section 6.4.3).
fn is_host(text: &str) -> bool {
    let is_in_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*".contains(&byte);
    !text.is_empty() && text.bytes().all(is_in_host)
}

/// The alternative names of a certificate, as far as `wanted` returns a text for them.
pub fn alternatives(
    certificate: &X509Certificate<'_>,
    wanted: impl Fn(&GeneralName<'_>) -> Option<String>,
) -> Vec<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let names = extension.map(|extension| &extension.value.general_names);
    names.into_iter().flatten().filter_map(wanted).collect()
}

/// A name escaped as in RFC 4514, but in the order of the certificate. Different names
/// have different texts: a client that may choose a part of its name cannot obtain the
/// text of another client.
fn text(name: &X509Name<'_>) -> String {
    let mut text = String::new();
    for part in name.iter() {
        let mut separator = if text.is_empty() { "" } else { ", " };
        for attribute in part.iter() {
            text.push_str(separator);
            separator = " + ";
            let kind = attribute.attr_type();
            match oid2abbrev(kind, oid_registry()) {
                Ok(short) => text.push_str(short),
                Err(_) => text.push_str(&kind.to_id_string()),
            }
            text.push('=');
            match attribute.as_str() {
                Ok(value) => escape(value, &mut text),
                Err(_) => spell_out(attribute.attr_value(), &mut text),
            }
        }
    }
    text
}

/// Writes a value that is not a text: its type and its bytes.
fn spell_out(value: &Any<'_>, text: &mut String) {
    write!(text, "#{:02x}", value.tag().0).expect("writing to a String does not fail");
    for byte in value.data {
        write!(text, "{byte:02x}").expect("writing to a String does not fail");
    }
}

/// RFC 4514, section 2.4.
fn escape(value: &str, text: &mut String) {
    for (index, character) in value.char_indices() {
        let is_first = index == 0;
        let is_last = index + character.len_utf8() == value.len();
        let is_special = match character {
            '"' | '+' | ',' | ';' | '<' | '=' | '>' | '\\' => true,
            '#' => is_first,
            ' ' => is_first || is_last,
            _ => false,
        };
        if is_special {
            text.push('\\');
        }
        text.push(character);
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair, SanType};

    use super::*;

    fn shown(params: CertificateParams) -> Option<Arc<str>> {
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        identity(certificate.der())
    }

    fn named(parts: &[(DnType, DnValue)]) -> Arc<str> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        shown(params).unwrap()
    }

    #[test]
    fn a_client_is_its_subject() {
        let organization = DnType::OrganizationName;
        let name = DnType::CommonName;
        let parts = [(organization, "Example".into()), (name, "orders".into())];
        assert_eq!(&*named(&parts), "O=Example, CN=orders");
    }

    #[test]
    fn without_a_subject_a_client_is_its_first_name() {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names =
            vec![SanType::URI("spiffe://example.com/orders".try_into().unwrap())];
        assert_eq!(shown(params).as_deref(), Some("spiffe://example.com/orders"));
        assert_eq!(identity(&CertificateDer::from(&b"no certificate"[..])), None);
    }

    /// An authority may let its clients choose their alternative names.
    #[test]
    fn no_alternative_name_has_the_text_of_a_subject() {
        let identity = |names: &[SanType]| {
            let mut params = CertificateParams::default();
            params.distinguished_name = DistinguishedName::new();
            params.subject_alt_names = names.to_vec();
            shown(params)
        };
        let uri = |text: &str| SanType::URI(text.try_into().unwrap());
        let dns = |text: &str| SanType::DnsName(text.try_into().unwrap());
        for text in ["CN=deployer", "O=a, CN=b", "2.5.4.3=x:", "C=x:y", "", " ", "no scheme", ":a"]
        {
            assert_eq!(identity(&[uri(text), dns(text)]), None, "{text:?}");
        }
        let names = [uri("CN=deployer"), dns("CN=deployer"), dns("orders.test"), uri("spiffe://a")];
        assert_eq!(identity(&names).as_deref(), Some("orders.test"));
        for text in ["a.test", "*.a.test", "_a.b-c.test", "10.1.2.3"] {
            assert_eq!(identity(&[dns(text)]).as_deref(), Some(text));
        }
        for text in ["spiffe://a/CN=b", "urn:uuid:1", "https://a.test/?x=y"] {
            assert_eq!(identity(&[uri(text)]).as_deref(), Some(text));
        }
    }

    #[test]
    fn no_name_can_be_written_to_look_like_another() {
        let organization = |name: &str| vec![(DnType::OrganizationName, DnValue::from(name))];
        let two = [
            (DnType::OrganizationName, DnValue::from("a")),
            (DnType::CommonName, DnValue::from("b")),
        ];
        assert_eq!(&*named(&two), "O=a, CN=b");
        for (name, text) in [
            ("a, CN=b", r"O=a\, CN\=b"),
            (r"a\, CN=b", r"O=a\\\, CN\=b"),
            ("a + CN=b", r"O=a \+ CN\=b"),
            ("#0c0161", r"O=\#0c0161"),
            (" a#\u{e9} ", "O=\\ a#\u{e9}\\ "),
        ] {
            assert_eq!(&*named(&organization(name)), text);
        }
        let wide = DnValue::BmpString("a".try_into().unwrap());
        assert_eq!(&*named(&[(DnType::OrganizationName, wide)]), "O=#1e0061");
    }
}

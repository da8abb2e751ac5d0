//! Texts as tools write them, and texts in which a message would be lost.

use super::*;

const ONE: &str = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";
const TWO: &str = "-----BEGIN CERTIFICATE-----\nBAUG\n-----END CERTIFICATE-----\n";
const KEY: &str = "-----BEGIN PRIVATE KEY-----\nBwgJ\n-----END PRIVATE KEY-----\n";

fn ders(text: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, PemError> {
    certificates(text.as_ref())
}

fn both() -> Result<Vec<Vec<u8>>, PemError> {
    Ok(vec![vec![1, 2, 3], vec![4, 5, 6]])
}

#[test]
fn texts_of_usual_tools_are_understood() {
    let joined = format!("{}{TWO}", ONE.trim_end());
    let marked = format!("\u{feff}{ONE}\u{feff}{TWO}");
    let indented = format!("{ONE}{TWO}").replace('\n', "\r\n      ");
    for text in [&format!("{ONE}{TWO}"), &joined, &marked, &indented] {
        assert_eq!(ders(text), both(), "{text}");
    }
    assert_eq!(ders(format!("{ONE}{TWO}").replace('\n', "\r")), both());
    let old = ONE.replace("CERTIFICATE", "X509 CERTIFICATE");
    assert_eq!(ders(old + TWO), both());
    assert_eq!(
        ders(format!("{ONE}{KEY}{TWO}")),
        both(),
        "HAProxy has key and certificates together"
    );
}

/// `openssl x509 -text`, `openssl pkcs12`, and lists of authorities.
#[test]
fn other_text_is_allowed_around_messages_in_any_encoding() {
    let explained = format!(
        "subject=O = M\u{fc}ller\nCertificate:\n    Data:\n        Version: 3 (0x2)\n            \
         00:c3:BEGIN\n{ONE}\nGlobalSign Root CA\n==================\n----- and ----- -- the END --\n\
         Bag Attributes\n    localKeyID: 01 \n{TWO}# END of the CERTIFICATE chain\n"
    );
    assert_eq!(ders(&explained), both());
    let latin1: Vec<u8> =
        explained.chars().map(|it| u8::try_from(u32::from(it)).expect("Latin-1")).collect();
    assert_eq!(ders(latin1), both());
}

#[test]
fn a_line_that_is_almost_a_boundary_is_not_skipped() {
    for line in [
        "----BEGIN CERTIFICATE-----",
        "-----BEGIN CERTIFICATE----",
        "-----BEGIN CERTIFICATE",
        "----- BEGIN CERTIFICATE -----",
        "BEGIN CERTIFICATE-----",
        "\u{2014}\u{2013}BEGIN CERTIFICATE\u{2014}\u{2013}",
        "x-----BEGIN CERTIFICATE-----",
        "-----BEGIN certificate-----",
        "-----BEGIN CERTIFICATE-----AQID",
        "-----BEGIN CERTIFICATE-----AQID-----END CERTIFICATE-----",
        "-----END CERTIFICATE-----BEGIN CERTIFICATE-----",
    ] {
        assert_eq!(ders(format!("{ONE}{line}\n{TWO}")), Err(PemError::Boundary(4)), "{line}");
    }
}

#[test]
fn a_message_has_a_beginning_an_end_and_base64() {
    let part = |from: usize| ONE.lines().skip(from).collect::<Vec<_>>().join("\n");
    assert_eq!(ders(part(1) + "\n" + TWO), Err(PemError::Unbegun(2)));
    let endless: String = ONE.lines().take(2).map(|line| format!("{line}\n")).collect();
    assert_eq!(ders(format!("{TWO}{endless}")), Err(PemError::Unended(4)));
    assert_eq!(ders(format!("{endless}{TWO}")), Err(PemError::Unended(1)));
    let other = ONE.replace("END CERTIFICATE", "END PRIVATE KEY");
    assert_eq!(ders(other), Err(PemError::Unended(1)));
    assert_eq!(ders(ONE.replace("AQID", "A!ID")), Err(PemError::Base64(1)));
    assert_eq!(ders(TWO.to_owned() + &ONE.replace("AQID", "AQI")), Err(PemError::Base64(4)));
}

#[test]
fn a_message_of_an_unknown_kind_is_not_skipped() {
    for label in ["TRUSTED CERTIFICATE", "PKCS7", "OPENSSH PRIVATE KEY"] {
        let text = format!("{ONE}{}", TWO.replace("CERTIFICATE", label));
        assert_eq!(ders(&text), Err(PemError::Label(4, label.to_owned())));
        assert_eq!(private_key(text.as_bytes()), Err(PemError::Label(4, label.to_owned())));
    }
}

#[test]
fn what_is_there_in_place_of_what_is_wanted_is_named() {
    assert_eq!(ders(""), Err(PemError::NoCertificate(None)));
    let error = ders(KEY).unwrap_err();
    assert_eq!(error.to_string(), "there is no certificate in it, but a \"PRIVATE KEY\"");
    let error = private_key(ONE.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "there is no private key in it, but a \"CERTIFICATE\"");
    let error = public_key(ONE.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "there is no public key in it, but a \"CERTIFICATE\"");
}

#[test]
fn private_keys_have_three_forms() {
    let labels = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];
    for (label, form) in labels.into_iter().zip([KeyForm::Pkcs8, KeyForm::Pkcs1, KeyForm::Sec1]) {
        // `openssl ecparam -genkey` writes the parameters first.
        let parameters = KEY.replace("PRIVATE KEY", "EC PARAMETERS");
        let text = format!("{parameters}{ONE}{}", KEY.replace("PRIVATE KEY", label));
        assert_eq!(private_key(text.as_bytes()), Ok((form, vec![7, 8, 9])));
    }
}

#[test]
fn an_encrypted_key_is_said_to_be_encrypted() {
    let new = KEY.replace("PRIVATE", "ENCRYPTED PRIVATE");
    let old = KEY
        .replace("PRIVATE", "RSA PRIVATE")
        .replace("BwgJ", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,B0A1\n\nBwgJ");
    for text in [new, old] {
        assert_eq!(private_key(text.as_bytes()), Err(PemError::Encrypted), "{text}");
    }
}

#[test]
fn what_is_not_a_text_is_named() {
    let utf16 = |mark: [u8; 2]| {
        [&mark[..], &ONE.bytes().flat_map(|it| [it, 0]).collect::<Vec<_>>()].concat()
    };
    for text in [utf16([0xff, 0xfe]), utf16([0xfe, 0xff])] {
        assert_eq!(ders(text), Err(PemError::Utf16));
    }
    assert_eq!(ders([0x30, 0x82, 3, 9, 0x30, 0x82, 2]), Err(PemError::Der));
    // A key of Ed25519 is short.
    assert_eq!(private_key(&[&[0x30, 46, 2, 1, 0][..], &[0; 43]].concat()), Err(PemError::Der));
    assert_eq!(ders([0x30, 0x82, 9, 9, 2, 1, 3, 0x30]), Err(PemError::Pkcs12));
}

#[test]
fn a_public_key_comes_alone() {
    let key = KEY.replace("PRIVATE", "PUBLIC");
    let text = format!("text\n{key}{ONE}");
    assert_eq!(public_key(text.as_bytes()), Ok(key));
}

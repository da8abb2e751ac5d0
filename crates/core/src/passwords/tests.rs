//! Hashes, files and credentials: what is read, and what is refused.

use proptest::prelude::*;

use super::*;

/// The hash of "hunter2", as `crypt(3)` makes it.
const HUNTER2: &str = "$2b$05$abcdefghijklmnopqrstuuoXuKqgZXLiJqzfmMXDDhSFPIvxV7t8.";

#[test]
fn a_hash_is_read_and_not_shown() {
    for version in ["$2b$05$", "$2y$14$", "$2a$10$"] {
        let text = HUNTER2.replace("$2b$05$", version);
        let hash = BcryptHash::parse(&text).unwrap();
        assert_eq!(hash.as_str(), text);
        assert_eq!(hash.cost().to_string(), version[4..6].trim_start_matches('0'));
        assert_eq!(format!("{hash:?}"), "BcryptHash(..)");
    }
}

#[test]
fn what_is_not_a_hash_says_what_it_is() {
    let with = |from: &str, to: &str| HUNTER2.replace(from, to);
    for (text, fault) in [
        ("hunter2".to_owned(), HashFault::NoHash),
        (String::new(), HashFault::NoHash),
        ("$apr1$x$y".to_owned(), HashFault::Other("MD5, as htpasswd -m writes it")),
        ("{SHA}fEqNCco3Yq9h5ZUglD3CZJT4lBs=".to_owned(), HashFault::Other("SHA-1")),
        ("$6$x$y".to_owned(), HashFault::Other("SHA-512")),
        (with("$2b$", "$2x$"), HashFault::Other("a version of bcrypt with a defect")),
        (HUNTER2[..59].to_owned(), HashFault::Malformed),
        (format!("{HUNTER2}."), HashFault::Malformed),
        (with("$05$", "$5x$"), HashFault::Malformed),
        (with("$05$", "$05."), HashFault::Malformed),
        (with("t8.", "t8/"), HashFault::Malformed),
        (with("stuu", "stuv"), HashFault::Malformed),
        (with("abc", "a c"), HashFault::Malformed),
        (with("$05$", "$04$"), HashFault::Cost(4)),
        (with("$05$", "$15$"), HashFault::Cost(15)),
    ] {
        assert_eq!(BcryptHash::parse(&text), Err(fault), "{text}");
    }
}

#[test]
fn a_stand_in_is_a_hash() {
    for cost in COSTS {
        let hash = BcryptHash::stand_in(cost);
        assert_eq!(BcryptHash::parse(hash.as_str()), Ok(hash));
        assert_eq!(hash.cost(), cost);
    }
}

#[test]
fn a_user_that_is_not_there_has_a_hash_of_the_usual_cost() {
    let other = HUNTER2.replace("$05$", "$06$");
    let text = format!("# staff\n\nann:{HUNTER2}\r\nbob:{other}:a comment\nzoë:{other}\n");
    let table = PasswordTable::parse(&text).unwrap();
    assert_eq!((table.len(), table.is_empty()), (3, false));
    assert_eq!(table.hash("ann").as_str(), HUNTER2);
    assert!(table.contains("zoë") && !table.contains("eve"));
    assert_eq!(*table.hash("eve"), BcryptHash::stand_in(6));
    assert_eq!(*PasswordTable::default().hash("eve"), BcryptHash::stand_in(10));
    assert_eq!(format!("{table:?}"), "PasswordTable(3 users)");
}

#[test]
fn each_line_with_a_mistake_is_reported_and_not_shown() {
    let long = "n".repeat(256);
    let text = format!(
        "ann:{HUNTER2}\nbob\ncid:hunter2\n:{HUNTER2}\nann:{HUNTER2}\ndan:$apr1$hunter2\n\
         e\u{1}e:{HUNTER2}\n{long}:{HUNTER2}\nfay:{}\n",
        HUNTER2.replace("$05$", "$31$")
    );
    let faults = PasswordTable::parse(&text).unwrap_err();
    let lines: Vec<usize> = faults.iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [2, 3, 4, 5, 6, 7, 8, 9]);
    assert!(faults[0].message.contains("no colon") && faults[0].advice.contains("htpasswd -B"));
    assert!(faults[1].message.contains("a password where a bcrypt hash belongs"));
    assert!(faults[3].message.contains("the user of line 1"));
    assert!(faults[4].message.contains("MD5"));
    assert!(faults[7].message.contains("31, and it may be 5 to 14"));
    let all = format!("{faults:?}");
    assert!(!all.contains("hunter2") && !all.contains("cid"), "{all}");
}

#[test]
fn a_file_has_a_bounded_number_of_lines() {
    let most = "\n".repeat(100_000);
    assert!(PasswordTable::parse(&most).unwrap().is_empty());
    let faults = PasswordTable::parse(&format!("{most}x\n")).unwrap_err();
    assert_eq!((faults.len(), faults[0].line), (1, 100_001));
}

fn login(credentials: &str) -> Option<(String, String)> {
    let Login { user, password } = Login::parse(credentials.as_bytes())?;
    Some((user.into(), password.into()))
}

#[test]
fn credentials_have_one_form() {
    let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
    // The examples of RFC 7617, sections 2 and 2.1.
    assert_eq!(login("QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), pair("Aladdin", "open sesame"));
    assert_eq!(login("dGVzdDoxMjPCow=="), pair("test", "123£"));
    assert_eq!(login("YTpiOmM="), pair("a", "b:c"));
    assert_eq!(login("Og=="), pair("", ""));
    for wrong in [
        "",
        "=",
        "====",
        "QQ==",
        "QWxhZGRpbjpvcGVuIHNlc2FtZQ",
        "QWxhZGRpbjpvcGVuIHNlc2FtZR==",
        "YTpi\n",
        "YTp-",
        "YTr/",
        "AGE6YQ==",
        "YTph=",
        "Y===",
        "YT==Yjpi",
    ] {
        assert_eq!(login(wrong), None, "{wrong:?}");
    }
    let Some(found) = Login::parse(b"YTpi") else { panic!("a:b") };
    assert_eq!(format!("{found:?}"), "Login(..)");
}

/// The usual encoding, written in another way than the reader.
fn encoded(bytes: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let group = |group: &[u8]| {
        let group = std::str::from_utf8(group).unwrap();
        char::from(digits[usize::from_str_radix(&format!("{group:0<6}"), 2).unwrap()])
    };
    let text: String = bits.as_bytes().chunks(6).map(group).collect();
    let padding = (4 - text.len() % 4) % 4;
    text + &"=".repeat(padding)
}

proptest! {
    #[test]
    fn a_login_is_read_back(user in "[^:\\p{Cc}]{0,20}", password in "[^\\p{Cc}]{0,40}") {
        let found = login(&encoded(format!("{user}:{password}").as_bytes()));
        let expected = (password.len() <= MAX_PASSWORD).then_some((user, password));
        prop_assert_eq!(found, expected);
    }

    /// Two texts never mean the same bytes.
    #[test]
    fn only_the_usual_encoding_is_read(text in "[A-Za-d6:+/=]{0,12}") {
        if let Some((user, password)) = login(&text) {
            prop_assert_eq!(encoded(format!("{user}:{password}").as_bytes()), text);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "([a-z$0-9:#{}]{0,12}\n){0,4}") {
        if let Err(faults) = PasswordTable::parse(&text) {
            prop_assert!(!faults.is_empty() && faults.iter().all(|it| it.line <= 4));
        }
    }
}

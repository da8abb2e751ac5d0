//! Lookups in complete files and in broken files.

mod requests;

use proptest::prelude::*;

use super::writer::{Data, MmdbWriter, network, place};
use super::*;

fn database(writer: MmdbWriter) -> Arc<dyn Places> {
    Arc::new(GeoDatabase::from_bytes(writer.finish()).unwrap())
}

/// Country, region and network of an address.
fn found(databases: &[Arc<dyn Places>], address: &str) -> [Option<String>; 3] {
    let Place { country, region, asn } = place_of(databases, address.parse().unwrap());
    [country, region, asn].map(|code| code.map(|code| code.as_str().to_owned()))
}

fn some<const N: usize>(codes: [&str; N]) -> [Option<String>; N] {
    codes.map(|code| Some(code.to_owned()).filter(|code| !code.is_empty()))
}

fn cities(ip_version: u16, record_bits: u16) -> MmdbWriter {
    MmdbWriter::with("GeoLite2-City", ip_version, record_bits)
        .insert("192.0.2.0/24", &place("DE", Some("BE")))
        .insert("192.0.2.128/25", &place("FR", Some("75")))
        .insert("198.51.100.7/32", &place("NO", None))
}

#[test]
fn the_longest_matching_network_gives_the_place() {
    for record_bits in [24, 28, 32] {
        for ip_version in [4, 6] {
            let databases = [database(cities(ip_version, record_bits))];
            assert_eq!(found(&databases, "192.0.2.1"), some(["DE", "DE-BE", ""]));
            assert_eq!(found(&databases, "192.0.2.200"), some(["FR", "FR-75", ""]));
            assert_eq!(found(&databases, "198.51.100.7"), some(["NO", "", ""]));
            for unknown in ["198.51.100.8", "203.0.113.1", "0.0.0.0", "255.255.255.255"] {
                assert_eq!(found(&databases, unknown), some(["", "", ""]), "{unknown}");
            }
            assert_eq!(found(&databases, "2001:db8::1"), some(["", "", ""]));
        }
    }
}

#[test]
fn ipv6_addresses_have_places() {
    let databases = [database(cities(6, 28).insert("2001:db8::/32", &place("JP", Some("13"))))];
    assert_eq!(found(&databases, "2001:db8::1"), some(["JP", "JP-13", ""]));
    assert_eq!(found(&databases, "192.0.2.1"), some(["DE", "DE-BE", ""]));
}

#[test]
fn each_database_adds_what_those_before_it_do_not_contain() {
    let networks = MmdbWriter::new("GeoLite2-ASN")
        .insert("192.0.2.0/24", &network(64500))
        .insert("203.0.113.0/24", &network(4_294_967_295));
    let countries = MmdbWriter::new("GeoLite2-Country")
        .insert("192.0.2.0/24", &place("XX", Some("XX")))
        .insert("203.0.113.0/24", &place("SE", None));
    let databases = [database(cities(6, 28)), database(networks), database(countries)];
    assert_eq!(found(&databases, "192.0.2.1"), some(["DE", "DE-BE", "AS64500"]));
    assert_eq!(found(&databases, "203.0.113.1"), some(["SE", "", "AS4294967295"]));
    // The region of another database's country is not used.
    assert_eq!(found(&databases, "198.51.100.7"), some(["NO", "", ""]));
}

#[test]
fn a_text_without_the_form_of_a_code_is_unknown() {
    let record = |country: Data, asn: Data| {
        Data::Map(vec![
            ("country", Data::Map(vec![("iso_code", country)])),
            ("autonomous_system_number", asn),
        ])
    };
    let long = "D".repeat(200);
    for country in [Data::from("de"), "DEU".into(), "".into(), long.as_str().into(), Data::Short(7)]
    {
        let record = record(country, Data::Number(7));
        let databases = [database(MmdbWriter::new("own").insert("192.0.2.0/24", &record))];
        assert_eq!(found(&databases, "192.0.2.1"), some(["", "", "AS7"]), "{record:?}");
    }
    for number in [Data::Number(0), "AS7".into(), Data::Map(vec![]), Data::Long(1 << 40)] {
        let record = record("DE".into(), number);
        let databases = [database(MmdbWriter::new("own").insert("192.0.2.0/24", &record))];
        assert_eq!(found(&databases, "192.0.2.1"), some(["DE", "", ""]), "{record:?}");
    }
    // A record with a text instead of a map.
    let flat = Data::Map(vec![("country", "DE".into()), ("subdivisions", "BE".into())]);
    let databases = [database(MmdbWriter::new("own").insert("192.0.2.0/24", &flat))];
    assert_eq!(found(&databases, "192.0.2.1"), some(["", "", ""]));
}

#[test]
fn the_kind_of_a_database_determines_its_keys() {
    let keys = [KeyExpr::Country, KeyExpr::Region, KeyExpr::Asn];
    for (kind, has) in [
        ("GeoLite2-City", [true, true, false]),
        ("DBIP-City-Lite", [true, true, false]),
        ("GeoIP2-Enterprise", [true, true, false]),
        ("GeoIP2-Country", [true, false, false]),
        ("GeoLite2-ASN", [false, false, true]),
        ("GeoIP2-ISP", [false, false, true]),
        ("our own", [true, true, true]),
    ] {
        let database = database(MmdbWriter::new(kind));
        assert_eq!(keys.each_ref().map(|key| database.may_have(key)), has, "{kind}");
    }
}

#[test]
fn an_incomplete_file_is_refused() {
    let file = cities(6, 28).finish();
    let whole = file.len();
    for length in (0..whole).step_by(7).chain(whole - 9..whole) {
        let part = GeoDatabase::from_bytes(&file[..length]);
        let message = part.expect_err("a part of a file is not a database").to_string();
        assert!(message.contains("not a complete MaxMind DB file"), "{length}: {message}");
    }
    assert!(GeoDatabase::from_bytes(file).is_ok());
    assert!(GeoDatabase::from_bytes(*b"{ \"not\": \"a database\" }").is_err());
}

/// A kind of damage to a file.
#[derive(Clone, Debug)]
enum Damage {
    Byte(prop::sample::Index, u8),
    Cut(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = || any::<prop::sample::Index>();
    prop_oneof![
        6 => (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        1 => (at(), 1..40_u8).prop_map(|(at, length)| Damage::Cut(at, length)),
        1 => (at(), prop::collection::vec(any::<u8>(), 1..40))
            .prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
    ]
}

fn damaged(mut file: Vec<u8>, damages: Vec<Damage>) -> Vec<u8> {
    for damage in damages {
        match damage {
            _ if file.is_empty() => {}
            Damage::Byte(at, byte) => {
                let at = at.index(file.len());
                file[at] = byte;
            }
            Damage::Cut(at, length) => {
                let from = at.index(file.len());
                file.drain(from..(from + usize::from(length)).min(file.len()));
            }
            Damage::Insert(at, bytes) => {
                let from = at.index(file.len());
                file.splice(from..from, bytes);
            }
        }
    }
    file
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Whatever a file contains, an address has a code of the right form or none, and
    /// nothing panics.
    #[test]
    fn a_damaged_file_never_panics_and_never_gives_a_malformed_code(
        (ip_version, record_bits) in (prop::sample::select(vec![4, 6]),
            prop::sample::select(vec![24, 28, 32])),
        damages in prop::collection::vec(damage(), 1..6),
        v4 in any::<u32>(),
        v6 in any::<u128>(),
    ) {
        let whole = cities(ip_version, record_bits).insert("203.0.113.0/24", &network(64500));
        let Ok(database) = GeoDatabase::from_bytes(damaged(whole.finish(), damages)) else {
            return Ok(());
        };
        let databases: [Arc<dyn Places>; 1] = [Arc::new(database)];
        let known = ["192.0.2.1", "192.0.2.200", "198.51.100.7", "203.0.113.9", "::1"];
        let known = known.map(|address| address.parse::<IpAddr>().unwrap());
        let [v4, v6]: [IpAddr; 2] = [v4.to_be_bytes().into(), v6.to_be_bytes().into()];
        for address in known.into_iter().chain([v4, v6]) {
            let Place { country, region, asn } = place_of(&databases, address);
            for code in [country, region, asn].into_iter().flatten() {
                prop_assert_eq!(code.as_str().parse::<GeoCode>(), Ok(code));
            }
        }
        let _ = (databases[0].kind().len(), databases[0].may_have(&KeyExpr::Asn));
    }

    #[test]
    fn any_bytes_are_refused_or_harmless(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let marked = [&bytes[..], b"\xab\xcd\xefMaxMind.com", &bytes[..]].concat();
        for bytes in [bytes, marked] {
            if let Ok(database) = GeoDatabase::from_bytes(bytes) {
                place_of(&[Arc::new(database)], IpAddr::from([192, 0, 2, 1]));
            }
        }
    }
}

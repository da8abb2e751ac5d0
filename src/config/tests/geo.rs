//! Files that tell where addresses are, at a start and at a reload.

use std::path::PathBuf;
use std::sync::Arc;

use tollgate_core::policy::geo_writer::{Data, MmdbWriter, network, place};

use super::*;

/// A directory with `gateway.yaml`, in which `geo` stands for `client.geo`.
struct Directory(tempfile::TempDir);

impl Directory {
    fn new(geo: &str, policy: &str) -> Self {
        let directory = Self(tempfile::tempdir().unwrap());
        let text = SMALLEST.replace("key: ip", policy);
        std::fs::write(directory.at("gateway.yaml"), format!("{text}client: {{ geo: {geo} }}\n"))
            .unwrap();
        directory
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Puts another file in the place of `name`.
    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.at("new"), bytes).unwrap();
        std::fs::rename(self.at("new"), self.at(name)).unwrap();
    }

    fn load(&self, before: &[GeoFile]) -> Result<Compiled, String> {
        let held = HeldFiles { databases: before.to_vec(), ..HeldFiles::default() };
        load_again(&self.at("gateway.yaml"), &held, &Progress::default())
            .map_err(|error| error.to_string())
    }
}

fn file(kind: &'static str, record: &Data) -> Vec<u8> {
    MmdbWriter::new(kind).insert("192.0.2.0/24", record).finish()
}

fn german() -> Vec<u8> {
    file("GeoLite2-City", &place("DE", Some("BE")))
}

fn paths(compiled: &Compiled) -> Vec<PathBuf> {
    compiled.files.iter().map(|it| it.path.clone()).collect()
}

#[test]
fn databases_are_read_and_their_files_are_watched() {
    let directory = Directory::new("{ database: [city.mmdb, asn.mmdb] }", "key: country");
    directory.put("city.mmdb", &german());
    directory.put("asn.mmdb", &file("GeoLite2-ASN", &network(64500)));
    let compiled = directory.load(&[]).unwrap();
    assert!(compiled.warnings.is_empty(), "{}", compiled.warnings);
    assert_eq!(compiled.config.client.geo.len(), 2);
    let both = ["city.mmdb", "asn.mmdb"].map(|name| directory.at(name));
    assert_eq!(paths(&compiled), both);
    let kinds: Vec<_> = compiled.config.client.geo.iter().map(|it| it.kind()).collect();
    assert_eq!(kinds, ["GeoLite2-City", "GeoLite2-ASN"]);
}

#[test]
fn a_missing_or_broken_database_is_an_error_at_a_start() {
    let directory = Directory::new("{ database: geo.mmdb }", "key: country");
    let missing = directory.load(&[]).unwrap_err();
    assert!(
        missing.contains("error: the database \"geo.mmdb\" cannot be used: it cannot be read:"),
        "{missing}"
    );
    let whole = german();
    directory.put("geo.mmdb", &whole[..whole.len() / 2]);
    let broken = directory.load(&[]).unwrap_err();
    assert!(broken.contains("cannot be used: it is not a complete MaxMind DB file"), "{broken}");
    std::fs::remove_file(directory.at("geo.mmdb")).unwrap();
    std::fs::create_dir(directory.at("geo.mmdb")).unwrap();
    let other = directory.load(&[]).unwrap_err();
    assert!(other.contains("it is a directory, not a regular file"), "{other}");
}

/// What runs keeps the database that it has, and takes the rest of the file.
#[test]
fn a_missing_or_broken_database_is_ignored_at_a_reload() {
    let directory = Directory::new("{ database: geo.mmdb }", "key: country");
    directory.put("geo.mmdb", &german());
    let first = directory.load(&[]).unwrap().config.files.databases;
    for broken in [Some(&b"broken"[..]), Some(b""), None] {
        match broken {
            Some(bytes) => directory.put("geo.mmdb", bytes),
            None => std::fs::remove_file(directory.at("geo.mmdb")).unwrap(),
        }
        let again = directory.load(&first).unwrap();
        let warnings = again.warnings.to_string();
        let stays = "the one that was read before stays in force";
        assert!(warnings.contains("warning: ") && warnings.contains(stays), "{warnings}");
        assert!(Arc::ptr_eq(&again.config.client.geo[0], &first[0].database));
        assert_eq!(paths(&again), [directory.at("geo.mmdb")], "it is watched still");
        // What stays is still the first one, at the next reload, too.
        let third = directory.load(&again.config.files.databases).unwrap();
        assert!(Arc::ptr_eq(&third.config.client.geo[0], &first[0].database));
    }
    directory.put("geo.mmdb", &file("GeoLite2-City", &place("FR", None)));
    let mended = directory.load(&first).unwrap();
    assert!(mended.warnings.is_empty(), "{}", mended.warnings);
    assert!(!Arc::ptr_eq(&mended.config.client.geo[0], &first[0].database));
}

#[test]
fn a_file_that_did_not_change_is_not_read_again() {
    let directory = Directory::new("{ database: geo.mmdb }", "key: country");
    directory.put("geo.mmdb", &german());
    let first = directory.load(&[]).unwrap().config.files.databases;
    let same = directory.load(&first).unwrap().config.files.databases;
    assert!(Arc::ptr_eq(&same[0].database, &first[0].database));
    directory.put("geo.mmdb", &german());
    let other = directory.load(&first).unwrap().config.files.databases;
    assert!(!Arc::ptr_eq(&other[0].database, &first[0].database), "it is another file");
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let directory = Directory::new("{ database: geo.mmdb }", "key: country");
    // A hole takes no room on the disk.
    let large = std::fs::File::create(directory.at("geo.mmdb")).unwrap();
    large.set_len(1024 * 1024 * 1024 + 1).unwrap();
    let refused = directory.load(&[]).unwrap_err();
    assert!(refused.contains("it is larger than 1 GiB"), "{refused}");
}

#[test]
fn missing_locations_and_unused_databases_are_reported() {
    let directory = Directory::new("{ database: geo.mmdb }", "key: asn");
    directory.put("geo.mmdb", &german());
    let warnings = directory.load(&[]).unwrap().warnings.to_string();
    assert!(
        warnings.contains(
            "the policy \"per-client\" needs the network (asn), which is not in a database of \
             the kind GeoLite2-City"
        ),
        "{warnings}"
    );
    let idle = Directory::new("{ database: geo.mmdb }", "key: ip");
    idle.put("geo.mmdb", &german());
    let warnings = idle.load(&[]).unwrap().warnings.to_string();
    assert!(warnings.contains("no key needs a location"), "{warnings}");
    for used in [
        "plans: { from: country, limits: { \"NO\": 5/minute } }, key: ip",
        "exempt: { regions: [DE-BE] }, key: ip",
        "key: { first: [\"cookie:a\", region] }",
    ] {
        let directory = Directory::new("{ database: geo.mmdb }", used);
        directory.put("geo.mmdb", &german());
        let warnings = directory.load(&[]).unwrap().warnings;
        assert!(warnings.is_empty(), "{used}: {warnings}");
    }
    let classes = "{ database: asn.mmdb }, classes: { file: classes.yaml }";
    let directory = Directory::new(classes, "key: ip, exempt: { classes: [monitoring] }");
    directory.put("asn.mmdb", &file("GeoLite2-ASN", &network(64500)));
    directory.put("classes.yaml", b"- { name: monitoring, asns: [AS64500] }");
    let warnings = directory.load(&[]).unwrap().warnings;
    assert!(warnings.is_empty(), "{warnings}");
}

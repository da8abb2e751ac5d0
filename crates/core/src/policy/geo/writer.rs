//! Writes small MaxMind DB files for tests (MaxMind DB File Format Specification,
//! version 2.0): a search tree by the bits of addresses, then the records.

use std::net::IpAddr;

/// A value in a record.
#[derive(Clone, Debug)]
pub enum Data {
    /// A text.
    Text(String),
    /// A number of up to 32 bits.
    Number(u32),
    /// Named values.
    Map(Vec<(&'static str, Data)>),
    /// Values in order.
    List(Vec<Data>),
    /// A number of up to 16 bits. Descriptions of files use this type.
    Short(u16),
    /// A number of up to 64 bits.
    Long(u64),
}

impl From<&str> for Data {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// The record of a place, as databases of cities have it. Without a region: as databases of
/// countries have it.
pub fn place(country: &str, region: Option<&str>) -> Data {
    let names = || ("names", Data::Map(vec![("en", "a name".into())]));
    let mut record = vec![
        ("city", Data::Map(vec![names()])),
        ("country", Data::Map(vec![("geoname_id", Data::Number(1)), ("iso_code", country.into())])),
    ];
    if let Some(region) = region {
        let outer = Data::Map(vec![("iso_code", region.into()), names()]);
        let inner = Data::Map(vec![("iso_code", "ZZZ".into())]);
        record.push(("subdivisions", Data::List(vec![outer, inner])));
    }
    Data::Map(record)
}

/// The record of a network as databases of autonomous systems have it.
pub fn network(number: u32) -> Data {
    Data::Map(vec![
        ("autonomous_system_number", Data::Number(number)),
        ("autonomous_system_organization", "an organization".into()),
    ])
}

#[derive(Clone, Copy)]
enum Record {
    Nothing,
    Node(usize),
    /// The record's offset in the data section.
    Data(usize),
}

/// A file under construction.
pub struct MmdbWriter {
    kind: &'static str,
    ip_version: u16,
    record_bits: u16,
    nodes: Vec<[Record; 2]>,
    data: Vec<u8>,
}

impl MmdbWriter {
    /// A database of IPv4 and IPv6 addresses.
    pub fn new(kind: &'static str) -> Self {
        Self::with(kind, 6, 28)
    }

    /// A database of addresses of one version, with records of 24, 28 or 32 bits in its
    /// tree. Version 6 contains the addresses of version 4, too.
    pub(crate) fn with(kind: &'static str, ip_version: u16, record_bits: u16) -> Self {
        let nodes = vec![[Record::Nothing; 2]];
        Self { kind, ip_version, record_bits, nodes, data: Vec::new() }
    }

    /// Assigns this record to all addresses of `network/prefix`. A network within another
    /// one must be added after it.
    #[must_use]
    pub fn insert(mut self, network: &str, data: &Data) -> Self {
        let (address, prefix) = network.split_once('/').expect("a network");
        let prefix: usize = prefix.parse().expect("a prefix");
        let (bits, width, prefix) = match address.parse().expect("an address") {
            IpAddr::V4(v4) if self.ip_version == 6 => (v4.to_bits().into(), 128, prefix + 96),
            IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32, prefix),
            IpAddr::V6(v6) => (v6.to_bits(), 128, prefix),
        };
        let record = Record::Data(self.data.len());
        encode(data, &mut self.data);
        let mut node = 0;
        for depth in 0..prefix {
            let bit = usize::from(bits >> (width - 1 - depth) & 1 == 1);
            if depth + 1 == prefix {
                self.nodes[node][bit] = record;
                break;
            }
            node = match self.nodes[node][bit] {
                Record::Node(next) => next,
                leaf => {
                    self.nodes.push([leaf; 2]);
                    self.nodes[node][bit] = Record::Node(self.nodes.len() - 1);
                    self.nodes.len() - 1
                }
            };
        }
        self
    }

    /// Returns the file.
    pub fn finish(self) -> Vec<u8> {
        let count = self.nodes.len();
        let number = |record: Record| match record {
            Record::Nothing => count,
            Record::Node(index) => index,
            Record::Data(at) => count + 16 + at,
        };
        let mut file = Vec::new();
        for [left, right] in self.nodes {
            let [left, right] = [number(left), number(right)].map(|it| it.to_be_bytes());
            match self.record_bits {
                24 => [left, right].iter().for_each(|it| file.extend(&it[5..])),
                28 => {
                    file.extend(&left[5..]);
                    file.push(left[4] << 4 | right[4]);
                    file.extend(&right[5..]);
                }
                _ => [left, right].iter().for_each(|it| file.extend(&it[4..])),
            }
        }
        file.extend([0; 16]);
        file.extend(&self.data);
        file.extend(b"\xab\xcd\xefMaxMind.com");
        let description = Data::Map(vec![("en", "for tests".into())]);
        let about = Data::Map(vec![
            ("binary_format_major_version", Data::Short(2)),
            ("binary_format_minor_version", Data::Short(0)),
            ("build_epoch", Data::Long(1_700_000_000)),
            ("database_type", self.kind.into()),
            ("description", description),
            ("ip_version", Data::Short(self.ip_version)),
            ("languages", Data::List(vec!["en".into()])),
            ("node_count", Data::Number(u32::try_from(count).expect("a small file"))),
            ("record_size", Data::Short(self.record_bits)),
        ]);
        encode(&about, &mut file);
        file
    }
}

/// Appends a value in the format of the data section.
fn encode(data: &Data, out: &mut Vec<u8>) {
    match data {
        Data::Text(text) => {
            head(2, text.len(), out);
            out.extend(text.bytes());
        }
        Data::Short(number) => fixed(5, &number.to_be_bytes(), out),
        Data::Number(number) => fixed(6, &number.to_be_bytes(), out),
        Data::Long(number) => fixed(9, &number.to_be_bytes(), out),
        Data::Map(entries) => {
            head(7, entries.len(), out);
            for (name, value) in entries {
                encode(&(*name).into(), out);
                encode(value, out);
            }
        }
        Data::List(items) => {
            head(11, items.len(), out);
            items.iter().for_each(|item| encode(item, out));
        }
    }
}

fn fixed(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    head(kind, bytes.len(), out);
    out.extend(bytes);
}

/// The type and the size. Types above 7 and sizes from 29 on take additional bytes.
fn head(kind: u8, size: usize, out: &mut Vec<u8>) {
    let small = u8::try_from(size.min(29)).expect("at most 29");
    match kind {
        ..8 => out.push(kind << 5 | small),
        _ => out.extend([small, kind - 7]),
    }
    if size >= 29 {
        out.push(u8::try_from(size - 29).expect("texts of tests are short"));
    }
}

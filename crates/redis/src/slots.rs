//! The slots of a cluster: the slot of a key, and the node that stores each slot
//! (Redis Cluster Specification, "Key distribution model").

use std::ops::RangeInclusive;

use redis::Value;

use super::failure::StoreError;
use super::settings::Address;

/// The number of slots in a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key. It is computed from the text between the first `{` and the next `}` if
/// this text is not empty, and otherwise from the whole key.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let end = rest.iter().position(|&byte| byte == b'}')?;
        (end > 0).then(|| &rest[..end])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// CRC-16/XMODEM: polynomial 0x1021, initial value 0.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| (crc << 8) ^ CRC16[usize::from(crc.to_be_bytes()[0] ^ byte)])
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    let mut first: u16 = 0;
    while byte < table.len() {
        let mut crc = first;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
        first = first.wrapping_add(0x0100);
    }
    table
};

/// Consecutive slots, their master, and its replicas.
pub(crate) type Range = (RangeInclusive<u16>, Address, Vec<Address>);

/// What is said of a map that has nodes for so many slots only.
pub(crate) fn text_of_served(served: usize) -> String {
    format!("it names nodes for {served} of {SLOTS} slots")
}

/// Reads the reply of the node `asked` to `CLUSTER SLOTS`. A node that does not know its own
/// host name leaves it out.
///
/// # Errors
/// If the reply does not have the format of this command.
pub(crate) fn ranges(answer: Value, asked: &Address) -> Result<Vec<Range>, StoreError> {
    let Value::Array(ranges) = answer.extract_error()? else {
        return Err(StoreError::InvalidReply("CLUSTER SLOTS is not answered with a list"));
    };
    ranges
        .iter()
        .map(|range| {
            read(range, asked).ok_or(StoreError::InvalidReply(
                "CLUSTER SLOTS is not answered with slots and nodes",
            ))
        })
        .collect()
}

fn read(range: &Value, asked: &Address) -> Option<Range> {
    let Value::Array(range) = range else { return None };
    let [Value::Int(first), Value::Int(last), master, replicas @ ..] = &range[..] else {
        return None;
    };
    let master = node(master, asked)?;
    // A replica without a known address is ignored.
    let replicas = replicas.iter().filter_map(|replica| node(replica, asked)).collect();
    let first = u16::try_from(*first).ok()?;
    let last = u16::try_from(*last).ok()?;
    (first <= last && last < SLOTS).then_some((first..=last, master, replicas))
}

fn node(node: &Value, asked: &Address) -> Option<Address> {
    let Value::Array(node) = node else { return None };
    let [host, Value::Int(port), ..] = &node[..] else { return None };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::Nil => "",
        _ => return None,
    };
    Some(named(host, u16::try_from(*port).ok()?, asked))
}

/// The address of a node in a reply of the node `asked`.
pub(super) fn named(host: &str, port: u16, asked: &Address) -> Address {
    match asked {
        Address::Tcp { host: own, .. } if host.is_empty() || host == "?" => {
            Address::tcp(own.clone(), port)
        }
        _ => Address::tcp(host, port),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The check value of CRC-16/XMODEM, and slots that a Redis Cluster reports.
    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        let cases: [(&[u8], u16); 6] = [
            (b"", 0),
            (b"foo", 12_182),
            (b"{foo}bar", 12_182),
            (b"x{foo}{bar}", 12_182),
            (b"foo{}{bar}", 8363),
            (b"somekey", 11_058),
        ];
        for (key, expected) in cases {
            assert_eq!(slot(key), expected, "{key:?}");
        }
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    #[test]
    fn the_first_node_of_a_range_is_its_master() {
        let master = Value::Array(vec![text("10.0.0.1"), Value::Int(7000), text("id")]);
        let replica = Value::Array(vec![text("10.0.0.2"), Value::Int(7001), text("id")]);
        let nameless = Value::Array(vec![Value::Nil, Value::Int(7002), text("id")]);
        let answer = Value::Array(vec![
            Value::Array(vec![Value::Int(0), Value::Int(5), master, replica]),
            Value::Array(vec![Value::Int(6), Value::Int(16_383), nameless]),
        ]);
        let ranges = ranges(answer, &Address::tcp("seed", 1)).expect("it is well formed");
        assert_eq!(
            ranges,
            [
                (0..=5, Address::tcp("10.0.0.1", 7000), vec![Address::tcp("10.0.0.2", 7001)]),
                (6..=16_383, Address::tcp("seed", 7002), vec![]),
            ]
        );
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            (-1_i64..20_000).prop_map(Value::Int),
            "[a-z?]{0,3}".prop_map(|text| Value::BulkString(text.into())),
            Just(Value::Nil),
        ];
        leaf.prop_recursive(4, 64, 5, |inner| {
            prop::collection::vec(inner, 0..5).prop_map(Value::Array)
        })
    }

    proptest! {
        #[test]
        fn no_reply_causes_a_panic_or_an_invalid_slot(answer in value()) {
            if let Ok(ranges) = ranges(answer, &Address::tcp("seed", 1)) {
                for (slots, ..) in ranges {
                    prop_assert!(slots.start() <= slots.end() && *slots.end() < SLOTS);
                }
            }
        }
    }
}

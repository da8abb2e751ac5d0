//! The messages and the `.proto` files say the same. scripts/test-descriptors holds the descriptors to
//! the files.

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor};

use super::{ratelimit, reflection, values};
use crate::check::grpc::{DESCRIPTORS, health};
use crate::grpc::{authorization, core};

/// Reads a message and writes it. Fields that it does not know are lost.
type Recode = fn(&[u8]) -> Option<Vec<u8>>;

fn recode<M: Message + Default>(bytes: &[u8]) -> Option<Vec<u8>> {
    M::decode(bytes).ok().map(|message| message.encode_to_vec())
}

/// Each message of the files, and the type that is meant to be the same.
const MESSAGES: &[(&str, Recode)] = &[
    ("envoy.service.ratelimit.v3.RateLimitRequest", recode::<ratelimit::RateLimitRequest>),
    ("envoy.service.ratelimit.v3.RateLimitResponse", recode::<ratelimit::RateLimitResponse>),
    ("envoy.service.ratelimit.v3.RateLimitResponse.RateLimit", recode::<ratelimit::RateLimit>),
    (
        "envoy.service.ratelimit.v3.RateLimitResponse.DescriptorStatus",
        recode::<ratelimit::DescriptorStatus>,
    ),
    (
        "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor",
        recode::<ratelimit::RateLimitDescriptor>,
    ),
    ("envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry", recode::<ratelimit::Entry>),
    (
        "envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.RateLimitOverride",
        recode::<ratelimit::RateLimitOverride>,
    ),
    ("envoy.config.core.v3.HeaderValue", recode::<core::HeaderValue>),
    ("envoy.config.core.v3.HeaderValueOption", recode::<authorization::HeaderValueOption>),
    ("envoy.config.core.v3.HeaderMap", recode::<authorization::HeaderMap>),
    ("envoy.config.core.v3.Address", recode::<authorization::Address>),
    ("envoy.config.core.v3.SocketAddress", recode::<authorization::SocketAddress>),
    ("envoy.config.core.v3.QueryParameter", recode::<core::QueryParameter>),
    ("envoy.type.v3.HttpStatus", recode::<authorization::HttpStatus>),
    ("google.rpc.Status", recode::<authorization::Status>),
    ("envoy.service.auth.v3.AttributeContext", recode::<authorization::AttributeContext>),
    ("envoy.service.auth.v3.AttributeContext.Peer", recode::<authorization::Peer>),
    ("envoy.service.auth.v3.AttributeContext.HttpRequest", recode::<authorization::HttpRequest>),
    ("envoy.service.auth.v3.AttributeContext.Request", recode::<authorization::AttributeRequest>),
    ("envoy.service.auth.v3.CheckRequest", recode::<authorization::CheckRequest>),
    ("envoy.service.auth.v3.CheckResponse", recode::<authorization::CheckResponse>),
    ("envoy.service.auth.v3.DeniedHttpResponse", recode::<authorization::DeniedHttpResponse>),
    ("envoy.service.auth.v3.OkHttpResponse", recode::<authorization::OkHttpResponse>),
    ("grpc.health.v1.HealthCheckRequest", recode::<health::HealthCheckRequest>),
    ("grpc.health.v1.HealthCheckResponse", recode::<health::HealthCheckResponse>),
    ("google.protobuf.Duration", recode::<values::Duration>),
    ("google.protobuf.Struct", recode::<values::Struct>),
    ("google.protobuf.Value", recode::<values::Value>),
    ("google.protobuf.ListValue", recode::<values::ListValue>),
    ("google.protobuf.UInt64Value", recode::<u64>),
];

/// The same of both versions of `grpc.reflection`.
const REFLECTION: &[(&str, Recode)] = &[
    ("ServerReflectionRequest", recode::<reflection::ServerReflectionRequest>),
    ("ExtensionRequest", recode::<reflection::ExtensionRequest>),
    ("ServerReflectionResponse", recode::<reflection::ServerReflectionResponse>),
    ("FileDescriptorResponse", recode::<reflection::FileDescriptorResponse>),
    ("ExtensionNumberResponse", recode::<reflection::ExtensionNumberResponse>),
    ("ListServiceResponse", recode::<reflection::ListServiceResponse>),
    ("ServiceResponse", recode::<reflection::ServiceResponse>),
    ("ErrorResponse", recode::<reflection::ErrorResponse>),
];

fn all_messages() -> Vec<(String, Recode)> {
    let own = MESSAGES.iter().map(|(name, recode)| ((*name).to_owned(), *recode));
    let versions = ["grpc.reflection.v1", "grpc.reflection.v1alpha"].into_iter();
    let reflection = versions.flat_map(|package| {
        REFLECTION.iter().map(move |(name, recode)| (format!("{package}.{name}"), *recode))
    });
    own.chain(reflection).collect()
}

/// A number in base 128, as Protocol Buffers writes it.
fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 128 {
        bytes.push(u8::try_from(number % 128).expect("it is small") | 128);
        number /= 128;
    }
    bytes.push(u8::try_from(number).expect("it is small"));
    bytes
}

fn with_length(content: &[u8]) -> Vec<u8> {
    [&varint(content.len().try_into().expect("it is short")), content].concat()
}

/// A field: its number and the form of its value, and the value.
fn field(number: u32, form: u32, value: &[u8]) -> Vec<u8> {
    [&varint(u64::from(number << 3 | form)), value].concat()
}

/// Fields with this number. Types that can be confused read at least one of them differently: a
/// text must be UTF-8, and numbers are cut to their range.
fn fields(number: u32, kind: &Kind, depth: usize) -> Vec<Vec<u8>> {
    let sized = |content: &[u8]| field(number, 2, &with_length(content));
    match kind {
        Kind::String | Kind::Bytes => [&b"text"[..], b"", b"\xff"].map(sized).into(),
        Kind::Message(message) => messages(message, depth).iter().map(|it| sized(it)).collect(),
        Kind::Double => [1.5_f64, 0.0].map(|it| field(number, 1, &it.to_le_bytes())).into(),
        Kind::Bool | Kind::Int32 | Kind::Int64 | Kind::Uint32 | Kind::Uint64 | Kind::Enum(_) => {
            let numbers = [2, 1, 0, 1 << 35 | 2, u64::MAX];
            numbers.map(|it| field(number, 0, &varint(it))).into()
        }
        other => panic!("no message has fields of this type: {other:?}"),
    }
}

/// Messages of this type: one with all fields, and each field alone, once and twice.
fn messages(message: &MessageDescriptor, depth: usize) -> Vec<Vec<u8>> {
    let Some(depth) = depth.checked_sub(1) else { return vec![Vec::new()] };
    let mut all = Vec::new();
    let mut found = Vec::new();
    for it in message.fields() {
        let fields = fields(it.number(), &it.kind(), depth);
        all.extend_from_slice(&fields[0]);
        found.extend(fields.iter().map(|next| [&fields[0][..], next].concat()));
        found.extend(fields);
    }
    found.insert(0, all);
    found
}

/// What another program reads of a message. Values that are written like absent ones are absent.
fn read(message: &MessageDescriptor, bytes: &[u8]) -> Option<DynamicMessage> {
    let decode = |bytes: &[u8]| DynamicMessage::decode(message.clone(), bytes).ok();
    decode(&decode(bytes)?.encode_to_vec())
}

#[test]
fn each_message_has_the_fields_of_its_file() {
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("they are descriptors");
    for (name, recode) in all_messages() {
        let message = pool.get_message_by_name(&name).unwrap_or_else(|| panic!("no {name}"));
        for bytes in messages(&message, 4) {
            let expected = read(&message, &bytes);
            let found = recode(&bytes).map(|again| read(&message, &again).expect(&name));
            assert_eq!(found, expected, "{name}: {bytes:?}");
        }
        for number in (1..=40).filter(|number| message.get_field(*number).is_none()) {
            for unknown in [field(number, 0, &[1]), field(number, 2, &[1, 1])] {
                assert_eq!(recode(&unknown), Some(Vec::new()), "{name} has a field {number}");
            }
        }
    }
}

#[test]
fn no_message_of_the_files_is_left_out() {
    let pool = DescriptorPool::decode(DESCRIPTORS).expect("they are descriptors");
    let known = all_messages();
    for message in pool.all_messages().filter(|it| !it.is_map_entry()) {
        let is_own = message.package_name() != "google.protobuf";
        let is_known = known.iter().any(|(name, _)| name == message.full_name());
        assert!(is_known || !is_own, "{}", message.full_name());
    }
}

/// The numbers of enumerations, which the types of messages do not contain.
#[test]
fn enumerations_have_the_numbers_of_their_files() {
    use crate::check::rls::Unit;

    let pool = DescriptorPool::decode(DESCRIPTORS).expect("they are descriptors");
    let number = |name: &str, value: &str| {
        let found = pool.get_enum_by_name(name).expect(name);
        found.get_value_by_name(value).expect(value).number()
    };
    let code = "envoy.service.ratelimit.v3.RateLimitResponse.Code";
    let codes = ["UNKNOWN", "OK", "OVER_LIMIT"].map(|it| number(code, it));
    use ratelimit::Code;
    assert_eq!(codes, [Code::Unknown, Code::Ok, Code::OverLimit].map(|it| it as i32));
    for unit in Unit::ALL {
        let name = unit.name().to_uppercase();
        let told = "envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit";
        assert_eq!(number(told, &name), unit.number());
        assert_eq!(number("envoy.type.v3.RateLimitUnit", &name), unit.number());
    }
    let action = "envoy.config.core.v3.HeaderValueOption.HeaderAppendAction";
    let overwrites = authorization::HeaderAppendAction::OverwriteIfExistsOrAdd as i32;
    assert_eq!(number(action, "OVERWRITE_IF_EXISTS_OR_ADD"), overwrites);
}

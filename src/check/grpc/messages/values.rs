//! `google.protobuf`: a duration, and values of any form.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

/// A span of time.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Duration {
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// A map of values.
#[derive(Clone, PartialEq, Message)]
pub struct Struct {
    #[prost(btree_map = "string, message", tag = "1")]
    pub fields: BTreeMap<String, Value>,
}

/// A value of any form.
#[derive(Clone, PartialEq, Message)]
pub struct Value {
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: Option<Kind>,
}

/// The form of a value.
#[derive(Clone, PartialEq, Oneof)]
pub enum Kind {
    /// Always 0.
    #[prost(int32, tag = "1")]
    Null(i32),
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    String(String),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(message, tag = "5")]
    Struct(Struct),
    #[prost(message, tag = "6")]
    List(ListValue),
}

/// A list of values.
#[derive(Clone, PartialEq, Message)]
pub struct ListValue {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}

impl From<&serde_json::Value> for Value {
    fn from(value: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        let kind = match value {
            Json::Null => Kind::Null(0),
            Json::Bool(value) => Kind::Bool(*value),
            Json::Number(number) => Kind::Number(number.as_f64().unwrap_or_default()),
            Json::String(text) => Kind::String(text.clone()),
            Json::Array(items) => {
                Kind::List(ListValue { values: items.iter().map(Self::from).collect() })
            }
            Json::Object(map) => Kind::Struct(map.into()),
        };
        Self { kind: Some(kind) }
    }
}

impl From<&serde_json::Map<String, serde_json::Value>> for Struct {
    fn from(map: &serde_json::Map<String, serde_json::Value>) -> Self {
        let fields = map.iter().map(|(name, value)| (name.clone(), value.into())).collect();
        Self { fields }
    }
}

impl From<Value> for serde_json::Value {
    fn from(value: Value) -> Self {
        match value.kind {
            None | Some(Kind::Null(_)) => Self::Null,
            // JSON has no number that is infinite or none.
            Some(Kind::Number(number)) => number.into(),
            Some(Kind::String(text)) => Self::String(text),
            Some(Kind::Bool(value)) => Self::Bool(value),
            Some(Kind::Struct(map)) => Self::Object(map.into()),
            Some(Kind::List(list)) => list.values.into_iter().map(Self::from).collect(),
        }
    }
}

impl From<Struct> for serde_json::Map<String, serde_json::Value> {
    fn from(map: Struct) -> Self {
        map.fields.into_iter().map(|(name, value)| (name, value.into())).collect()
    }
}

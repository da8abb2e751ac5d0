//! The schemas of the document, from the types of the program.

use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::admin::spec::SchemaOf;

/// The schema of a type.
pub fn of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The schema of one of two types.
pub fn either<A: JsonSchema, B: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "anyOf": [of::<A>(generator), of::<B>(generator)] })
}

/// A JSON object whose fields are described elsewhere.
pub fn object(_: &mut SchemaGenerator) -> Schema {
    schemars::json_schema!({ "type": "object" })
}

/// The schemas that the document refers to.
pub struct Schemas {
    /// Those of answers, as they are written.
    written: SchemaGenerator,
    /// Those of bodies, as they are read.
    read: SchemaGenerator,
}

impl Schemas {
    pub fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
                settings.transforms.push(Box::new(Bounded));
            })
        };
        Self {
            written: settings().for_serialize().into_generator(),
            read: settings().for_deserialize().into_generator(),
        }
    }

    /// The schema of an answer.
    pub fn written(&mut self, schema: SchemaOf) -> Value {
        schema(&mut self.written).to_value()
    }

    /// The schema of a body.
    pub fn read(&mut self, schema: SchemaOf) -> Value {
        schema(&mut self.read).to_value()
    }

    /// All schemas by name.
    pub fn into_definitions(mut self) -> Map<String, Value> {
        let mut all = self.written.take_definitions(true);
        all.extend(self.read.take_definitions(true));
        all
    }
}

/// Adds the bounds that the types of numbers have.
#[derive(Clone, Debug)]
struct Bounded;

impl Transform for Bounded {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        if schema.get("format") == Some(&json!("uint64")) && schema.get("maximum").is_none() {
            schema.insert("maximum".to_owned(), json!(u64::MAX));
        }
    }
}

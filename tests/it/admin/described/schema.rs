//! Holds values against JSON schemas, as far as the document uses them. A keyword that it does not
//! know is a fault, so that nothing passes unread.

use serde_json::Value;

/// Keywords that demand nothing.
const NOTES: [&str; 6] = ["$ref", "default", "description", "format", "title", "examples"];

/// The document with the schemas.
pub(super) struct Schemas<'d>(pub(super) &'d Value);

/// The value itself, or what it refers to.
pub(super) fn resolved<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let Some(reference) = value["$ref"].as_str() else { return value };
    let path = reference.strip_prefix('#').expect("a local reference");
    document.pointer(path).unwrap_or_else(|| panic!("{reference} is not in the document"))
}

impl Schemas<'_> {
    /// Fails if `value` is not as the schema says.
    pub(super) fn hold(&self, schema: &Value, value: &Value, what: &str) {
        if let Err(fault) = self.fault(schema, value) {
            panic!("{what}: {fault}\n{schema:#}");
        }
    }

    fn fault(&self, schema: &Value, value: &Value) -> Result<(), String> {
        let Some(fields) = schema.as_object() else {
            return if schema == &Value::Bool(false) { Err(format!("{value}")) } else { Ok(()) };
        };
        if fields.contains_key("$ref") {
            self.fault(resolved(self.0, schema), value)?;
        }
        for (keyword, rule) in fields {
            self.keyword(schema, keyword, rule, value)
                .map_err(|fault| format!("{keyword}: {fault}"))?;
        }
        // What the document does not name must not be there.
        let is_open = fields.contains_key("additionalProperties");
        if let (Some(named), Some(object), false) =
            (schema["properties"].as_object(), value.as_object(), is_open)
        {
            let unknown = object.keys().find(|name| !named.contains_key(*name));
            return unknown.map_or(Ok(()), |it| Err(format!("{it} is not in the document")));
        }
        Ok(())
    }

    fn keyword(
        &self,
        schema: &Value,
        keyword: &str,
        rule: &Value,
        value: &Value,
    ) -> Result<(), String> {
        let holds = |holds: bool| if holds { Ok(()) } else { Err(format!("{rule} and {value}")) };
        let number = |is: fn(f64, f64) -> bool| {
            holds(value.as_f64().zip(rule.as_f64()).is_none_or(|(it, bound)| is(it, bound)))
        };
        let list = || rule.as_array().expect("a list");
        match keyword {
            "type" => holds(match rule {
                Value::Array(types) => types.iter().any(|it| is_of(it, value)),
                one => is_of(one, value),
            }),
            "const" => holds(rule == value),
            "enum" => holds(list().contains(value)),
            "minimum" => number(|it, bound| it >= bound),
            "maximum" => number(|it, bound| it <= bound),
            "minLength" => {
                holds(value.as_str().is_none_or(|it| Some(it.len() as u64) >= rule.as_u64()))
            }
            // Of the patterns the beginning is compared.
            "pattern" => {
                let start = rule.as_str().and_then(|it| it.strip_prefix('^')).unwrap_or_default();
                let start = start.split('[').next().unwrap_or_default();
                holds(!start.is_empty() && value.as_str().is_some_and(|it| it.starts_with(start)))
            }
            "required" => {
                let has = |name: &Value| value.get(name.as_str().unwrap_or_default()).is_some();
                holds(!value.is_object() || list().iter().all(has))
            }
            "properties" => {
                let named = rule.as_object().expect("an object").iter();
                named
                    .filter_map(|(name, schema)| Some((name, schema, value.get(name)?)))
                    .try_for_each(|(name, schema, it)| {
                        self.fault(schema, it).map_err(|fault| format!("{name}: {fault}"))
                    })
            }
            "additionalProperties" => {
                let fields = value.as_object().into_iter().flatten();
                let others = fields.filter(|(name, _)| schema["properties"].get(name).is_none());
                others.into_iter().try_for_each(|(name, it)| {
                    self.fault(rule, it).map_err(|fault| format!("{name}: {fault}"))
                })
            }
            "items" => {
                value.as_array().into_iter().flatten().try_for_each(|it| self.fault(rule, it))
            }
            "anyOf" | "oneOf" => {
                let faults: Vec<String> =
                    list().iter().filter_map(|it| self.fault(it, value).err()).collect();
                if faults.len() < list().len() { Ok(()) } else { Err(faults.join("; or ")) }
            }
            _ if NOTES.contains(&keyword) => Ok(()),
            _ => Err("this test does not know the keyword".to_owned()),
        }
    }
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => false,
    }
}

#[test]
fn faults_are_found() {
    use serde_json::json;
    let document = json!({ "a": {
        "type": "object",
        "properties": { "n": { "type": ["integer", "null"], "minimum": 1 }, "w": { "enum": ["x"] } },
        "required": ["n"],
    } });
    let schema = json!({ "type": "array", "items": { "$ref": "#/a" } });
    let fault = |value: Value| Schemas(&document).fault(&schema, &value).err();
    for good in [json!([]), json!([{ "n": 1 }, { "n": null, "w": "x" }])] {
        assert_eq!(fault(good.clone()), None, "{good}");
    }
    for bad in [
        json!({}),
        json!([1]),
        json!([{}]),
        json!([{ "n": 0 }]),
        json!([{ "n": "1" }]),
        json!([{ "n": 1, "w": "y" }]),
        json!([{ "n": 1, "unknown": 1 }]),
    ] {
        assert!(fault(bad.clone()).is_some(), "{bad}");
    }
    let either = json!({ "anyOf": [{ "const": "never" }, { "type": "integer" }] });
    assert!(Schemas(&document).fault(&either, &json!("ever")).is_err());
    assert!(Schemas(&document).fault(&json!({ "unheardOf": 1 }), &json!(1)).is_err());
}

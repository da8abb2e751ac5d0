//! What receives the fields of a line, one after the other.

use tollgate_core::log_fields::{FIELDS, Field, FieldNames};
use tollgate_core::price::Money;
use tollgate_core::text::finish_json;

use super::value::{Client, Value, push_amount, push_number, write_json_keys};
use crate::telemetry::record::Record;

/// Receives the fields that a line has, in the order of [`FIELDS`]. Each kind of value has
/// a method, so that a line needs no list of values.
pub trait Visitor<'a> {
    /// A text that a client may have sent.
    fn text(&mut self, field: Field, text: &'a str);
    /// A text without characters that a format escapes; see [`Value::Word`].
    fn word(&mut self, field: Field, word: &'a str);
    /// A number.
    fn number(&mut self, field: Field, number: u64);
    /// An amount of money, in the currency of the prices.
    fn amount(&mut self, field: Field, amount: Money);
    /// The address of the client.
    fn client(&mut self, field: Field, client: Client);
    /// Whose counters were charged how much.
    fn keys(&mut self, field: Field, record: &'a Record);

    /// A text that the request may lack.
    fn optional_text(&mut self, field: Field, text: Option<&'a str>) {
        if let Some(text) = text {
            self.text(field, text);
        }
    }

    /// A number that the request may lack.
    fn optional_number(&mut self, field: Field, number: Option<u64>) {
        if let Some(number) = number {
            self.number(field, number);
        }
    }
}

/// What JSON has before the value of each field: a brace or a comma, the name, and the quote with
/// which a text begins.
#[derive(Debug)]
pub struct Prefixes([Box<str>; FIELDS.len()]);

impl Prefixes {
    /// For fields with these names. All lines have the first field, which is the time.
    pub fn new(names: FieldNames) -> Self {
        let name = |index: usize| FIELDS[index].name(names);
        let before = |index| if index == 0 { '{' } else { ',' };
        let prefix = |index| format!("{}\"{}\":\"", before(index), name(index)).into();
        Self(std::array::from_fn(prefix))
    }
}

/// Writes the members of a JSON object. Writing to a String cannot fail.
pub struct Json<'l> {
    pub prefixes: &'l Prefixes,
    pub line: &'l mut String,
}

impl Json<'_> {
    fn begin_text(&mut self, field: Field) -> &mut String {
        self.line.push_str(&self.prefixes.0[field as usize]);
        self.line
    }

    fn begin(&mut self, field: Field) -> &mut String {
        let prefix = &self.prefixes.0[field as usize];
        self.line.push_str(prefix.strip_suffix('"').unwrap_or(prefix));
        self.line
    }
}

impl<'a> Visitor<'a> for Json<'_> {
    fn text(&mut self, field: Field, text: &'a str) {
        finish_json(self.begin_text(field), text);
    }

    fn word(&mut self, field: Field, word: &'a str) {
        let line = self.begin_text(field);
        line.push_str(word);
        line.push('"');
    }

    fn number(&mut self, field: Field, number: u64) {
        push_number(self.begin(field), number);
    }

    fn amount(&mut self, field: Field, amount: Money) {
        push_amount(self.begin(field), amount);
    }

    fn client(&mut self, field: Field, client: Client) {
        let line = self.begin_text(field);
        client.write(line);
        line.push('"');
    }

    fn keys(&mut self, field: Field, record: &'a Record) {
        let _ = write_json_keys(self.begin(field), record);
    }
}

/// The values of all fields that the request has, for formats that choose some of them.
pub struct Values<'a>([Option<Value<'a>>; FIELDS.len()]);

impl<'a> Values<'a> {
    pub const NONE: Self = Self([None; FIELDS.len()]);

    pub const fn get(&self, field: Field) -> Option<Value<'a>> {
        self.0[field as usize]
    }

    const fn set(&mut self, field: Field, value: Value<'a>) {
        self.0[field as usize] = Some(value);
    }
}

impl<'a> Visitor<'a> for Values<'a> {
    fn text(&mut self, field: Field, text: &'a str) {
        self.set(field, Value::Text(text));
    }

    fn word(&mut self, field: Field, word: &'a str) {
        self.set(field, Value::Word(word));
    }

    fn number(&mut self, field: Field, number: u64) {
        self.set(field, Value::Number(number));
    }

    fn amount(&mut self, field: Field, amount: Money) {
        self.set(field, Value::Amount(amount));
    }

    fn client(&mut self, field: Field, client: Client) {
        self.set(field, Value::Client(client));
    }

    fn keys(&mut self, field: Field, record: &'a Record) {
        self.set(field, Value::Keys(record));
    }
}

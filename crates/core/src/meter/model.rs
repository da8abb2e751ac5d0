//! The name of the model in an answer, which may differ from the one in the request.

use super::pointer::Pointer;
use super::trail::Trail;
use crate::price::MAX_MODEL_BYTES;

/// Reads the first name that an answer states.
#[derive(Clone, Debug)]
pub(super) struct ModelName {
    /// The position in the current document, for each place of a name.
    places: Box<[Trail]>,
    /// Whether the current string is the name.
    is_open: bool,
    text: Vec<u8>,
    name: Option<Box<str>>,
}

impl ModelName {
    /// Before the first document, which may have the name in these places.
    pub(super) fn new(places: impl Iterator<Item = Pointer>) -> Self {
        let places = places.map(Trail::new).collect();
        Self { places, is_open: false, text: Vec::new(), name: None }
    }

    /// The name, if the answer states one. Its end may be missing: see [`MAX_MODEL_BYTES`].
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(super) fn each(&mut self, follow: impl Fn(&mut Trail)) {
        self.places.iter_mut().for_each(follow);
    }

    pub(super) fn wants_text(&self) -> bool {
        self.is_open || self.places.iter().any(Trail::reads_key)
    }

    pub(super) fn byte(&mut self, byte: u8) {
        // One byte more shows that the name is longer than that of any entry.
        if self.is_open && self.text.len() <= MAX_MODEL_BYTES {
            self.text.push(byte);
        }
        self.each(|trail| trail.key_byte(byte));
    }

    pub(super) fn begin_text(&mut self) {
        self.is_open = self.name.is_none() && self.places.iter().any(Trail::is_at_end);
    }

    pub(super) fn end_text(&mut self) {
        if std::mem::take(&mut self.is_open) {
            let text = std::mem::take(&mut self.text);
            self.name = (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into());
        }
    }

    /// The document has ended, maybe within a name.
    pub(super) fn restart(&mut self) {
        self.is_open = false;
        self.text.clear();
        self.each(Trail::restart);
    }
}

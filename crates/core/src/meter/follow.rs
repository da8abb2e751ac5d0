//! What a reader of JSON tells of a document, see [`Document`](super::json::Document).

use super::number::Number;

/// Follows a document while it is read, and takes from it what it wants.
///
/// A value begins with [`begin_value`](Self::begin_value). Then one of the other functions says
/// what it is. `null` has no function.
pub(super) trait Follow {
    /// Whether the bytes of the current string, which may be a key, matter. If not, plain
    /// characters are skipped.
    fn wants_text(&self) -> bool;

    /// The next decoded byte of the current string.
    fn byte(&mut self, byte: u8);

    /// The next bytes of the current string, which are written as they are.
    fn plain(&mut self, run: &[u8]) {
        run.iter().for_each(|byte| self.byte(*byte));
    }

    /// The current string has half of a surrogate pair without the other half.
    fn lone_half(&mut self);

    /// Enters an object.
    fn open_object(&mut self);

    /// Enters an array and its first element.
    fn open_array(&mut self);

    /// Leaves the innermost container.
    fn close(&mut self);

    /// Enters the next element of an array.
    fn next_element(&mut self);

    /// Begins a key of an object.
    fn begin_key(&mut self);

    /// Ends the key. Its value comes next.
    fn end_key(&mut self);

    /// A value begins.
    fn begin_value(&mut self);

    /// The value is a string, which begins.
    fn begin_text(&mut self);

    /// The string has ended.
    fn end_text(&mut self);

    /// The value is a number. It may be incomplete: the document is invalid then.
    fn number(&mut self, number: &Number);

    /// The value is `true` or `false`.
    fn truth(&mut self, value: bool);
}

/// Collects something from documents that follow each other.
pub(super) trait Collect: Follow {
    /// The document has ended, and the next one may begin.
    fn complete(&mut self, is_valid: bool);
}

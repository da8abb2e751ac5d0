//! A copy of a body that is made while the body passes.

use std::fmt;

use bytes::Bytes;

/// Why there is no copy of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapFault {
    /// The body is larger than the copy may be.
    TooLarge,
    /// The body was not read to its end.
    Incomplete,
}

/// What gets the copy. It is called once.
type Receiver = Box<dyn FnOnce(Result<Bytes, TapFault>)>;

/// Copies a body while it passes, and passes the copy on when the body has ended. The bytes are
/// copied, and not shared with the body: a small part of a body would keep a large buffer alive.
pub struct Tap {
    bytes: Vec<u8>,
    max_bytes: usize,
    receiver: Option<Receiver>,
}

impl Tap {
    /// A tap that copies at most `max_bytes`.
    pub fn new(max_bytes: usize, receiver: Receiver) -> Self {
        Self { bytes: Vec::new(), max_bytes, receiver: Some(receiver) }
    }

    /// These bytes pass.
    pub fn passes(&mut self, bytes: &[u8]) {
        if self.receiver.is_none() {
            return;
        }
        if bytes.len() > self.max_bytes - self.bytes.len() {
            self.bytes = Vec::new();
            self.give(Err(TapFault::TooLarge));
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// The body has ended.
    pub fn ends(&mut self) {
        if self.receiver.is_some() {
            let bytes = std::mem::take(&mut self.bytes).into();
            self.give(Ok(bytes));
        }
    }

    fn give(&mut self, copy: Result<Bytes, TapFault>) {
        if let Some(receiver) = self.receiver.take() {
            receiver(copy);
        }
    }
}

/// A body that has not ended until now never ends.
impl Drop for Tap {
    fn drop(&mut self) {
        self.give(Err(TapFault::Incomplete));
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    type Copies = Rc<RefCell<Vec<Result<Bytes, TapFault>>>>;

    fn tap(max_bytes: usize) -> (Tap, Copies) {
        let copies = Copies::default();
        let receiver = Rc::clone(&copies);
        (Tap::new(max_bytes, Box::new(move |copy| receiver.borrow_mut().push(copy))), copies)
    }

    #[test]
    fn a_body_is_copied_up_to_the_bound() {
        let (mut at_bound, copies) = tap(6);
        at_bound.passes(b"abc");
        at_bound.passes(b"def");
        assert_eq!(copies.borrow().len(), 0);
        at_bound.ends();
        drop(at_bound);
        assert_eq!(*copies.borrow(), [Ok(Bytes::from_static(b"abcdef"))]);
        let (mut above, copies) = tap(6);
        above.passes(b"abc");
        above.passes(b"defg");
        assert_eq!(above.bytes.capacity(), 0);
        above.passes(b"h");
        above.ends();
        drop(above);
        assert_eq!(*copies.borrow(), [Err(TapFault::TooLarge)]);
    }

    #[test]
    fn a_body_that_breaks_off_is_not_copied() {
        let (mut tap, copies) = tap(6);
        tap.passes(b"abc");
        drop(tap);
        assert_eq!(*copies.borrow(), [Err(TapFault::Incomplete)]);
    }
}

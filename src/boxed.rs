//! Futures in memory of their own.

use std::pin::Pin;

/// The future that `make` makes, in memory of its own.
///
/// `Box::pin(make())` makes the future first and then its memory. It may panic between the two, so
/// the compiler keeps the future in one piece, and copies all of it: also the space for values that
/// it has later. That is five sixths of a future that forwards a request.
pub fn boxed<F>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, make()))
}

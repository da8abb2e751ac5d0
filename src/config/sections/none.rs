//! `none` in a route, in the place of a setting that `defaults` has too.

use crate::config::field::{Either, Field, Spanned};
use crate::config::words::{Word, words};

/// The word `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nothing;

words! {
    /// What the section `defaults` has does not apply.
    Nothing as "choice" {
        /// What the section `defaults` has does not apply.
        "none" => Nothing,
    }
}

/// A setting of a route, or `none`.
pub type OrNone<T> = Field<Either<Word<Nothing>, T>>;

/// What applies to a route.
pub enum Chosen<'a, T> {
    /// The setting of the route.
    Own(Spanned<&'a T>),
    /// What `defaults` has.
    Default,
    /// Nothing, or what is broken.
    Nothing,
}

impl<T> OrNone<T> {
    /// What applies to a route with this field.
    pub fn chosen(&self) -> Chosen<'_, T> {
        match self {
            Self::Absent => Chosen::Default,
            Self::Broken => Chosen::Nothing,
            Self::Given(given) => match &given.value {
                Either::Short(Word(Nothing)) => Chosen::Nothing,
                Either::Long(own) => Chosen::Own(given.with(own)),
            },
        }
    }
}

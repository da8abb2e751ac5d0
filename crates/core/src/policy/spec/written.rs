//! One field of a specification.

/// A field of a specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Written<T> {
    /// It is not written.
    #[default]
    Absent,
    /// It cannot be read. The code that fills the specification has reported that, so the
    /// compilation does not report it again.
    Unreadable,
    /// It has this value.
    Given(T),
}

impl<T> Written<T> {
    /// The value, if there is one.
    pub const fn given(&self) -> Option<&T> {
        match self {
            Self::Given(value) => Some(value),
            Self::Absent | Self::Unreadable => None,
        }
    }

    /// The same field, with a reference to the value.
    pub const fn as_ref(&self) -> Written<&T> {
        match self {
            Self::Absent => Written::Absent,
            Self::Unreadable => Written::Unreadable,
            Self::Given(value) => Written::Given(value),
        }
    }

    /// Whether it has a value.
    pub const fn is_given(&self) -> bool {
        matches!(self, Self::Given(_))
    }

    /// Whether it is not written.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

impl<T: Copy> Written<T> {
    /// A copy of the value, if there is one.
    pub fn copied(&self) -> Option<T> {
        self.given().copied()
    }
}

impl<T> From<T> for Written<T> {
    fn from(value: T) -> Self {
        Self::Given(value)
    }
}

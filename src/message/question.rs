//! The faults of a question: a request by which another proxy asks about the request of its
//! client.

use tollgate_core::request::{Ambiguity, Malformed};

/// The part of a question that describes no request, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {fault}")]
pub struct BadQuestion {
    /// The name of the field, or of another part of the question.
    pub field: &'static str,
    /// What is wrong with it.
    pub fault: QuestionFault,
}

/// Why a part of a question describes no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionFault {
    /// The field is absent or empty.
    #[error("the field is missing, and the proxy that asks must set it")]
    Missing,
    /// The field has several lines, or two fields say the same.
    #[error("it is given twice, and the proxy that asks must remove what its client has sent")]
    Repeated,
    /// The field names no address of IP.
    #[error("it is not an address, and the proxy that asks must set one")]
    NoAddress,
    /// A server would not accept such a request.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The request has no meaning, or several meanings.
    #[error(transparent)]
    Ambiguous(#[from] Ambiguity),
}

impl QuestionFault {
    /// One word for logs and metrics.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Missing | Self::Repeated | Self::NoAddress => "question",
            Self::Malformed(_) => "malformed",
            Self::Ambiguous(_) => "ambiguous",
        }
    }
}

/// The names of the parts of a question that describe the target and the host of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuestionParts {
    pub target: &'static str,
    pub host: &'static str,
}

impl QuestionParts {
    /// The part that makes a request ambiguous, if a single one does.
    pub const fn part(self, ambiguity: Ambiguity) -> Option<&'static str> {
        match ambiguity {
            Ambiguity::NoHost | Ambiguity::ManyHosts | Ambiguity::BadHost | Ambiguity::TwoHosts => {
                Some(self.host)
            }
            Ambiguity::BadTarget
            | Ambiguity::BadEscape
            | Ambiguity::DotSegment
            | Ambiguity::EmptySegment
            | Ambiguity::BadCharacter => Some(self.target),
            Ambiguity::BadMethod
            | Ambiguity::TwoRoutes
            | Ambiguity::ManyKeys
            | Ambiguity::BadCoding => None,
        }
    }
}

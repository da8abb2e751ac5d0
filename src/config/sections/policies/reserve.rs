//! `reserve` of a cost: the units that a request costs until its response settles them.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_core::algorithm::MAX_LIMIT;
use tollgate_core::policy::spec::{self, EstimateSpec, ReserveSpec, Written};

use crate::config::field::{Either, Field};
use crate::config::node::TextSpan;
use crate::config::scalar::KeyWord;

/// A number of units, or the section with an estimate.
pub type ReserveForm = Either<u64, RawReserve>;

/// The units of the tokens that a request to a language model may use, by what its body states. It
/// needs `settle` with `usage`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename = "reserve", default)]
#[schemars(deny_unknown_fields)]
pub struct RawReserve {
    /// Tokens of the output, if the request states no maximum.
    #[schemars(extend("default" = 4096))]
    #[schemars(example = 1024)]
    #[schemars(range(min = 0, max = MAX_LIMIT))]
    output: Field<u64>,
    /// The most tokens of the output that are reserved for each answer, whatever the request states.
    #[schemars(extend("x-default" = "none"))]
    #[schemars(example = 16_384)]
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    max_output: Field<u64>,
    /// Bytes of the body, without its compression, for each token of the input.
    #[schemars(extend("default" = 3))]
    #[schemars(example = 4)]
    #[schemars(range(min = 1, max = 16))]
    bytes_per_token: Field<u64>,
    /// Tokens of each string in Base64 with more than 8 KiB, such as an image, instead of its bytes.
    #[schemars(extend("default" = 1500))]
    #[schemars(example = 1000)]
    #[schemars(range(min = 0, max = MAX_LIMIT))]
    image: Field<u64>,
    /// More tokens of the input, if the request names input that the provider has stored:
    /// `previous_response_id`, `conversation` or `cachedContent`.
    #[schemars(extend("default" = 8192))]
    #[schemars(example = 20_000)]
    #[schemars(range(min = 0, max = MAX_LIMIT))]
    stored_input: Field<u64>,
    /// The most units of a request. It is reserved if the size of the body is not known.
    #[schemars(extend("x-default" = "the limit of the client, which is the most in any case"))]
    #[schemars(example = 100_000)]
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    max: Field<u64>,
    /// The key that is the model: `json:POINTER` or `header:NAME`.
    #[schemars(extend(
        "x-default" = "`json:/model`; for gemini and bedrock the model in the path"
    ))]
    #[schemars(example = &"json:/model")]
    model: Field<KeyWord>,
}

/// What is reserved.
pub fn spec(raw: &Field<ReserveForm>) -> Written<ReserveSpec> {
    raw.written(|form| match form {
        Either::Short(units) => ReserveSpec::Units(*units),
        Either::Long(long) => ReserveSpec::Estimate(Box::new(long.spec())),
    })
}

/// Where this field of it is written.
pub fn span_of(raw: &Field<ReserveForm>, field: &spec::Field) -> Option<TextSpan> {
    let Either::Long(reserve) = raw.value()? else { return None };
    match field {
        spec::Field::ReserveOutput => reserve.output.span(),
        spec::Field::ReserveMaxOutput => reserve.max_output.span(),
        spec::Field::ReserveBytesPerToken => reserve.bytes_per_token.span(),
        spec::Field::ReserveImage => reserve.image.span(),
        spec::Field::ReserveStored => reserve.stored_input.span(),
        spec::Field::ReserveMax => reserve.max.span(),
        spec::Field::ReserveModel => reserve.model.span(),
        _ => None,
    }
}

impl RawReserve {
    fn spec(&self) -> EstimateSpec {
        let number = |field: &Field<u64>| field.written(|number| *number);
        EstimateSpec {
            output: number(&self.output),
            max_output: number(&self.max_output),
            bytes_per_token: number(&self.bytes_per_token),
            image: number(&self.image),
            stored_input: number(&self.stored_input),
            max: number(&self.max),
            model: self.model.written(|KeyWord(key)| key.clone()),
        }
    }
}

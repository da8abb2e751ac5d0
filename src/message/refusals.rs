//! The form of the responses that the gateway itself makes on a route.

use http::StatusCode;
use tollgate_core::decision::FieldApi;
use tollgate_core::refusal::ApiForm;

use super::read_body::ReadBodySettings;

/// The form of the responses that the gateway itself makes on a route.
#[derive(Clone, Debug, Default)]
pub struct RefusalSettings {
    /// The API whose form they have. None: the form of the node.
    pub form: Option<ApiForm>,
    /// The status of refusals by limits. None: that of the form.
    pub status: Option<StatusCode>,
    /// The API whose fields about limits all responses have.
    pub fields: Option<FieldApi>,
    /// What is read of the body of a refused request, if the form depends on it and no policy has
    /// read it.
    pub read_body: Option<ReadBodySettings>,
}

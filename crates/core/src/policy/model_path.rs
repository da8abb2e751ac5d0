//! What the path of a request to a language model says.

use std::borrow::Cow;

use crate::request::{slashed_path, without_parameters};

/// The operations of Amazon Bedrock for a model, which follow its name in a path.
const BEDROCK: [&str; 6] = [
    "converse",
    "converse-stream",
    "count-tokens",
    "invoke",
    "invoke-with-bidirectional-stream",
    "invoke-with-response-stream",
];

/// A path as the most lenient backends read it: an escaped slash is a slash, segments have no
/// parameters, and there is no slash at the end. Names are compared without regard to case. So all
/// paths that routes take for the same name the same model.
#[derive(Debug)]
pub(super) struct ModelPath<'p> {
    path: Cow<'p, str>,
}

impl<'p> ModelPath<'p> {
    /// The path with this normal form.
    pub(super) fn new(normal: &'p str) -> Self {
        let mut path = slashed_path(normal).map_or(Cow::Borrowed(normal), Cow::Owned);
        if path.contains(';') {
            let segments: Vec<_> = path.split('/').map(without_parameters).collect();
            path = Cow::Owned(segments.join("/"));
        }
        if path.ends_with('/') {
            path = Cow::Owned(path.trim_end_matches('/').to_owned());
        }
        Self { path }
    }

    /// Whether the request has an output of tokens. Embeddings have none.
    pub(super) fn has_output(&self) -> bool {
        let ends = ["embeddings", "embed", ":embedcontent", ":batchembedcontents"];
        let path = self.path.to_ascii_lowercase();
        !ends.iter().any(|end| path.ends_with(end))
    }

    /// The model of Gemini and Vertex AI: between `models/` and the last colon.
    pub(super) fn gemini(&self) -> Option<&str> {
        let marker = "/models/";
        let at = self.path.to_ascii_lowercase().rfind(marker)?;
        let behind = &self.path[at + marker.len()..];
        let name = behind.rsplit_once(':').map_or(behind, |parts| parts.0);
        (!name.is_empty()).then_some(name)
    }

    /// The model of Amazon Bedrock: behind `model/`, until the operation. A name can have slashes, as
    /// that of an inference profile has. Without a known operation it is one segment.
    pub(super) fn bedrock(&self) -> Option<&str> {
        let marker = "/model/";
        let at = self.path.to_ascii_lowercase().find(marker)?;
        let behind = &self.path[at + marker.len()..];
        let first = behind.find('/').unwrap_or(behind.len());
        let is_operation =
            |segment: &str| BEDROCK.iter().any(|name| segment.eq_ignore_ascii_case(name));
        let mut slashes = behind.match_indices('/').map(|(at, _)| at);
        let operation =
            slashes.find(|&slash| behind[slash + 1..].split('/').next().is_some_and(is_operation));
        let name = &behind[..operation.unwrap_or(first)];
        (!name.is_empty()).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_has_one_name_in_every_spelling_of_a_path() {
        for path in [
            "/bedrock/model/gemini-pro/converse",
            "/bedrock/model%2Fgemini-pro/converse",
            "/bedrock/model/gemini-pro%2Fconverse",
            "/bedrock%2Fmodel%2Fgemini-pro%2FConverse",
            "/Model/gemini-pro/converse",
            "/model/gemini-pro;x/converse",
            "/model;x=1/gemini-pro/converse;y",
            "/model/gemini-pro/invoke/",
            "/model/gemini-pro/converse/more",
            "/model/gemini-pro/another",
            "/model/gemini-pro",
        ] {
            assert_eq!(ModelPath::new(path).bedrock(), Some("gemini-pro"), "{path}");
        }
        for path in [
            "/v1beta/models/gemini-pro:generateContent",
            "/v1beta/models%2Fgemini-pro:generateContent",
            "/v1beta/MODELS/gemini-pro:generateContent;x",
            "/v1beta/models/gemini-pro:generateContent;:embedContent",
            "/v1beta/models/gemini-pro:generateContent/",
            "/models/gemini-pro",
        ] {
            assert_eq!(ModelPath::new(path).gemini(), Some("gemini-pro"), "{path}");
        }
        for path in ["/", "/v1/messages", "/model/", "/models/", "/model//converse", "/modelling/x"]
        {
            let path = ModelPath::new(path);
            assert_eq!([path.bedrock(), path.gemini()], [None, None], "{path:?}");
        }
    }

    #[test]
    fn a_name_can_have_slashes() {
        let profile = "arn:aws:bedrock:eu-west-1:1:inference-profile";
        for (path, name) in [
            (format!("/model/{profile}%2Fabc/converse"), format!("{profile}/abc")),
            (format!("/model/{profile}/abc/converse-stream"), format!("{profile}/abc")),
            ("/model/meta%2Fllama/invoke".to_owned(), "meta/llama".to_owned()),
        ] {
            assert_eq!(ModelPath::new(&path).bedrock(), Some(&*name), "{path}");
        }
    }

    #[test]
    fn only_paths_that_end_with_an_operation_of_embeddings_have_no_output() {
        for path in [
            "/v1/embeddings",
            "/v1/Embeddings/",
            "/v1%2Fembeddings;x",
            "/api/embed",
            "/models/e:embedContent",
            "/models/e:batchEmbedContents;x",
        ] {
            assert!(!ModelPath::new(path).has_output(), "{path}");
        }
        for path in [
            "/v1/chat/completions",
            "/v1/chat/completions;embed",
            "/v1/chat/completions/;embed",
            "/v1/chat/completions;a=embeddings",
            "/models/g:generateContent;:embedContent",
        ] {
            assert!(ModelPath::new(path).has_output(), "{path}");
        }
    }
}

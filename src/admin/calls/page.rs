//! The page for browsers, and the document of the API.

use crate::admin::answer::Answer;
use crate::admin::openapi::{self, object};
use crate::admin::page;
use crate::admin::parameter::PathName;
use crate::admin::spec::{CallSpec, Content, Group, Run};

pub const GROUP: Group =
    Group { tag: "page", about: "the page for browsers, and this document", calls: &CALLS };

const CALLS: [CallSpec; 3] = [
    CallSpec {
        id: "getOpenApi",
        summary: "this document",
        answer: Content::Json(object),
        is_public: true,
        ..CallSpec::get(
            "/openapi.json",
            None,
            Run::Now(|it| Ok(Answer::api_document(openapi::text(it.api)))),
        )
    },
    CallSpec {
        id: "getPage",
        summary: "the page for browsers",
        answer: Content::Text(&["text/html"]),
        is_public: true,
        ..CallSpec::get("/", None, Run::Now(|_| page::file("index.html").map(Answer::page_file)))
    },
    CallSpec {
        id: "getPageFile",
        summary: "a file of the page",
        names: &[PathName {
            name: "file",
            about: "a file of the page",
            example: "style.css",
            known: Some(|| page::names().collect()),
        }],
        answer: Content::Text(&["text/html", "text/css", "text/javascript", "image/svg+xml"]),
        is_public: true,
        ..CallSpec::get(
            "/page/{file}",
            None,
            Run::Now(|it| page::file(it.call.value(0)).map(Answer::page_file)),
        )
    },
];

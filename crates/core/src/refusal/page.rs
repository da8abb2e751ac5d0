//! A problem as a small page, for a person in front of a browser.

use std::fmt::Write as _;

use super::problem::Problem;

/// No script, nothing from elsewhere; and the page names an icon, so that the browser does not ask for
/// one, which would be a request of the same client.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n<link rel=\"icon\" href=\"data:,\">\n\
    <style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1rem;\
    color-scheme:light dark}small{opacity:.7}</style>\n";

/// The policy of the page.
pub(super) const CONTENT_SECURITY_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'";

/// The page about a problem.
pub(super) fn page(problem: &Problem<'_>) -> String {
    let Problem { title, status, detail, request_id, .. } = problem;
    let title = escaped(title);
    let detail = escaped(detail);
    let status = status.as_u16();
    let mut page = String::with_capacity(HEAD.len() + 256);
    page.push_str(HEAD);
    let _ = writeln!(page, "<title>{status} {title}</title>");
    let _ = writeln!(page, "<h1>{title}</h1>\n<p>{}{}</p>", first_upper(&detail), end(&detail));
    if let Some(id) = request_id.filter(|id| !id.is_empty()) {
        let id = escaped(id);
        let _ = writeln!(page, "<p><small>Request {id}, status {status}</small></p>");
    }
    page.push_str("</html>\n");
    page
}

/// The text, in which nothing is markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A detail is a part of a sentence, or one.
fn first_upper(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn end(text: &str) -> &'static str {
    if text.ends_with('.') { "" } else { "." }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;
    use crate::policy::Unit;

    #[test]
    fn nothing_that_a_client_sends_is_markup() {
        let problem = Problem {
            kind: None,
            title: "Bad Request",
            status: StatusCode::BAD_REQUEST,
            detail: "the field <script>alert('1')</script> is wrong".into(),
            source: None,
            violated_policies: &[],
            unit: Unit::Requests,
            retry_after_ms: None,
            request_id: Some("\"><img>"),
            limit: None,
            message: None,
            rpc_code: None,
        };
        let page = page(&problem);
        assert!(page.contains("<title>400 Bad Request</title>"), "{page}");
        let detail = "<p>The field &lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; is wrong.</p>";
        assert!(page.contains(detail), "{page}");
        assert!(page.contains("&quot;&gt;&lt;img&gt;") && !page.contains("<img"), "{page}");
        assert!(page.contains("rel=\"icon\" href=\"data:,\""), "{page}");
    }
}

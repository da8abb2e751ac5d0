//! Requests that HTTP allows, and their views.

use http::{HeaderValue, Request};

use super::*;

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn request(target: &str, hosts: &[&str]) -> Parts {
    let mut request = Request::builder().uri(target);
    for host in hosts {
        request = request.header(HOST, *host);
    }
    request.body(()).expect("a request that http can hold").into_parts().0
}

#[test]
fn there_is_one_host() {
    let host = |target, hosts: &[&str]| {
        RequestView::of(&request(target, hosts), PEER).map(|view| view.host().to_owned())
    };
    assert_eq!(host("/", &["API.example.com:8080"]), Ok("api.example.com".into()));
    assert_eq!(host("/", &["[::1]:80"]), Ok("[::1]".into()));
    assert_eq!(host("/", &[""]), Ok(String::new()));
    assert_eq!(host("http://a.example/x", &["A.example"]), Ok("a.example".into()));
    assert_eq!(host("/", &[]), Err(Ambiguity::NoHost));
    assert_eq!(host("/", &["a", "a"]), Err(Ambiguity::ManyHosts));
    assert_eq!(host("http://a.example/x", &["b.example"]), Err(Ambiguity::TwoHosts));
    assert_eq!(host("http://u:p@a.example/", &["u:p@a.example"]), Err(Ambiguity::BadHost));
    assert_eq!(host("/", &["a@b"]), Err(Ambiguity::BadHost));
    assert_eq!(host("http://a.example./x", &["A.example."]), Ok("a.example".into()));
}

#[test]
fn an_http_2_request_names_its_host_in_host_or_authority() {
    let host = |target, hosts: &[&str]| {
        let mut parts = request(target, hosts);
        parts.version = Version::HTTP_2;
        RequestView::of(&parts, PEER).map(|view| view.host().to_owned())
    };
    assert_eq!(host("https://a.example:443/", &[]), Ok("a.example".into()));
    assert_eq!(host("/", &["a.example"]), Ok("a.example".into()));
    assert_eq!(host("/", &[]), Err(Ambiguity::NoHost));
    for bad in ["https://a.example:x/", "https://u:p@a.example/"] {
        assert_eq!(host(bad, &[]), Err(Ambiguity::BadTarget), "{bad}");
    }
}

/// Some backends compare methods without case, so each spelling would be another counter of one
/// client.
#[test]
fn a_common_method_with_a_lower_case_letter_has_no_view() {
    let mut parts = request("/", &["a"]);
    for method in ["get", "Get", "gEt", "dELETE"] {
        parts.method = method.parse().expect("a token");
        let views = [RequestView::of(&parts, PEER), RequestView::of_service(&parts, PEER)];
        for view in views {
            assert_eq!(view.map(|_| ()), Err(Ambiguity::BadMethod), "{method}");
        }
    }
    parts.method = "propfind".parse().expect("a token");
    assert!(RequestView::of(&parts, PEER).is_ok());
}

#[test]
fn an_asterisk_is_valid_for_options_only() {
    let mut parts = request("*", &["a"]);
    assert_eq!(RequestView::of(&parts, PEER).map(|_| ()), Err(Ambiguity::BadTarget));
    parts.method = Method::OPTIONS;
    assert!(RequestView::of(&parts, PEER).is_ok_and(|view| view.path() == "*"));
}

#[test]
fn a_target_in_absolute_form_is_of_http_or_https() {
    let path = |target| {
        let parts = request(target, &["a"]);
        RequestView::of(&parts, PEER).map(|view| view.path().to_owned())
    };
    assert_eq!(path("http://a"), Ok("/".into()));
    assert_eq!(path("https://a/x"), Ok("/x".into()));
    for bad in ["a", "ftp://a/x"] {
        assert_eq!(path(bad), Err(Ambiguity::BadTarget), "{bad}");
    }
}

#[test]
fn only_the_coding_chunked_is_accepted() {
    let judged = |codings: &[&str]| {
        let mut parts = request("/", &["a"]);
        for coding in codings {
            let coding = HeaderValue::from_str(coding).expect("a value");
            parts.headers.append(TRANSFER_ENCODING, coding);
        }
        RequestView::of(&parts, PEER).map(|_| ())
    };
    assert_eq!(judged(&[]), Ok(()));
    assert_eq!(judged(&["Chunked"]), Ok(()));
    for bad in [&["gzip, chunked"][..], &["chunked, chunked"], &["chunked", "chunked"], &[""]] {
        assert_eq!(judged(bad), Err(Ambiguity::BadCoding), "{bad:?}");
    }
}

#[test]
fn an_ipv4_mapped_peer_is_converted_to_ipv4() {
    let parts = request("/", &["a"]);
    let peer = "::ffff:192.0.2.1".parse().expect("an address");
    let view = RequestView::of(&parts, peer).expect("a good request");
    assert_eq!(view.peer().to_string(), "192.0.2.1");
}

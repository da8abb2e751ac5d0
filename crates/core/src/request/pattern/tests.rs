//! Texts that are path patterns, and the errors of other texts.

use super::*;

#[test]
fn a_pattern_is_parsed_segment_by_segment() {
    let literal = |text: &str| Segment::Literal(text.into());
    let param = |text: &str| Segment::Param(text.into());
    let prefix = |text: &str| Segment::Prefix(text.into());
    let cases = [
        ("/", vec![literal("")], false),
        ("/*", vec![], true),
        ("/v1/*", vec![literal("v1")], true),
        ("/v1/", vec![literal("v1"), literal("")], false),
        ("/orders/{id}", vec![literal("orders"), param("id")], false),
        ("/a%2Fb/x.y~z", vec![literal("a%2Fb"), literal("x.y~z")], false),
        ("/grpc.*", vec![prefix("grpc.")], true),
        ("/{a}/.*", vec![param("a"), prefix(".")], true),
    ];
    for (text, segments, tail) in cases {
        let pattern = PathPattern { segments, tail };
        assert_eq!(pattern.to_string(), text);
        assert_eq!(text.parse(), Ok(pattern), "{text}");
    }
}

#[test]
fn a_pattern_that_can_never_match_is_refused_with_advice() {
    use PathPatternError as Error;
    let escape =
        |written: &str, right: &str| Error::Escape { written: written.into(), right: right.into() };
    let cases = [
        ("", Error::NoSlash(String::new())),
        ("v1", Error::NoSlash("v1".into())),
        ("//", Error::EmptySegment),
        ("/a//b", Error::EmptySegment),
        ("//*", Error::EmptySegment),
        ("/a/./b", Error::DotSegment),
        ("/..", Error::DotSegment),
        ("/;a/b", Error::Parameter),
        ("/;a/*", Error::Parameter),
        ("/;a*", Error::Parameter),
        ("/a*b", Error::Star),
        ("/a*/*", Error::Star),
        ("/*/b", Error::Star),
        ("/**", Error::Star),
        ("/a?b", Error::Query),
        ("/a#b", Error::Query),
        ("/a b", Error::Character(' ')),
        ("/caf\u{e9}", Error::Character('\u{e9}')),
        ("/%4", Error::BadEscape),
        ("/%+1", Error::BadEscape),
        ("/%\u{e9}", Error::BadEscape),
        ("/%7euser", escape("%7e", "~")),
        ("/a%2fb", escape("%2f", "%2F")),
        ("/%4*", Error::BadEscape),
        ("/a{b}", Error::Braces("a{b}".into())),
        ("/{a}*", Error::Braces("{a}".into())),
        ("/{", Error::Braces("{".into())),
        ("/{}", Error::ParamName(String::new())),
        ("/{a-b}", Error::ParamName("a-b".into())),
        ("/{a}/{b}/{a}", Error::DuplicateParam("a".into())),
    ];
    for (text, error) in cases {
        assert_eq!(text.parse::<PathPattern>(), Err(error), "{text}");
    }
}

#[test]
fn the_number_of_segments_is_bounded() {
    let of = |length: usize| "/a".repeat(length).parse::<PathPattern>();
    assert_eq!(of(MAX_SEGMENTS).map(|pattern| pattern.segments.len()), Ok(MAX_SEGMENTS));
    assert_eq!(of(MAX_SEGMENTS + 1), Err(PathPatternError::TooLong));
}

#[test]
fn an_error_names_the_correct_form() {
    let error = |text: &str| text.parse::<PathPattern>().unwrap_err().to_string();
    assert_eq!(error("v1/x"), "a path begins with a slash: `/v1/x`");
    assert_eq!(
        error("/x{id}"),
        "a parameter is a whole segment, as in `/orders/{id}`, not `x{id}`"
    );
}

#[test]
fn only_values_of_parameters_are_masked() {
    for (pattern, path, masked) in [
        ("/v1/orders", "/v1//orders", "/v1//orders"),
        ("/t/{tenant}/orders", "/t/acme/orders", "/t/{tenant}/orders"),
        ("/t/{tenant}/{id}/*", "//t//a%2Fb/7/rest/of", "//t//{tenant}/{id}/rest/of"),
        ("/{tenant}/", "/acme/", "/{tenant}/"),
        ("/{tenant}/*", "/acme", "/{tenant}"),
    ] {
        let pattern: PathPattern = pattern.parse().unwrap();
        assert_eq!(pattern.masked(path), masked, "{path}");
    }
}

//! What each tool writes around a line.

use proptest::prelude::*;

use super::*;

const LINE: &str = "192.0.2.7 - - [21/Nov/2026:07:28:46 +0000] \"GET /a|b HTTP/1.1\" 200 12";

/// The line inside, with `+` after it if it goes on.
fn opened(envelope: Envelope, line: &str) -> Option<String> {
    let content = envelope.open(line.as_bytes())?;
    let part = if content.is_part { "+" } else { "" };
    Some(String::from_utf8_lossy(&content.text).into_owned() + part)
}

#[test]
fn each_envelope_is_opened() {
    let json = LINE.replace('"', "\\\"");
    let time = "2026-11-21T07:28:46.123456789Z";
    let cases = [
        (
            Envelope::Docker,
            format!("{{\"log\":\"{json}\\n\",\"stream\":\"stdout\",\"time\":\"{time}\"}}"),
        ),
        (
            Envelope::Docker,
            format!(
                "{{\"log\":\"{json}\\r\\n\",\"stream\":\"stderr\",\"attrs\":{{\"tag\":\"a\"}},\"time\":\"{time}\"}}"
            ),
        ),
        (
            Envelope::Docker,
            format!("{{\"stream\":\"stdout\",\"time\":\"{time}\",\"log\":\"{json}\"}}"),
        ),
        (Envelope::Compose, format!("gateway-1  | {LINE}")),
        (Envelope::Compose, format!("docker_web.app_12 | {LINE}")),
        (Envelope::Compose, format!("\x1b[36mgateway-1  |\x1b[0m {LINE}")),
        (Envelope::Compose, format!("\x1b[33;1mgateway-1  | \x1b[0m{LINE}")),
        (Envelope::Cri, format!("{time} stdout F {LINE}")),
        (Envelope::Cri, format!("2026-11-21T08:28:46.1+01:00 stderr F:x {LINE}")),
        (Envelope::Kubectl, format!("[pod/web-6d84/nginx] {LINE}")),
        (Envelope::Syslog, format!("<134>Nov 21 07:28:46 localhost haproxy[27607]: {LINE}")),
        (Envelope::Syslog, format!("Nov  1 07:28:46 web-1 nginx: {LINE}")),
        (Envelope::Syslog, format!("<190>Nov 21 07:28:46 nginx: {LINE}")),
        (Envelope::Syslog, format!("2026-11-21T07:28:46.123456+00:00 web-1 haproxy[7]: {LINE}")),
        (Envelope::Syslog, format!("2026-11-21T07:28:46+0000 web-1 nginx[7]: {LINE}")),
        (
            Envelope::Syslog,
            format!("<134>1 2026-11-21T07:28:46.1+00:00 - haproxy 27607 - - {LINE}"),
        ),
        (Envelope::Syslog, format!("<134>1 - web-1 nginx - id [a b=\"c\\]\"][d] \u{feff}{LINE}")),
        (Envelope::Timestamp, format!("{time} {LINE}")),
    ];
    for (envelope, text) in cases {
        assert_eq!(opened(envelope, &text).as_deref(), Some(LINE), "{envelope:?} {text}");
        assert_eq!(opened(envelope, LINE), None, "{envelope:?}");
    }
}

#[test]
fn a_line_that_was_split_goes_on() {
    assert_eq!(opened(Envelope::Cri, "2026-11-21T07:28:46Z stdout P ab"), Some("ab+".into()));
    let long = "x".repeat(DOCKER_PART_BYTES);
    let text = format!("{{\"log\":\"{long}\"}}");
    assert_eq!(opened(Envelope::Docker, &text), Some(format!("{long}+")));
    let text = format!("{{\"log\":\"{long}\\n\"}}");
    assert_eq!(opened(Envelope::Docker, &text), Some(long));
}

#[test]
fn envelopes_are_inside_one_another() {
    let both = Envelopes::of(&[Envelope::Docker, Envelope::Syslog]);
    let text = "{\"log\":\"Nov 21 07:28:46 a nginx: \\\"x\\\"\\n\"}";
    let content = both.open(text.as_bytes()).expect("an envelope in an envelope");
    assert_eq!(&*content.text, b"\"x\"");
    assert_eq!(both.names().as_deref(), Some("syslog in docker"));
    assert!(both.open(b"Nov 21 07:28:46 a nginx: x").is_none());
    assert_eq!(Envelopes::default().names(), None);
}

proptest! {
    #[test]
    fn no_input_panics(
        text in "[<>\\[\\]{}\":|/a1 \\\\=.PFTZ+-]{0,60}",
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        start in prop::sample::select(vec!["", "<1>1 - - - - - ", "{\"log\":\"", "2026-11-21T07:28:46Z ", "Nov 21 07:28:46 ", "[pod/", "\x1b["]),
    ) {
        for envelope in Envelope::ALL {
            let _ = envelope.open(&bytes);
            let _ = envelope.open(format!("{start}{text}").as_bytes());
            let _ = envelope.open(&[start.as_bytes(), &bytes].concat());
        }
    }
}

//! JSON logs of each writer, as they write them.

use proptest::prelude::*;

use super::*;

fn shown(names: &Names, text: &str) -> String {
    let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match names.parse(text.as_bytes()) {
        None => "unread".to_owned(),
        Some(Parsed::NoRequest) => "no request".to_owned(),
        Some(Parsed::Dropped(lines)) => format!("{lines} dropped"),
        Some(Parsed::Request(line)) => {
            let client = line.client.map(|it| it.address.to_string()).unwrap_or_default();
            let host = line.host.as_deref().map(text_of).unwrap_or_default();
            let headers: Vec<_> = line
                .headers
                .iter()
                .map(|(n, v)| format!("{}={}", text_of(n), text_of(v)))
                .collect();
            format!(
                "{:?} {} {client} {} {} {host} {} {:?} {:?} {:?} {}",
                line.mark,
                line.time.us,
                text_of(&line.method),
                text_of(&line.target),
                line.status,
                line.bytes,
                line.request_bytes,
                line.duration_us,
                headers.join(" ")
            )
        }
    }
}

#[test]
fn the_own_log_is_read() {
    let text = "{\"time\":\"2026-11-21T07:28:46.123Z\",\"request_id\":\"id-1\",\"client\":\"203.0.113.0/24\",\
         \"method\":\"GET\",\"path\":\"/a\\\"b\",\"status\":429,\"bytes\":12,\"duration_us\":34,\
         \"route\":\"orders\",\"outcome\":\"refused\",\"policy\":\"per-client\",\"remaining\":0}";
    assert_eq!(
        shown(&Names::own(FieldNames::Own), text),
        "Start 1795246126123000 203.0.113.0 GET /a\"b  429 Some(12) None Some(34) "
    );
    assert_eq!(shown(&Names::own(FieldNames::Own), "{\"dropped_lines\":2}"), "2 dropped");
    assert_eq!(shown(&Names::own(FieldNames::Own), "{\"other\":2}"), "no request");
    assert_eq!(
        shown(&Names::own(FieldNames::Own), "{\"client\":\"192.0.2.7\",\"path\":\"/\"}"),
        "unread"
    );
    assert_eq!(shown(&Names::own(FieldNames::Own), "text"), "unread");
}

#[test]
fn the_log_of_caddy_is_read() {
    let text = "{\"level\":\"info\",\"ts\":1795246126.1234,\"logger\":\"http.log.access\",\"msg\":\"handled request\",\
         \"request\":{\"remote_ip\":\"192.0.2.7\",\"remote_port\":\"41342\",\"proto\":\"HTTP/2.0\",\"method\":\"GET\",\
         \"host\":\"a.test\",\"uri\":\"/x?y=1\",\"headers\":{\"User-Agent\":[\"curl/8\"]},\"tls\":{\"version\":772}},\
         \"bytes_read\":5,\"duration\":0.000929675,\"size\":10900,\"status\":200,\"resp_headers\":{\"Server\":[\"Caddy\"]}}";
    assert_eq!(
        shown(&Names::caddy(), text),
        "End 1795246126123400 192.0.2.7 GET /x?y=1 a.test 200 Some(10900) Some(5) Some(929) User-Agent=curl/8"
    );
    let other =
        "{\"level\":\"info\",\"ts\":1795246126.1,\"msg\":\"serving initial configuration\"}";
    assert_eq!(shown(&Names::caddy(), other), "no request");
}

/// A request that fails has two lines, and was counted twice. Other parts of Caddy write requests,
/// too.
#[test]
fn only_the_access_log_of_caddy_has_requests() {
    let line = |logger: &str| {
        format!(
            "{{\"level\":\"error\",\"ts\":1.5,{logger}\"request\":{{\"remote_ip\":\"::1\",\"method\":\"GET\",\"uri\":\"/\"}}}}"
        )
    };
    for (logger, is_request) in [
        ("\"logger\":\"http.log.access\",", true),
        ("\"logger\":\"http.log.access.log0\",", true),
        ("", true),
        ("\"logger\":\"http.log.error.log0\",", false),
        ("\"logger\":\"http.log.error\",", false),
        ("\"logger\":\"http.handlers.reverse_proxy\",", false),
    ] {
        assert_eq!(shown(&Names::caddy(), &line(logger)) != "no request", is_request, "{logger}");
    }
}

#[test]
fn the_log_of_traefik_is_read() {
    let text = "{\"ClientAddr\":\"192.0.2.7:5000\",\"ClientHost\":\"192.0.2.7\",\"DownstreamContentSize\":7,\
         \"DownstreamStatus\":200,\"Duration\":1500000,\"RequestContentSize\":3,\"RequestHost\":\"a.test\",\
         \"RequestMethod\":\"POST\",\"RequestPath\":\"/x\",\"StartUTC\":\"2026-11-21T07:28:46.123456789Z\",\
         \"request_X-Api-Key\":\"k\",\"time\":\"2026-11-21T07:28:46Z\"}";
    assert_eq!(
        shown(&Names::traefik(), text),
        "Start 1795246126123456 192.0.2.7 POST /x a.test 200 Some(7) Some(3) Some(1500) X-Api-Key=k"
    );
}

#[test]
fn the_log_of_envoy_is_read() {
    let text = "{\"start_time\":\"2026-11-21T07:28:46.123Z\",\"method\":\"GET\",\"path\":\"/x\",\"response_code\":200,\
         \"bytes_received\":0,\"bytes_sent\":7,\"duration\":15,\"x_forwarded_for\":\"198.51.100.1,192.0.2.7\",\
         \"user_agent\":null,\"authority\":\"a.test\"}";
    let end =
        "GET /x a.test 200 Some(7) Some(0) Some(15000) x-forwarded-for=198.51.100.1,192.0.2.7";
    assert_eq!(shown(&Names::envoy(), text), format!("Start 1795246126123000 192.0.2.7 {end}"));
    let direct =
        text.replace("\"method\"", "\"downstream_remote_address\":\"192.0.2.9:41\",\"method\"");
    assert_eq!(shown(&Names::envoy(), &direct), format!("Start 1795246126123000 192.0.2.9 {end}"));
}

#[test]
fn a_map_names_what_another_log_calls_it() {
    let map =
        "time=ts,client=peer.ip,path=req.path,query=req.query,duration_ms=took,header:X-Key=key";
    let names = Names::of_map(map).expect("a map");
    let text = "{\"ts\":1795246126123,\"peer\":{\"ip\":\"192.0.2.7\"},\"req\":{\"path\":\"/x\",\"query\":\"y=1\"},\
         \"took\":1.5,\"key\":\"k\"}";
    assert_eq!(
        shown(&names, text),
        "End 1795246126123000 192.0.2.7 GET /x?y=1  0 None None Some(1500) x-key=k"
    );
}

/// Before, such lines had no path or no client.
#[test]
fn a_map_names_a_request_line_and_lists_of_addresses() {
    let names = Names::of_map("time=ts,client=xff,client=ip,request=request,duration=took");
    let names = names.expect("a map");
    let request = "\"ts\":\"26\\/Nov\\/2026:07:28:46 +0000\",\"request\":\"POST \\/x?y=1 HTTP\\/1.1\",\"took\":\"1.5ms\"";
    let start = "End 1795678126000000";
    let end = "POST /x?y=1  0 None None Some(1500)";
    let cases = [
        ("\"ip\":\"::1\"", format!("{start} ::1 {end} ")),
        (
            "\"xff\":\"2001:db8::9, 192.0.2.7\",\"ip\":\"::1\"",
            format!("{start} 192.0.2.7 {end} x-forwarded-for=2001:db8::9, 192.0.2.7"),
        ),
        (
            "\"xff\":[\"192.0.2.7\",\"2001:db8::9\"]",
            format!("{start} 2001:db8::9 {end} x-forwarded-for=192.0.2.7, 2001:db8::9"),
        ),
        ("\"xff\":\"-\",\"ip\":\"::1\"", format!("{start} ::1 {end} ")),
        ("\"xff\":[],\"ip\":null", format!("{start}  {end} ")),
    ];
    for (clients, expected) in cases {
        assert_eq!(shown(&names, &format!("{{{clients},{request}}}")), expected, "{clients}");
    }
    let names = Names::of_map("start=ts,header:x-key=key,request=request").expect("a map");
    let text = format!("{{\"key\":\"k\",{request}}}");
    assert_eq!(
        shown(&names, &text),
        "Start 1795678126000000  POST /x?y=1  0 None None None x-key=k"
    );
}

#[test]
fn a_map_that_cannot_be_used_is_refused() {
    let cases = [
        ("time", MapError::Form("time".into())),
        ("time=", MapError::Form("time=".into())),
        ("tme=ts", MapError::Field("tme".into())),
        ("header:=x", MapError::Field("header:".into())),
        ("client=ip,path=p", MapError::Missing("the time (time=NAME or start=NAME)")),
        (
            "time=ts,path=p",
            MapError::Missing("the client (client=NAME, or header:NAME=NAME with its key)"),
        ),
        ("time=ts,client=ip", MapError::Missing("the path (path=NAME or request=NAME)")),
    ];
    for (map, error) in cases {
        assert_eq!(Names::of_map(map), Err(error), "{map}");
    }
}

proptest! {
    #[test]
    fn no_input_panics(
        ts in "[-0-9.eE]{0,24}",
        text in "[\\PC\"\\\\]{0,12}",
        cut in 0..160_usize,
    ) {
        let line = format!(
            "{{\"ts\":{ts},\"time\":\"{text}\",\"StartUTC\":\"{text}\",\"duration\":{ts},\"client\":\"{text}\",\
             \"request\":{{\"uri\":\"{text}\",\"headers\":{{\"a\":[\"{text}\"]}}}}}}"
        );
        let end = cut.min(line.len());
        for names in [Names::own(FieldNames::Own), Names::caddy(), Names::traefik(), Names::envoy()] {
            let _ = names.parse(line.as_bytes());
            let _ = names.parse(&line.as_bytes()[..end]);
        }
    }
}

//! A strict reader of requests: it accepts only the forms that RFC 9112 allows senders to
//! send, and none that only recipients should tolerate.

/// Fields that belong to one connection, and may not pass through a gateway.
const NEVER: [&str; 7] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "upgrade",
    "http2-settings",
    "te",
];

/// A request line without its version, followed by the body if there is one.
pub(super) type Summary = String;

/// The request at the start of `bytes` and its length; none if it is not complete.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Summary, usize)>, String> {
    let Some(head_len) = find(bytes, b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = &bytes[..head_len];
    let text = std::str::from_utf8(head).map_err(|_| format!("not text: {head:?}"))?;
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let summary = request_line(line)?;
    let fields: Vec<(String, &str)> = lines.map(field).collect::<Result<_, _>>()?;
    let values = |wanted: &str| {
        let found = fields.iter().filter(|(name, _)| name == wanted);
        found.map(|(_, value)| *value).collect::<Vec<_>>()
    };
    if values("host").len() != 1 {
        return Err(format!("{:?} is not one Host", values("host")));
    }
    if let Some(never) = NEVER.iter().find(|name| !values(name).is_empty()) {
        return Err(format!("{never} came through"));
    }
    // An expectation needs a body, and must be the only known one.
    let is_framed = ["content-length", "transfer-encoding"].iter().any(|it| !values(it).is_empty());
    match &values("expect")[..] {
        [] => {}
        ["100-continue"] if is_framed => {}
        expectations => return Err(format!("{expectations:?} is expected")),
    }
    let body = &bytes[head_len + 4..];
    let whole = match (&values("content-length")[..], &values("transfer-encoding")[..]) {
        ([], []) => Some((Vec::new(), 0)),
        ([length], []) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
            let length = length.parse().map_err(|_| format!("{length} is no length"))?;
            body.get(..length).map(|body| (body.to_vec(), length))
        }
        ([], ["chunked"]) => chunks(body)?,
        framings => return Err(format!("{framings:?} is not one framing")),
    };
    Ok(whole.map(|(body, len)| {
        let body = String::from_utf8_lossy(&body).into_owned();
        let gap = if body.is_empty() { "" } else { " " };
        (format!("{summary}{gap}{body}"), head_len + 4 + len)
    }))
}

fn request_line(line: &str) -> Result<String, String> {
    let bad = || format!("{line:?} is no request line");
    let (summary, version) = line.rsplit_once(' ').ok_or_else(bad)?;
    let (method, target) = summary.split_once(' ').ok_or_else(bad)?;
    let good = version == "HTTP/1.1"
        && is_token(method)
        && (target.starts_with('/') || (method == "OPTIONS" && target == "*"))
        && target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    if good { Ok(summary.to_owned()) } else { Err(bad()) }
}

fn field(line: &str) -> Result<(String, &str), String> {
    let bad = || format!("{line:?} is no field");
    let (name, value) = line.split_once(": ").ok_or_else(bad)?;
    let is_value = value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
    if is_token(name) && is_value { Ok((name.to_ascii_lowercase(), value)) } else { Err(bad()) }
}

fn is_token(text: &str) -> bool {
    let is_mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// The content of a chunked body, and its length on the wire.
fn chunks(body: &[u8]) -> Result<Option<(Vec<u8>, usize)>, String> {
    let mut content = Vec::new();
    let mut at = 0;
    loop {
        let Some(len) = find(&body[at..], b"\r\n") else {
            return Ok(None);
        };
        let line = String::from_utf8_lossy(&body[at..at + len]).into_owned();
        let is_size = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_hexdigit());
        let size = usize::from_str_radix(&line, 16).ok().filter(|_| is_size);
        let size = size.ok_or_else(|| format!("{line:?} is no size of a chunk"))?;
        at += len + 2;
        if size == 0 {
            return trailers(&body[at..]).map(|len| len.map(|len| (content, at + len)));
        }
        let Some(chunk) = body.get(at..at + size + 2) else {
            return Ok(None);
        };
        if !chunk.ends_with(b"\r\n") {
            return Err(format!("{chunk:?} is no chunk"));
        }
        content.extend_from_slice(&chunk[..size]);
        at += size + 2;
    }
}

/// The length of the trailer fields with the empty line at their end.
fn trailers(rest: &[u8]) -> Result<Option<usize>, String> {
    if rest.starts_with(b"\r\n") {
        return Ok(Some(2));
    }
    let Some(len) = find(rest, b"\r\n\r\n") else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(&rest[..len]).into_owned();
    for line in text.split("\r\n") {
        let (name, _) = field(line)?;
        if ["content-length", "transfer-encoding", "host"].contains(&&*name) {
            return Err(format!("{name} came as a trailer"));
        }
    }
    Ok(Some(len + 4))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

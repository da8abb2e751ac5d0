//! Generates ordinary requests. The same seed gives the same requests.

use fastrand::Rng;

/// A request before it is encoded.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) body: Body,
    /// Whether it is a request of HTTP/1.0.
    pub(super) is_old: bool,
}

#[derive(Debug)]
pub(super) enum Body {
    None,
    Whole(Vec<u8>),
    Chunked(Vec<u8>),
}

impl Request {
    /// The request as bytes of HTTP/1.
    pub(super) fn http1(&self) -> Vec<u8> {
        let version = if self.is_old { "1.0" } else { "1.1" };
        let mut text = format!("{} {} HTTP/{version}\r\n", self.method, self.target);
        for (name, value) in &self.fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut bytes = text.into_bytes();
        match &self.body {
            Body::None => bytes.extend(b"\r\n"),
            Body::Whole(body) => {
                bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                bytes.extend(body);
            }
            Body::Chunked(body) => {
                bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in body.chunks(100) {
                    bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                    bytes.extend(chunk);
                    bytes.extend(b"\r\n");
                }
                bytes.extend(b"0\r\n\r\n");
            }
        }
        bytes
    }
}

/// An endless sequence of requests.
pub(super) struct Traffic<'t> {
    rng: Rng,
    tokens: &'t [String],
}

const PATHS: &[&str] = &[
    "/",
    "/index.html",
    "/favicon.ico",
    "/assets/app-3f2a9c.js",
    "/static/css/main.css",
    "/img/logo%402x.png",
    "/wp-content/themes/a/style.css",
    "/api/v1/users/123",
    "/~user/",
    "/v1/orders/7;rev=2/items;sort=asc,name",
    "/caf%C3%A9",
    "/caf%c3%a9",
    "/%E6%97%A5%E6%9C%AC",
    "/café/menü",
    "/日本/東京",
    "/a%20b/c+d",
    "/files/report%20(final)%20[v2].pdf",
    "/a/b/",
    "/.well-known/acme-challenge/t0k-en_1",
    "/v1/projects/p/locations/l:batchGet",
    "/o/a%2Fb",
    "/@scope/pkg/-/pkg-1.2.3.tgz",
    "/path//double///slash",
    "/t/acme/orders",
    "/t/a%20co/x",
    "/graphql",
    "/search",
    "/xmlrpc.php",
    "/a!b$c&d'e(f)g*h",
    "/1.0/x..y/...",
    "/%7Euser/%2D",
    "/date/2026-11-22T06:00:00+01:00",
    "/a=b",
    "/100%25",
    "/node/%23/%3F",
    "/emoji/\u{1f600}",
    "/t/acme/caf%C3%A9;v=1",
    "/owa/auth.owa",
    "/a|b",
    "/{template}",
    "/_next/data/[slug].json",
];

const QUERIES: &[&str] = &[
    "v=1.2.3",
    "ver=6.4.2&_=1700000000000",
    "q=caf%C3%A9+au+lait&tag=a&tag=b&tag=a",
    "filter[price][gte]=10&filter[price][lte]=20&sort=-created",
    "empty=&flag&a=1&&b",
    "",
    "utm_source=news&utm_medium=email&utm_campaign=Fall+%26+Winter&gclid=Cj0K-x_y",
    "page=2&page=3",
    "query=%7Bme%7Bid%7D%7D&variables={}",
    "to=https%3A%2F%2Fexample.com%2F%3Fa%3Db%23c",
    "k=a%3Db%26c",
    "d=2026-01-01T00:00:00+01:00",
    "ids=1,2,3&ids=4",
    "q=日本",
    "a=b;c=d",
    "x=%",
    "callback=jQuery_123&_=1",
    "redirect=/a/b?c=d",
    "token=abc.def-ghi_jkl~",
    "q=a|b",
    "100%",
    "key=k-12345",
    "a=1&key=k%2D1&b=2",
    "api=v2&keys=a&keys=b&keyed=x",
];

const AGENTS: &[&str] = &[
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
     Chrome/131.0.0.0 Safari/537.36 Edg/131.0.0.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like \
     Gecko) Mobile/15E148 [FBAN/FBIOS;FBAV/460.0.0.31.106;FBDV/iPhone14,5;FBMD/iPhone;FBSN/iOS;\
     FBSV/17.5;FBSS/3;FBID/phone;FBLC/de_DE;FBOP/5;FBRV/0]",
    "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0",
    "curl/8.11.0",
    "python-requests/2.32.3",
    "okhttp/4.12.0",
    "Go-http-client/1.1",
    "kube-probe/1.31",
    "ELB-HealthChecker/2.0",
    "Dalvik/2.1.0 (Linux; U; Android 14; Pixel 8 Build/AP2A.240805.005)",
    "Googlebot/2.1 (+http://www.google.com/bot.html)",
    "axios/1.7.9",
    "",
];

const COOKIES: &[&str] = &[
    "_ga=GA1.2.1234567890.1700000000",
    "_gid=GA1.2.987654321.1700000000",
    "_gat_gtag_UA_1_1=1",
    "_ga_ABC123=GS1.1.1700000000.3.1.1700000100.60.0.0",
    "_fbp=fb.1.1700000000000.123456789",
    "laravel_session=eyJpdiI6IkFCQz0iLCJ2YWx1ZSI6ImFiYz09IiwibWFjIjoiYWIifQ%3D%3D",
    "XSRF-TOKEN=eyJpdiI6IlhZWj0iLCJ2YWx1ZSI6Inh5eiIsIm1hYyI6ImNkIn0%3D",
    "csrftoken=aB3dE5fG7hI9",
    "sessionid=x1y2z3.abc:1tABCD:sig_-",
    "messages=\"W1siX19qc29uX21lc3NhZ2UiLDAsMjUsIkhp\"",
    "connect.sid=s%3AabcDEF-123_x.%2BhZk%2FabcDEF123",
    "PHPSESSID=0123456789abcdef0123456789",
    "wordpress_logged_in_ab12=ann%7C1700000000%7Ctoken%7Chash",
    "cf_clearance=aB.c_d-1700-0-1-x",
    "OptanonConsent=isGpcEnabled=0&datestamp=Sun+Nov+22+2026+06%3A00%3A00+GMT%2B0100&version=1.0",
    "prefs={\"theme\":\"dark\",\"panes\":[1,2]}",
    "__Host-id=abc",
    "empty=",
    "lang=de-DE",
    "name=J%C3%B6rg+M.",
    "a=1; a=2",
    "cart=[]",
    "tz=Europe/Berlin",
    "ab=x=y=z",
    "flag",
];

const EXTRAS: &[(&str, &str)] = &[
    ("Accept-Language", "de-DE,de;q=0.9,en-US;q=0.8,en;q=0.7,*;q=0.5"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Cache-Control", "no-cache"),
    ("Pragma", "no-cache"),
    ("Upgrade-Insecure-Requests", "1"),
    ("Sec-Fetch-Site", "same-origin"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-CH-UA", "\"Chromium\";v=\"131\", \"Not_A Brand\";v=\"24\", \"Google Chrome\";v=\"131\""),
    ("Sec-CH-UA-Platform", "\"Windows\""),
    ("Referer", "https://www.example.com/a?b=c&d=%C3%A9#not-sent"),
    ("DNT", "1"),
    ("Priority", "u=0, i"),
    ("If-None-Match", "W/\"abc-123\", \"def\", *"),
    ("If-Modified-Since", "Sat, 21 Nov 2026 07:28:46 GMT"),
    ("Range", "bytes=0-499,1000-1499,-500"),
    ("If-Range", "\"abc\""),
    ("X-Requested-With", "XMLHttpRequest"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ("tracestate", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
    ("baggage", "userId=alice,serverNode=DF%2028,isProduction=false"),
    ("X-Amzn-Trace-Id", "Root=1-67891233-abcdef012345678912345678"),
    ("X-Correlation-ID", "6f1c2f44-1f6e-4d0e-9a43-2f3a1d5b7c90"),
    ("X-Request-Id", "req-1234"),
    ("X-Forwarded-For", "203.0.113.7, 198.51.100.2"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Host", "shop.example.com"),
    ("X-Real-IP", "203.0.113.7"),
    ("Forwarded", "for=\"[2001:db8::17]:4711\";proto=https, for=198.51.100.2"),
    ("Via", "1.1 varnish (Varnish/7.4), 1.1 proxy"),
    ("CF-Connecting-IP", "203.0.113.7"),
    ("True-Client-IP", "203.0.113.7"),
    ("X-CSRF-TOKEN", "aB3dE5fG7hI9"),
    ("X-Tenant", "acme"),
    ("X-Display-Name", "José Müller"),
    ("Custom_Field", "1"),
    ("X.Dotted", "1"),
    ("Origin", "https://app.example.com"),
    ("From", "bot@example.com"),
    ("Connection", "keep-alive"),
    ("Keep-Alive", "timeout=5, max=100"),
    ("TE", "trailers"),
    ("X-HTTP-Method-Override", "PATCH"),
    ("Save-Data", "on"),
    ("X-Empty", ""),
];

const ACCEPTS: &[&str] = &[
    "*/*",
    "application/json",
    "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8",
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8,\
     application/signed-exchange;v=b3;q=0.7",
    "application/vnd.github+json; charset=utf-8",
    "text/event-stream",
    "application/hal+json, */*",
];

/// Content types, and bodies of these types.
const BODIES: &[(&str, &[u8])] = &[
    (
        "application/json",
        b"{\"name\":\"J\xc3\xb6rg\",\"items\":[{\"id\":1,\"q\":2.5e3}],\"x\":null}",
    ),
    ("application/json; charset=utf-8", b"[]"),
    ("application/x-www-form-urlencoded", b"user=ann&pass=a%2Bb+c&tag=1&tag=2&key=other"),
    (
        "multipart/form-data; boundary=----WebKitFormBoundaryAbC123",
        b"------WebKitFormBoundaryAbC123\r\nContent-Disposition: form-data; name=\"f\"; \
          filename=\"a b.txt\"\r\nContent-Type: text/plain\r\n\r\nGET / HTTP/1.1\r\n\r\n\r\n\
          ------WebKitFormBoundaryAbC123--\r\n",
    ),
    ("text/xml", b"<?xml version=\"1.0\"?><methodCall><methodName>x</methodName></methodCall>"),
    ("application/octet-stream", b"\0\x01\x02\xff\xfe\r\n0\r\n\r\n"),
    ("application/json-patch+json", b"[{\"op\":\"replace\",\"path\":\"/a~1b\",\"value\":1}]"),
    ("text/plain;charset=UTF-8", b""),
];

const READS: &[&str] = &["GET", "GET", "GET", "GET", "HEAD", "OPTIONS", "PROPFIND", "DELETE"];
const WRITES: &[&str] = &["POST", "POST", "PUT", "PATCH", "DELETE", "REPORT", "SEARCH"];

impl<'t> Traffic<'t> {
    pub(super) fn new(seed: u64, tokens: &'t [String]) -> Self {
        Self { rng: Rng::with_seed(seed), tokens }
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.rng.usize(..of.len())]
    }

    /// Returns true with this probability.
    fn chance(&mut self, percent: u8) -> bool {
        self.rng.u8(..100) < percent
    }

    fn target(&mut self, method: &str) -> String {
        if method == "OPTIONS" && self.chance(5) {
            return "*".to_owned();
        }
        let mut target = self.one(PATHS).to_owned();
        if self.chance(50) {
            target = format!("{target}?{}", self.one(QUERIES));
        }
        target
    }

    fn cookies(&mut self) -> String {
        let mut cookies: Vec<String> =
            (0..self.rng.usize(1..8)).map(|_| self.one(COOKIES).to_owned()).collect();
        if self.chance(60) {
            let at = self.rng.usize(..=cookies.len());
            let session = self.rng.u32(..50);
            let form = self.one(&["sid=s-", "sid=s%3A", "sid=a+b/c==", "sid=eyJh."]);
            cookies.insert(at, format!("{form}{session}"));
        }
        cookies.join("; ")
    }

    fn authorization(&mut self) -> (&'static str, String) {
        let token = &self.tokens[self.rng.usize(..self.tokens.len())];
        match self.rng.u8(..6) {
            0 | 1 => ("Authorization", format!("Bearer {token}")),
            2 => ("Authorization", format!("bearer ghp_{:020}", self.rng.u64(..))),
            3 => ("Authorization", "Basic YW5uOnBhc3M6d29yZA==".to_owned()),
            4 => ("X-Api-Key", format!("sk_live_{:x}", self.rng.u64(..100))),
            _ => {
                let digest = "Digest username=\"ann\", realm=\"a b\", uri=\"/x\", qop=auth, nc=1";
                ("Authorization", digest.to_owned())
            }
        }
    }

    fn fields(&mut self, is_old: bool) -> Vec<(&'static str, String)> {
        let mut fields = Vec::new();
        let hosts = ["gateway.test", "GATEWAY.test", "gateway.test:8080", "[::1]:80", "10.0.0.1"];
        if !is_old || self.chance(50) {
            fields.push(("Host", self.one(&hosts).to_owned()));
        }
        fields.push(("User-Agent", self.one(AGENTS).to_owned()));
        fields.push(("Accept", self.one(ACCEPTS).to_owned()));
        for _ in 0..self.rng.usize(..12) {
            let (name, value) = self.one(EXTRAS);
            if fields.iter().all(|(known, _)| *known != name) {
                fields.push((name, value.to_owned()));
            }
        }
        if self.chance(60) {
            fields.push(("Cookie", self.cookies()));
        }
        if self.chance(40) {
            fields.push(self.authorization());
        }
        fields
    }

    /// A browser's preflight before a request to another origin.
    fn preflight(&mut self) -> Request {
        let fields = vec![
            ("Host", "gateway.test".to_owned()),
            ("Origin", "https://app.example.com".to_owned()),
            ("Access-Control-Request-Method", self.one(WRITES).to_owned()),
            ("Access-Control-Request-Headers", "authorization,content-type,x-api-key".to_owned()),
            ("User-Agent", AGENTS[0].to_owned()),
        ];
        let method = "OPTIONS".to_owned();
        let target = self.one(PATHS).to_owned();
        Request { method, target, fields, body: Body::None, is_old: false }
    }
}

impl Iterator for Traffic<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.chance(3) {
            return Some(self.preflight());
        }
        let is_old = self.chance(3);
        let writes = self.chance(35);
        let method = self.one(if writes { WRITES } else { READS }).to_owned();
        let mut target = self.target(&method);
        let mut fields = self.fields(is_old);
        if let Some((_, host)) = fields.first().filter(|(name, _)| *name == "Host")
            && target.starts_with('/')
            && self.rng.u8(..100) == 0
        {
            target = format!("http://{host}{target}");
        }
        let mut body = Body::None;
        if writes {
            let (kind, bytes) = self.one(BODIES);
            fields.push(("Content-Type", kind.to_owned()));
            let mut bytes = bytes.to_vec();
            if self.chance(10) {
                bytes.resize(20_000, b' ');
            }
            if !is_old && !bytes.is_empty() && self.chance(10) {
                fields.push(("Expect", "100-continue".to_owned()));
            }
            let is_chunked = !is_old && self.chance(25);
            body = if is_chunked { Body::Chunked(bytes) } else { Body::Whole(bytes) };
        }
        Some(Request { method, target, fields, body, is_old })
    }
}

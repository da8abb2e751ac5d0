//! The arguments of `tollgate explain`, which are like those of curl.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;

use super::problem::Problem;
use crate::cli::bounded_file::read_at_most;
use crate::cli::which::GatewaysArgs;
use crate::engine::{Description, Fields};

pub const EXAMPLES: &str = "\
Examples:
  tollgate explain http://api.example.com/v1/orders
  tollgate explain --used 100 --peer 203.0.113.7 -H 'X-Api-Key: 4f9d' https://api.example.com/
  tollgate explain --used per-client=99 -X POST -d @order.json https://api.example.com/v1/orders
  tollgate explain --admin http://127.0.0.1:9901 https://api.example.com/v1/orders
  tollgate explain --admin unix:/run/tollgate/admin.sock --id 7f9c1d2e
Exit code 0: admitted; 3: refused; 1: the question failed; 2: wrong usage or configuration.";

/// The most bytes of a body that a gateway is told.
const MAX_BODY: usize = 64 * 1024;
/// The largest file with a body. Of a large body only the length matters.
const MAX_FILE_BYTES: u64 = 256 << 20;

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The URL of the request
    #[arg(value_name = "URL", required_unless_present = "id", conflicts_with = "id")]
    url: Option<String>,
    /// The method
    #[arg(short = 'X', long = "request", value_name = "METHOD")]
    method: Option<String>,
    /// A header field
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// The body, which can be the key or the cost; @FILE reads a file
    #[arg(short, long, visible_alias = "data-raw", value_name = "DATA")]
    data: Vec<String>,
    /// The same, as it is
    #[arg(long, value_name = "DATA")]
    data_binary: Vec<String>,
    /// Cookies
    #[arg(short = 'b', long = "cookie", value_name = "NAME=VALUE")]
    cookies: Vec<String>,
    /// The user and the password
    #[arg(short, long, value_name = "USER:PASSWORD")]
    user: Option<String>,
    /// The field User-Agent
    #[arg(short = 'A', long, value_name = "NAME")]
    user_agent: Option<String>,
    /// The address from which the request comes
    #[arg(long, value_name = "IP")]
    peer: Option<IpAddr>,
    /// The subject of the client's certificate
    #[arg(long, value_name = "SUBJECT")]
    tls_subject: Option<String>,
    /// The configuration, with empty counters [default: gateway.yaml]
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["admin", "id"])]
    pub config: Option<PathBuf>,
    /// The units that are used already, of all policies or of one
    #[arg(long, value_name = "N|POLICY=N", conflicts_with_all = ["admin", "id"])]
    pub used: Vec<Used>,
    #[command(flatten)]
    pub gateways: GatewaysArgs,
    /// The id of a request that was refused, which a running gateway knows
    #[arg(long, value_name = "REQUEST-ID")]
    pub id: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The units that are used already. Without a name: under each policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    pub policy: Option<String>,
    pub units: u64,
}

impl std::str::FromStr for Used {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (policy, units) = match text.rsplit_once('=') {
            Some((policy, units)) => (Some(policy.to_owned()), units),
            None => (None, text),
        };
        let units = units.parse().map_err(|_| "write a number of units, or POLICY=NUMBER")?;
        Ok(Self { policy, units })
    }
}

impl ExplainArgs {
    /// The request that curl would send.
    ///
    /// # Errors
    /// If a field has no name, a file of a body cannot be read, or nothing names the host.
    pub fn description(&self) -> Result<Description, Problem> {
        let mut fields = Vec::new();
        for header in &self.headers {
            let wrong = || Problem::Header(header.clone());
            let (name, value) = header.split_once(':').ok_or_else(wrong)?;
            fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        let has = |fields: &[(String, String)], name: &str| {
            fields.iter().any(|(it, _)| it.eq_ignore_ascii_case(name))
        };
        let url = whole(self.url.as_deref().unwrap_or_default());
        if url.starts_with('/') && !has(&fields, "Host") {
            return Err(Problem::NoHost(url));
        }
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value
                && !has(&fields, name)
            {
                fields.push((name.to_owned(), value));
            }
        };
        let cookies = (!self.cookies.is_empty()).then(|| self.cookies.join("; "));
        add("Cookie", cookies);
        let basic = |user: &String| format!("Basic {}", STANDARD.encode(user));
        add("Authorization", self.user.as_ref().map(basic));
        add("User-Agent", Some(self.user_agent.clone().unwrap_or_else(|| "curl/8".to_owned())));
        add("Accept", Some("*/*".to_owned()));
        let body = self.body()?;
        add("Content-Length", body.as_ref().map(|it| it.len().to_string()));
        let form = body.as_ref().map(|_| "application/x-www-form-urlencoded".to_owned());
        add("Content-Type", form);
        let method = if body.is_some() { "POST" } else { "GET" };
        Ok(Description {
            method: self.method.clone().unwrap_or_else(|| method.to_owned()),
            url,
            headers: Fields::List(fields),
            peer: self.peer,
            tls_subject: self.tls_subject.clone(),
            // Of another body, only the length is known.
            body: body.filter(|it| it.len() <= MAX_BODY).and_then(|it| String::from_utf8(it).ok()),
        })
    }

    /// The body, if there is one.
    fn body(&self) -> Result<Option<Vec<u8>>, Problem> {
        let texts = self.data.iter().map(|text| (text, false));
        let parts: Vec<_> = texts.chain(self.data_binary.iter().map(|text| (text, true))).collect();
        let mut joined = Vec::with_capacity(parts.len());
        for (text, is_binary) in &parts {
            joined.push(match text.strip_prefix('@') {
                None => text.as_bytes().to_vec(),
                Some(file) => {
                    let unreadable =
                        |error| Problem::Unreadable { path: Path::new(file).to_owned(), error };
                    let content =
                        read_at_most(Path::new(file), MAX_FILE_BYTES).map_err(unreadable)?;
                    // Without --data-binary, curl leaves out line ends.
                    content.into_iter().filter(|it| *is_binary || !b"\r\n\0".contains(it)).collect()
                }
            });
        }
        Ok((!joined.is_empty()).then(|| joined.join(&b'&')))
    }
}

/// The URL with its scheme, which curl lets its users leave out.
fn whole(url: &str) -> String {
    if url.contains("://") || url.starts_with('/') {
        return url.to_owned();
    }
    format!("http://{url}")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: ExplainArgs,
    }

    fn parse(arguments: &[&str]) -> Result<ExplainArgs, clap::Error> {
        Command::try_parse_from(["explain"].iter().chain(arguments)).map(|it| it.args)
    }

    fn described(arguments: &[&str]) -> Description {
        parse(arguments).expect("valid").description().expect("a request")
    }

    fn field(description: &Description, name: &str) -> Option<String> {
        let Fields::List(list) = &description.headers else { return None };
        list.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone())
    }

    #[test]
    fn arguments_of_curl_describe_the_request_of_curl() {
        let plain = described(&["api.test/v1?a=b"]);
        assert_eq!((&*plain.method, &*plain.url), ("GET", "http://api.test/v1?a=b"));
        let request = described(&[
            "-X",
            "PUT",
            "-H",
            "X-Api-Key: 4f:9d",
            "-b",
            "a=b",
            "-b",
            "c=d",
            "-u",
            "ann:x",
            "-A",
            "me",
            "--peer",
            "203.0.113.7",
            "https://api.test/",
        ]);
        assert_eq!(request.method, "PUT");
        assert_eq!(field(&request, "X-Api-Key").as_deref(), Some("4f:9d"));
        assert_eq!(field(&request, "Cookie").as_deref(), Some("a=b; c=d"));
        assert_eq!(field(&request, "Authorization").as_deref(), Some("Basic YW5uOng="));
        assert_eq!(field(&request, "User-Agent").as_deref(), Some("me"));
        assert_eq!(request.peer, Some([203, 0, 113, 7].into()));
        assert_eq!(field(&request, "Content-Length"), None);
    }

    #[test]
    fn a_body_has_the_length_that_curl_sends() {
        let posted = described(&["-d", "a=b", "-d", "c", "http://a/"]);
        assert_eq!(
            (&*posted.method, field(&posted, "Content-Length").as_deref()),
            ("POST", Some("5"))
        );
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("body");
        std::fs::write(&path, "a\nb\r\n").expect("it is written");
        let file = format!("@{}", path.display());
        let length = |option| field(&described(&[option, &file, "http://a/"]), "Content-Length");
        assert_eq!(
            (length("-d").as_deref(), length("--data-binary").as_deref()),
            (Some("2"), Some("5"))
        );
        let missing = parse(&["-d", "@/does/not/exist", "http://a/"]).expect("valid");
        assert!(matches!(missing.description(), Err(Problem::Unreadable { .. })));
    }

    #[test]
    fn wrong_usage_is_refused() {
        for arguments in [
            &[][..],
            &["--id", "x", "--admin", "unix:/s", "http://a/"],
            &["--admin", "unix:/s", "-c", "gateway.yaml", "http://a/"],
            &["--admin", "unix:/s", "--used", "1", "http://a/"],
            &["--used", "x", "http://a/"],
            &["--peer", "me", "http://a/"],
        ] {
            assert!(parse(arguments).is_err(), "{arguments:?}");
        }
        let path = |more: &[&str]| parse(&[more, &["/v1"]].concat()).expect("valid").description();
        assert!(matches!(path(&[]), Err(Problem::NoHost(url)) if url == "/v1"));
        assert!(path(&["-H", "host: api.test"]).is_ok());
        let bad = parse(&["-H", "nothing", "http://a/"]).expect("valid").description();
        assert!(matches!(bad, Err(Problem::Header(_))));
        let used = parse(&["--used", "7", "--used", "a=b=3", "http://a/"]).expect("valid").used;
        assert_eq!(used[0], Used { policy: None, units: 7 });
        assert_eq!(used[1], Used { policy: Some("a=b".to_owned()), units: 3 });
    }
}

//! What a new configuration is about: from the arguments, from questions at a terminal, or usual.

use std::io::{self, BufRead, Write};
use std::str::FromStr;

use ipnet::IpNet;

use super::args::InitArgs;
use super::problem::Problem;
use crate::config::{Endpoint, ListenAddress, LoneKey, Rate, ScalarError};

/// The values of a new configuration, each checked, as they were written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    /// The backend.
    pub to: String,
    pub limit: String,
    pub key: String,
    pub listen: String,
    /// The networks of proxies in front of the gateway.
    pub trusted_proxies: Vec<String>,
    /// The store that several gateways share.
    pub redis: Option<String>,
    /// The address of the admin listener.
    pub admin: Option<String>,
}

/// What is usual.
const LIMIT: &str = "100/minute";
const KEY: &str = "ip";
const LISTEN: &str = "0.0.0.0:8080";
const BACKEND: &str = "http://127.0.0.1:9000";

/// Reads an answer of the user.
pub trait Terminal {
    /// The answer to a question: an empty one means `usual`.
    ///
    /// # Errors
    /// If the input has ended.
    fn ask(&mut self, question: &str, usual: &str) -> io::Result<String>;

    /// Shows what is wrong with an answer.
    fn say(&mut self, text: &str) -> io::Result<()>;
}

/// Questions and answers as lines.
pub struct Lines<I, O> {
    pub input: I,
    pub output: O,
}

impl<I: BufRead, O: Write> Terminal for Lines<I, O> {
    fn ask(&mut self, question: &str, usual: &str) -> io::Result<String> {
        let shown = if usual.is_empty() { "none" } else { usual };
        write!(self.output, "{question} [{shown}] ")?;
        self.output.flush()?;
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let answer = line.trim();
        Ok(if answer.is_empty() { usual.to_owned() } else { answer.to_owned() })
    }

    fn say(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.output, "  {text}")
    }
}

impl Answers {
    /// The values of the arguments. Those that are missing are asked for, if there is a terminal.
    ///
    /// # Errors
    /// If a value of the arguments is wrong, the backend is missing, or the input has ended.
    pub fn new(args: &InitArgs, mut terminal: Option<&mut dyn Terminal>) -> Result<Self, Problem> {
        if args.to.is_none() && terminal.is_none() {
            return Err(Problem::NoBackend);
        }
        let mut value = |given: &Option<String>, question: &Question| match (given, &mut terminal) {
            (Some(text), _) => question.checked(text).map_err(|why| question.problem(text, why)),
            (None, Some(terminal)) => question.ask(*terminal),
            (None, None) => Ok(question.usual.to_owned()),
        };
        let to = value(&args.to, &QUESTIONS[0])?;
        let limit = value(&args.limit, &QUESTIONS[1])?;
        let key = value(&args.key, &QUESTIONS[2])?;
        let proxies = value(&args.trusted_proxies, &QUESTIONS[3])?;
        let redis = value(&args.redis, &QUESTIONS[4])?;
        let listen = args.listen.as_deref().unwrap_or(LISTEN);
        let address = |option, text: &str| {
            let wrong = |why: ScalarError| Problem::Value {
                option,
                text: text.to_owned(),
                why: why.to_string(),
            };
            text.parse::<ListenAddress>().map(|_| text.to_owned()).map_err(wrong)
        };
        Ok(Self {
            to,
            limit,
            key,
            listen: address("--listen", listen)?,
            trusted_proxies: list(&proxies).map(str::to_owned).collect(),
            redis: Some(redis).filter(|it| !it.is_empty()),
            admin: args.admin.as_deref().map(|it| address("--admin", it)).transpose()?,
        })
    }
}

/// One question, which a user can understand without the documentation.
struct Question {
    option: &'static str,
    text: &'static str,
    usual: &'static str,
    check: fn(&str) -> Result<(), String>,
}

const QUESTIONS: [Question; 5] = [
    Question {
        option: "--to",
        text: "Where do admitted requests go? A URL, or builtin:echo to try",
        usual: BACKEND,
        check: scalar::<Endpoint>,
    },
    Question {
        option: "--limit",
        text: "How many requests may a client make? Like 100/minute, 5/s or 1000/day",
        usual: LIMIT,
        check: scalar::<Rate>,
    },
    Question {
        option: "--key",
        text: "What is a client? ip, api_key, cookie:NAME or header:NAME",
        usual: KEY,
        check: scalar::<LoneKey>,
    },
    Question {
        option: "--trusted-proxies",
        text: "Is there a proxy or load balancer in front? Its addresses, like 10.0.0.0/8",
        usual: "",
        check: networks,
    },
    Question {
        option: "--redis",
        text: "Do several gateways share their counters? The URL of Redis",
        usual: "",
        check: redis,
    },
];

impl Question {
    fn checked(&self, text: &str) -> Result<String, String> {
        let text = if text == "none" { "" } else { text };
        if text.is_empty() && self.usual.is_empty() {
            return Ok(String::new());
        }
        (self.check)(text).map(|()| text.to_owned())
    }

    fn ask(&self, terminal: &mut dyn Terminal) -> Result<String, Problem> {
        loop {
            let answer = terminal.ask(self.text, self.usual).map_err(Problem::Input)?;
            match self.checked(&answer) {
                Ok(answer) => return Ok(answer),
                Err(why) => terminal.say(&why).map_err(Problem::Input)?,
            }
        }
    }

    fn problem(&self, text: &str, why: String) -> Problem {
        Problem::Value { option: self.option, text: text.to_owned(), why }
    }
}

fn scalar<T: FromStr<Err = ScalarError>>(text: &str) -> Result<(), String> {
    text.parse::<T>().map(drop).map_err(|error| error.to_string())
}

fn networks(text: &str) -> Result<(), String> {
    let is_good = |it: &str| it.parse::<IpNet>().is_ok() || it.parse::<std::net::IpAddr>().is_ok();
    match list(text).find(|it| !is_good(it)) {
        Some(wrong) => {
            Err(format!("{wrong:?} is not an address or a network: write 10.0.0.0/8, 192.0.2.7"))
        }
        None => Ok(()),
    }
}

fn redis(text: &str) -> Result<(), String> {
    let schemes = ["redis://", "rediss://", "redis+cluster://", "rediss+cluster://"];
    match schemes.iter().any(|it| text.starts_with(it)) {
        true => Ok(()),
        false => Err("write redis://HOST:6379, rediss:// with TLS, or redis+cluster://".to_owned()),
    }
}

/// The items of a list with commas or spaces between them.
fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', ' ']).map(str::trim).filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: InitArgs,
    }

    fn args(arguments: &[&str]) -> InitArgs {
        Command::try_parse_from([&["init"], arguments].concat()).expect("valid").args
    }

    #[test]
    fn five_questions_are_asked_and_a_wrong_answer_is_asked_again() {
        let mut terminal = Lines {
            input: &b"127.0.0.1:9000\nhttp://127.0.0.1:9000\n\n\n10.0.0.0/8, 192.0.2.7\n\n"[..],
            output: Vec::new(),
        };
        let answers = Answers::new(&args(&[]), Some(&mut terminal)).expect("answers");
        assert_eq!((&*answers.to, &*answers.limit, &*answers.key), (BACKEND, LIMIT, KEY));
        assert_eq!(answers.trusted_proxies, ["10.0.0.0/8", "192.0.2.7"]);
        assert_eq!((answers.redis, answers.admin), (None, None));
        let shown = String::from_utf8(terminal.output).expect("UTF-8");
        assert_eq!(shown.matches("] ").count(), 6, "{shown}");
        assert!(shown.contains("has no scheme"), "{shown}");
    }

    #[test]
    fn arguments_are_not_asked_for_and_without_a_terminal_nothing_is() {
        let given = args(&["--to", "builtin:echo", "--limit", "5/s", "--redis", "redis://a"]);
        let answers = Answers::new(&given, None).expect("answers");
        assert_eq!((&*answers.to, &*answers.limit, &*answers.key), ("builtin:echo", "5/s", "ip"));
        assert_eq!(answers.redis.as_deref(), Some("redis://a"));
        assert!(matches!(Answers::new(&args(&[]), None), Err(Problem::NoBackend)));
        for wrong in [
            ["--limit", "lots"],
            ["--key", "sun"],
            ["--key", "user"],
            ["--trusted-proxies", "a"],
            ["--redis", "a"],
        ] {
            let given = args(&[&["--to", "builtin:echo"], &wrong[..]].concat());
            assert!(matches!(Answers::new(&given, None), Err(Problem::Value { .. })), "{wrong:?}");
        }
        let mut ended = Lines { input: &b""[..], output: Vec::new() };
        assert!(matches!(Answers::new(&args(&[]), Some(&mut ended)), Err(Problem::Input(_))));
    }
}

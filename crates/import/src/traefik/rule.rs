//! Rules of routers: `Host`, `Path`, `PathPrefix`, `Method`, `Header`, `Query`, `&&` and `||`.
//!
//! A rule becomes a list of conjunctions. Its depth and the length of the list are bounded.

/// The deepest nesting of a rule.
const MAX_DEPTH: usize = 32;
/// The most conjunctions of a rule.
const MAX_CASES: usize = 256;

/// What a request must have, all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// One of these hosts; none is any host.
    pub hosts: Vec<String>,
    /// The path.
    pub path: Option<PathRule>,
    /// One of these methods; none is any method.
    pub methods: Vec<String>,
    /// Fields with their values.
    pub headers: Vec<(String, String)>,
    /// Parameters with their values.
    pub query: Vec<(String, String)>,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRule {
    /// The path itself.
    Exact(String),
    /// A beginning.
    Prefix(String),
}

/// The cases of a rule. Cases that differ in their hosts only are one.
///
/// # Errors
/// Why there are no such routes.
pub fn cases(rule: &str) -> Result<Vec<Case>, String> {
    let mut parser = Parser { rest: rule };
    let all = parser.any(0)?;
    parser.skip();
    if !parser.rest.is_empty() {
        return Err(format!(
            "the rule ends before {:?}",
            parser.rest.chars().next().unwrap_or(' ')
        ));
    }
    let mut merged: Vec<Case> = Vec::new();
    for case in all {
        let same = merged.iter_mut().find(|it| {
            !it.hosts.is_empty()
                && !case.hosts.is_empty()
                && (Case { hosts: Vec::new(), ..(*it).clone() })
                    == (Case { hosts: Vec::new(), ..case.clone() })
        });
        match same {
            Some(same) => same.hosts.extend(case.hosts),
            None => merged.push(case),
        }
    }
    for case in &mut merged {
        case.hosts.dedup();
    }
    Ok(merged)
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, sign: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn any(&mut self, depth: usize) -> Result<Vec<Case>, String> {
        let mut all = self.both(depth)?;
        while self.take("||") {
            all.extend(self.both(depth)?);
            bounded(&all)?;
        }
        Ok(all)
    }

    fn both(&mut self, depth: usize) -> Result<Vec<Case>, String> {
        let mut all = self.one(depth)?;
        while self.take("&&") {
            let others = self.one(depth)?;
            let mut product = Vec::new();
            for case in &all {
                for other in &others {
                    product.extend(joined(case, other)?);
                    bounded(&product)?;
                }
            }
            all = product;
        }
        Ok(all)
    }

    fn one(&mut self, depth: usize) -> Result<Vec<Case>, String> {
        if depth > MAX_DEPTH {
            return Err("the rule is nested too deep".to_owned());
        }
        if self.take("!") {
            return Err("the rule has a !: write routes for what it leaves out".to_owned());
        }
        if self.take("(") {
            let all = self.any(depth + 1)?;
            return if self.take(")") {
                Ok(all)
            } else {
                Err("a ) is missing in the rule".to_owned())
            };
        }
        self.skip();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        let name = name.to_owned();
        let args = self.args()?;
        matcher(&name, &args)
    }

    fn args(&mut self) -> Result<Vec<String>, String> {
        if !self.take("(") {
            return Err("the rule cannot be read".to_owned());
        }
        let mut args = Vec::new();
        loop {
            self.skip();
            let quote = self.rest.chars().next().filter(|c| "`\"'".contains(*c));
            let quote = quote.ok_or("a value in the rule has no quotes")?;
            let rest = &self.rest[1..];
            let (value, rest) = rest.split_once(quote).ok_or("a value in the rule has no end")?;
            args.push(value.to_owned());
            self.rest = rest;
            if self.take(")") {
                return Ok(args);
            }
            if !self.take(",") {
                return Err("a ) is missing in the rule".to_owned());
            }
        }
    }
}

fn bounded(cases: &[Case]) -> Result<(), String> {
    match cases.len() {
        0..=MAX_CASES => Ok(()),
        _ => Err(format!("the rule has more than {MAX_CASES} cases")),
    }
}

/// The cases of a matcher.
fn matcher(name: &str, args: &[String]) -> Result<Vec<Case>, String> {
    let each = |make: &dyn Fn(&String) -> Case| Ok(args.iter().map(make).collect());
    let pair = || match args {
        [name, value] => Ok((name.clone(), value.clone())),
        [both] => both
            .split_once('=')
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .ok_or_else(|| "a matcher needs a name and a value".to_owned()),
        _ => Err("a matcher has too many values".to_owned()),
    };
    match name {
        "Host" => {
            let hosts: Vec<String> = args.iter().map(|it| it.to_ascii_lowercase()).collect();
            Ok(vec![Case { hosts, ..Case::default() }])
        }
        "Path" => each(&|it| Case { path: Some(PathRule::Exact(it.clone())), ..Case::default() }),
        "PathPrefix" => {
            each(&|it| Case { path: Some(PathRule::Prefix(it.clone())), ..Case::default() })
        }
        "Method" => {
            let methods = args.iter().map(|it| it.to_ascii_uppercase()).collect();
            Ok(vec![Case { methods, ..Case::default() }])
        }
        "Header" | "Headers" => {
            let (name, value) = pair()?;
            Ok(vec![Case { headers: vec![(name.to_ascii_lowercase(), value)], ..Case::default() }])
        }
        "Query" => Ok(vec![Case { query: vec![pair()?], ..Case::default() }]),
        "" => Err("the rule cannot be read".to_owned()),
        other => Err(format!("{other} has no counterpart: write a route")),
    }
}

/// A case that demands what both demand. None if no request has both.
fn joined(one: &Case, other: &Case) -> Result<Option<Case>, String> {
    let both = |one: &[String], other: &[String]| -> Option<Vec<String>> {
        match (one.is_empty(), other.is_empty()) {
            (true, _) => Some(other.to_vec()),
            (_, true) => Some(one.to_vec()),
            _ => {
                let both: Vec<String> =
                    one.iter().filter(|it| other.contains(it)).cloned().collect();
                (!both.is_empty()).then_some(both)
            }
        }
    };
    let (Some(hosts), Some(methods)) =
        (both(&one.hosts, &other.hosts), both(&one.methods, &other.methods))
    else {
        return Ok(None);
    };
    let path = match (&one.path, &other.path) {
        (Some(path), None) | (None, Some(path)) => Some(path.clone()),
        (None, None) => None,
        (Some(_), Some(_)) => return Err("a case of the rule has two paths".to_owned()),
    };
    let mut headers = one.headers.clone();
    headers.extend(other.headers.clone());
    let mut query = one.query.clone();
    query.extend(other.query.clone());
    let has_twice = |list: &[(String, String)]| {
        list.iter().enumerate().any(|(at, (name, _))| list[..at].iter().any(|(own, _)| own == name))
    };
    if has_twice(&headers) || has_twice(&query) {
        return Err("a case of the rule has a name twice".to_owned());
    }
    Ok(Some(Case { hosts, path, methods, headers, query }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rule: &str) -> String {
        let one = |it: &Case| {
            let path = match &it.path {
                Some(PathRule::Exact(path)) => format!("={path}"),
                Some(PathRule::Prefix(path)) => path.clone(),
                None => String::new(),
            };
            format!(
                "{}{path}{}",
                it.hosts.join("+"),
                it.methods.iter().map(|it| format!(" {it}")).collect::<String>()
            )
        };
        match cases(rule) {
            Ok(all) => all.iter().map(one).collect::<Vec<_>>().join(" | "),
            Err(why) => format!("no: {why}"),
        }
    }

    #[test]
    fn rules_become_cases() {
        for (rule, is) in [
            ("Host(`a`)", "a"),
            ("Host(`a`) || Host(`b`)", "a+b"),
            ("Host(`A`, `b`) && PathPrefix(`/x`)", "a+b/x"),
            ("Host(`a`) && (PathPrefix(`/x`) || Path(`/y`))", "a/x | a=/y"),
            ("(Host(`a`) || Host(`b`)) && Method(`get`)", "a+b GET"),
            ("Host(`a`) && Host(`b`)", ""),
        ] {
            assert_eq!(shown(rule), is, "{rule}");
        }
        assert_eq!(cases("Query(`a=b`) && Header(`X-Y`, `z`)").unwrap()[0].headers[0].0, "x-y");
    }

    #[test]
    fn rules_without_routes_are_told() {
        for rule in [
            "",
            "Host(",
            "Host(`a`",
            "Host(a)",
            "!Host(`a`)",
            "Host(`a`) Host(`b`)",
            "HostRegexp(`.+`)",
            "ClientIP(`10.0.0.0/8`)",
            "Path(`/a`) && Path(`/b`)",
        ] {
            assert!(shown(rule).starts_with("no: "), "{rule}");
        }
        assert!(shown(&"(".repeat(100_000)).contains("too deep"));
        assert_eq!(cases("Path(`/a`)||Path(`/b`)").unwrap().len(), 2);
        let wide = vec!["(Method(`A`)||Header(`a`,`b`))"; 20].join("&&");
        assert!(cases(&wide).is_err());
    }
}

//! The routes of a server.

use std::collections::{HashMap, HashSet};

use super::access::Access;
use super::actions::Action;
use super::fields;
use super::levels::Levels;
use super::limits::Limits;
use super::locations::{Location, Match, around, locations, path};
use super::servers::Server;
use super::syntax::Directive;
use super::upstreams::{Target, Upstreams};
use crate::files::Place;
use crate::notes::{Notes, behind_routes};
use crate::out::Map;
use crate::plan::Plan;
use crate::report::Loss;

/// What routes are made with.
pub struct Maker<'a, 'b> {
    /// The level of `http`.
    pub http: Levels<'a>,
    /// The zones.
    pub limits: Limits<'a>,
    /// The upstreams.
    pub upstreams: Upstreams<'a>,
    /// The access lists.
    pub access: Access,
    /// The URL of the old server.
    pub rest: Option<&'b str>,
    /// What is made.
    pub plan: Plan,
    /// What is said.
    pub notes: &'b mut Notes,
}

/// A route: its paths, and where it comes from.
struct Spot<'a, 's> {
    levels: &'s Levels<'a>,
    directive: &'a Directive,
    /// The path of the location, for rewrites.
    location: &'s str,
    is_exact: bool,
    hosts: Option<&'s [String]>,
    /// Whether the server has a regular expression, which can have requests that nothing else has.
    has_pattern: bool,
}

/// What has the requests that are not those of a location.
struct Beside<'a, 's> {
    /// The paths of exact locations.
    exact: HashSet<&'a str>,
    /// The locations around prefix locations, by the paths of these.
    around: HashMap<&'a str, &'s Location<'a>>,
    /// The server.
    whole: &'s Spot<'a, 's>,
}

impl<'a> Maker<'a, '_> {
    /// Adds the routes of a server for these hosts.
    pub fn server(&mut self, server: &Server<'a>, hosts: Option<&[String]>) {
        let directive = server.directive;
        let levels = self.http.with(directive.inner());
        let all = locations(&levels, directive.inner());
        let has_pattern = all.iter().any(|it| it.matches == Match::Pattern);
        let whole =
            Spot { levels: &levels, directive, location: "/", is_exact: false, hosts, has_pattern };
        // A `return` of the server comes before its locations.
        if levels.own("return").is_some() {
            self.add(&whole, &["/*"]);
            return;
        }
        let root = all.iter().find(|it| it.matches == Match::Prefix && it.path == "/");
        let root_levels = root.map_or(&levels, |it| &it.levels);
        let exact = all.iter().filter(|it| it.matches == Match::Exact).map(|it| it.path).collect();
        let beside = Beside { exact, around: around(&all), whole: &whole };
        for location in &all {
            match location.matches {
                Match::Exact | Match::Prefix => self.location(location, &beside),
                Match::Pattern => self.pattern(location, root_levels),
                Match::Named => {
                    let what = "no request has it at first: what leads to it is not taken";
                    self.notes.needless("location", location.directive.place, what);
                }
            }
        }
        if root.is_none() {
            self.add(&whole, &["/*"]);
        }
    }

    fn location(&mut self, location: &Location<'a>, beside: &Beside<'a, '_>) {
        let Location { directive, path: text, levels, .. } = location;
        let place = directive.place;
        let written = match path(text) {
            Ok(written) => written,
            Err(why) => {
                self.notes.lost("location", place, format!("{text}: {why}"));
                return;
            }
        };
        let is_exact = location.matches == Match::Exact;
        let spot = Spot { levels, directive, location: &written, is_exact, ..*beside.whole };
        let action = Action::of(levels);
        let mut paths = Vec::new();
        match (is_exact, written.strip_suffix('/')) {
            (true, _) => paths.push(written.clone()),
            (false, Some(bare)) => {
                if !bare.is_empty() && !beside.exact.contains(text.trim_end_matches('/')) {
                    self.without_slash(bare, &action, &spot, beside.around.get(text), beside.whole);
                }
                paths.push(format!("{written}*"));
            }
            // A rewrite removes whole segments.
            (false, None) if matches!(&action, Action::Pass { target, .. } if target.path.is_some_and(|it| it != *text)) =>
            {
                paths.extend([written.clone(), format!("{written}/*")]);
            }
            (false, None) => paths.push(format!("{written}*")),
        }
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        self.notes.taken("location", place, format!("path: {}", paths.join(", ")));
        self.add(&spot, &paths);
    }

    /// The route for `/a` beside that for `/a/*`, which would match it, too. If there is a location `/a`,
    /// it is the route of that. Otherwise nginx redirects it to a location that forwards, and looks for
    /// the location around it.
    fn without_slash(
        &mut self,
        bare: &str,
        action: &Action<'a>,
        spot: &Spot<'a, '_>,
        around: Option<&&Location<'a>>,
        whole: &Spot<'a, '_>,
    ) {
        let outer = around.and_then(|it| Some((it, path(it.path).ok()?)));
        let has_own = outer.as_ref().is_some_and(|outer| outer.1 == bare);
        if !has_own && action.forwards() {
            let redirect =
                Map::default().with("to", format!("{bare}/{{query}}")).with("status", 301);
            let mut route = start(bare, spot.hosts);
            route.put("redirect", redirect);
            self.plan.routes.push((spot.directive.place, route));
            return;
        }
        match outer {
            Some((outer, path)) => {
                let Location { directive, levels, .. } = outer;
                self.add(&Spot { levels, directive, location: &path, ..*whole }, &[bare]);
            }
            None => self.add(whole, &[bare]),
        }
    }

    fn pattern(&mut self, location: &Location<'a>, root: &Levels<'a>) {
        let Location { directive, path, levels, .. } = location;
        let own =
            ["limit_req", "limit_conn", "allow", "deny", "satisfy", "if", "rewrite", "return"];
        let has_own = directive
            .inner()
            .iter()
            .any(|it| own.contains(&&*it.name) || it.name.starts_with("auth_"));
        if let (Some(url), Action::Rest { .. }) = (self.rest, Action::of(root)) {
            let what = format!("{path}: with all of / to {url}, which answers by this location");
            self.notes.taken("location", directive.place, what);
            return;
        }
        let mut what = format!("{path}: no regular expressions: write routes for its paths");
        if let (Some(url), Action::Nothing) = (self.rest, Action::of(root)) {
            what = behind_routes(&what, url);
        }
        if has_own || !Action::of(levels).is_like(&Action::of(root)) {
            self.notes.lost("location", directive.place, what);
        } else {
            let what = format!("{what}; its requests go where those of / go");
            self.notes.not_taken("location", directive.place, Loss::Harmless, what);
        }
    }

    fn add(&mut self, spot: &Spot<'a, '_>, paths: &[&str]) {
        let place = spot.directive.place;
        let fields = match Action::of(spot.levels) {
            Action::Answer { by, fields, difference } => {
                match difference {
                    Some(what) => self.notes.different("return", by.place, what),
                    None => self.notes.taken(
                        "return",
                        by.place,
                        crate::out::flow(&fields.clone().into()),
                    ),
                }
                fields::before_limits(spot.directive, self.notes);
                fields
            }
            Action::Pass { by, target } => self.pass(spot, by, &target),
            Action::Rest { by, why } => self.old_server(spot, by, &why),
            // An exact location comes before expressions.
            Action::Nothing if self.rest.is_some() && spot.has_pattern && !spot.is_exact => {
                self.old_server(spot, None, "a regular expression can have its requests")
            }
            Action::Nothing => {
                let mut fields = self.guards(spot.levels);
                fields.put("respond", Map::default().with("status", 404));
                fields
            }
        };
        for path in paths {
            let mut route = start(path, spot.hosts);
            route.0.extend(fields.0.clone());
            self.plan.routes.push((place, route));
        }
    }

    /// The access list and the policies of a place.
    fn guards(&mut self, levels: &Levels<'a>) -> Map {
        let mut fields = Map::default();
        if let Some(list) = self.access.of(levels, &mut self.plan, self.notes) {
            fields.put("access", vec![list]);
        }
        let policies = self.limits.of(levels, &mut self.plan, self.notes);
        if !policies.is_empty() {
            fields.put("policies", policies);
        }
        fields
    }

    fn pass(&mut self, spot: &Spot<'a, '_>, by: &'a Directive, target: &Target<'a>) -> Map {
        let rewrite = match fields::rewrite(spot.location, spot.is_exact, target.path) {
            Ok((rewrite, None)) => Ok(rewrite),
            Ok((rewrite, Some(what))) => {
                self.notes.different(&by.name, by.place, what);
                Ok(rewrite)
            }
            Err(why) => Err(why.to_owned()),
        };
        let upstream = rewrite.and_then(|rewrite| {
            let name =
                self.upstreams.of(target, by.place, spot.levels, &mut self.plan, self.notes)?;
            Ok((rewrite, name))
        });
        let (mut rewrite, upstream) = match upstream {
            Ok(both) => both,
            Err(why) => return self.old_server(spot, Some(by), &why),
        };
        let mut fields = self.guards(spot.levels);
        self.notes.taken(&by.name, by.place, format!("upstream {upstream:?}"));
        fields.put("upstream", upstream);
        let (edits, host) = fields::of_requests(spot.levels, target, &mut self.plan, self.notes);
        if let Some(host) = host {
            rewrite.put("host", host);
        }
        if !rewrite.is_empty() {
            fields.put("rewrite", rewrite);
        }
        if !edits.is_empty() {
            fields.put("request_headers", edits);
        }
        let edits = fields::of_responses(spot.levels, self.notes);
        if !edits.is_empty() {
            fields.put("response_headers", edits);
        }
        fields::bounds(spot.levels, &mut fields, self.notes);
        fields
    }

    fn old_server(&mut self, spot: &Spot<'a, '_>, by: Option<&Directive>, why: &str) -> Map {
        let mut fields = self.guards(spot.levels);
        let (name, place): (&str, Place) = match by {
            Some(by) => (&by.name, by.place),
            None => ("location", spot.directive.place),
        };
        match self.rest {
            Some(url) => self.notes.taken(name, place, format!("{why}: to {url}")),
            None => {
                self.notes.lost(name, place, format!("{why}: here the answer is 501; see --rest"))
            }
        }
        self.plan.rest(self.rest, &mut fields);
        fields
    }
}

/// A route with its path and hosts.
fn start(path: &str, hosts: Option<&[String]>) -> Map {
    let mut route = Map::default().with("path", path);
    if let Some(hosts) = hosts {
        route.put("hosts", hosts.to_vec());
    }
    if path != "/*" {
        route.put("path_match", fields::path_match());
    }
    route
}

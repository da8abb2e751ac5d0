//! Collects what becomes of constructs while they are read.

use std::collections::HashSet;

use crate::files::Place;
use crate::kind::Kind;
use crate::report::{Class, Construct, Loss, Report};

/// What was said of constructs so far.
#[derive(Debug, Default)]
pub struct Notes {
    constructs: Vec<Construct>,
    /// What was said already, because a setting of a high level is read for each route.
    said: HashSet<(Place, String, String)>,
    known: HashSet<(Place, String)>,
    /// The URL of the old server.
    rest: Option<String>,
    has_lost_route: bool,
}

impl Notes {
    /// No notes. The old server at this URL gets the requests of routes that are lost.
    pub fn new(rest: Option<String>) -> Self {
        Self { rest, ..Self::default() }
    }

    /// It means the same here.
    pub fn taken(&mut self, name: &str, place: Place, what: impl Into<String>) {
        self.add(name, place, Class::Taken, Loss::None, what.into());
    }

    /// It is here with a difference: there and here, in numbers if possible.
    pub fn different(&mut self, name: &str, place: Place, what: impl Into<String>) {
        self.add(name, place, Class::Different, Loss::Harmless, what.into());
    }

    /// It is not here, and this is what to do instead.
    pub fn not_taken(&mut self, name: &str, place: Place, loss: Loss, what: impl Into<String>) {
        self.add(name, place, Class::NotTaken, loss, what.into());
    }

    /// A limit, an access rule or a route is lost.
    pub fn lost(&mut self, name: &str, place: Place, what: impl Into<String>) {
        self.not_taken(name, place, Loss::Severe, what);
    }

    /// A route is lost. The old server gets its requests, unless another route has them.
    pub fn lost_route(&mut self, name: &str, place: Place, what: impl Into<String>) {
        self.has_lost_route = true;
        let what = what.into();
        let what = match &self.rest {
            Some(url) => behind_routes(&what, url),
            None => what,
        };
        self.lost(name, place, what);
    }

    /// The URL of the old server, if it gets the requests that no route has.
    pub fn rest(&self) -> Option<&str> {
        self.rest.as_deref().filter(|_| self.has_lost_route)
    }

    /// It is not needed here.
    pub fn needless(&mut self, name: &str, place: Place, what: impl Into<String>) {
        self.add(name, place, Class::Needless, Loss::None, what.into());
    }

    /// Whether anything was said of it.
    pub fn knows(&self, name: &str, place: Place) -> bool {
        self.known.contains(&(place, name.to_owned()))
    }

    fn add(&mut self, name: &str, place: Place, class: Class, loss: Loss, what: String) {
        if self.said.insert((place, name.to_owned(), what.clone())) {
            self.known.insert((place, name.to_owned()));
            let name = name.to_owned();
            let construct = Construct { name, place, class, loss, what, is_accepted: false };
            self.constructs.push(construct);
        }
    }

    /// The report.
    pub fn report(
        mut self,
        kind: Kind,
        names: &[String],
        accept: &[String],
        variables: Vec<(String, String)>,
    ) -> Report {
        let mut unused = accept.to_vec();
        for construct in &mut self.constructs {
            construct.is_accepted =
                construct.loss == Loss::Severe && accept.contains(&construct.name);
            if construct.is_accepted {
                unused.retain(|name| *name != construct.name);
            }
        }
        // Stable, so that constructs of a line stay in the order in which they were read.
        self.constructs.sort_by_key(|it| it.place);
        Report { kind, names: names.to_vec(), constructs: self.constructs, variables, unused }
    }
}

/// What is lost, if the old server at this URL gets what no route has.
pub fn behind_routes(what: &str, url: &str) -> String {
    format!("{what}; its requests go to {url}, unless another route has them")
}

//! The entities of a file: nested in each other, or referring to each other by name.

use crate::files::Place;
use crate::node::Node;
use crate::notes::Notes;
use crate::table::survey_fields;

use super::table as tables;

/// A plugin with what it applies to.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// Its number among all instances.
    pub number: usize,
    /// The plugin itself.
    pub node: Node,
    /// The service by name.
    pub service: Option<String>,
    /// The route by name.
    pub route: Option<String>,
    /// The consumer by name.
    pub consumer: Option<String>,
    /// The group of consumers by name.
    pub group: Option<String>,
}

impl Plugin {
    /// Its name without a suffix, by which a file tells two instances apart.
    pub fn kind(&self) -> &str {
        let name = self.node.str("name");
        name.split('_').next().unwrap_or(name)
    }
}

/// A route with its service.
#[derive(Clone, Debug)]
pub struct Route {
    /// The route itself.
    pub node: Node,
    /// Its name, or one that is made of its service.
    pub name: String,
    /// The service by name.
    pub service: Option<String>,
}

/// All entities.
#[derive(Default)]
pub struct Entities {
    /// The services with their names.
    pub services: Vec<(String, Node)>,
    /// The routes.
    pub routes: Vec<Route>,
    /// The upstreams.
    pub upstreams: Vec<Node>,
    /// Targets outside of their upstreams.
    pub targets: Vec<Node>,
    /// The plugins.
    pub plugins: Vec<Plugin>,
}

/// The name that a field refers to, as a text or as an object.
fn reference(node: &Node) -> Option<String> {
    let of = |name: &str| node.get(name).text().map(str::to_owned);
    node.text()
        .map(str::to_owned)
        .or_else(|| of("name"))
        .or_else(|| of("username"))
        .or_else(|| of("id"))
}

impl Entities {
    /// Adds what a document has.
    pub fn add(&mut self, file: &Node, notes: &mut Notes) {
        survey_fields(tables::FILE, file, notes);
        for node in file.get("services").items() {
            self.service(node, notes);
        }
        for node in file.get("routes").items() {
            self.route(node, None, notes);
        }
        for node in file.get("upstreams").items() {
            survey_fields(tables::UPSTREAM, node, notes);
            self.upstreams.push(node.clone());
        }
        self.targets.extend(file.get("targets").items().iter().cloned());
        for node in file.get("plugins").items() {
            self.plugin(node, None, None, None, notes);
        }
        for node in file.get("consumers").items() {
            let name = reference(node);
            notes.needless("consumers", node.place, "see client.keys and tollgate key import");
            for plugin in node.get("plugins").items() {
                self.plugin(plugin, None, None, name.clone(), notes);
            }
        }
    }

    fn service(&mut self, node: &Node, notes: &mut Notes) {
        survey_fields(tables::SERVICE, node, notes);
        let name = reference(node).unwrap_or_else(|| unnamed("service", node.place));
        for route in node.get("routes").items() {
            self.route(route, Some(&name), notes);
        }
        for plugin in node.get("plugins").items() {
            self.plugin(plugin, Some(name.clone()), None, None, notes);
        }
        self.services.push((name, node.clone()));
    }

    fn route(&mut self, node: &Node, service: Option<&str>, notes: &mut Notes) {
        survey_fields(tables::ROUTE, node, notes);
        let name = reference(node).unwrap_or_else(|| unnamed("route", node.place));
        let service = service.map(str::to_owned).or_else(|| reference(node.get("service")));
        for plugin in node.get("plugins").items() {
            self.plugin(plugin, None, Some(name.clone()), None, notes);
        }
        self.routes.push(Route { node: node.clone(), name, service });
    }

    fn plugin(
        &mut self,
        node: &Node,
        service: Option<String>,
        route: Option<String>,
        consumer: Option<String>,
        notes: &mut Notes,
    ) {
        if node.is("enabled", true) {
            survey_fields(tables::PLUGIN, node, notes);
            protocols(node.get("protocols"), notes);
        }
        let or = |own: Option<String>, name: &str| own.or_else(|| reference(node.get(name)));
        let plugin = Plugin {
            number: self.plugins.len(),
            node: node.clone(),
            service: or(service, "service"),
            route: or(route, "route"),
            consumer: or(consumer, "consumer"),
            group: or(None, "consumer_group"),
        };
        self.plugins.push(plugin);
    }

    /// A service by its name.
    pub fn service_named(&self, name: &str) -> Option<&Node> {
        self.services.iter().find(|(own, _)| own == name).map(|(_, node)| node)
    }

    /// The plugins of a route: of each name the most specific instance only.
    pub fn plugins_of(&self, route: &Route) -> Vec<&Plugin> {
        let mut chosen: Vec<(&str, u8, &Plugin)> = Vec::new();
        for plugin in &self.plugins {
            let is_on = |own: &Option<String>, here: Option<&String>| match own {
                Some(own) => here.is_some_and(|here| here == own),
                None => true,
            };
            let applies = is_on(&plugin.route, Some(&route.name))
                && is_on(&plugin.service, route.service.as_ref())
                && plugin.consumer.is_none()
                && plugin.group.is_none()
                && plugin.node.is("enabled", true);
            if !applies {
                continue;
            }
            let rank = 2 * u8::from(plugin.route.is_some()) + u8::from(plugin.service.is_some());
            let base = plugin.kind();
            match chosen.iter_mut().find(|(own, _, _)| *own == base) {
                Some(best) if best.1 < rank => *best = (base, rank, plugin),
                Some(_) => {}
                None => chosen.push((base, rank, plugin)),
            }
        }
        chosen.into_iter().map(|(_, _, plugin)| plugin).collect()
    }
}

/// The protocols of the requests that a plugin is for.
fn protocols(node: &Node, notes: &mut Notes) {
    let words = node.texts();
    if words.is_empty() {
        return;
    }
    match words.contains(&"http") && words.contains(&"https") {
        true => notes.needless("protocols", node.place, "it is for all requests"),
        false => notes.different("protocols", node.place, "here it is for all requests"),
    }
}

/// A name for an entity without one.
fn unnamed(what: &str, place: Place) -> String {
    format!("{what}-{}", place.line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Files;
    use crate::node::documents;

    #[test]
    fn only_the_most_specific_instance_of_a_plugin_applies() {
        let text = "
services:
- name: a
  plugins: [{ name: rate-limiting, config: { minute: 1 } }, { name: cors }]
  routes:
  - { name: r1, plugins: [{ name: rate-limiting, config: { minute: 2 } }] }
  - { name: r2 }
routes: [{ name: r3 }]
plugins:
- { name: rate-limiting, config: { minute: 3 } }
- { name: rate-limiting, consumer: c, config: { minute: 4 } }
- { name: rate-limiting, route: r1, consumer_group: g, config: { minute: 5 } }
- { name: rate-limiting, service: a, consumer_group: { name: g }, config: { minute: 6 } }
- { name: cors, enabled: false }
";
        let files = Files::of_text(text);
        let file = documents(&files, &files.sources()[0]).unwrap().remove(0);
        let mut entities = Entities::default();
        entities.add(&file, &mut Notes::default());
        let of = |name: &str| {
            let route = entities.routes.iter().find(|it| it.name == name).unwrap();
            let plugins = entities.plugins_of(route);
            let shown = plugins.iter().map(|it| {
                format!(
                    "{}{}",
                    it.node.str("name"),
                    it.node.at(&["config", "minute"]).text().unwrap_or("")
                )
            });
            shown.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            ["r1", "r2", "r3"].map(of),
            ["rate-limiting2 cors", "rate-limiting1 cors", "rate-limiting3"]
        );
    }
}

//! The objects in the files: Ingresses, the ConfigMap, and the ports of Services.

use std::collections::HashMap;

use crate::files::{Files, Place, Unreadable};
use crate::node::{Node, documents};
use crate::notes::Notes;

/// The objects that count.
#[derive(Default)]
pub struct Objects {
    /// The Ingresses of the controller.
    pub ingresses: Vec<Node>,
    /// The ConfigMaps of the controller.
    pub settings: Vec<Node>,
    /// Whether there is an Ingress of another controller.
    has_others: bool,
    /// The numbers of named ports, by namespace, service and port.
    ports: HashMap<(String, String, String), u64>,
}

/// Reads all files.
///
/// # Errors
/// If one is no YAML, or there is no Ingress.
pub fn objects(files: &Files, notes: &mut Notes) -> Result<Objects, Unreadable> {
    let mut objects = Objects::default();
    for source in files.sources() {
        for document in documents(files, source)? {
            objects.add(document, notes);
        }
    }
    if objects.ingresses.is_empty() && !objects.has_others {
        return Err(files.unreadable(Place::default(), "there is no Ingress in these files"));
    }
    // The controller looks at the oldest first. Files without times stay in their order.
    objects.ingresses.sort_by(|one, other| age(one).cmp(age(other)));
    Ok(objects)
}

/// When an object was made, which is a text that grows with the time.
fn age(node: &Node) -> &str {
    node.get("metadata").str("creationTimestamp")
}

impl Objects {
    fn add(&mut self, node: Node, notes: &mut Notes) {
        let kind = node.str("kind").to_owned();
        if kind == "List" || kind.ends_with("List") && !node.get("items").items().is_empty() {
            for item in node.get("items").items() {
                self.add(item.clone(), notes);
            }
            return;
        }
        let place = node.get("kind").place;
        match &*kind {
            "Ingress" if is_of_another_controller(&node, notes) => self.has_others = true,
            "Ingress" => self.ingresses.push(node),
            "ConfigMap" => self.settings.push(node),
            "Service" => {
                notes.taken("Service", place, "the numbers of its ports");
                self.service(&node);
            }
            "" => {}
            _ => notes.needless("kind", place, format!("{kind}: it is not read")),
        }
    }

    fn service(&mut self, node: &Node) {
        let meta = node.get("metadata");
        for port in node.at(&["spec", "ports"]).items() {
            if let Some(number) = port.number("port") {
                let key =
                    (namespace(node), meta.str("name").to_owned(), port.str("name").to_owned());
                self.ports.insert(key, number);
            }
        }
    }

    /// The number of a named port.
    pub fn port(&self, namespace: &str, service: &str, port: &str) -> Option<u64> {
        self.ports.get(&(namespace.to_owned(), service.to_owned(), port.to_owned())).copied()
    }
}

/// Whether another controller serves an Ingress. Then nothing in it says how this one serves others.
fn is_of_another_controller(ingress: &Node, notes: &mut Notes) -> bool {
    let class = ingress.at(&["spec", "ingressClassName"]);
    let annotated = ingress.at(&["metadata", "annotations", "kubernetes.io/ingress.class"]);
    let class = if class.is_null() { annotated } else { class };
    match class.text() {
        Some(name) if !name.contains("nginx") => {
            let what = format!("its class is {name}: another controller serves it");
            notes.needless("Ingress", class.place, what);
            true
        }
        _ => false,
    }
}

/// The namespace of an object.
pub fn namespace(node: &Node) -> String {
    let name = node.at(&["metadata", "namespace"]).text().unwrap_or("default");
    name.to_owned()
}

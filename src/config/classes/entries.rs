//! What may be written in a file with classes.

use serde::Deserialize;
use tollgate_core::policy::{
    ClassTable, ClientClass, KeyExpr, MAX_CLASSES, MAX_NAME_BYTES, MAX_TEXT_BYTES, MAX_TEXTS,
};

use crate::config::field::{Field, List, Spanned};
use crate::config::node::TextSpan;
use crate::config::problem::Problems;
use crate::config::scalar::{Cidr, PlaceCode};

/// The most blocks of addresses of all classes, and the most numbers of networks.
const MAX_PLACES: usize = 10_000;
/// The form of a class.
const FORM: &str = "like - { name: search, user_agent: [examplebot] }";

/// A class.
#[derive(Debug, Default, Deserialize)]
#[serde(rename = "class", default)]
pub struct RawClass {
    name: Field<String>,
    user_agent: List<String>,
    ips: List<Cidr>,
    asns: List<PlaceCode>,
    agents: List<String>,
}

/// How much the classes have together.
#[derive(Default)]
struct Sum {
    texts: usize,
    blocks: usize,
    networks: usize,
    agents: usize,
}

/// All classes that have no mistake.
pub fn compile(raw: &List<RawClass>, problems: &Problems) -> ClassTable {
    if let Some(given) = raw.given().filter(|given| given.value.len() > MAX_CLASSES) {
        let message = format!("there are more than {MAX_CLASSES} classes");
        problems.error(given.span, &message, "remove some, or join classes of one name");
    }
    let mut sum = Sum::default();
    let classes: Vec<ClientClass> = raw
        .items()
        .filter_map(|class| {
            class.value.add_to(&mut sum, class.span, problems);
            class.value.compile(class.span, problems)
        })
        .collect();
    ClassTable::new(&classes)
}

impl RawClass {
    fn compile(&self, span: TextSpan, problems: &Problems) -> Option<ClientClass> {
        if self.name.is_absent() {
            problems.error(span, "the class has no \"name\"", FORM);
        }
        self.check_conditions(span, problems);
        if let Some(name) = self.name.given() {
            check_name(name, problems);
        }
        for text in self.user_agent.items() {
            check_text(text, problems);
        }
        for code in self.asns.items().filter(|code| !KeyExpr::Asn.can_be(&code.value.0)) {
            let message = format!("{} is not a network", code.shown_as(code.value.0.as_str()));
            problems.error(code.span, &message, KeyExpr::Asn.place_form());
        }
        Some(ClientClass {
            name: self.name.value()?.as_str().into(),
            user_agent: self.user_agent.items().map(|text| text.value.clone()).collect(),
            ips: self.ips.items().map(|block| block.value.0).collect(),
            asns: self.asns.items().map(|code| code.value.0).collect(),
            agents: self.agents.items().map(|name| name.value.as_str().into()).collect(),
        })
    }

    /// A class needs a condition, and a list without values is none.
    fn check_conditions(&self, span: TextSpan, problems: &Problems) {
        let texts = &self.user_agent;
        let blocks = &self.ips;
        let is_other = self.asns.is_absent() && self.agents.is_absent();
        if texts.is_absent() && blocks.is_absent() && is_other {
            let message = "the class has no condition, so every client would be in it";
            problems.error(span, message, "write user_agent, ips, asns or agents");
        }
        let lists = [
            ("user_agent", texts.given().filter(|it| it.value.is_empty()).map(|it| it.span)),
            ("ips", blocks.given().filter(|it| it.value.is_empty()).map(|it| it.span)),
            ("agents", self.agents.given().filter(|it| it.value.is_empty()).map(|it| it.span)),
            ("asns", self.asns.given().filter(|it| it.value.is_empty()).map(|it| it.span)),
        ];
        for (field, at) in lists.iter().filter_map(|(field, at)| Some((field, (*at)?))) {
            let message = format!("\"{field}\" is empty");
            problems.error(at, &message, "name at least one value, or leave the field out");
        }
    }

    /// Reports the class with which there is too much of something.
    fn add_to(&self, sum: &mut Sum, span: TextSpan, problems: &Problems) {
        let parts = [
            (&mut sum.texts, self.user_agent.items().count(), MAX_TEXTS, "texts"),
            (&mut sum.blocks, self.ips.items().count(), MAX_PLACES, "blocks of addresses"),
            (&mut sum.networks, self.asns.items().count(), MAX_PLACES, "networks"),
            (&mut sum.agents, self.agents.items().count(), MAX_PLACES, "agents"),
        ];
        for (all, own, most, what) in parts {
            let fitted = *all <= most;
            *all += own;
            if fitted && *all > most {
                let message = format!("the classes have more than {most} {what}");
                problems.error(span, &message, "remove some");
            }
        }
    }
}

fn check_name(name: &Spanned<String>, problems: &Problems) {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let text = &name.value;
    if text.is_empty() || text.len() > MAX_NAME_BYTES || !text.bytes().all(is_usual) {
        let message = format!("\"{}\" is not the name of a class", name.shown());
        let advice = format!("write up to {MAX_NAME_BYTES} letters, digits, -, _ and .");
        problems.error(name.span, &message, &advice);
    }
}

fn check_text(text: &Spanned<String>, problems: &Problems) {
    if text.value.is_empty() {
        let advice = "write a part of the value, or leave it out";
        problems.error(text.span, "every User-Agent contains an empty text", advice);
    } else if text.value.len() > MAX_TEXT_BYTES {
        let message = format!("the text is longer than {MAX_TEXT_BYTES} bytes");
        problems.error(text.span, &message, "write a shorter part of the value");
    } else if text.value.chars().any(char::is_control) {
        let message = "no User-Agent has a control character";
        problems.error(text.span, message, "write a part of the value in one line");
    }
}

//! Mistakes in a file with classes.

use super::*;

/// The mistakes in a text, each as `line: message`.
fn mistakes(text: &str) -> Vec<String> {
    let problems = Problems::default();
    compile(text, &problems);
    let report = problems.report("classes.yaml", text, &Excerpts::default());
    report.problems().map(|it| format!("{}: {}", it.line, it.message)).collect()
}

#[test]
fn a_list_of_classes_is_read() {
    let problems = Problems::default();
    let text = "- { name: search, user_agent: [Examplebot, other-bot], ips: [192.0.2.0/24] }\n\
                - { name: office, ips: [10.0.0.0/8] }\n- { name: cloud, asns: [AS64500] }\n";
    let table = compile(text, &problems).expect("it is a table");
    assert!(!problems.any_errors());
    assert_eq!(table.names().collect::<Vec<_>>(), ["search", "office", "cloud"]);
    assert!(table.has_texts() && table.has_asns() && !table.can_be_chosen("search"));
    let none = compile("[]", &problems).expect("it is a table");
    assert_eq!(none.names().count(), 0);
}

#[test]
fn all_mistakes_are_reported_at_once_with_their_places() {
    let text = "- user_agent: [\"\"]\n- { name: a b, ips: [10.0.0.0/8] }\n- name: all\n\
                - { name: none, ips: [] }\n- { name: land, asns: [DE] }\n\
                - { name: long, user_agent: [\"TEXT\"] }\n- { name: odd, agent: [x], ips: [10.0.0.1] }\n"
        .replace("TEXT", &"x".repeat(129));
    assert_eq!(
        mistakes(&text),
        [
            "1: the class has no \"name\"",
            "1: every User-Agent contains an empty text",
            "2: \"a b\" is not the name of a class",
            "3: the class has no condition, so every client would be in it",
            "4: \"ips\" is empty",
            "5: DE is not a network",
            "6: the text is longer than 128 bytes",
            "7: \"agent\" is not a field of \"class\"",
        ]
    );
    assert_eq!(mistakes("classes: []\n").len(), 1, "a map is no list");
}

#[test]
fn the_numbers_of_classes_texts_and_blocks_are_bounded() {
    let class = |index: usize| format!("- {{ name: c{index}, user_agent: [bot{index}] }}\n");
    let many = |count: usize| (0..count).map(class).collect::<String>();
    assert!(mistakes(&many(256)).is_empty());
    assert_eq!(mistakes(&many(257)), ["1: there are more than 256 classes"]);
    let texts = |count: usize| {
        let texts: Vec<String> = (0..count).map(|index| format!("t{index}")).collect();
        format!(
            "- {{ name: a, user_agent: [{}] }}\n- {{ name: b, user_agent: [z] }}\n",
            texts.join(", ")
        )
    };
    assert!(mistakes(&texts(4095)).is_empty());
    assert_eq!(mistakes(&texts(4096)), ["2: the classes have more than 4096 texts"]);
    let blocks: Vec<String> =
        (0..10_001).map(|it| format!("10.0.{}.{}", it / 256, it % 256)).collect();
    let text = format!("- {{ name: a, ips: [{}] }}\n", blocks.join(", "));
    assert_eq!(mistakes(&text), ["1: the classes have more than 10000 blocks of addresses"]);
}

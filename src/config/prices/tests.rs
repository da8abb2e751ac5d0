//! Mistakes in a file with prices.

use tollgate_core::price::{LongPrice, Price, TokenPrices};

use super::*;

/// The mistakes in a text, each as `line: message`.
fn mistakes(text: &str) -> Vec<String> {
    let problems = Problems::default();
    compile(text, &problems);
    let report = problems.report("prices.yaml", text, &Excerpts::default());
    report.problems().map(|it| format!("{}: {}", it.line, it.message)).collect()
}

fn tokens(texts: [&str; 4]) -> TokenPrices {
    let [input, cache_read, cache_write, output] = texts.map(|text| text.parse().expect("a price"));
    TokenPrices { input, cache_read, cache_write, output }
}

#[test]
fn prices_are_read_as_they_are_written() {
    let problems = Problems::default();
    let text = "\"gpt-5*\": { input: 1.25, cache_read: 0.125, output: 10, request: 0.01,\n\
                \x20 long: { above: 272_000, input: 2.5, output: 15 } }\n\
                Claude: { input: \"3\", cache_write: 3.750000, output: 1_000.1 }\n\
                free: { input: 0, output: 0.0 }\n";
    let table = compile(text, &problems).expect("it is a table");
    assert!(!problems.any_errors());
    let price = |name| table.find(name).and_then(|it| table.price(it)).copied();
    let long = LongPrice { above: 272_000, tokens: tokens(["2.5", "2.5", "2.5", "15"]) };
    let tokens_of_gpt = tokens(["1.25", "0.125", "1.25", "10"]);
    let request = "0.01".parse().expect("a price");
    let gpt = Price { tokens: tokens_of_gpt, request, long: Some(long) };
    assert_eq!(price("gpt-5-mini"), Some(gpt));
    let claude = tokens(["3", "3", "3.75", "1000.1"]);
    assert_eq!(price("claude").map(|it| it.tokens), Some(claude));
    assert!(price("free").is_some_and(|price| price.is_free()));
    assert_eq!(compile("{}", &problems).map(|it| it.entries().len()), Some(0));
}

#[test]
fn all_mistakes_are_reported_at_once_with_their_places() {
    let text = "a: { input: 1 }\nb*c: { input: 1, output: 1 }\nA: { input: 1, output: 1 }\n\
                c: { input: 0.0000001, output: -1, long: { input: 1, output: 1 } }\n\
                d: { input: 1, output: 1, long: { above: 0, input: 1, output: 1 } }\n\
                e: { inputs: 1, output: 1 }\nf: { input: 1e-7, output: 1 }\n";
    assert_eq!(
        mistakes(text),
        [
            "1: the price has no \"output\"",
            "2: \"b*c\" is not the name of a model: it has a \"*\" that is not its last character",
            "3: there are two prices of the model \"A\"",
            "4: \"0.0000001\" is not a price: it has more than 6 decimals",
            "4: \"-1\" is not a price: it is not a number",
            "4: the price of a long input has no \"above\"",
            "5: \"above\" is out of range",
            "6: the price has no \"input\"",
            "6: \"inputs\" is not a field of \"price\"",
            "7: \"1e-7\" is not a price: it is not a number",
        ]
    );
    assert_eq!(mistakes("- a\n").len(), 1, "a list is no map");
}

#[test]
fn the_number_of_models_is_bounded() {
    let many = |count: usize| {
        (0..count).map(|it| format!("m{it}: {{ input: 1, output: 1 }}\n")).collect::<String>()
    };
    assert!(mistakes(&many(10_000)).is_empty());
    assert_eq!(mistakes(&many(10_001)), ["1: there are more than 10000 models"]);
}

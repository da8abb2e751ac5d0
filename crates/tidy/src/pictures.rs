//! Rules on the pictures of the documentation, which `scripts/pictures` makes.

use std::fs;

use crate::tree::{self, File, Finding, Tree};

/// Where they are.
const PICTURES: &str = "docs/pictures/";
/// The most bytes of one.
const MAX_BYTES: u64 = 200_000;
/// The page whose table a chart shows, and the chart.
const TABLE: &str = "docs/accuracy.md";
const CHART: &str = "docs/pictures/accuracy.svg";

/// Pictures that no page of the documentation shows.
pub(crate) fn unused(tree: &Tree) -> Vec<Finding> {
    let shown: Vec<&str> =
        tree.files().filter(|it| it.path.ends_with(".md")).flat_map(of).collect();
    let pictures = tree.files().filter(|file| file.path.starts_with(PICTURES));
    let is_unused = |file: &&File| {
        let name = file.path.trim_start_matches(PICTURES);
        !shown.iter().any(|it| it.rsplit('/').next() == Some(name))
    };
    let what = "no page shows this picture: show it or remove it";
    pictures.filter(is_unused).map(|file| file.finding(1, what)).collect()
}

/// The pictures of a page that are files of the project.
fn of(file: &File) -> impl Iterator<Item = &str> {
    let places = file.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    places.filter(|place| place.contains("pictures/"))
}

/// A chart that does not show the table of its page.
pub(crate) fn other_figures(tree: &Tree) -> Vec<Finding> {
    let text = |path: &str| tree.file(path).map(|it| &*it.text);
    let (Some(table), Some(chart)) = (text(TABLE), text(CHART)) else {
        return vec![Finding::at(CHART, "the chart or its table is missing")];
    };
    let told = told(table);
    let drawn = drawn(chart);
    if !told.is_empty() && told == drawn {
        return Vec::new();
    }
    vec![Finding::at(
        CHART,
        format!("it is not the table of {TABLE}: run scripts/pictures accuracy"),
    )]
}

/// The algorithms of the table with their differences from the ideal.
fn told(page: &str) -> Vec<(String, String)> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect());
    let rows = cells.filter(|cells: &Vec<&str>| cells.len() == 7 && is_difference(cells[3]));
    rows.map(|cells| (cells[1].replace('`', ""), cells[3].to_owned())).collect()
}

/// The same of the chart: each row is two texts with a bar between them.
fn drawn(chart: &str) -> Vec<(String, String)> {
    let texts = chart.lines().filter_map(|line| line.strip_prefix("<text ")?.split_once('>'));
    let texts: Vec<&str> = texts.filter_map(|(_, rest)| rest.strip_suffix("</text>")).collect();
    let pairs = texts.windows(2).filter(|pair| is_difference(pair[1]));
    pairs.map(|pair| (pair[0].to_owned(), pair[1].to_owned())).collect()
}

fn is_difference(text: &str) -> bool {
    text.starts_with(['+', '−']) && text.ends_with(" %")
}

/// A clone of the project stays small, and a page loads soon.
#[test]
fn pictures_are_small() {
    let directory = tree::root().join(PICTURES);
    for entry in fs::read_dir(directory).expect("there are pictures") {
        let entry = entry.expect("it can be read");
        let bytes = entry.metadata().expect("it can be read").len();
        assert!(bytes <= MAX_BYTES, "{}: {bytes} bytes", entry.path().display());
    }
}

#[test]
fn a_chart_is_compared_with_its_table() {
    let row = "| Zipf | `sliding_log` | 69 % | +0.000 % | 0 % | 0 % | 100 % |\n";
    let bar = "<text x=\"1\">sliding_log</text>\n<rect/>\n<text class=\"quiet\">+0.000 %</text>\n";
    let tree = |row: &str, bar: &str| Tree::sample(&[(TABLE, row), (CHART, bar)]);
    assert_eq!(other_figures(&tree(row, bar)), []);
    assert_eq!(other_figures(&tree(row, &bar.replace("+0.0", "+0.1"))).len(), 1);
    assert_eq!(other_figures(&tree("", "")).len(), 1, "no row is no proof");
    let page = "![The page](pictures/a.png)\n";
    let files = [("docs/a.md", page), ("docs/pictures/a.png", ""), ("docs/pictures/b.png", "")];
    assert_eq!(unused(&Tree::sample(&files)).len(), 1);
}

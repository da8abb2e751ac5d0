//! The numbers of each gateway, as the last columns of a table.

use std::collections::BTreeMap;

use super::super::figures::{Figures, Node};
use super::super::table::{Column, number};

/// Numbers by the index of the gateway that has told them.
pub(super) type ByNode = BTreeMap<usize, u64>;

/// Adds a column for each gateway, if several are asked. `head` makes the title from the label
/// of the gateway. Returns what adds the cells of a row; a gateway without a number gets `-`.
pub(super) fn by_node<F: Fn(&str) -> String>(
    columns: &mut Vec<Column>,
    figures: &Figures,
    head: F,
) -> impl Fn(&mut Vec<String>, &ByNode) + use<F> {
    let nodes = match figures.nodes.len() {
        1 => 0..0,
        several => 0..several,
    };
    columns.extend(nodes.clone().map(|node| number(&head(&Node::label(node)), 2)));
    move |cells, numbers| {
        let cell = |node| numbers.get(&node).map_or("-".to_owned(), u64::to_string);
        cells.extend(nodes.clone().map(cell));
    }
}

//! What a report says, without the form in which it is written. Text and page are written from
//! the same layout, so that both have the same figures.

/// A whole report.
pub(super) struct Layout {
    pub(super) title: String,
    pub(super) sections: Vec<Section>,
}

/// A part of a report. The first one has no heading.
pub(super) struct Section {
    pub(super) heading: String,
    pub(super) blocks: Vec<Block>,
}

/// A piece of a section.
pub(super) enum Block {
    /// Sentences, each of which stands alone.
    Lines(Vec<String>),
    /// The items of a list.
    Items(Vec<String>),
    /// The heading of a part of the section.
    Part(String),
    Table(Table),
    /// Lines for the configuration, and what is to be known of each.
    Write(Vec<Written>),
    Chart(Chart),
    /// What words and columns mean. Only the page has it.
    Meanings(Vec<(&'static str, &'static str)>),
}

/// A line for the configuration.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) about: String,
}

/// A table. All rows have as many cells as there are heads.
pub(super) struct Table {
    pub(super) heads: Vec<Head>,
    pub(super) rows: Vec<Vec<String>>,
}

/// The head of a column.
pub(super) enum Head {
    Text(&'static str),
    Number(&'static str),
}

impl Head {
    /// Its text.
    pub(super) const fn text(&self) -> &'static str {
        match self {
            Self::Text(text) | Self::Number(text) => text,
        }
    }
}

/// Counts over time.
pub(super) struct Chart {
    /// When the first step begins, in seconds since the epoch.
    pub(super) start_s: u64,
    /// The length of a step in seconds, and in words.
    pub(super) step_s: u64,
    pub(super) step: String,
    /// All requests, and those that are refused.
    pub(super) judged: Vec<u64>,
    pub(super) refused: Vec<u64>,
    /// The refusals of each policy, with its name.
    pub(super) policies: Vec<(String, Vec<u64>)>,
}

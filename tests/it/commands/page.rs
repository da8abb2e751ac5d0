//! The commands in the fenced blocks of a document.

use std::path::{Path, PathBuf};

/// The languages of blocks that a shell reads. In a block of `console`, `$ ` is before a command,
/// and the other lines are what it prints.
const SHELL: [&str; 3] = ["sh", "bash", "console"];

/// A document: its path in the project, and its text.
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// A command, without the `$ ` before it and without the indentation of its block.
pub(crate) struct Command {
    /// The number of its first line.
    pub(crate) line: usize,
    pub(crate) text: String,
    /// What a block of `console` shows behind it: lines, each with its end.
    pub(crate) printed: String,
}

/// Where the project is.
pub(crate) fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The document at this path.
pub(crate) fn page(path: &str) -> Page {
    let text = std::fs::read_to_string(project().join(path)).expect("a document is UTF-8 text");
    Page { path: path.to_owned(), text }
}

/// README.md, and all documents in `docs`.
pub(crate) fn pages() -> Vec<Page> {
    let files = std::fs::read_dir(project().join("docs")).expect("it is part of the project");
    let names = files.map(|file| file.expect("the directory can be read").file_name());
    let mut paths: Vec<String> = names.map(|name| format!("docs/{}", name.display())).collect();
    paths.retain(|path| path.ends_with(".md"));
    paths.push("README.md".to_owned());
    paths.sort();
    paths.iter().map(|path| page(path)).collect()
}

impl Page {
    /// The fenced blocks: the language, the number of the first line, and the lines without the
    /// indentation of the fence.
    fn blocks(&self) -> Vec<(&str, usize, Vec<&str>)> {
        let mut blocks = Vec::new();
        let mut lines = self.text.lines().enumerate();
        while let Some((number, fence)) = lines.next() {
            let Some((indentation, language)) = fence.split_once("```") else { continue };
            if !indentation.trim().is_empty() {
                continue;
            }
            let rest =
                lines.by_ref().map(|(_, line)| line.strip_prefix(indentation).unwrap_or(line));
            blocks.push((language, number + 2, rest.take_while(|line| *line != "```").collect()));
        }
        blocks
    }

    /// The text of the first block of this language.
    pub(crate) fn block(&self, language: &str) -> String {
        let blocks = self.blocks();
        let block = blocks.iter().find(|(it, ..)| *it == language);
        block.unwrap_or_else(|| panic!("{} has no {language}", self.path)).2.join("\n") + "\n"
    }

    /// The blocks that name no language: the number and the text of their first lines.
    pub(crate) fn without_language(&self) -> Vec<(usize, &str)> {
        let blocks = self.blocks().into_iter().filter(|(language, ..)| language.is_empty());
        blocks.filter_map(|(_, number, lines)| Some((number, *lines.first()?))).collect()
    }

    /// All commands, in their order.
    pub(crate) fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        for (language, first, lines) in self.blocks() {
            if !SHELL.contains(&language) {
                continue;
            }
            let mut is_open = false;
            let mut has_begun = false;
            for (number, line) in (first..).zip(lines) {
                if is_open {
                    let command = commands.last_mut().expect("it has begun");
                    command.text += &format!("\n{line}");
                    is_open = Spelling::of(&command.text).is_open;
                    continue;
                }
                let begun =
                    if language == "console" { line.strip_prefix("$ ") } else { Some(line) };
                let Some(text) = begun.filter(|it| !it.is_empty() && !it.starts_with('#')) else {
                    let is_printed = begun.is_none() && has_begun;
                    if let Some(command) = commands.last_mut().filter(|_| is_printed) {
                        command.printed += &format!("{line}\n");
                    }
                    continue;
                };
                (is_open, has_begun) = (Spelling::of(text).is_open, true);
                let text = text.to_owned();
                let printed = String::new();
                commands.push(Command { line: number, text, printed });
            }
        }
        commands
    }
}

/// How a command is written.
pub(crate) struct Spelling {
    /// Whether it goes on in the next line.
    pub(crate) is_open: bool,
    /// What is outside of quotes although a shell changes or divides it: `&`, `?`, `*`, variables,
    /// and each URL for curl, because most of them have such characters.
    pub(crate) loose: Vec<String>,
}

impl Spelling {
    pub(crate) fn of(text: &str) -> Self {
        let mut spelling = Self { is_open: false, loose: Vec::new() };
        let mut quote = None;
        let mut before = ' ';
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match (quote, c) {
                (None | Some('"'), '\\') => spelling.is_open = rest.next().is_none(),
                (None, '\'' | '"') => quote = Some(c),
                (Some(open), c) if open == c => quote = None,
                (Some(_), _) => {}
                (None, '#') if before.is_whitespace() => {
                    rest.by_ref().find(|c| *c == '\n');
                }
                (None, '&') if rest.as_str().starts_with('&') => {
                    rest.next();
                }
                (None, '&') if before == '>' => {}
                (None, '$') if rest.as_str().starts_with('(') => {}
                (None, '&' | '?' | '*' | '$') => {
                    spelling.loose.push(format!("{c}{}", word(rest.as_str())));
                }
                (None, 'h') if before.is_whitespace() && text.contains("curl ") => {
                    let url = format!("h{}", word(rest.as_str()));
                    spelling.loose.extend(url.contains("://").then_some(url));
                }
                (None, _) => {}
            }
            before = c;
        }
        spelling.is_open |= quote.is_some();
        spelling
    }
}

/// The rest of a word.
fn word(text: &str) -> &str {
    text.split_whitespace().next().filter(|_| !text.starts_with(' ')).unwrap_or_default()
}

#[test]
fn commands_are_found_whole_and_what_is_not_quoted_too() {
    let text = "a\n```yaml\n$ no\n```\n1. b\n\n   ```sh\n   # c\n   one 'x\n   y' # it's d\n   two \\\n     z\n   ```\n\
                ```console\n$ three \"$A/b?c&d\" && e\nprinted '\n$ four\n```\n";
    let page = Page { path: String::new(), text: text.to_owned() };
    let printed: Vec<_> = page.commands().into_iter().map(|it| it.printed).collect();
    assert_eq!(printed, ["", "", "printed '\n", ""]);
    let found: Vec<_> = page.commands().into_iter().map(|it| (it.line, it.text)).collect();
    let expected = ["one 'x\ny' # it's d", "two \\\n  z", "three \"$A/b?c&d\" && e", "four"];
    assert_eq!(
        found,
        [9, 11, 15, 17].into_iter().zip(expected.map(str::to_owned)).collect::<Vec<_>>()
    );
    let loose = |text: &str| Spelling::of(text).loose;
    assert!(loose("curl -si \"$A/b?c=1&d\" 2>&1 | head -1 && x $(seq 2) '$B' # $C & ?").is_empty());
    assert_eq!(
        loose("curl $A/b?c=1&d=2 http://x/"),
        ["$A/b?c=1&d=2", "?c=1&d=2", "&d=2", "http://x/"]
    );
}

//! The page for operators: files that are part of the program.
//!
//! They contain nothing of this gateway, so they need no credential. What the page shows it
//! asks for with the token that its user types.

use super::problem::Problem;

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct PageFile {
    name: &'static str,
    pub content_type: &'static str,
    pub text: &'static str,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

macro_rules! files {
    ($($name:literal $content_type:expr;)*) => {
        &[$(PageFile {
            name: $name,
            content_type: $content_type,
            text: include_str!(concat!("page/", $name)),
        }),*]
    };
}

/// All files.
const FILES: &[PageFile] = files! {
    "index.html" "text/html; charset=utf-8";
    "style.css" "text/css; charset=utf-8";
    "icon.svg" "image/svg+xml";
    "main.js" SCRIPT;
    "api.js" SCRIPT;
    "elements.js" SCRIPT;
    "words.js" SCRIPT;
    "plot.js" SCRIPT;
    "charts.js" SCRIPT;
    "overview.js" SCRIPT;
    "rows.js" SCRIPT;
    "policies.js" SCRIPT;
    "clients.js" SCRIPT;
    "around.js" SCRIPT;
    "results.js" SCRIPT;
    "change.js" SCRIPT;
    "client.js" SCRIPT;
    "keys.js" SCRIPT;
    "key.js" SCRIPT;
    "forms.js" SCRIPT;
    "explained.js" SCRIPT;
};

/// The names of all files.
pub fn names() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|file| file.name)
}

/// The file with this name.
///
/// # Errors
/// 404, if there is none.
pub fn file(name: &str) -> Result<PageFile, Problem> {
    let found = FILES.iter().find(|file| file.name == name);
    found.copied().ok_or_else(|| Problem::not_found("the page has no such file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most bytes of all files together.
    const MAX_BYTES: usize = 120 * 1024;
    /// The most lines of a script.
    const MAX_LINES: usize = 400;

    #[test]
    fn the_files_are_small() {
        let bytes: usize = FILES.iter().map(|file| file.text.len()).sum();
        assert!(bytes < MAX_BYTES, "{bytes}");
        for file in FILES {
            assert!(file.text.lines().count() <= MAX_LINES, "{}", file.name);
        }
    }

    #[test]
    fn nothing_makes_markup_from_text_or_names_another_origin() {
        let forbidden = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "Function(",
            "DOMParser",
            "srcdoc",
            "setTimeout(\"",
            "javascript:",
            " onclick=",
            " style=",
        ];
        for file in FILES {
            for word in forbidden {
                assert!(!file.text.contains(word), "{} contains {word}", file.name);
            }
            let addresses = file.text.match_indices("http").map(|(at, _)| &file.text[at..]);
            let known = ["http://www.w3.org/2000/svg\"", "http://localhost"];
            for address in
                addresses.filter(|it| it.starts_with("http:") || it.starts_with("https:"))
            {
                let is_known = known.iter().any(|it| address.starts_with(it));
                assert!(is_known, "{} names {:.40}", file.name, address);
            }
        }
    }

    #[test]
    fn each_file_that_the_page_names_is_there() {
        for file in FILES {
            for (at, prefix) in
                file.text.match_indices("/page/").chain(file.text.match_indices("from \"./"))
            {
                let rest = &file.text[at + prefix.len()..];
                let name = rest.split('"').next().expect("split has a first part");
                assert!(super::file(name).is_ok(), "{} names {name}", file.name);
            }
        }
        assert!(super::file("Cargo.toml").is_err() && super::file("").is_err());
    }
}

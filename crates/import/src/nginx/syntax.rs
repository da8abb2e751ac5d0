//! The syntax of nginx: words, blocks and comments. Nesting is bounded by [`MAX_DEPTH`].

use crate::files::{Place, Source};

/// The deepest nesting of blocks, with those of included files.
pub const MAX_DEPTH: usize = 32;

/// A directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directive {
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// What is in its block.
    pub block: Option<Vec<Directive>>,
    /// Where it begins.
    pub place: Place,
}

impl Directive {
    /// An argument, or an empty text.
    pub fn arg(&self, at: usize) -> &str {
        self.args.get(at).map_or("", String::as_str)
    }

    /// The directives of its block.
    pub fn inner(&self) -> &[Self] {
        self.block.as_deref().unwrap_or_default()
    }

    /// The value of an argument `name=value`.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether an argument is this word.
    pub fn has(&self, word: &str) -> bool {
        self.args.iter().any(|arg| arg == word)
    }
}

/// What is wrong with a text, and in which line.
#[derive(Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Where.
    pub place: Place,
    /// What.
    pub why: &'static str,
}

/// The directives of a file that is included at this depth.
///
/// # Errors
/// If nginx could not read it either, or blocks are nested too deep.
pub fn parse(source: &Source, depth: usize) -> Result<Vec<Directive>, SyntaxError> {
    let mut reader = Reader { text: &source.text, at: 0, line: 1, file: source.file };
    let directives = reader.directives(depth, true)?;
    Ok(directives)
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Open,
    Close,
    End,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: u32,
    file: u32,
}

impl Reader<'_> {
    fn place(&self) -> Place {
        Place { file: self.file, line: self.line }
    }

    fn fail<T>(&self, why: &'static str) -> Result<T, SyntaxError> {
        Err(SyntaxError { place: self.place(), why })
    }

    fn directives(&mut self, depth: usize, is_file: bool) -> Result<Vec<Directive>, SyntaxError> {
        if depth > MAX_DEPTH {
            return self.fail("blocks and includes are nested too deep");
        }
        let mut directives = Vec::new();
        loop {
            let Some(token) = self.token()? else {
                if is_file {
                    return Ok(directives);
                }
                return self.fail("a block has no end: a \"}\" is missing");
            };
            match token {
                Token::Word(name) => directives.push(self.directive(name, depth)?),
                Token::Close if !is_file => return Ok(directives),
                Token::Close => return self.fail("there is no block that this \"}\" ends"),
                Token::Open => return self.fail("a block has no name"),
                Token::End => return self.fail("there is no directive before this \";\""),
            }
        }
    }

    fn directive(&mut self, name: String, depth: usize) -> Result<Directive, SyntaxError> {
        let place = self.place();
        let mut args = Vec::new();
        loop {
            let block = match self.token()? {
                Some(Token::Word(word)) => {
                    args.push(word);
                    continue;
                }
                Some(Token::End) => None,
                Some(Token::Open) if name.ends_with("_by_lua_block") => {
                    self.skip_code()?;
                    Some(Vec::new())
                }
                Some(Token::Open) => Some(self.directives(depth + 1, false)?),
                Some(Token::Close) | None => {
                    return self.fail("a directive has no end: a \";\" is missing before this");
                }
            };
            return Ok(Directive { name, args, block, place });
        }
    }

    /// Leaves out a block of Lua, whose braces are balanced outside of texts and comments.
    fn skip_code(&mut self) -> Result<(), SyntaxError> {
        let mut open = 1_usize;
        while let Some(c) = self.next() {
            match c {
                '{' => open += 1,
                '}' => open -= 1,
                '"' | '\'' => self.skip_text(c),
                '-' if self.peek() == Some('-') => while self.next().is_some_and(|c| c != '\n') {},
                _ => {}
            }
            if open == 0 {
                return Ok(());
            }
        }
        self.fail("a block has no end: a \"}\" is missing")
    }

    fn skip_text(&mut self, quote: char) {
        while let Some(c) = self.next() {
            match c {
                '\\' => drop(self.next()),
                c if c == quote => return,
                _ => {}
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn token(&mut self) -> Result<Option<Token>, SyntaxError> {
        loop {
            match self.peek() {
                None => return Ok(None),
                Some('#') => while self.next().is_some_and(|c| c != '\n') {},
                Some(c) if c.is_whitespace() => drop(self.next()),
                Some(_) => break,
            }
        }
        let token = match self.peek() {
            Some('{') => Token::Open,
            Some('}') => Token::Close,
            Some(';') => Token::End,
            Some(quote @ ('"' | '\'')) => {
                self.next();
                return self.quoted(quote).map(|word| Some(Token::Word(word)));
            }
            _ => return self.word().map(|word| Some(Token::Word(word))),
        };
        self.next();
        Ok(Some(token))
    }

    fn quoted(&mut self, quote: char) -> Result<String, SyntaxError> {
        let mut word = String::new();
        loop {
            match self.next() {
                None => return self.fail("a text in quotes has no end"),
                Some('\\') => self.escape(&mut word),
                Some(c) if c == quote => break,
                Some(c) => word.push(c),
            }
        }
        match self.peek() {
            Some(c) if c.is_whitespace() || "{;)".contains(c) => Ok(word),
            _ => self.fail("a blank or a \";\" is missing after a text in quotes"),
        }
    }

    fn word(&mut self) -> Result<String, SyntaxError> {
        let mut word = String::new();
        while let Some(c) = self.peek() {
            match c {
                ';' | '{' if !(c == '{' && word.ends_with('$')) => break,
                c if c.is_whitespace() => break,
                '\\' => {
                    self.next();
                    self.escape(&mut word);
                }
                '{' => {
                    // `${name}`
                    while let Some(c) = self.next() {
                        word.push(c);
                        if c == '}' {
                            break;
                        }
                        if c.is_whitespace() || c == ';' {
                            return self.fail("the name of a variable has no end");
                        }
                    }
                }
                '}' if word.is_empty() => break,
                c => {
                    self.next();
                    word.push(c);
                }
            }
        }
        Ok(word)
    }

    /// What follows a backslash. nginx keeps the backslash before other characters.
    fn escape(&mut self, word: &mut String) {
        match self.next() {
            Some(c @ ('"' | '\'' | '\\')) => word.push(c),
            Some('t') => word.push('\t'),
            Some('r') => word.push('\r'),
            Some('n') => word.push('\n'),
            Some(c) => word.extend(['\\', c]),
            None => word.push('\\'),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Directive>, SyntaxError> {
        parse(&Source { file: 0, text: text.to_owned() }, 0)
    }

    fn shown(directives: &[Directive]) -> String {
        let one = |it: &Directive| {
            let block = it.block.as_ref().map(|block| format!("{{{}}}", shown(block)));
            format!(
                "{}:{}[{}]{}",
                it.place.line,
                it.name,
                it.args.join("|"),
                block.unwrap_or_default()
            )
        };
        directives.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_blocks_and_comments_are_read() {
        for (text, is) in [
            ("a b c;", "1:a[b|c]"),
            ("# x\na {\n b 'c d';\n}", "2:a[]{3:b[c d]}"),
            ("set $a \"x\\\"y;\"; b;", "1:set[$a|x\"y;] 1:b[]"),
            ("k ${a}${b}c{d;}", "1:k[${a}${b}c]{1:d[]}"),
            ("location ~ \\.php$ {}", "1:location[~|\\.php$]{}"),
            ("a b#c; d;", "1:a[b#c] 1:d[]"),
            (
                "content_by_lua_block { if x then { y } end; }\nb;",
                "1:content_by_lua_block[]{} 2:b[]",
            ),
            ("a_by_lua_block { s(\"}\") -- it's }\n }\nb;", "1:a_by_lua_block[]{} 3:b[]"),
            ("a \"\";", "1:a[]"),
        ] {
            assert_eq!(shown(&parsed(text).unwrap()), is, "{text}");
        }
        assert_eq!(parsed("a \"\";").unwrap()[0].args, [""]);
    }

    #[test]
    fn mistakes_have_a_line() {
        for (text, line) in [
            ("a", 1),
            ("a {\n b;\n", 3),
            ("\n}", 2),
            ("a;\n;", 2),
            ("a 'b;", 1),
            ("{}", 1),
            ("a 'b'c;", 1),
        ] {
            assert_eq!(parsed(text).unwrap_err().place.line, line, "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "a {".repeat(depth), "}".repeat(depth));
        parsed(&nested(MAX_DEPTH)).expect("the bound itself");
        assert!(parsed(&nested(MAX_DEPTH + 1)).unwrap_err().why.contains("too deep"));
        assert!(parsed(&nested(1_000_000)).is_err());
    }
}

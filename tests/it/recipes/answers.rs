//! The comparison of an answer with the one that a page shows.
//!
//! They are equal but for numbers of seconds, which depend on the time of the request: such a number
//! may be up to twice or down to half of the one on the page.

/// What stands before a number of seconds.
const BEFORE_SECONDS: [&str; 3] = ["retry-after: ", "ratelimit-reset: ", ";t="];

/// How an answer differs from the one that is shown.
pub(super) fn differs(shown: &str, answer: &str) -> Option<String> {
    // Some lines of a head end in blanks, which a document does not have.
    let answer: String = answer.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    let (shown_text, shown_seconds) = without_seconds(shown);
    let (text, seconds) = without_seconds(&answer);
    let is_close = |(a, b): (&u64, &u64)| *a <= 2 * b + 1 && *b <= 2 * a + 1;
    // Equal texts have as many numbers.
    let is_equal = shown_text == text && shown_seconds.iter().zip(&seconds).all(is_close);
    (!is_equal).then(|| format!("the page shows:\n{shown}the answer is:\n{answer}"))
}

/// The text with `N` instead of the numbers of seconds, and these numbers.
fn without_seconds(text: &str) -> (String, Vec<u64>) {
    let mut without = String::new();
    let mut seconds = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let is_seconds = digits > 0 && BEFORE_SECONDS.iter().any(|it| without.ends_with(it));
        if is_seconds {
            without.push('N');
            seconds.extend(rest[..digits].parse::<u64>().ok());
        } else {
            without.push(c);
        }
        rest = &rest[if is_seconds { digits } else { c.len_utf8() }..];
    }
    (without, seconds)
}

#[test]
fn only_numbers_of_seconds_may_differ_and_not_by_much() {
    let shown = "HTTP/1.1 200 OK\nratelimit: \"a\";r=99;t=60\n";
    let is_same = |answer: &str| differs(shown, answer).is_none();
    assert!(is_same("HTTP/1.1 200 OK \r\nratelimit: \"a\";r=99;t=119\r\n"));
    assert!(!is_same("HTTP/1.1 200 OK\nratelimit: \"a\";r=99;t=200\n"));
    assert!(!is_same("HTTP/1.1 200 OK\nratelimit: \"a\";r=98;t=60\n"));
    assert!(!is_same("HTTP/1.1 200 OK\n"));
    let (text, seconds) = without_seconds("retry-after: 3600\n\"b\";r=1;t=5, 7");
    assert_eq!((text.as_str(), seconds), ("retry-after: N\n\"b\";r=1;t=N, 7", vec![3600, 5]));
}

//! Text of others for people: what steers a terminal, or turns the direction of the text around it, is shown and not done.

use std::borrow::{Borrow, Cow};
use std::fmt::Display;

/// Whether a character acts on what is printed beside it: controls (C0, DEL and C1, so ESC, too), line separators, and
/// formatting of the direction (Unicode Standard Annex 9).
fn acts(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text as it may be printed: such characters stand there as `\u001b`. Line ends and tabs stay. JSON stays the same value,
/// because it has these characters in strings only, and this is how it writes them.
pub fn visible(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut done = 0;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let ends_line = letter == '\r' && letters.peek().is_some_and(|(_, next)| *next == '\n');
        if !acts(letter) || ends_line || matches!(letter, '\n' | '\t') {
            continue;
        }
        out.push_str(text.get(done..at).unwrap_or_default());
        out.push_str(&format!("\\u{:04x}", u32::from(letter)));
        done = at + letter.len_utf8();
    }
    if done == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Cow::Owned(out)
}

/// The same on one line: ends of lines and tabs become blanks, so that nothing of it looks like a line of Windhover.
pub fn visible_line(text: &str) -> String {
    visible(&text.replace("\r\n", " ").replace(['\n', '\t'], " ")).into_owned()
}

/// The beginning of a text of others, on one line, in at most `most` letters; "…" where it goes on.
pub fn excerpt(text: &str, most: usize) -> String {
    // What is shown of a letter is longer than the letter.
    let start: String = text.trim().chars().take(most + 1).collect();
    let line = visible_line(&start);
    match line.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

/// `1 cell`, `2 cells`
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    format!("{count} {what}{}", if count == N::from(1) { "" } else { "s" })
}

/// Words as a sentence lists them: `a, b or c` with "or" before the last one.
pub fn listed<W: Borrow<str> + Display>(words: &[W], or: &str) -> String {
    match words {
        [rest @ .., last] if !rest.is_empty() => format!("{} {or} {last}", rest.join(", ")),
        all => all.join(""),
    }
}

/// A host's name as it can stand in a tag of an interval log: without what parts the fields and lines of a log.
pub fn tag(name: &str) -> String {
    let parts = |letter: &char| *letter == ',' || letter.is_whitespace() || letter.is_control();
    name.chars().map(|letter| if parts(&letter) { '_' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches: a kind of character that passes.
    #[test]
    fn what_steers_a_terminal_is_shown() {
        for letter in
            (0..0x20).chain(0x7f..0xa0).chain([0x61c, 0x200e, 0x200f]).chain(0x2028..=0x202e).chain(0x2066..=0x2069)
        {
            let letter = char::from_u32(letter).unwrap();
            let shown = visible_line(&format!("a{letter}b"));
            let blank = matches!(letter, '\n' | '\t');
            let expected = if blank { "a b".to_owned() } else { format!("a\\u{:04x}b", u32::from(letter)) };
            assert_eq!(shown, expected);
        }
        for fine in ["µs – 1\u{202f}234 “é” 漢字 😀", "{\n\t\"a\": 1\r\n}"] {
            assert!(matches!(visible(fine), Cow::Borrowed(same) if same == fine));
        }
        assert_eq!(visible("a\rb\r\n\u{1b}[2J"), "a\\u000db\r\n\\u001b[2J");
    }

    /// Catches: an excerpt that acts, is longer than it may be, or does not say that it is one.
    #[test]
    fn an_excerpt_is_one_line_of_bounded_length() {
        for (text, shown) in [(" ab\ncd ", "ab cd"), ("abcdef", "abcde…"), ("a\u{1b}b", "a\\u00…"), ("", "")] {
            assert_eq!(excerpt(text, 5), shown, "{text:?}");
        }
    }

    /// Catches: JSON that reads as another value, or not at all.
    #[test]
    fn json_stays_the_same_value() {
        let value = serde_json::json!({ "a\u{202e}": ["\u{1b}]0;x\u{7}", "\u{9b}31m\u{7f}\\u001b\n"] });
        for text in [value.to_string(), format!("{value:#}")] {
            let shown = visible(&text);
            assert!(!shown.contains(|letter: char| acts(letter) && letter != '\n'), "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}

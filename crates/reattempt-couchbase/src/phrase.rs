//! Finds a phrase in a text that arrives in pieces.

/// A phrase to search for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phrase {
    text: &'static [u8],
    /// Before these byte positions the text may contain white space, as JSON allows between tokens.
    gaps: &'static [usize],
}

impl Phrase {
    /// Exactly this text, of at least one byte.
    pub(crate) const fn of(text: &'static str) -> Self {
        Self::with_gaps(text, &[])
    }

    /// This text, with optional white space before these byte positions.
    pub(crate) const fn with_gaps(text: &'static str, gaps: &'static [usize]) -> Self {
        Self {
            text: text.as_bytes(),
            gaps,
        }
    }

    /// How much of the phrase still matches when `matched` bytes did and the next byte differs: the
    /// length of the longest prefix of the phrase that those bytes end with.
    fn fall_back(&self, matched: usize) -> usize {
        let seen = &self.text[..matched];
        (0..matched)
            .rev()
            .find(|shorter| seen.ends_with(&self.text[..*shorter]))
            .unwrap_or(0)
    }
}

/// How much of a phrase has matched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    phrase: Phrase,
    matched: usize,
}

impl Search {
    pub(super) const fn new(phrase: Phrase) -> Self {
        Self { phrase, matched: 0 }
    }

    pub(super) const fn found(&self) -> bool {
        self.matched == self.phrase.text.len()
    }

    pub(super) fn byte(&mut self, byte: u8) {
        if self.found() {
            return;
        }
        if byte.is_ascii_whitespace() && self.phrase.gaps.contains(&self.matched) {
            return;
        }
        while self.matched > 0 && self.phrase.text[self.matched] != byte {
            self.matched = self.phrase.fall_back(self.matched);
        }
        if self.phrase.text[self.matched] == byte {
            self.matched += 1;
        }
    }
}

/// The phrases that decide about a text: one of them must occur.
pub(crate) type Wording = &'static [Phrase];

/// Searches for a wording in a text that arrives in pieces.
#[derive(Clone, Debug)]
pub(super) struct WordingScan(Vec<Search>);

impl WordingScan {
    pub(super) fn new(wording: Wording) -> Self {
        Self(wording.iter().copied().map(Search::new).collect())
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.found() {
                return;
            }
            for search in &mut self.0 {
                search.byte(*byte);
            }
        }
    }

    pub(super) fn found(&self) -> bool {
        self.0.iter().any(Search::found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(phrase: Phrase, text: &[u8]) -> bool {
        let mut search = Search::new(phrase);
        text.iter().for_each(|byte| search.byte(*byte));
        search.found()
    }

    #[test]
    fn a_phrase_is_found_after_a_false_start() {
        let phrase = Phrase::of("aabaa");
        for text in ["aabaa", "aaabaa", "aabaabaa", "xaabaab", "aabaaabaa"] {
            assert!(found(phrase, text.as_bytes()), "{text}");
        }
        assert!(!found(phrase, b"aabab aaba"));
    }

    #[test]
    fn white_space_counts_where_there_is_no_gap() {
        let phrase = Phrase::with_gaps("\"a\":\"b\"", &[3, 4]);
        for text in ["\"a\":\"b\"", "\"a\" \n:\t\"b\"", "\"a\"\"a\" : \"b\""] {
            assert!(found(phrase, text.as_bytes()), "{text}");
        }
        for text in ["\"a \":\"b\"", "\"a\":\"b \"", "\"a\":\" b\""] {
            assert!(!found(phrase, text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_wording_is_one_phrase_of_several() {
        const WORDING: Wording = &[Phrase::of("one"), Phrase::of("two")];
        for (text, says) in [("a one", true), ("t two", true), ("on tw o", false)] {
            let mut scan = WordingScan::new(WORDING);
            scan.push(text.as_bytes());
            assert_eq!(scan.found(), says, "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_of_the_whole_finds(text in "[ab\"]{0,40}", at in 0_usize..4) {
            let phrases = ["aab\"aab", "\"a\"", "abab", "b"];
            let phrase = phrases[at];
            prop_assert_eq!(found(Phrase::of(phrase), text.as_bytes()), text.contains(phrase));
        }
    }
}

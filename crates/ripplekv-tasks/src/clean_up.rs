//! The spaces that some tokenizers' decode removes.
//! Follows transformers' `clean_up_tokenization` (PreTrainedTokenizerBase, up to 5.3).

const REPLACEMENTS: [(&str, &str); 10] = [
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
];

/// Removes spaces before punctuation and contractions, one replacement after the other in the
/// reference's order. For predictions and truncated prompts of models whose published numbers
/// were made with it (Llama 3).
pub fn clean_up_spaces(text: &str) -> String {
    REPLACEMENTS
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_what_the_reference_removes() {
        assert_eq!(clean_up_spaces("a != b , c ."), "a!= b, c.");
        assert_eq!(
            clean_up_spaces("do n't we 've it 's I 'm they 're"),
            "don't we've it's I'm they're"
        );
        assert_eq!(clean_up_spaces("the ' x ' y"), "the'x'y");
    }

    #[test]
    fn order_is_sequential() {
        // " ," goes before " ' ": the quote keeps its spaces only if they were not touched first.
        assert_eq!(clean_up_spaces("a  . b"), "a . b");
        assert_eq!(clean_up_spaces("a ' 's"), "a''s");
    }

    #[test]
    fn leaves_line_breaks_alone() {
        assert_eq!(clean_up_spaces("x\n. y\t, z"), "x\n. y\t, z");
    }
}

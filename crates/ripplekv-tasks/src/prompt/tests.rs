//! Truncation, BOS, chat rule and the end of the context, on a word-level tokenizer.

use super::*;
use crate::groups::find_task;
use crate::testing::{WordTokenizer, record};

const TEMPLATE: &str = "{context}|{input}";

fn options(max_context: usize) -> PromptOptions {
    PromptOptions::official(max_context)
}

fn made(task: &str, record: &Record, tokenizer: &WordTokenizer, options: PromptOptions) -> Prompt {
    prepare(
        find_task(task).unwrap(),
        TEMPLATE,
        record,
        tokenizer,
        &options,
    )
    .unwrap()
}

/// `w0 w1 ...`: as many tokens as words.
fn context(words: usize) -> String {
    let words: Vec<String> = (0..words).map(|index| format!("w{index}")).collect();
    words.join(" ")
}

#[test]
fn official_contexts_by_window() {
    let cases = [
        (4_096, 3_500),
        (8_191, 3_500),
        (8_192, 7_500),
        (16_384, 15_500),
        (32_768, 31_500),
        (131_071, 31_500),
        (131_072, 127_500),
        (1_000_000, 127_500),
        (4_095, 3_499),
        (2_048, 1_452),
        (1_024, 512),
        (0, 0),
    ];
    for (window, tokens) in cases {
        assert_eq!(official_max_context(window), tokens, "{window}");
    }
}

#[test]
fn a_prompt_of_exactly_the_most_is_not_cut() {
    // 10 words, "|", "q": 12 tokens; strictly longer is cut.
    let tokenizer = WordTokenizer::new();
    let record = record("q", &context(10));
    let whole = made("lcc", &record, &tokenizer, options(12));
    assert!(!whole.truncated);
    assert_eq!((whole.rendered_tokens, whole.removed_tokens), (12, 0));
    assert_eq!(whole.text, format!("{}|q", context(10)));
    let cut = made("lcc", &record, &tokenizer, options(11));
    assert!(cut.truncated);
    // An odd most keeps one token less: two halves of 5.
    assert_eq!((cut.rendered_tokens, cut.removed_tokens), (12, 2));
    assert_eq!(cut.text, "w0 w1 w2 w3 w4 w7 w8 w9|q");
    let even = made("lcc", &record, &tokenizer, options(10));
    assert_eq!(even.text, cut.text);
}

#[test]
fn bos_counts_and_takes_a_place_in_the_first_half() {
    let tokenizer = WordTokenizer::new().with_bos();
    let record = record("q", &context(10));
    let whole = made("lcc", &record, &tokenizer, options(13));
    assert_eq!((whole.rendered_tokens, whole.truncated), (13, false));
    let cut = made("lcc", &record, &tokenizer, options(12));
    assert_eq!((cut.rendered_tokens, cut.removed_tokens), (13, 1));
    assert_eq!(cut.text, "w0 w1 w2 w3 w4 w6 w7 w8 w9|q");
    let bos = tokenizer.bos().unwrap().0;
    assert_eq!(cut.ids.iter().filter(|id| **id == bos).count(), 1);
    assert_eq!(cut.ids[0], bos);
    assert_eq!(cut.ids.len(), 12);
}

#[test]
fn a_template_that_writes_bos_makes_one_not_two() {
    let record = record("q", "c");
    let writes = |tokenizer: WordTokenizer| tokenizer.with_chat("<bos>[", "]");
    let leading = |tokenizer: &WordTokenizer, bos| {
        let prompt = made(
            "qasper",
            &record,
            tokenizer,
            PromptOptions { bos, ..options(99) },
        );
        assert!(prompt.chat_applied);
        prompt.ids.iter().take_while(|id| **id == 0).count()
    };
    for tokenizer in [
        writes(WordTokenizer::new()),
        writes(WordTokenizer::new().with_bos()),
    ] {
        assert_eq!(leading(&tokenizer, BosRule::Auto), 1);
        assert_eq!(leading(&tokenizer, BosRule::On), 1);
        // the token may be the template's own first word, as <|im_start|> is SmolLM2's: it is never taken away
        assert_eq!(leading(&tokenizer, BosRule::Off), 1);
    }
    let adds = WordTokenizer::new().with_bos().with_chat("[", "]");
    assert_eq!(leading(&adds, BosRule::Auto), 1);
    assert_eq!(leading(&adds, BosRule::On), 1);
    assert_eq!(leading(&adds, BosRule::Off), 0);
    let without = WordTokenizer::new().with_chat("[", "]");
    assert_eq!(leading(&without, BosRule::Auto), 0);
    assert_eq!(leading(&without, BosRule::On), 1);
}

#[test]
fn chat_rule_per_task() {
    let tokenizer = WordTokenizer::new().with_chat("<", ">");
    let record = record("q", "c");
    let text = |task, chat_template| {
        let options = PromptOptions {
            chat_template,
            ..options(99)
        };
        made(task, &record, &tokenizer, options).text
    };
    assert_eq!(text("qasper", ChatRule::Auto), "<c|q>");
    assert_eq!(text("qasper", ChatRule::Off), "c|q");
    assert_eq!(text("passage_count", ChatRule::Auto), "<c|q>");
    for task in ["trec", "triviaqa", "samsum", "lsht", "lcc", "repobench-p"] {
        assert_eq!(text(task, ChatRule::Auto), "c|q", "{task}");
        assert_eq!(text(task, ChatRule::On), "<c|q>", "{task}");
    }
}

#[test]
fn what_a_model_lacks_is_an_error_only_if_demanded() {
    struct Bare(WordTokenizer);
    impl Tokenise for Bare {
        fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, TokeniseError> {
            self.0.encode(text, special)
        }
        fn decode(&self, ids: &[u32], skip: bool) -> Result<String, TokeniseError> {
            self.0.decode(ids, skip)
        }
        fn chat(&self, _: &str) -> Result<Option<String>, TokeniseError> {
            Ok(None)
        }
        fn bos(&self) -> Option<(u32, String)> {
            None
        }
        fn adds_bos(&self) -> bool {
            false
        }
        fn newline_token(&self) -> Result<u32, TokeniseError> {
            self.0.newline_token()
        }
        fn end_tokens(&self) -> Vec<u32> {
            Vec::new()
        }
    }
    let bare = Bare(WordTokenizer::new());
    let task = find_task("qasper").unwrap();
    let error = |options| {
        prepare(task, TEMPLATE, &record("q", "c"), &bare, &options).map_err(|e| e.to_string())
    };
    let chat = PromptOptions {
        chat_template: ChatRule::On,
        ..options(9)
    };
    let bos = PromptOptions {
        bos: BosRule::On,
        ..options(9)
    };
    assert!(!error(options(9)).unwrap().chat_applied);
    assert!(
        error(chat)
            .unwrap_err()
            .starts_with("`chat_template: on`, but the model has no")
    );
    assert!(
        error(bos)
            .unwrap_err()
            .starts_with("`bos: on`, but the tokenizer has no")
    );
    assert!(
        error(options(1))
            .unwrap_err()
            .starts_with("`max_context: 1` leaves no room")
    );
}

#[test]
fn special_tokens_in_a_record_are_lost_in_truncation_only() {
    let tokenizer = WordTokenizer::new();
    let record = record("q", &format!("a<end>{}", context(10)));
    let cut = made("lcc", &record, &tokenizer, options(8));
    assert!(cut.text.starts_with("aw0 w1 w8"), "{}", cut.text);
    let whole = made("lcc", &record, &tokenizer, options(99));
    assert!(whole.text.starts_with("a<end>w0"));
    assert_eq!(whole.ids[1], tokenizer.end_tokens()[0]);
}

#[test]
fn the_template_comes_after_truncation_and_may_exceed_the_most() {
    let tokenizer = WordTokenizer::new().with_chat("one two three ", " four");
    let prompt = made("qasper", &record("q", &context(10)), &tokenizer, options(6));
    assert_eq!(prompt.text, "one two three w0 w1 w2 w9|q four");
    assert_eq!(prompt.ids.len(), 6 + 4);
}

#[test]
fn clean_up_touches_the_halves_of_a_cut_prompt_only() {
    let tokenizer = WordTokenizer::new();
    let record = record("q", &format!("x != y {}", context(10)));
    let clean = |max_context| {
        let options = PromptOptions {
            clean_up_spaces: true,
            ..options(max_context)
        };
        made("lcc", &record, &tokenizer, options)
    };
    assert!(clean(99).text.starts_with("x != y"));
    let cut = clean(12);
    assert!(cut.text.starts_with("x!= y"), "{}", cut.text);
    assert_eq!(&cut.text[cut.context_end_byte.unwrap()..], "|q");
}

#[test]
fn the_end_of_the_context_is_found_after_cut_and_template() {
    let tokenizer = WordTokenizer::new().with_chat("<user>", "</user>");
    let record = record(" what ? ", &context(40));
    for max_context in [99, 30, 11, 10] {
        let prompt = made("qasper", &record, &tokenizer, options(max_context));
        let end = prompt.context_end_byte.unwrap();
        assert_eq!(&prompt.text[end..], "| what ? </user>", "{max_context}");
    }
    // The cut takes the end of the context itself: what is left of the question is the tail.
    let prompt = made("qasper", &record, &tokenizer, options(4));
    let end = prompt.context_end_byte.unwrap();
    assert_eq!(&prompt.text[..end], "<user>w0 w1");
    // A long question: the whole context lies in the first half.
    let long = crate::testing::record(&context(40), "a b");
    let prompt = made("qasper", &long, &tokenizer, options(20));
    assert_eq!(
        &prompt.text[..prompt.context_end_byte.unwrap()],
        "<user>a b"
    );
}

#[test]
fn a_template_that_trims_still_shows_the_end() {
    assert_eq!(end_in_chat("[c|q:]", " \nc|q: ", 3), Some(2));
    assert_eq!(end_in_chat("[c|q:]", "x|q: ", 1), None);
    assert_eq!(end_in_chat("[c]", "c  ", 3), Some(2));
}

#[test]
fn the_hash_is_of_the_ids() {
    assert_eq!(
        hash_ids(&[1, 256]),
        blake3::hash(&[1, 0, 0, 0, 0, 1, 0, 0]).to_hex().as_str()
    );
    let tokenizer = WordTokenizer::new();
    let one = made("lcc", &record("q", "c"), &tokenizer, options(9));
    assert_eq!(one.hash, hash_ids(&one.ids));
}

//! Words equal to Python jieba's.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use ripplekv_metrics::jieba::{JiebaError, Segmenter, Sources};
use serde::Deserialize;

use crate::support::{fixture_text, jieba_folder, jieba_texts, lines, segmenter};

#[derive(Deserialize)]
struct Case {
    text: String,
    words: Vec<String>,
}

#[test]
fn every_fixture_string_is_cut_as_python_jieba_cuts_it() {
    let cases: Vec<Case> = lines(&fixture_text("segmentations.jsonl"));
    assert!(cases.len() > 300);
    let Some(segmenter) = segmenter() else {
        return;
    };
    for case in cases {
        assert_eq!(segmenter.cut(&case.text), case.words, "{:?}", case.text);
    }
}

#[test]
fn the_package_data_are_read_within_a_second() {
    let Ok([dictionary, start, transition, emission]) = jieba_texts(&jieba_folder()) else {
        assert!(segmenter().is_none());
        return;
    };
    let sources = Sources {
        dictionary: &dictionary,
        start: &start,
        transition: &transition,
        emission: &emission,
    };
    // The quickest of three, so that a busy machine does not decide.
    let quickest = (0..3)
        .map(|_| {
            let before = Instant::now();
            Segmenter::from_sources(&sources).unwrap();
            before.elapsed()
        })
        .min()
        .unwrap();
    assert!(quickest < Duration::from_secs(1), "{quickest:?}");
}

#[test]
fn damaged_data_are_refused_with_file_and_line() {
    const TABLE: &str = "P={'B': {}, 'E': {}, 'M': {}, 'S': {}}";
    let sources = Sources {
        dictionary: "潮汐 3 n\n码头\n",
        start: "P={'B': 0, 'E': 0, 'M': 0, 'S': 0}",
        transition: TABLE,
        emission: TABLE,
    };
    let error = Segmenter::from_sources(&sources).unwrap_err();
    assert!(matches!(
        error,
        JiebaError::Malformed {
            file: "dict.txt",
            line: 2,
            ..
        }
    ));
    let repaired = Sources {
        dictionary: "潮汐 3 n\n码头 2 n\n",
        ..sources
    };
    let segmenter = Segmenter::from_sources(&repaired).unwrap();
    assert_eq!(segmenter.cut("潮汐码头"), ["潮汐", "码头"]);
    let cut = Sources {
        emission: "P={'B': {}, 'E': {'潮': -1.5",
        ..repaired
    };
    let error = Segmenter::from_sources(&cut).unwrap_err();
    assert!(
        error.to_string().contains("prob_emit.py` line 1"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn words_joined_give_the_text_again(text in "(\\PC|[一-龥]|[a-zA-Z0-9+#&._%-]|\\s){0,60}") {
        if let Some(segmenter) = segmenter() {
            let words = segmenter.cut(&text);
            prop_assert_eq!(words.concat(), text.as_str());
            prop_assert!(words.iter().all(|word| !word.is_empty()));
        }
    }
}

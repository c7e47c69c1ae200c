//! What must hold for any text.

use proptest::prelude::*;
use ripplekv_tasks::testing::{WordTokenizer, record};
use ripplekv_tasks::{PromptOptions, Record, Tokenise, find_task, prepare, render};

proptest! {
    #[test]
    fn any_record_reads_back(input in ".*", context in "(?s).*", answer in "(?s).*") {
        let mut one = record(&input, &context);
        one.answers = vec![answer];
        let line = one.to_line();
        let bytes = line.strip_suffix('\n').unwrap().as_bytes();
        prop_assert!(!bytes.contains(&b'\n'));
        prop_assert_eq!(Record::parse(bytes).unwrap(), one);
    }

    #[test]
    fn rendering_is_one_pass(input in "(?s).*", context in "(?s).*") {
        let text = render("a{context}b{{c}}{input}", &record(&input, &context)).unwrap();
        prop_assert_eq!(text, format!("a{context}b{{c}}{input}"));
    }

    #[test]
    fn any_template_renders_or_errs(template in "[{}a-c]{0,12}(context|input)?[{}]{0,3}") {
        let _ = render(&template, &record("i", "c"));
    }

    #[test]
    fn a_cut_prompt_never_exceeds_the_most(
        words in prop::collection::vec("[a-z]{1,6}", 1..80),
        most in 2_usize..60,
    ) {
        let tokenizer = WordTokenizer::new().with_bos();
        let one = record("end", &words.join(" "));
        let options = PromptOptions::official(most);
        let task = find_task("lcc").unwrap();
        let prompt = prepare(task, "{context} {input}", &one, &tokenizer, &options).unwrap();
        prop_assert!(prompt.ids.len() <= most);
        prop_assert_eq!(prompt.truncated, prompt.rendered_tokens > most);
        prop_assert_eq!(prompt.ids[0], tokenizer.bos().unwrap().0);
        prop_assert!(prompt.ids[1..].iter().all(|id| *id != prompt.ids[0]));
    }
}

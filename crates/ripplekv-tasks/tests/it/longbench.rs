//! The real LongBench records, where the shared folder lies beside the project; they are never
//! committed. Elsewhere `bad_packs` and `generated` cover the same code on texts of our own.

use std::path::PathBuf;

use ripplekv_tasks::testing::WordTokenizer;
use ripplekv_tasks::{Pack, PromptOptions, TASKS, prepare, render};

/// The records, or `None` with a message. Where `RIPPLEKV_SHARED` names a folder, its absence is a
/// failure; without it, nobody outside the project could have them.
pub(crate) fn shared() -> Option<Pack> {
    let stated = std::env::var_os("RIPPLEKV_SHARED").filter(|folder| !folder.is_empty());
    let dir = match &stated {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared")),
    }
    .join("longbench");
    if stated.is_none() && !dir.is_dir() {
        println!("skipped: no shared LongBench records beside the project");
        return None;
    }
    Some(Pack::open(dir).unwrap())
}

#[test]
fn the_pack_has_all_tasks_and_the_tables_lengths() {
    let Some(pack) = shared() else { return };
    assert_eq!(pack.name(), "longbench");
    assert_eq!(pack.tasks().len(), 21);
    for task in pack.tasks() {
        assert_eq!(
            pack.max_new_tokens(task).unwrap(),
            task.max_new_tokens,
            "{task}"
        );
    }
    let e = TASKS.iter().find(|task| task.name == "qasper_e").unwrap();
    assert!(pack.load(e).is_err());
    assert_eq!(pack.select(&["english16"]).unwrap().tasks.len(), 16);
    assert!(pack.select(&["all21"]).unwrap().absent.is_empty());
}

#[test]
fn all_records_load_and_render() {
    let Some(pack) = shared() else { return };
    let mut records = 0;
    for task in pack.tasks() {
        let template = pack.template(task).unwrap();
        for record in pack.load(task).unwrap() {
            records += 1;
            assert_eq!(record.dataset, task.name);
            let text = render(template, &record).unwrap();
            let (head, _) = template.split_once("{context}").unwrap();
            let from_context = text.strip_prefix(head).unwrap();
            assert!(from_context.starts_with(&record.context));
            if template.contains("{input}") {
                assert!(from_context[record.context.len()..].contains(&record.input));
            }
        }
    }
    assert_eq!(records, 124);
}

#[test]
fn truncation_keeps_both_ends_and_finds_the_end_of_the_context() {
    let Some(pack) = shared() else { return };
    let tokenizer = WordTokenizer::new()
        .with_bos()
        .with_chat("<user>", "</user>");
    let mut truncated = 0;
    for task in pack.tasks() {
        let template = pack.template(task).unwrap();
        for record in pack.load(task).unwrap() {
            let options = PromptOptions::official(1_001);
            let prompt = prepare(task, template, &record, &tokenizer, &options).unwrap();
            truncated += usize::from(prompt.truncated);
            let rendered = render(template, &record).unwrap();
            assert_eq!(prompt.chat_applied, task.chat_template);
            let open = if prompt.chat_applied { "<user>" } else { "" };
            let head: String = rendered.chars().take(40).collect();
            assert!(prompt.text.starts_with(&format!("{open}{head}")), "{task}");
            let tail = template.rsplit_once('}').unwrap().1;
            assert!(
                prompt.text.trim_end_matches("</user>").ends_with(tail),
                "{task}"
            );
            if prompt.truncated {
                assert_eq!(prompt.rendered_tokens - prompt.removed_tokens, 1_000);
            }
            assert!(prompt.context_end_byte.is_some(), "{task} {}", record.id);
        }
    }
    assert!(truncated > 100, "{truncated}");
}

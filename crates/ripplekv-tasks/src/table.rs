//! The task table: one line a task.
//! Facts follow LongBench's README, `pred.py`, `eval.py` and config files (THUDM/LongBench 2e00731).

use crate::task::{Category, Language, Suite, TaskInfo};

const CHAT: bool = true;
const PLAIN: bool = false;
const FIRST_LINE: bool = true;
const WHOLE: bool = false;
const NEWLINE: bool = true;
const NO_NEWLINE: bool = false;
const AVERAGED: bool = true;
const APART: bool = false;

#[expect(
    clippy::too_many_arguments,
    reason = "one argument a column of the table"
)]
const fn row(
    name: &'static str,
    config_key: &'static str,
    category: Category,
    language: Language,
    metric: &'static str,
    max_new_tokens: usize,
    chat_template: bool,
    first_line: bool,
    newline_stop: bool,
    expected_records: usize,
    suite: Suite,
    in_average: bool,
) -> TaskInfo {
    TaskInfo {
        name,
        config_key,
        category,
        language,
        metric,
        max_new_tokens,
        chat_template,
        first_line,
        newline_stop,
        expected_records,
        suite,
        in_average,
    }
}

/// Every task: LongBench's 21, LongBench-E's 13, our own 6, and one of the calibration pack alone.
/// Columns: name, config key, category, language, metric, most new tokens, chat rule, which part
/// of the prediction counts, newline stop, records, suite, in the 16-task average.
#[rustfmt::skip]
pub const TASKS: &[TaskInfo] = &[
    row("narrativeqa", "narrativeqa", Category::SingleDocQa, Language::En, "qa-f1", 128, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("qasper", "qasper", Category::SingleDocQa, Language::En, "qa-f1", 128, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("multifieldqa_en", "multifieldqa_en", Category::SingleDocQa, Language::En, "qa-f1", 64, CHAT, WHOLE, NO_NEWLINE, 150, Suite::LongBench, AVERAGED),
    row("multifieldqa_zh", "multifieldqa_zh", Category::SingleDocQa, Language::Zh, "qa-f1-zh", 64, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, APART),
    row("hotpotqa", "hotpotqa", Category::MultiDocQa, Language::En, "qa-f1", 32, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("2wikimqa", "2wikimqa", Category::MultiDocQa, Language::En, "qa-f1", 32, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("musique", "musique", Category::MultiDocQa, Language::En, "qa-f1", 32, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("dureader", "dureader", Category::MultiDocQa, Language::Zh, "rouge-l-zh", 128, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, APART),
    row("gov_report", "gov_report", Category::Summarization, Language::En, "rouge-l", 512, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("qmsum", "qmsum", Category::Summarization, Language::En, "rouge-l", 512, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("multi_news", "multi_news", Category::Summarization, Language::En, "rouge-l", 512, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("vcsum", "vcsum", Category::Summarization, Language::Zh, "rouge-l-zh", 512, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, APART),
    row("trec", "trec", Category::FewShot, Language::En, "classification", 64, PLAIN, FIRST_LINE, NO_NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("triviaqa", "triviaqa", Category::FewShot, Language::En, "qa-f1", 32, PLAIN, FIRST_LINE, NO_NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("samsum", "samsum", Category::FewShot, Language::En, "rouge-l", 128, PLAIN, FIRST_LINE, NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("lsht", "lsht", Category::FewShot, Language::Zh, "classification", 64, PLAIN, FIRST_LINE, NO_NEWLINE, 200, Suite::LongBench, APART),
    row("passage_count", "passage_count", Category::Synthetic, Language::En, "count", 32, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("passage_retrieval_en", "passage_retrieval_en", Category::Synthetic, Language::En, "retrieval", 32, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, AVERAGED),
    row("passage_retrieval_zh", "passage_retrieval_zh", Category::Synthetic, Language::Zh, "retrieval-zh", 32, CHAT, WHOLE, NO_NEWLINE, 200, Suite::LongBench, APART),
    row("lcc", "lcc", Category::Code, Language::Code, "code-similarity", 64, PLAIN, WHOLE, NO_NEWLINE, 500, Suite::LongBench, AVERAGED),
    row("repobench-p", "repobench-p", Category::Code, Language::Code, "code-similarity", 64, PLAIN, WHOLE, NO_NEWLINE, 500, Suite::LongBench, AVERAGED),
    row("qasper_e", "qasper", Category::SingleDocQa, Language::En, "qa-f1", 128, CHAT, WHOLE, NO_NEWLINE, 224, Suite::LongBenchE, APART),
    row("multifieldqa_en_e", "multifieldqa_en", Category::SingleDocQa, Language::En, "qa-f1", 64, CHAT, WHOLE, NO_NEWLINE, 150, Suite::LongBenchE, APART),
    row("hotpotqa_e", "hotpotqa", Category::MultiDocQa, Language::En, "qa-f1", 32, CHAT, WHOLE, NO_NEWLINE, 300, Suite::LongBenchE, APART),
    row("2wikimqa_e", "2wikimqa", Category::MultiDocQa, Language::En, "qa-f1", 32, CHAT, WHOLE, NO_NEWLINE, 300, Suite::LongBenchE, APART),
    row("gov_report_e", "gov_report", Category::Summarization, Language::En, "rouge-l", 512, CHAT, WHOLE, NO_NEWLINE, 300, Suite::LongBenchE, APART),
    row("multi_news_e", "multi_news", Category::Summarization, Language::En, "rouge-l", 512, CHAT, WHOLE, NO_NEWLINE, 294, Suite::LongBenchE, APART),
    row("trec_e", "trec", Category::FewShot, Language::En, "classification", 64, PLAIN, FIRST_LINE, NO_NEWLINE, 300, Suite::LongBenchE, APART),
    row("triviaqa_e", "triviaqa", Category::FewShot, Language::En, "qa-f1", 32, PLAIN, FIRST_LINE, NO_NEWLINE, 300, Suite::LongBenchE, APART),
    row("samsum_e", "samsum", Category::FewShot, Language::En, "rouge-l", 128, PLAIN, FIRST_LINE, NEWLINE, 300, Suite::LongBenchE, APART),
    row("passage_count_e", "passage_count", Category::Synthetic, Language::En, "count", 32, CHAT, WHOLE, NO_NEWLINE, 300, Suite::LongBenchE, APART),
    row("passage_retrieval_en_e", "passage_retrieval_en", Category::Synthetic, Language::En, "retrieval", 32, CHAT, WHOLE, NO_NEWLINE, 300, Suite::LongBenchE, APART),
    row("lcc_e", "lcc", Category::Code, Language::Code, "code-similarity", 64, PLAIN, WHOLE, NO_NEWLINE, 300, Suite::LongBenchE, APART),
    row("repobench-p_e", "repobench-p", Category::Code, Language::Code, "code-similarity", 64, PLAIN, WHOLE, NO_NEWLINE, 300, Suite::LongBenchE, APART),
    row("logbook_qa", "logbook_qa", Category::SingleDocQa, Language::En, "qa-f1", 16, CHAT, WHOLE, NO_NEWLINE, 4, Suite::Own, APART),
    row("dossier_qa", "dossier_qa", Category::MultiDocQa, Language::En, "qa-f1", 16, CHAT, WHOLE, NO_NEWLINE, 4, Suite::Own, APART),
    row("minutes_sum", "minutes_sum", Category::Summarization, Language::En, "rouge-l", 64, CHAT, WHOLE, NO_NEWLINE, 4, Suite::Own, APART),
    row("ticket_class", "ticket_class", Category::FewShot, Language::En, "classification", 8, PLAIN, FIRST_LINE, NO_NEWLINE, 4, Suite::Own, APART),
    row("paragraph_find", "paragraph_find", Category::Synthetic, Language::En, "retrieval", 16, CHAT, WHOLE, NO_NEWLINE, 4, Suite::Own, APART),
    row("module_line", "module_line", Category::Code, Language::Code, "code-similarity", 32, PLAIN, WHOLE, NO_NEWLINE, 4, Suite::Own, APART),
    row("order_table", "order_table", Category::SingleDocQa, Language::En, "qa-f1", 16, CHAT, WHOLE, NO_NEWLINE, 4, Suite::Calibration, APART),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of(suite: Suite) -> Vec<&'static TaskInfo> {
        TASKS.iter().filter(|task| task.suite == suite).collect()
    }

    fn per_category(tasks: &[&TaskInfo]) -> [usize; 6] {
        Category::ALL.map(|category| {
            tasks
                .iter()
                .filter(|task| task.category == category)
                .count()
        })
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = TASKS.iter().map(|task| task.name).collect();
        assert_eq!(names.len(), TASKS.len());
    }

    #[test]
    fn suites_have_their_numbers() {
        let longbench = of(Suite::LongBench);
        assert_eq!(per_category(&longbench), [4, 4, 4, 4, 3, 2]);
        let records: usize = longbench.iter().map(|task| task.expected_records).sum();
        assert_eq!(records, 4_750);
        let e = of(Suite::LongBenchE);
        assert_eq!(per_category(&e), [2, 2, 2, 3, 2, 2]);
        let records: usize = e.iter().map(|task| task.expected_records).sum();
        assert_eq!(records, 224 + 150 + 294 + 10 * 300);
        assert_eq!(per_category(&of(Suite::Own)), [1; 6]);
        assert_eq!(per_category(&of(Suite::Calibration)), [1, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn average_is_the_sixteen_english_and_code_tasks() {
        let averaged: Vec<_> = TASKS.iter().filter(|task| task.in_average).collect();
        assert_eq!(averaged.len(), 16);
        for task in of(Suite::LongBench) {
            assert_eq!(task.in_average, task.language != Language::Zh, "{task}");
        }
        assert!(averaged.iter().all(|task| task.suite == Suite::LongBench));
    }

    #[test]
    fn rules_follow_the_category() {
        for task in TASKS {
            let plain = matches!(task.category, Category::FewShot | Category::Code);
            assert_eq!(task.chat_template, !plain, "{task}");
            assert_eq!(
                task.first_line,
                task.category == Category::FewShot,
                "{task}"
            );
            assert_eq!(task.newline_stop, task.config_key == "samsum", "{task}");
            assert_eq!(
                task.language == Language::Code,
                task.category == Category::Code,
                "{task}"
            );
            assert!(
                task.max_new_tokens > 0 && task.expected_records > 0,
                "{task}"
            );
        }
    }

    #[test]
    fn every_metric_is_known_and_fits_the_language() {
        for task in TASKS {
            let metric = ripplekv_metrics::find_metric(task.metric)
                .unwrap_or_else(|| panic!("{task} has no metric"));
            assert_eq!(task.metric_info().name, metric.name);
            // The Chinese classes are matched as they stand; all else in Chinese has its own metric.
            let zh = task.language == Language::Zh && task.metric != "classification";
            assert_eq!(task.metric.ends_with("-zh"), zh, "{task}");
        }
    }

    #[test]
    fn longbench_e_repeats_its_base_tasks() {
        for task in of(Suite::LongBenchE) {
            let base = TASKS
                .iter()
                .find(|base| base.name == task.config_key)
                .unwrap();
            assert_eq!(task.name, format!("{}_e", base.name));
            let renamed = TaskInfo {
                name: base.name,
                suite: base.suite,
                in_average: base.in_average,
                expected_records: base.expected_records,
                ..*task
            };
            assert_eq!(renamed, *base);
        }
    }
}

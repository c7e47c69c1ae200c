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

/// Every task: LongBench's 21, LongBench-E's 13, our own 6.
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
    row("paragraph_find", "paragraph_find", Category::Synthetic, Language::En, "retrieval", 8, CHAT, WHOLE, NO_NEWLINE, 4, Suite::Own, APART),
    row("module_line", "module_line", Category::Code, Language::Code, "code-similarity", 32, PLAIN, WHOLE, NO_NEWLINE, 4, Suite::Own, APART),
];

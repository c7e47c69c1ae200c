//! Whole reports from sound results.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ripplekv_report::{ReportError, ReportOptions, write_report};
use ripplekv_runner::cell::Query;
use serde_json::json;
use tempfile::TempDir;

use crate::results_folder::{Folder, METHODS, SIXTEEN_TASKS};

/// Every file below a folder with its bytes.
pub(crate) fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path
                    .strip_prefix(folder)
                    .unwrap()
                    .to_string_lossy()
                    .into_owned();
                files.insert(name, fs::read(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn quickstart_table_on_a_terminal() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let out = TempDir::new().unwrap();
    let mut options = folder.options();
    options.terminal_width = 160;
    let summary = write_report(&[results.path().to_owned()], out.path(), &options).unwrap();
    assert_eq!(summary.warnings, Vec::<String>::new());
    insta::assert_snapshot!(summary.terminal, @r#"
    Score by method and budget: smollm2-135m-instruct-q4, query aware
                               single_  multi_doc_  summarization  few_shot   synthetic     code
                                doc_qa          qa
     budget  method         logbook_qa  dossier_qa       minutes_   ticket_  paragraph_  module_  average of             95%   n     kept      bytes
                                                              sum     class        find     line     6 tasks        interval      entries

     -       full                63.46       65.70          66.12     73.12       63.88    63.46       65.96  58.30 to 74.71  24   2284.5  100.4 MiB

     10%     streaming-llm       37.70       37.62          35.68     40.27       34.13    32.83       36.37  32.27 to 40.70  24    228.4   10.0 MiB
             snapkv             *57.11      *56.49         *58.38    *64.08      *54.75   *55.48      *57.72  50.64 to 65.74  24    228.4   10.0 MiB
             pyramidkv           56.02       55.68          57.76     61.69       51.96    53.13       56.04  49.72 to 63.33  24    228.4   10.0 MiB

     20%     streaming-llm       50.11       49.06          50.56     56.19       51.22    48.02       50.86  44.75 to 57.90  24    456.9   20.1 MiB
             snapkv             *59.34       62.09          61.12     68.14       59.14    57.81       61.27  53.92 to 69.32  24    456.9   20.1 MiB
             pyramidkv           57.68      *63.15         *63.17    *68.51      *61.78   *62.76      *62.84  55.86 to 71.01  24    456.9   20.1 MiB

     50%     streaming-llm       59.01       59.45          58.23     65.84       58.82    56.46       59.63  53.08 to 67.25  24   1142.2   50.2 MiB
             snapkv             *61.58       61.32          63.12     71.68      *62.33   *62.48       63.75  55.83 to 72.47  24   1142.2   50.2 MiB
             pyramidkv           60.32      *65.54         *64.82    *72.39       61.79    59.68      *64.09  56.64 to 72.56  24   1142.2   50.2 MiB
    * best of its budget
    "#);
}

#[test]
fn differences_are_from_the_chosen_baseline_and_an_unknown_one_is_refused() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let report = |baseline: &str| {
        let out = TempDir::new().unwrap();
        let options = ReportOptions {
            baseline: Some(baseline.to_owned()),
            ..folder.options()
        };
        let summary = write_report(&[results.path().to_owned()], out.path(), &options)?;
        let table = out.path().join(&summary.rows[0].table);
        let read = |name: &str| fs::read_to_string(table.join(name)).unwrap();
        Ok((read("differences.md"), read("task-dumbbell-10pct.svg")))
    };
    let (table, figure) = report("snapkv").unwrap();
    assert!(table.contains("Method minus snapkv"), "{table}");
    assert!(
        table.contains("| pyramidkv ") && !table.contains("| snapkv "),
        "{table}"
    );
    assert!(figure.contains("Ring: snapkv"), "{figure}");
    let error: ReportError = report("snapvk").unwrap_err();
    assert_eq!(
        error.to_string(),
        "baseline `snapvk` is no method of these results\nhint: they have full, streaming-llm, snapkv, pyramidkv"
    );
}

#[test]
fn a_narrow_terminal_gets_the_task_columns_in_a_second_table() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let out = TempDir::new().unwrap();
    let mut options = folder.options();
    options.terminal_width = 100;
    let summary = write_report(&[results.path().to_owned()], out.path(), &options).unwrap();
    insta::assert_snapshot!(summary.terminal, @r#"
    Score by method and budget: smollm2-135m-instruct-q4, query aware
     budget  method         average of             95%   n     kept      bytes
                               6 tasks        interval      entries

     -       full                65.96  58.30 to 74.71  24   2284.5  100.4 MiB

     10%     streaming-llm       36.37  32.27 to 40.70  24    228.4   10.0 MiB
             snapkv             *57.72  50.64 to 65.74  24    228.4   10.0 MiB
             pyramidkv           56.04  49.72 to 63.33  24    228.4   10.0 MiB

     20%     streaming-llm       50.86  44.75 to 57.90  24    456.9   20.1 MiB
             snapkv              61.27  53.92 to 69.32  24    456.9   20.1 MiB
             pyramidkv          *62.84  55.86 to 71.01  24    456.9   20.1 MiB

     50%     streaming-llm       59.63  53.08 to 67.25  24   1142.2   50.2 MiB
             snapkv              63.75  55.83 to 72.47  24   1142.2   50.2 MiB
             pyramidkv          *64.09  56.64 to 72.56  24   1142.2   50.2 MiB

                               single_  multi_doc_  summarization  few_shot   synthetic     code
                                doc_qa          qa
     budget  method         logbook_qa  dossier_qa       minutes_   ticket_  paragraph_  module_
                                                              sum     class        find     line

     -       full                63.46       65.70          66.12     73.12       63.88    63.46

     10%     streaming-llm       37.70       37.62          35.68     40.27       34.13    32.83
             snapkv             *57.11      *56.49         *58.38    *64.08      *54.75   *55.48
             pyramidkv           56.02       55.68          57.76     61.69       51.96    53.13

     20%     streaming-llm       50.11       49.06          50.56     56.19       51.22    48.02
             snapkv             *59.34       62.09          61.12     68.14       59.14    57.81
             pyramidkv           57.68      *63.15         *63.17    *68.51      *61.78   *62.76

     50%     streaming-llm       59.01       59.45          58.23     65.84       58.82    56.46
             snapkv             *61.58       61.32          63.12     71.68      *62.33   *62.48
             pyramidkv           60.32      *65.54         *64.82    *72.39       61.79    59.68
    * best of its budget
    "#);
    let longest = summary
        .terminal
        .lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap();
    assert!(longest <= 100, "{longest}:\n{}", summary.terminal);
}

#[test]
fn the_same_results_give_the_same_files() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let folders = [results.path().to_owned()];
    let summary = write_report(&folders, first.path(), &folder.options()).unwrap();
    write_report(&folders, second.path(), &folder.options()).unwrap();
    let files = tree(first.path());
    assert_eq!(files, tree(second.path()));
    let listed: Vec<String> = summary
        .files
        .iter()
        .map(|path| {
            path.strip_prefix(first.path())
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(listed[0], "report.md");
    let mut sorted = listed.clone();
    sorted.sort();
    assert_eq!(sorted, files.keys().cloned().collect::<Vec<_>>());
    let page = String::from_utf8(files["report.md"].clone()).unwrap();
    // the pages link each other (html.rs)
    let is_page = |name: &str| {
        name.starts_with("assets/") || (name.ends_with(".html") && name != "index.html")
    };
    let linked = |name: &&String| !name.ends_with(".md") && *name != "files.json" && !is_page(name);
    for name in files.keys().filter(linked) {
        assert!(page.contains(&format!("({name})")), "{name} is not linked");
    }
}

#[test]
fn scores_are_the_means_of_the_records() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let out = TempDir::new().unwrap();
    let summary =
        write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    assert_eq!(summary.rows.len(), 1 + 3 * folder.budgets.len());
    assert_eq!(summary.rows[0].method, "full");
    assert_eq!(summary.rows[0].budget, None);
    for row in &summary.rows {
        for cell in folder
            .cells()
            .iter()
            .filter(|cell| cell.method.label == row.method && cell.budget == row.budget)
        {
            let scores: Vec<f64> = folder
                .records(cell)
                .iter()
                .map(|record| record.score.unwrap())
                .collect();
            let mean = 100.0 * scores.iter().sum::<f64>() / scores.len() as f64;
            assert!((row.tasks[&cell.task] - mean).abs() <= 0.005 + 1e-9);
        }
        let average = row.tasks.values().sum::<f64>() / row.tasks.len() as f64;
        assert!((row.average.unwrap() - average).abs() <= 0.005 + 1e-9);
        let (low, high) = (row.ci_low.unwrap(), row.ci_high.unwrap());
        assert!(low < average && average < high);
        assert_eq!((row.n, row.expected, row.failed), (24, 24, 0));
    }
}

#[test]
fn sixteen_tasks_get_category_means_and_the_papers_average() {
    let folder = Folder {
        tasks: SIXTEEN_TASKS.to_vec(),
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let results = folder.written();
    let out = TempDir::new().unwrap();
    let summary =
        write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    insta::assert_snapshot!(summary.terminal, @r#"
    Score by method and budget: smollm2-135m-instruct-q4, query aware
                            single_  multi_doc_  summarization  few_shot  synthetic    code
                             doc_qa          qa
     budget  method            mean        mean           mean      mean       mean    mean  16-task   n     kept     bytes
                                                                                             average      entries

     -       full             62.74       61.44          65.94     66.82      60.62   63.81    63.73  64   2270.9  99.8 MiB

     10%     streaming-llm    33.89       33.48          37.64     35.98      32.86   37.74    35.26  64    227.1  10.0 MiB
             snapkv          *54.57      *53.34         *57.93     58.31     *52.72  *55.22   *55.52  64    227.1  10.0 MiB
             pyramidkv        52.05       52.17          55.66    *59.16      51.42   54.72    54.34  64    227.1  10.0 MiB
    * best of its budget
    left out here for want of width, but in the report: 95% interval, narrativeqa, qasper, multifieldqa_en, hotpotqa, 2wikimqa, musique, gov_report, qmsum, multi_news, trec, triviaqa, samsum, passage_count, passage_retrieval_en, lcc, repobench-p
    "#);
    let fifteen = Folder {
        tasks: SIXTEEN_TASKS[..15].to_vec(),
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let results = fifteen.written();
    let summary =
        write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    let page = fs::read_to_string(&summary.files[0]).unwrap();
    assert!(!page.contains("16-task average"));
    assert!(page.contains("average of 15 tasks"));
}

#[test]
fn markdown_and_latex_mark_best_and_second() {
    let folder = Folder {
        tasks: SIXTEEN_TASKS[1..4].to_vec(),
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let results = folder.written();
    let out = TempDir::new().unwrap();
    write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    let at = |name: &str| {
        let slug = "smollm2-135m-instruct-q4-aware";
        fs::read_to_string(out.path().join(slug).join(name)).unwrap()
    };
    insta::assert_snapshot!(at("main.md"), @r#"
    | budget | method        | single_doc_qa<br>qasper | single_doc_qa<br>multifieldqa_en | single_doc_qa<br>mean | multi_doc_qa<br>hotpotqa | average of 3 tasks |   95% interval |   n | kept entries |     bytes |
    |--------|---------------|------------------------:|---------------------------------:|----------------------:|-------------------------:|-------------------:|---------------:|----:|-------------:|----------:|
    | -      | full          |                   71.65 |                            63.32 |                 67.48 |                    56.41 |              63.79 | 52.12 to 75.41 |  12 |       2357.8 | 103.6 MiB |
    | 10%    | streaming-llm |                   39.05 |                            35.91 |                 37.48 |                    30.10 |              35.02 | 28.56 to 41.29 |  12 |        235.8 |  10.4 MiB |
    | 10%    | snapkv        |               **62.46** |                        **56.51** |             **59.48** |                **48.15** |          **55.71** | 45.32 to 65.18 |  12 |        235.8 |  10.4 MiB |
    | 10%    | pyramidkv     |                 *60.54* |                          *51.08* |               *55.81* |                  *46.15* |            *52.59* | 42.06 to 62.24 |  12 |        235.8 |  10.4 MiB |

    Scores are 0 to 100, rounded as LongBench does; the average is the mean of the rounded task scores.

    95% interval: percentile bootstrap over samples, inside each task. Kept entries (per layer and KV head) and bytes (of the whole compressed cache) are means over the tasks.

    n of each task: 4.
    "#);
    insta::assert_snapshot!(at("main.csv"), @r#"
    budget,method,qasper,multifieldqa_en,single_doc_qa mean,hotpotqa,average of 3 tasks,95% interval low,95% interval high,n,kept entries,bytes,notes
    -,full,71.65,63.32,67.48,56.41,63.79,52.12,75.41,12,2357.8,108645120,
    10%,streaming-llm,39.05,35.91,37.48,30.10,35.02,28.56,41.29,12,235.8,10863360,
    10%,snapkv,62.46,56.51,59.48,48.15,55.71,45.32,65.18,12,235.8,10863360,
    10%,pyramidkv,60.54,51.08,55.81,46.15,52.59,42.06,62.24,12,235.8,10863360,
    "#);
    insta::assert_snapshot!(at("main.tex"), @r#"
    % needs \usepackage{booktabs,adjustbox}
    \begin{table*}[t]
    \centering
    \small
    \begin{adjustbox}{max width=\textwidth}
    \begin{tabular}{lrrrrrrrrr}
    \toprule
     & \multicolumn{3}{c}{single\_doc\_qa} & \multicolumn{1}{c}{multi\_doc\_qa} &  &  &  &  &  \\
    \cmidrule(lr){2-4} \cmidrule(lr){5-5}
    method & qasper & multifieldqa\_en & mean & hotpotqa & average of 3 tasks & 95\% interval & n & kept entries & bytes \\
    \midrule
    full & 71.65 & 63.32 & 67.48 & 56.41 & 63.79 & 52.12 to 75.41 & 12 & 2357.8 & 103.6 MiB \\
    \midrule
    \multicolumn{10}{l}{\emph{budget 10\%}} \\
    streaming-llm & 39.05 & 35.91 & 37.48 & 30.10 & 35.02 & 28.56 to 41.29 & 12 & 235.8 & 10.4 MiB \\
    snapkv & \textbf{62.46} & \textbf{56.51} & \textbf{59.48} & \textbf{48.15} & \textbf{55.71} & 45.32 to 65.18 & 12 & 235.8 & 10.4 MiB \\
    pyramidkv & \underline{60.54} & \underline{51.08} & \underline{55.81} & \underline{46.15} & \underline{52.59} & 42.06 to 62.24 & 12 & 235.8 & 10.4 MiB \\
    \bottomrule
    \end{tabular}
    \end{adjustbox}
    \caption{Score by method and budget: smollm2-135m-instruct-q4, query aware. Scores are 0 to 100, rounded as LongBench does; the average is the mean of the rounded task scores. 95\% interval: percentile bootstrap over samples, inside each task. Kept entries (per layer and KV head) and bytes (of the whole compressed cache) are means over the tasks. n of each task: 4.}
    \label{tab:smollm2-135m-instruct-q4-aware-main}
    \end{table*}
    "#);
    insta::assert_snapshot!(at("differences.md"), @r#"
    | budget | method        | difference |     95% interval | smallest n could show | p (Holm) | wins | ties | losses | correct to wrong | wrong to correct | worst task             | one task left out |   n | in words    |
    |--------|---------------|-----------:|-----------------:|----------------------:|---------:|-----:|-----:|-------:|-----------------:|-----------------:|------------------------|------------------:|----:|-------------|
    | 10%    | streaming-llm |     -28.77 | -34.37 to -23.16 |                  9.24 |   0.0060 |    0 |    0 |     12 |                6 |                0 | qasper -32.60          |  -30.00 to -26.86 |  12 | established |
    | 10%    | snapkv        |      -8.09 |  -10.47 to -5.83 |                  3.73 |   0.0060 |    0 |    0 |     12 |                1 |                0 | qasper -9.19           |    -8.72 to -7.53 |  12 | established |
    | 10%    | pyramidkv     |     -11.20 |  -13.28 to -9.07 |                  3.36 |   0.0060 |    0 |    0 |     12 |                1 |                0 | multifieldqa_en -12.24 |  -11.67 to -10.68 |  12 | established |

    Method minus full, paired by sample, every task weighing the same. Interval: paired bootstrap inside each task. p: sign-flip test, Holm's correction over the methods of one budget.

    Smallest n could show: the true difference that so many samples would have shown with a power of 80% (two-sided 5%). A smaller difference cannot be tested at this n, whatever its sign.

    A sample counts as correct from half of the words on for F1 (score 50), and with the whole score where an answer is right or wrong (class, paragraph, count, line of code); summaries are neither and are not counted. One task left out: smallest and greatest difference when one task is dropped.
    "#);
    insta::assert_snapshot!(at("efficiency.csv"), @r#"
    budget,method,kept entries,kept %,bytes,prompt tokens,new tokens,prefill ms,compress ms,decode ms,sum ms,ms per new token,short prompts,failed,notes
    -,full,2357.8,100.00,108645120,2358,12.0,4000,8.5,600,4608,50.0,0,0,
    10%,streaming-llm,235.8,10.00,10863360,2358,12.0,4000,8.5,600,4608,50.0,0,0,
    10%,snapkv,235.8,10.00,10863360,2358,12.0,4000,8.5,600,4608,50.0,0,0,
    10%,pyramidkv,235.8,10.00,10863360,2358,12.0,4000,8.5,600,4608,50.0,0,0,
    "#);
}

#[test]
fn models_query_modes_and_protocols_never_share_a_table() {
    let aware = Folder {
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let agnostic = Folder {
        query: Query::Agnostic,
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let other_model = Folder {
        model: "tiny",
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let other_protocol = Folder {
        protocol: json!({"chat_template": "off", "bos": "auto", "numerics": 1}),
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    let written: Vec<TempDir> = [&aware, &agnostic, &other_model, &other_protocol]
        .iter()
        .map(|folder| folder.written())
        .collect();
    let folders: Vec<_> = written
        .iter()
        .map(|folder| folder.path().to_owned())
        .collect();
    let out = TempDir::new().unwrap();
    let summary = write_report(&folders, out.path(), &aware.options()).unwrap();
    let titles: Vec<&str> = summary
        .terminal
        .lines()
        .filter(|line| line.starts_with("Score by method"))
        .collect();
    insta::assert_snapshot!(titles.join("\n"), @r#"
    Score by method and budget: smollm2-135m-instruct-q4, query aware, chat_template auto
    Score by method and budget: smollm2-135m-instruct-q4, query aware, chat_template off
    Score by method and budget: smollm2-135m-instruct-q4, query agnostic
    Score by method and budget: tiny, query aware
    "#);
    assert_eq!(summary.rows.len(), 4 * 4);
    assert!(
        summary
            .warnings
            .iter()
            .any(|warning| warning.contains("several protocols"))
    );
}

#[test]
fn methods_stand_in_the_order_of_the_spec() {
    let mut folder = Folder {
        budgets: vec!["10%"],
        ..Folder::quickstart()
    };
    folder.methods = vec![
        ("snapkv", "snapkv", 0.1),
        ("ripplekv(r=10)", "ripplekv", 0.1),
        ("ripplekv(r=2)", "ripplekv", 0.1),
        METHODS[1],
        METHODS[0],
    ];
    let results = folder.written();
    let out = TempDir::new().unwrap();
    let summary =
        write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    let methods: Vec<&str> = summary.rows.iter().map(|row| row.method.as_str()).collect();
    assert_eq!(
        methods,
        [
            "full",
            "snapkv",
            "ripplekv(r=2)",
            "ripplekv(r=10)",
            "streaming-llm"
        ]
    );
}

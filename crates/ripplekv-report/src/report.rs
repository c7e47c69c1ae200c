//! Writes a whole report: frames, tables, figures, the `report.md` that holds them together, and the HTML pages.
//! The same results give the same files, byte for byte: nothing in them tells when or where they were made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use polars::prelude::DataFrame;
use serde::Serialize;
use serde_json::Value;

use crate::error::ReportError;
use crate::evidence::{self, Evidence};
use crate::figures::{self, FIGURES, Figure};
use crate::files::Output;
use crate::frames;
use crate::group::{Group, groups, query_name};
use crate::html::{self, Part, Section, Site};
use crate::kl_findings;
use crate::metric::Metric;
use crate::options::ReportOptions;
use crate::read::read_results;
use crate::render;
use crate::shown::{KeptPrompt, kept_prompt};
use crate::stats::Interval;
use crate::summary::mean;
use crate::tables::{Build, TABLES, Table, TableInfo};

/// Most warnings about stored files; the rest are counted, so that what the tables lack is not buried below them.
const FILE_WARNINGS_SHOWN: usize = 25;

/// What a report came to.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportSummary {
    /// The main tables, for a terminal.
    pub terminal: String,
    /// What a reader must know first, in order of importance within each source.
    pub warnings: Vec<String>,
    /// Files that were written, in order; the first is `report.md`.
    pub files: Vec<PathBuf>,
    /// One row a line of the main tables, for `--json`.
    pub rows: Vec<SummaryRow>,
}

/// One row of a main table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SummaryRow {
    /// Table it stands in.
    pub table: String,
    /// Model.
    pub model: String,
    /// Query mode.
    pub query: &'static str,
    /// Label of the method.
    pub method: String,
    /// Budget; `None` for methods without one.
    pub budget: Option<String>,
    /// Score of each task, 0 to 100.
    pub tasks: BTreeMap<String, f64>,
    /// Average over the averaged tasks; `None` where one has no score or is unfinished.
    pub average: Option<f64>,
    /// How many tasks the average is over.
    pub averaged_tasks: usize,
    /// Lower end of the average's 95% interval.
    pub ci_low: Option<f64>,
    /// Upper end of the average's 95% interval.
    pub ci_high: Option<f64>,
    /// Least and greatest average when one task is left out; `None` of a single task.
    pub one_task_left_out: Option<Interval>,
    /// Mean KL from the full cache in nats, mean of the task means; `None` where it was not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_kl: Option<f64>,
    /// Scored samples.
    pub n: usize,
    /// Samples there should be.
    pub expected: usize,
    /// Failed samples.
    pub failed: usize,
    /// Prompts that were too short for the budget.
    pub short_prompts: usize,
    /// Kept entries per layer and KV head, mean over tasks.
    pub kept_entries: Option<f64>,
    /// Bytes of the compressed cache, mean over tasks.
    pub cache_bytes: Option<f64>,
}

/// Reads results folders and writes a report into `out`.
///
/// Unsound parts of the results are left out and named in the warnings, at the top of `report.md`.
///
/// # Errors
/// When a folder does not exist or is no results folder, or a file cannot be written.
pub fn write_report(
    folders: &[PathBuf],
    out: &Path,
    options: &ReportOptions,
) -> Result<ReportSummary, ReportError> {
    let results = read_results(folders)?;
    let groups = groups(&results, options);
    check_baseline(&groups, options)?;
    let evidence = evidence::analyse(&results.evidence, options);
    let warnings = all_warnings(&results.warnings, &groups, &evidence, options);

    let mut output = Output::new(out);
    let mut page = String::from("# Report\n");
    push_warnings(&mut page, &warnings);
    let what_was_run = what_was_run(&results.manifests);
    push_what_was_run(&mut page, &what_was_run);
    let mut terminal = Vec::new();
    let mut sections = Vec::new();
    for group in &groups {
        let mut section = Section::new(group.title(), &group.slug);
        page.push_str(&format!(
            "\n## {}\n",
            render::escape_markdown(&group.title())
        ));
        // The main table and the figures come first: most readers want no more.
        let (first, others) = TABLES.split_at(1);
        let kept = kept_prompt(group, &results, folders);
        let about = About::Group(group, kept.as_ref(), options);
        let main = write_tables(first, about, &mut output, &mut page, &mut section)?;
        terminal.extend(main.map(|table| render::terminal(&table, options.terminal_width)));
        let findings = kl_findings::findings(group, options);
        push_findings(&mut page, &findings);
        section.findings.clone_from(&findings);
        terminal.extend(terminal_findings(
            &format!("Nearest to the full cache: {}", group.title()),
            &findings,
        ));
        write_figures(about, &mut output, &mut page, &mut section)?;
        write_tables(others, about, &mut output, &mut page, &mut section)?;
        sections.push(section);
    }
    let together = Section::new("all models, layer by layer".to_owned(), "several-models");
    sections.extend(write_models(together, &evidence, &mut output, &mut page)?);
    for layers in &evidence {
        let title = render::escape_markdown(&layers.title());
        page.push_str(&format!("\n## {title}\n"));
        push_findings(&mut page, &layers.findings);
        let mut section = Section::new(layers.title(), &layers.slug);
        section.findings.clone_from(&layers.findings);
        let about = About::Layers(layers);
        write_figures(about, &mut output, &mut page, &mut section)?;
        write_tables(TABLES, about, &mut output, &mut page, &mut section)?;
        sections.push(section);
        terminal.extend(terminal_findings(&layers.title(), &layers.findings));
    }
    if terminal.is_empty() {
        let nothing = "No cell has a scored sample yet: specified, not run. So there is no table.";
        page.push_str(&format!("\n{nothing}\n"));
        terminal.push(format!("{nothing}\n"));
    }
    write_frame("cells", &frames::cells_frame(&groups)?, &mut output)?;
    let samples = frames::samples_frame(&groups, &results.cells)?;
    write_frame("samples", &samples, &mut output)?;
    push_columns(&mut page);
    let site = Site {
        folders,
        results: &results,
        groups: &groups,
        options,
        warnings: &warnings,
        what_was_run: &what_was_run,
        sections: &sections,
    };
    html::write(&site, &mut output)?;
    output.write("report.md", page.as_bytes())?;

    let mut files = output.finish()?;
    // The list of files comes last, the page before it.
    let list = files.pop();
    files.rotate_right(1);
    files.extend(list);
    Ok(ReportSummary {
        terminal: terminal.join("\n"),
        warnings,
        files,
        rows: groups.iter().flat_map(summary_rows).collect(),
    })
}

fn write_frame(name: &str, frame: &DataFrame, output: &mut Output) -> Result<(), ReportError> {
    let (text, binary) = (format!("{name}.csv"), format!("{name}.parquet"));
    output.write(&text, &frames::csv_bytes(&text, frame)?)?;
    output.write(&binary, &frames::parquet_bytes(&binary, frame)?)
}

/// What a section of the report is about.
#[derive(Clone, Copy)]
enum About<'a> {
    /// The scores of a group of cells, and what they kept of a prompt where that is stored.
    Group(&'a Group, Option<&'a KeptPrompt>, &'a ReportOptions),
    /// The layers of a model.
    Layers(&'a Evidence),
    /// The layers of all models, and the name of their folder.
    Models(&'a [Evidence], &'a str),
}

impl About<'_> {
    fn slug(&self) -> &str {
        match self {
            About::Group(group, _, _) => &group.slug,
            About::Layers(evidence) => &evidence.slug,
            About::Models(_, slug) => slug,
        }
    }
}

/// A baseline that no table knows is a slip of the pen, and must not fall back to another one silently.
fn check_baseline(groups: &[Group], options: &ReportOptions) -> Result<(), ReportError> {
    let Some(baseline) = &options.baseline else {
        return Ok(());
    };
    let mut known: Vec<String> = Vec::new();
    for label in groups.iter().flat_map(|group| &group.methods) {
        if !known.contains(label) {
            known.push(label.clone());
        }
    }
    if known.is_empty() || known.contains(baseline) {
        return Ok(());
    }
    Err(ReportError::UnknownBaseline {
        baseline: baseline.clone(),
        known,
    })
}

/// What is established and what is not.
fn push_findings(page: &mut String, findings: &[String]) {
    if findings.is_empty() {
        return;
    }
    page.push_str("\nWhat is and what is not established:\n\n");
    for finding in findings {
        page.push_str(&format!("- {}\n", render::escape_markdown(finding)));
    }
}

/// The findings again; the tables behind them are too wide for a terminal.
fn terminal_findings(title: &str, findings: &[String]) -> Option<String> {
    let lines: String = findings
        .iter()
        .map(|finding| format!("- {finding}\n"))
        .collect();
    (!lines.is_empty()).then(|| format!("{title}\n{lines}"))
}

fn all_warnings(
    reading: &[String],
    groups: &[Group],
    evidence: &[Evidence],
    options: &ReportOptions,
) -> Vec<String> {
    let mut warnings: Vec<String> = reading.iter().take(FILE_WARNINGS_SHOWN).cloned().collect();
    if reading.len() > FILE_WARNINGS_SHOWN {
        warnings.push(format!(
            "and {} more of this kind about the stored files",
            reading.len() - FILE_WARNINGS_SHOWN
        ));
    }
    let apart = groups
        .iter()
        .filter(|group| !group.protocol_note.is_empty());
    if apart.count() > 0 {
        warnings.push(
            "the results hold cells of several protocols; each protocol has tables of its own"
                .to_owned(),
        );
    }
    for group in groups {
        // With one group the name of the group says nothing new.
        let warned = group.warnings.iter().map(|warning| match groups.len() {
            1 => warning.clone(),
            _ => format!("{}: {warning}", group.title()),
        });
        warnings.extend(warned);
        warnings.extend(baseline_warning(group, options));
    }
    for layers in evidence {
        let model = &layers.model;
        let warned = layers.warnings.iter();
        warnings.extend(warned.map(|warning| format!("{model}: {warning}")));
    }
    warnings
}

/// Says where a table lacks the chosen baseline; that no table has it is an error.
fn baseline_warning(group: &Group, options: &ReportOptions) -> Option<String> {
    let chosen = options.baseline.as_ref()?;
    let used = group.baseline(Metric::Score, options);
    (!group.methods.contains(chosen)).then(|| {
        format!(
            "{}: no method `{chosen}` here, so {}",
            group.title(),
            used.map_or_else(
                || "there are no differences of scores".to_owned(),
                |used| format!("differences are from {used}")
            )
        )
    })
}

/// What the manifests say of the runs: names, packs, programs, models.
fn what_was_run(manifests: &[Value]) -> Vec<String> {
    let line = |manifest: &Value| {
        let text = |pointer: &str| match manifest.pointer(pointer) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        let mut parts = vec![format!(
            "experiment {}",
            text("/name").unwrap_or_else(|| "without a name".to_owned())
        )];
        parts.extend(text("/pack/name").map(|pack| format!("pack {pack}")));
        parts.extend(text("/program/version").map(|version| format!("ripplekv {version}")));
        let commit =
            text("/program/working_folder_git/commit").or_else(|| text("/program/git/commit"));
        parts.extend(commit.map(|commit| format!("working folder at commit {commit}")));
        let models = manifest.get("models").and_then(Value::as_object);
        for (name, identity) in models.into_iter().flatten() {
            let of = |key: &str| identity.get(key).and_then(Value::as_str).unwrap_or("?");
            parts.push(format!(
                "model {name} ({} on {})",
                of("dtype"),
                of("device")
            ));
        }
        parts.join(", ")
    };
    manifests.iter().map(line).collect()
}

fn push_what_was_run(page: &mut String, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    page.push_str("\n## What was run\n\n");
    for line in lines {
        page.push_str(&format!("- {}\n", render::escape_markdown(line)));
    }
}

fn push_warnings(page: &mut String, warnings: &[String]) {
    if warnings.is_empty() {
        return;
    }
    page.push_str("\n**Before you read the numbers:**\n\n");
    for warning in warnings {
        page.push_str(&format!("- {}\n", render::escape_markdown(warning)));
    }
}

/// Writes some tables of a section; gives back the last one that was made.
fn write_tables(
    infos: &[TableInfo],
    about: About<'_>,
    output: &mut Output,
    page: &mut String,
    section: &mut Section,
) -> Result<Option<Table>, ReportError> {
    let mut last = None;
    for info in infos {
        let table = match (&info.build, about) {
            (Build::Group(build), About::Group(group, _, options)) => build(group, options),
            (Build::Layers(build), About::Layers(evidence)) => build(evidence),
            _ => None,
        };
        let Some(table) = table else {
            continue;
        };
        let name = format!("{}/{}", about.slug(), info.name);
        let markdown = render::markdown(&table);
        page.push_str(&format!(
            "\n### {}\n\n{markdown}\nAs [CSV]({name}.csv), [LaTeX]({name}.tex).\n",
            render::escape_markdown(&table.title)
        ));
        output.write(&format!("{name}.md"), markdown.as_bytes())?;
        output.write(&format!("{name}.csv"), &render::csv_bytes(&name, &table)?)?;
        let latex = render::latex(&format!("{}-{}", about.slug(), info.name), &table);
        output.write(&format!("{name}.tex"), latex.as_bytes())?;
        section.parts.push(Part::Table {
            name,
            table: table.clone(),
        });
        last = Some(table);
    }
    Ok(last)
}

/// What can be shown of several models together; `None` where that is nothing.
fn write_models(
    mut section: Section,
    evidence: &[Evidence],
    output: &mut Output,
    page: &mut String,
) -> Result<Option<Section>, ReportError> {
    let slug = section.slug.clone();
    let mut text = format!("\n## {}\n", render::escape_markdown(&section.title));
    write_figures(
        About::Models(evidence, &slug),
        output,
        &mut text,
        &mut section,
    )?;
    if section.parts.is_empty() {
        return Ok(None);
    }
    page.push_str(&text);
    Ok(Some(section))
}

fn write_figures(
    about: About<'_>,
    output: &mut Output,
    page: &mut String,
    section: &mut Section,
) -> Result<(), ReportError> {
    for info in FIGURES {
        let drawn = match (&info.build, about) {
            (figures::Build::Group(build), About::Group(group, _, options)) => {
                build(group, options)
            }
            (figures::Build::Kept(build), About::Group(_, Some(kept), _)) => build(kept),
            (figures::Build::Layers(build), About::Layers(evidence)) => build(evidence),
            (figures::Build::Models(build), About::Models(models, _)) => build(models),
            _ => Vec::new(),
        };
        for figure in drawn {
            let mut name = format!("{}/{}", about.slug(), info.name);
            if !figure.part.is_empty() {
                name = format!("{name}-{}", figure.part);
            }
            write_figure(&name, &figure, output)?;
            page.push_str(&format!(
                "\n![{}]({name}.svg)\n\nAs [PNG]({name}.png), [data]({name}.csv).\n",
                render::escape_markdown(&figure.description)
            ));
            section.parts.push(Part::Figure {
                name,
                description: figure.description,
            });
        }
    }
    Ok(())
}

fn write_figure(name: &str, figure: &Figure, output: &mut Output) -> Result<(), ReportError> {
    let failed = |message| ReportError::Draw {
        figure: name.to_owned(),
        message,
    };
    let svg = figures::svg(&figure.scene).map_err(failed)?;
    output.write(&format!("{name}.svg"), svg.as_bytes())?;
    output.write_by(&format!("{name}.png"), |path| {
        figures::png(&figure.scene, path).map_err(failed)
    })?;
    let mut rows = vec![figure.data.header.iter().map(ToString::to_string).collect()];
    rows.extend(figure.data.rows.iter().cloned());
    output.write(&format!("{name}.csv"), &render::csv_rows(name, &rows)?)
}

fn push_columns(page: &mut String) {
    page.push_str(
        "\n## Data\n\nAs pages, with every cell and the worst prompts: [index.html](index.html).\n",
    );
    page.push_str("\n[cells.csv](cells.csv), [cells.parquet](cells.parquet), one row a cell:\n\n");
    for column in frames::CELL_COLUMNS {
        page.push_str(&format!("- `{}`: {}\n", column.name, column.about));
    }
    page.push_str(
        "\n[samples.csv](samples.csv), [samples.parquet](samples.parquet), one row a record:\n\n",
    );
    for column in frames::SAMPLE_COLUMNS {
        page.push_str(&format!("- `{}`: {}\n", column.name, column.about));
    }
}

fn summary_rows(group: &Group) -> Vec<SummaryRow> {
    let mut rows = Vec::new();
    for budget in group.rows_of_budgets() {
        for label in group.methods_at(budget) {
            let cells = group.row(label, budget);
            let average = group.average(Metric::Score, label, budget);
            let answer_kl = group.average(Metric::AnswerKl, label, budget);
            let interval = average.and_then(|average| average.interval);
            rows.push(SummaryRow {
                table: group.slug.clone(),
                model: group.model.clone(),
                query: query_name(group.query),
                method: label.to_owned(),
                budget: budget.map(str::to_owned),
                tasks: cells
                    .iter()
                    .filter_map(|cell| Some((cell.cell.task.clone(), cell.score?)))
                    .collect(),
                average: average.map(|average| average.value),
                averaged_tasks: group.averaged_tasks().len(),
                ci_low: interval.map(|ends| ends.low),
                ci_high: interval.map(|ends| ends.high),
                one_task_left_out: average.and_then(|average| average.one_task_left_out),
                answer_kl: answer_kl.map(|average| average.value),
                n: cells.iter().map(|cell| cell.scored).sum(),
                expected: group.expected_samples(),
                failed: cells.iter().map(|cell| cell.failed).sum(),
                short_prompts: cells.iter().map(|cell| cell.short_prompts).sum(),
                kept_entries: mean(cells.iter().filter_map(|cell| cell.kept_entries)),
                cache_bytes: mean(cells.iter().filter_map(|cell| cell.cache_bytes)),
            });
        }
    }
    rows
}

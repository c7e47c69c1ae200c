//! `ripplekv compare`: two selections of stored results, paired by sample, in words.

use ripplekv_report::{CompareFilter, Comparison, Selection, compare as compare_results};
use ripplekv_runner::cell::Query;

use crate::arguments::{CompareArguments, QueryMode};
use crate::commands::report::options;
use crate::failure::Failure;
use crate::output::Output;
use crate::tables::plain_table;

pub(crate) fn compare(arguments: &CompareArguments, output: Output) -> Result<(), Failure> {
    let left = Selection::parse(&arguments.left);
    if left.folder.as_os_str().is_empty() {
        return Err(Failure::Usage(format!(
            "`{}` names no results folder\nhint: `ripplekv compare results/x:ripplekv :snapkv`; only the second side may leave its folder out",
            arguments.left
        )));
    }
    let right = Selection::parse_beside(&arguments.right, &left.folder);
    let filter = CompareFilter {
        budgets: arguments.budgets.clone(),
        query: arguments.query.map(|query| match query {
            QueryMode::Aware => Query::Aware,
            QueryMode::Agnostic => Query::Agnostic,
        }),
    };
    let found = compare_results(&left, &right, &filter, &options())?;
    for warning in &found.warnings {
        output.warning(warning);
    }
    if arguments.json {
        let rows = serde_json::to_string_pretty(&found.rows)
            .map_err(|error| Failure::Data(error.to_string()))?;
        output.line(&rows)?;
        return Ok(());
    }
    let mut title = String::new();
    for row in &found.rows {
        let own = format!("{}, query {}", row.model, row.query);
        if own != title {
            let gap = if title.is_empty() { "" } else { "\n" };
            output.line(&format!("{gap}{own}"))?;
            title = own;
        }
        output.line(&format!("- {}", row.sentence))?;
        output.line(&format!("  {}", details(row, found.rows.len())))?;
        if arguments.tasks {
            output.data(&task_table(row))?;
        }
    }
    Ok(())
}

/// What lies behind a sentence, in one line.
fn details(row: &Comparison, together: usize) -> String {
    let mut parts = vec![format!(
        "wins {}, ties {}, losses {}",
        row.wins, row.ties, row.losses
    )];
    if let (Some(lost), Some(won)) = (row.correct_to_wrong, row.wrong_to_correct) {
        parts.push(format!("correct to wrong {lost}, wrong to correct {won}"));
    }
    let decimals = decimals(row);
    if let Some(ends) = row.one_task_left_out {
        parts.extend(
            row.worst_task
                .as_ref()
                .map(|worst| format!("worst task {} {:+.decimals$}", worst.task, worst.difference)),
        );
        parts.push(format!(
            "with one task left out {:+.decimals$} to {:+.decimals$}",
            ends.low, ends.high
        ));
    }
    parts.push(match together {
        1 => format!("p {:.4}", row.p_value),
        _ => format!("p {:.4} (Holm)", row.p_value_holm),
    });
    parts.push(format!(
        "{} of {} answers the same",
        row.same_answers, row.n
    ));
    parts.join("; ")
}

fn task_table(row: &Comparison) -> String {
    let decimals = decimals(row);
    let rows: Vec<Vec<String>> = row
        .tasks
        .iter()
        .map(|task| {
            vec![
                task.task.clone(),
                format!("{:+.decimals$}", task.difference),
                task.interval.map_or(String::new(), |ends| {
                    format!("{:+.decimals$} to {:+.decimals$}", ends.low, ends.high)
                }),
                format!("{:.4}", task.p_value_holm),
                task.wins.to_string(),
                task.ties.to_string(),
                task.losses.to_string(),
                task.n.to_string(),
                if task.detectable { "yes" } else { "no" }.to_owned(),
            ]
        })
        .collect();
    let columns = [
        "task",
        "difference",
        "95% interval",
        "p (Holm)",
        "wins",
        "ties",
        "losses",
        "n",
        "detectable",
    ];
    plain_table(&columns, &rows)
        .lines()
        .map(|line| format!("  {line}\n"))
        .collect()
}

/// Points need fewer than nats.
fn decimals(row: &Comparison) -> usize {
    if row.metric == "score" { 2 } else { 4 }
}

//! What every row keeps and costs: entries, bytes, and the times of the run that made them.
//! Times come from the `timings` files, so they differ from run to run; everything else repeats byte for byte.

use crate::group::Group;
use crate::options::ReportOptions;
use crate::summary::{CellSummary, SampleCost, mean};
use crate::tables::{Block, Column, Table, Value};

/// Said where cells shared a prefill and their steps.
const SHARED: &str = "The prefill is shared by all rows of a prompt, and decode is a row's share of the steps that the rows made together; a row by itself would cost the sum, and more to decode, as it would share no step. `timing: alone` measures that.";

/// Said where no cell shared anything.
const ALONE: &str = "Every row ran by itself, with a prefill of its own; tokens/s counts those after the first, which comes from the prefill. Peak: resident memory of the process while the row ran, its greatest.";

pub(super) fn build(group: &Group, _options: &ReportOptions) -> Option<Table> {
    if !group.cells.values().any(|cell| cell.cache_bytes.is_some()) {
        return None;
    }
    let mut costs = group.cells.values().flat_map(|cell| &cell.costs).peekable();
    let is_alone = costs.peek().is_some() && costs.all(|cost| cost.alone);
    let mut columns = vec![
        Column::label("budget"),
        Column::label("method"),
        Column::number("kept entries"),
        Column::number("kept %"),
        Column::number("bytes"),
        Column::number("prompt tokens"),
        Column::number("new tokens"),
        Column::number("prefill ms"),
        Column::number("compress ms"),
        Column::number("decode ms"),
        Column::number("sum ms"),
        Column::number("ms per new token"),
    ];
    if is_alone {
        columns.push(Column::number("tokens/s"));
        columns.push(Column::number("peak"));
    }
    columns.push(Column::number("short prompts"));
    columns.push(Column::number("failed"));
    let blocks = group
        .rows_of_budgets()
        .map(|budget| Block {
            name: budget.unwrap_or_default().to_owned(),
            rows: group
                .methods_at(budget)
                .into_iter()
                .map(|label| row(group, label, budget, is_alone))
                .collect(),
        })
        .filter(|block| !block.rows.is_empty())
        .collect();
    let means = "Means over the tasks of each task's mean. Bytes: keys and values of the kept prompt entries.";
    let times = if is_alone { ALONE } else { SHARED };
    Some(Table {
        title: format!("Memory and time by method and budget: {}", group.title()),
        columns,
        blocks,
        notes: vec![format!("{means} {times}")],
    })
}

fn row(group: &Group, label: &str, budget: Option<&str>, is_alone: bool) -> Vec<Value> {
    let cells = group.row(label, budget);
    let over =
        |value: fn(&CellSummary) -> Option<f64>| mean(cells.iter().filter_map(|cell| value(cell)));
    let decode = over(|cell| cell.decode_ms);
    let new_tokens = over(|cell| cell.output_tokens);
    let per_token = decode
        .zip(new_tokens)
        .filter(|(_, tokens)| *tokens > 0.0)
        .map(|(milliseconds, tokens)| milliseconds / tokens);
    let mut row = vec![
        Value::Text(budget.unwrap_or("-").to_owned()),
        Value::Text(label.to_owned()),
        Value::number(over(|cell| cell.kept_entries), 1),
        Value::number(over(|cell| cell.kept_percent), 2),
        over(|cell| cell.cache_bytes).map_or(Value::Empty, Value::Bytes),
        Value::number(over(|cell| cell.prompt_tokens), 0),
        Value::number(new_tokens, 1),
        Value::number(over(|cell| cell.prefill_ms), 0),
        Value::number(over(|cell| cell.compress_ms), 1),
        Value::number(decode, 0),
        Value::number(
            over(|cell| mean_cost(cell, |cost| Some(cost.latency_ms()))),
            0,
        ),
        Value::number(per_token, 1),
    ];
    if is_alone {
        let speed = over(|cell| mean_cost(cell, SampleCost::decode_tokens_per_second));
        let peak = cells.iter().filter_map(|cell| cell.peak_rss_bytes).max();
        row.push(Value::number(speed, 1));
        row.push(peak.map_or(Value::Empty, |bytes| Value::Bytes(bytes as f64)));
    }
    row.push(Value::count(
        cells.iter().map(|cell| cell.short_prompts).sum(),
    ));
    row.push(Value::count(cells.iter().map(|cell| cell.failed).sum()));
    row
}

fn mean_cost(cell: &CellSummary, of: fn(&SampleCost) -> Option<f64>) -> Option<f64> {
    mean(cell.costs.iter().filter_map(of))
}

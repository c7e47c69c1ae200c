//! What every row keeps and costs: entries, bytes, and the times of the run that made them.
//! Times come from the `timings` files, so they differ from run to run; everything else repeats byte for byte.

use crate::group::Group;
use crate::options::ReportOptions;
use crate::summary::{CellSummary, mean};
use crate::tables::{Block, Column, Table, Value};

pub(super) fn build(group: &Group, _options: &ReportOptions) -> Option<Table> {
    if !group.cells.values().any(|cell| cell.cache_bytes.is_some()) {
        return None;
    }
    let columns = vec![
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
        Column::number("ms per new token"),
        Column::number("short prompts"),
        Column::number("failed"),
    ];
    let blocks = group
        .rows_of_budgets()
        .map(|budget| Block {
            name: budget.unwrap_or_default().to_owned(),
            rows: group
                .methods_at(budget)
                .into_iter()
                .map(|label| row(group, label, budget))
                .collect(),
        })
        .filter(|block| !block.rows.is_empty())
        .collect();
    Some(Table {
        title: format!("Memory and time by method and budget: {}", group.title()),
        columns,
        blocks,
        notes: vec![
            "Means over the tasks of each task's mean. The prefill is shared by all rows of a prompt. Bytes: keys and values of the kept prompt entries.".to_owned(),
        ],
    })
}

fn row(group: &Group, label: &str, budget: Option<&str>) -> Vec<Value> {
    let cells = group.row(label, budget);
    let over =
        |value: fn(&CellSummary) -> Option<f64>| mean(cells.iter().filter_map(|cell| value(cell)));
    let decode = over(|cell| cell.decode_ms);
    let new_tokens = over(|cell| cell.output_tokens);
    let per_token = decode
        .zip(new_tokens)
        .filter(|(_, tokens)| *tokens > 0.0)
        .map(|(milliseconds, tokens)| milliseconds / tokens);
    vec![
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
        Value::number(per_token, 1),
        Value::count(cells.iter().map(|cell| cell.short_prompts).sum()),
        Value::count(cells.iter().map(|cell| cell.failed).sum()),
    ]
}

//! Rows of `ls`, shared by the terminal table, the JSON and the documentation.

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use ripplekv_tasks::{GROUPS, TASKS};
use serde_json::{Value, json};

use crate::arguments::Listing;
use crate::wiring;

/// A table with named columns.
pub(crate) struct Rows {
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Rows {
    /// For a terminal.
    pub(crate) fn terminal(&self) -> String {
        plain_table(&self.columns, &self.rows)
    }

    /// For a Markdown page.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let escape = |text: &String| text.replace('|', "\\|");
        let mut text = line(self.columns.iter().map(|name| (*name).to_owned()).collect());
        text.push_str(&line(
            self.columns.iter().map(|_| "---".to_owned()).collect(),
        ));
        for row in &self.rows {
            text.push_str(&line(row.iter().map(escape).collect()));
        }
        text
    }

    /// One object a row.
    pub(crate) fn json(&self) -> Value {
        self.rows
            .iter()
            .map(|row| {
                self.columns
                    .iter()
                    .zip(row)
                    .map(|(name, cell)| ((*name).to_owned(), json!(cell)))
                    .collect::<serde_json::Map<_, _>>()
            })
            .collect::<Vec<_>>()
            .into()
    }
}

/// Columns set apart by blanks, no lines.
pub(crate) fn plain_table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(columns).add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text: String = table
        .to_string()
        .lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect();
    text
}

/// The rows of a listing.
pub(crate) fn listing(what: Listing) -> Rows {
    match what {
        Listing::Models => models(),
        Listing::Tasks => tasks(),
        Listing::Methods => methods(),
        Listing::Scorers => parts(wiring::scorers()),
        Listing::Allocators => parts(wiring::allocators()),
        Listing::Figures => Rows {
            columns: vec!["name", "about"],
            rows: ripplekv_report::FIGURES
                .iter()
                .map(|figure| vec![figure.name.to_owned(), figure.about.to_owned()])
                .collect(),
        },
    }
}

fn models() -> Rows {
    let rows = wiring::catalog().models.into_iter().map(|model| {
        vec![
            model.name.to_owned(),
            model.context_length.to_string(),
            model.layers.to_string(),
            model.summary.to_owned(),
        ]
    });
    Rows {
        columns: vec!["name", "context", "layers", "about"],
        rows: rows.collect(),
    }
}

fn tasks() -> Rows {
    let tasks = TASKS.iter().map(|task| {
        vec![
            task.name.to_owned(),
            task.category.to_string(),
            task.language.to_string(),
            task.metric.to_owned(),
            task.max_new_tokens.to_string(),
            if task.chat_template { "yes" } else { "no" }.to_owned(),
            task.pack_name().to_owned(),
        ]
    });
    let groups = GROUPS.iter().map(|group| {
        vec![
            group.name.to_owned(),
            "group".to_owned(),
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            group.about.to_owned(),
        ]
    });
    Rows {
        columns: vec![
            "name",
            "category",
            "language",
            "metric",
            "new tokens",
            "chat",
            "pack",
        ],
        rows: tasks.chain(groups).collect(),
    }
}

fn methods() -> Rows {
    let rows = wiring::catalog().methods.into_iter().map(|method| {
        let params: Vec<String> = method
            .params
            .iter()
            .map(|param| format!("{}={}", param.name, param.default))
            .collect();
        vec![
            method.name.to_owned(),
            method.scorer.unwrap_or("-").to_owned(),
            method.allocator.unwrap_or("-").to_owned(),
            params.join(" "),
            method.summary.to_owned(),
            method.source.to_owned(),
        ]
    });
    Rows {
        columns: vec![
            "name",
            "scorer",
            "allocator",
            "parameters",
            "about",
            "source",
        ],
        rows: rows.collect(),
    }
}

fn parts(parts: Vec<wiring::Part>) -> Rows {
    let rows = parts.into_iter().map(|part| {
        let params: Vec<String> = part
            .params
            .iter()
            .map(|(name, default)| format!("{name}={default}"))
            .collect();
        vec![
            part.name.to_owned(),
            params.join(" "),
            part.summary.to_owned(),
            part.source.to_owned(),
        ]
    });
    Rows {
        columns: vec!["name", "parameters", "about", "source"],
        rows: rows.collect(),
    }
}

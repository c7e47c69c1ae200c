//! LaTeX tables for papers: booktabs rules, best in bold, second underlined, published values in grey.
//! Needs `\usepackage{booktabs}`, and `\usepackage{xcolor}` where published values stand.

use crate::render::plain;
use crate::tables::{Column, Mark, Table, Value, is_published};

/// A `table*` environment with the title as caption.
pub(crate) fn latex(name: &str, table: &Table) -> String {
    // Blocks are named by rows of their own, so the first column (the budget) is not repeated in every line.
    let columns: Vec<&Column> = table.columns[1..]
        .iter()
        .filter(|column| !column.of_previous)
        .collect();
    let packages = if table.has_published() {
        "% needs \\usepackage{booktabs} and \\usepackage{xcolor}\n"
    } else {
        "% needs \\usepackage{booktabs}\n"
    };
    let mut text = format!("{packages}\\begin{{table*}}[t]\n\\centering\n\\small\n");
    let alignment: String = columns
        .iter()
        .map(|column| if column.left { 'l' } else { 'r' })
        .collect();
    text.push_str(&format!("\\begin{{tabular}}{{{alignment}}}\n\\toprule\n"));
    if columns.iter().any(|column| !column.group.is_empty()) {
        group_lines(&mut text, &columns);
    }
    let names: Vec<String> = columns.iter().map(|column| escape(&column.name)).collect();
    text.push_str(&format!("{} \\\\\n", names.join(" & ")));
    for block in &table.blocks {
        text.push_str("\\midrule\n");
        if !block.name.is_empty() {
            text.push_str(&format!(
                "\\multicolumn{{{}}}{{l}}{{\\emph{{budget {}}}}} \\\\\n",
                columns.len(),
                escape(&block.name)
            ));
        }
        for row in &block.rows {
            let cells = cells(table, row);
            text.push_str(&format!("{} \\\\\n", cells.join(" & ")));
        }
    }
    text.push_str("\\bottomrule\n\\end{tabular}\n");
    let caption: Vec<String> = std::iter::once(&table.title)
        .chain(&table.notes)
        .map(|sentence| escape(sentence.trim_end_matches('.')))
        .collect();
    text.push_str(&format!(
        "\\caption{{{}.}}\n\\label{{tab:{name}}}\n\\end{{table*}}\n",
        caption.join(". ")
    ));
    text
}

/// Spanning names above the columns, each with its own rule.
fn group_lines(text: &mut String, columns: &[&Column]) {
    let mut cells = Vec::new();
    let mut rules = Vec::new();
    let mut start = 0;
    while start < columns.len() {
        let group = &columns[start].group;
        let mut end = start + 1;
        while !group.is_empty() && end < columns.len() && columns[end].group == *group {
            end += 1;
        }
        if group.is_empty() {
            cells.push(String::new());
        } else {
            cells.push(format!(
                "\\multicolumn{{{}}}{{c}}{{{}}}",
                end - start,
                escape(group)
            ));
            rules.push(format!("\\cmidrule(lr){{{}-{end}}}", start + 1));
        }
        start = end;
    }
    text.push_str(&format!(
        "{} \\\\\n{}\n",
        cells.join(" & "),
        rules.join(" ")
    ));
}

/// A row's cells, intervals below the numbers they belong to.
fn cells(table: &Table, row: &[Value]) -> Vec<String> {
    let mut cells: Vec<String> = Vec::new();
    for (value, column) in row.iter().zip(&table.columns).skip(1) {
        match cells.last_mut() {
            Some(above) if column.of_previous => {
                let below = plain(value);
                if !below.is_empty() {
                    *above = format!(
                        "\\shortstack[r]{{{above}\\\\{{\\tiny {}}}}}",
                        escape(&below)
                    );
                }
            }
            _ => cells.push(cell(value)),
        }
    }
    if is_published(row) {
        for text in cells.iter_mut().filter(|text| !text.is_empty()) {
            *text = format!("\\textcolor{{gray}}{{{text}}}");
        }
    }
    cells
}

fn cell(value: &Value) -> String {
    let text = escape(&plain(value));
    match value {
        Value::Number {
            mark: Mark::Best, ..
        } => format!("\\textbf{{{text}}}"),
        Value::Number {
            mark: Mark::Second, ..
        } => format!("\\underline{{{text}}}"),
        Value::Number { .. } if text.starts_with('-') => format!("${text}$"),
        _ => text,
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(character);
            }
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '\\' => escaped.push_str("\\textbackslash{}"),
            '\n' | '\r' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

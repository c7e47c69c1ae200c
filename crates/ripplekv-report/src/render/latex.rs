//! LaTeX tables for papers: booktabs rules, best in bold, second underlined, published values in grey, never wider than the page.
//! Needs `\usepackage{booktabs,adjustbox}`, and `\usepackage{xcolor}` where published values stand.

use crate::render::plain;
use crate::tables::{Column, Mark, Table, Value, is_published};

/// Most columns whose names stand upright; the names of a wider table are turned, so that its numbers stay readable.
const UPRIGHT_COLUMNS: usize = 16;

/// Longest text, in characters, that stays on one line; a column with a longer one is broken into lines where its words allow it.
const LONGEST_LINE: usize = 40;
const LONGEST_WORD: usize = 25;

/// A `table*` environment with the title as caption.
pub(crate) fn latex(name: &str, table: &Table) -> String {
    // Blocks are named by rows of their own, so the first column (the budget) is not repeated in every line.
    let columns: Vec<&Column> = table.columns[1..]
        .iter()
        .filter(|column| !column.of_previous)
        .collect();
    let packages = if table.has_published() {
        "% needs \\usepackage{booktabs,adjustbox,xcolor}\n"
    } else {
        "% needs \\usepackage{booktabs,adjustbox}\n"
    };
    let mut text = format!("{packages}\\begin{{table*}}[t]\n\\centering\n\\small\n");
    let is_wide = columns.len() > UPRIGHT_COLUMNS;
    if is_wide {
        text.push_str("\\setlength{\\tabcolsep}{3pt}\n");
    }
    text.push_str(&format!(
        "\\begin{{adjustbox}}{{max width=\\textwidth}}\n\\begin{{tabular}}{{{}}}\n\\toprule\n",
        alignment(table)
    ));
    if columns.iter().any(|column| !column.group.is_empty()) {
        group_lines(&mut text, &columns);
    }
    let names: Vec<String> = columns
        .iter()
        .map(|column| match escape(&column.name) {
            name if is_wide && !column.left => format!("\\rotatebox{{90}}{{{name}}}"),
            name => name,
        })
        .collect();
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
    text.push_str("\\bottomrule\n\\end{tabular}\n\\end{adjustbox}\n");
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

/// One letter a column; columns of sentences are as wide as a few words.
fn alignment(table: &Table) -> String {
    let columns = table.columns.iter().enumerate().skip(1);
    let rows = || table.blocks.iter().flat_map(|block| &block.rows);
    columns
        .filter(|(_, column)| !column.of_previous)
        .map(|(place, column)| {
            let texts = || rows().filter_map(|row| row.get(place)).map(plain);
            let is_longer = |text: &str, least: usize| text.chars().count() > least;
            let is_long = texts().any(|text| is_longer(&text, LONGEST_LINE));
            let breaks = texts().all(|text| {
                let mut words = text.split(' ');
                words.all(|word| !is_longer(word, LONGEST_WORD))
            });
            match column.left {
                true if is_long && breaks => "p{5cm}",
                true => "l",
                false => "r",
            }
        })
        .collect()
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
                        with_minus(&escape(&below))
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
    let text = with_minus(&escape(&plain(value)));
    match value {
        Value::Number {
            mark: Mark::Best, ..
        } => format!("\\textbf{{{text}}}"),
        Value::Number {
            mark: Mark::Second, ..
        } => format!("\\underline{{{text}}}"),
        _ => text,
    }
}

/// The hyphen before a number becomes a minus.
fn with_minus(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut before = ' ';
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let is_number = characters.peek().is_some_and(char::is_ascii_digit);
        if character == '-' && matches!(before, ' ' | '(') && is_number {
            written.push_str("$-$");
        } else {
            written.push(character);
        }
        before = character;
    }
    written
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(character);
            }
            // In LaTeX's own encoding these are other characters.
            '<' => escaped.push_str("\\textless{}"),
            '>' => escaped.push_str("\\textgreater{}"),
            '|' => escaped.push_str("\\textbar{}"),
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '\\' => escaped.push_str("\\textbackslash{}"),
            '\n' | '\r' => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

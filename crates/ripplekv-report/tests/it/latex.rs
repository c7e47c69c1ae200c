//! LaTeX without a compiler: what would stop one (braces, environments, cells of a row, bare special characters) is counted.

use std::fs;
use std::path::Path;

use ripplekv_report::{ReportOptions, write_report};
use serde_json::json;
use tempfile::TempDir;

use crate::report::tree;
use crate::results_folder::{Folder, SIXTEEN_TASKS};

/// Panics where a file would not compile.
fn check(name: &str, text: &str) {
    let body = text
        .lines()
        .filter(|line| !line.starts_with('%'))
        .collect::<Vec<_>>()
        .join("\n");
    // Escaped characters are out of the way, so that what is left means something to LaTeX.
    let mut bare = body.replace("\\\\", "\u{1}");
    for escaped in ["\\{", "\\}", "\\&", "\\%", "\\_", "\\#", "\\$"] {
        bare = bare.replace(escaped, "");
    }
    let mut depth = 0_i32;
    for character in bare.chars() {
        depth += i32::from(character == '{') - i32::from(character == '}');
        assert!(depth >= 0, "{name}: a brace too many");
        assert!(!"%#_^~<>|".contains(character), "{name}: bare {character}");
    }
    assert_eq!(depth, 0, "{name}: a brace is open");
    assert_eq!(bare.matches('$').count() % 2, 0, "{name}");
    let mut open = Vec::new();
    for piece in bare.split('\\').skip(1) {
        let argument = |command: &str| {
            let rest = piece.strip_prefix(command)?.strip_prefix('{')?;
            Some(rest.split('}').next().unwrap().to_owned())
        };
        open.extend(argument("begin"));
        if let Some(closed) = argument("end") {
            assert_eq!(open.pop(), Some(closed), "{name}");
        }
    }
    assert!(open.is_empty(), "{name}: {open:?} stays open");
    assert!(bare.contains("\\begin{adjustbox}{max width=\\textwidth}\n\\begin{tabular}"));
    let start = bare.find("\\begin{tabular}{").unwrap() + "\\begin{tabular}{".len();
    let alignment = bare[start..].split("}\n").next().unwrap();
    let columns = alignment.replace("{5cm}", "").len();
    let table = bare[start..].split("\\end{tabular}").next().unwrap();
    // A line break inside a stacked cell is no end of a row.
    for row in table.lines().filter_map(|line| line.strip_suffix(" \u{1}")) {
        let spans = row.split("\\multicolumn{").skip(1).map(|rest| {
            let count: usize = rest.split('}').next().unwrap().parse().unwrap();
            count - 1
        });
        let cells = row.matches('&').count() + 1 + spans.sum::<usize>();
        assert_eq!(cells, columns, "{name}: {row}");
    }
    assert!(
        table.contains("\\toprule") && table.contains("\\bottomrule"),
        "{name}"
    );
}

fn check_all(folder: &Folder, options: &ReportOptions) -> usize {
    let (results, out) = (folder.written(), TempDir::new().unwrap());
    write_report(&[results.path().to_owned()], out.path(), options).unwrap();
    let files = tree(out.path());
    let sources = files.iter().filter(|(name, _)| name.ends_with(".tex"));
    sources
        .map(|(name, bytes)| check(name, std::str::from_utf8(bytes).unwrap()))
        .count()
}

#[test]
fn every_table_would_compile() {
    let odd_names = Folder {
        methods: vec![
            ("full", "full", 0.0),
            ("a_b & 50% {x} ~ ^ # $1$ <|> \\end{tabular}", "snapkv", 0.1),
        ],
        ..Folder::quickstart()
    };
    let published = Folder {
        model: "llama-3.1-8b-instruct",
        tasks: SIXTEEN_TASKS.to_vec(),
        budgets: vec!["256"],
        protocol: json!({"chat_template": "auto"}),
        ..Folder::quickstart()
    };
    for folder in [odd_names, published] {
        for intervals in [false, true] {
            let options = ReportOptions {
                intervals,
                ..folder.options()
            };
            assert!(check_all(&folder, &options) >= 3);
        }
    }
}

/// What a wide table needs to stay on the page, and numbers with a minus rather than a hyphen.
#[test]
fn wide_tables_are_turned_and_sentences_broken() {
    let folder = Folder {
        tasks: SIXTEEN_TASKS.to_vec(),
        methods: vec![
            ("full", "full", 0.0),
            (
                "snapkv(gamma=2.5,kernel=5,r=8,scorer=other,window=64)",
                "snapkv",
                0.3,
            ),
        ],
        ..Folder::quickstart()
    };
    let (results, out) = (folder.written(), TempDir::new().unwrap());
    let summary = write_report(&[results.path().to_owned()], out.path(), &folder.options());
    let table = out.path().join(&summary.unwrap().rows[0].table);
    let read = |name: &str| fs::read_to_string(table.join(name)).unwrap();
    let main = read("main.tex");
    assert!(
        main.contains("& \\rotatebox{90}{passage\\_retrieval\\_en} &"),
        "{main}"
    );
    assert!(main.contains("\nmethod & "), "the first name stays upright");
    // A name without spaces cannot be broken: its column is as wide as it is.
    assert!(main.contains("\\begin{tabular}{lrrr"), "{main}");
    let differences = read("differences.tex");
    assert!(differences.contains(" & $-$"), "{differences}");
    assert!(!differences.contains(" -"), "{differences}");
    assert!(!differences.contains("\\rotatebox"));
}

#[test]
fn intervals_stand_below_their_numbers_and_keep_the_ranks() {
    let folder = Folder::quickstart();
    let (results, out) = (folder.written(), TempDir::new().unwrap());
    let options = ReportOptions {
        intervals: true,
        ..folder.options()
    };
    let summary = write_report(&[results.path().to_owned()], out.path(), &options).unwrap();
    let at = |end: &str| {
        let path = Path::new(&summary.rows[0].table).join(format!("main.{end}"));
        fs::read_to_string(out.path().join(path)).unwrap()
    };
    let stacked = at("tex").matches("\\shortstack[r]{").count();
    assert_eq!(stacked, 10 * 6, "every row and task");
    assert!(at("tex").contains("\\shortstack[r]{\\textbf{"));
    let header = at("csv");
    let header = header.lines().next().unwrap();
    assert!(
        header.contains("logbook_qa,logbook_qa 95% low,logbook_qa 95% high,dossier_qa"),
        "{header}"
    );
    assert!(at("md").contains("logbook_qa 95%"));
    let plain = TempDir::new().unwrap();
    write_report(
        &[results.path().to_owned()],
        plain.path(),
        &folder.options(),
    )
    .unwrap();
    let path = plain.path().join(&summary.rows[0].table).join("main.md");
    assert!(!fs::read_to_string(path).unwrap().contains("logbook_qa 95%"));
}

//! Values that others published stand beside ours where model, protocol and budget agree, and nowhere else.

use std::fs;

use ripplekv_report::write_report;
use ripplekv_runner::cell::Query;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::results_folder::{Folder, SIXTEEN_TASKS};

fn llama(protocol: Value) -> Folder {
    Folder {
        model: "llama-3.1-8b-instruct",
        tasks: SIXTEEN_TASKS.to_vec(),
        budgets: vec!["10%", "256"],
        samples: 2,
        protocol,
        ..Folder::quickstart()
    }
}

/// The main table as Markdown, CSV and LaTeX, and the page that shows it; `removed` tokens were cut from the first prompt of each task.
fn main_table(folder: &Folder, removed: u64) -> [String; 4] {
    let (results, out) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    folder.write_with(results.path(), |_, records| {
        records[0].removed_tokens = removed
    });
    let summary =
        write_report(&[results.path().to_owned()], out.path(), &folder.options()).unwrap();
    let table = &summary.rows[0].table;
    let at = |name: &str| fs::read_to_string(out.path().join(name)).unwrap();
    let main = |end: &str| at(&format!("{table}/main.{end}"));
    [main("md"), main("csv"), main("tex"), at("index.html")]
}

#[test]
fn the_same_model_protocol_and_budget_has_the_published_row_and_the_gap() {
    let folder = llama(json!({"chat_template": "auto", "bos": "auto"}));
    let [markdown, csv, latex, page] = main_table(&folder, 0);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let column = |name: &str| header.iter().position(|known| known == name).unwrap();
    let [average, gap, n] = ["16-task average", "ours minus published", "n"].map(column);
    let row = |budget: &str, method: &str| {
        let mut rows = rows.iter();
        rows.find(|row| &row[0] == budget && &row[1] == method)
    };
    for (budget, method, published) in [
        ("-", "full", "49.08"),
        ("256", "snapkv", "45.21"),
        ("256", "pyramidkv", "44.36"),
        ("256", "streaming-llm", "33.92"),
    ] {
        let ours = row(budget, method).unwrap();
        let theirs = row(budget, &format!("{method}, published")).unwrap();
        assert_eq!(&theirs[average], published);
        let difference: f64 =
            ours[average].parse::<f64>().unwrap() - published.parse::<f64>().unwrap();
        assert_eq!(theirs[gap], format!("{difference:.2}"));
        assert_eq!((&ours[gap], &theirs[n]), ("", "3750"));
    }
    assert_eq!(
        &row("256", "snapkv, published").unwrap()[column("few_shot mean")],
        "63.40"
    );
    assert!(row("10%", "snapkv").is_some() && row("10%", "snapkv, published").is_none());
    // Grey, never ranked, with the source and with what was left out.
    assert!(
        latex.contains("\\textcolor{gray}{45.21}") && latex.contains("adjustbox,xcolor}"),
        "{latex}"
    );
    assert!(
        page.contains("<bdi class=\"published\">45.21</bdi>"),
        "no grey row in the page"
    );
    let line = markdown
        .lines()
        .find(|line| line.contains("snapkv, published"))
        .unwrap();
    assert!(!line.contains('*'), "{line}");
    assert!(
        markdown.contains("CompressKV, arXiv 2508.02401, Table 5"),
        "{markdown}"
    );
    assert!(markdown.contains("so not shown: CircuitKV"), "{markdown}");
    assert!(
        markdown.contains("RippleKV, arXiv 2608.08684, abstract"),
        "{markdown}"
    );
}

#[test]
fn another_protocol_shows_another_source_or_none() {
    let fits = |folder: &Folder, removed| {
        let [markdown, _, _, _] = main_table(folder, removed);
        let published: Vec<String> = markdown
            .lines()
            .filter(|line| line.starts_with("| 256 ") && line.contains("snapkv, published"))
            .map(|line| line.split('|').nth(3).unwrap().trim().to_owned())
            .collect();
        published
    };
    let auto = json!({"chat_template": "auto"});
    // CompressKV gives no score of single tasks, CircuitKV 27.18 on narrativeqa.
    assert_eq!(fits(&llama(auto.clone()), 0), [""]);
    assert_eq!(fits(&llama(auto.clone()), 5), [""; 0]);
    let off = |max_context: Value| json!({"chat_template": "off", "max_context": max_context});
    assert_eq!(fits(&llama(off(json!(127_500))), 5), ["27.18"]);
    assert_eq!(fits(&llama(off(json!(7500))), 5), [""; 0]);
    // `auto` is a number only where the manifest says which.
    assert_eq!(fits(&llama(off(json!("auto"))), 5), [""; 0]);
    let agnostic = Folder {
        query: Query::Agnostic,
        ..llama(auto.clone())
    };
    assert_eq!(fits(&agnostic, 0), [""; 0]);
    let fifteen = Folder {
        tasks: SIXTEEN_TASKS[..15].to_vec(),
        ..llama(auto.clone())
    };
    assert_eq!(fits(&fifteen, 0), [""; 0]);
    let other = Folder {
        model: "tiny",
        ..llama(auto)
    };
    assert_eq!(fits(&other, 0), [""; 0]);
}

//! The HTML pages: nothing from outside becomes markup, every link leads somewhere, the worst comes first.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ripplekv_report::{ReportOptions, write_report};
use ripplekv_runner::cell::CellKey;
use ripplekv_runner::kept::{KeptBits, KeptLine, kept_lines};
use ripplekv_runner::record::Record;
use tempfile::TempDir;

use crate::hostile;
use crate::report::tree;
use crate::results_folder::{Folder, line};

/// Every page of a report by name.
fn pages(folder: &Path) -> BTreeMap<String, String> {
    let html = |(name, bytes): (String, Vec<u8>)| {
        name.ends_with(".html")
            .then(|| (name, String::from_utf8(bytes).unwrap()))
    };
    tree(folder).into_iter().filter_map(html).collect()
}

/// Values of an attribute, in order.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    page.match_indices(&start)
        .map(|(place, _)| {
            let rest = &page[place + start.len()..];
            &rest[..rest.find('"').unwrap()]
        })
        .collect()
}

fn assert_links_lead_somewhere(folder: &Path) -> usize {
    let pages = pages(folder);
    let mut checked = 0;
    for (name, page) in &pages {
        let here = Path::new(name).parent().unwrap();
        for link in values(page, "href").into_iter().chain(values(page, "src")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target: PathBuf = match file {
                "" => PathBuf::from(name),
                file => here.join(file),
            };
            assert!(folder.join(&target).is_file(), "{name} links to {link}");
            if !anchor.is_empty() {
                assert!(
                    page.contains(&format!("id=\"{anchor}\"")),
                    "{name} links to {link}"
                );
            }
            checked += 1;
        }
    }
    checked
}

fn written(folder: &Folder, results: &Path) -> TempDir {
    let out = TempDir::new().unwrap();
    write_report(&[results.to_owned()], out.path(), &folder.options()).unwrap();
    out
}

#[test]
fn every_link_leads_to_a_file_and_the_bytes_repeat() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let (first, second) = (
        written(&folder, results.path()),
        written(&folder, results.path()),
    );
    assert!(assert_links_lead_somewhere(first.path()) > 1_000);
    assert_eq!(tree(first.path()), tree(second.path()));
    let pages = pages(first.path());
    // index, list of prompts, 60 cells, 24 prompts
    assert_eq!(pages.len(), 1 + 1 + 60 + 24);
    let is_local = |page: &String| !page.contains("http:") && !page.contains("https:");
    assert!(pages.values().all(is_local), "no network");
}

#[test]
fn hostile_texts_stay_texts() {
    let out = TempDir::new().unwrap();
    let _results = hostile::report(out.path());
    assert_links_lead_somewhere(out.path());
    let mut hostile_scripts = 0;
    for (name, page) in pages(out.path()) {
        let scripts = page.matches("<script").count();
        let own = page.matches("assets/report.js\" defer></script>").count();
        let data = page
            .matches("<script type=\"application/json\" id=\"kept\">")
            .count();
        assert_eq!((scripts, own), (1 + data, 1), "{name}");
        assert_eq!(page.matches("</script").count(), 1 + data, "{name}");
        assert!(
            !page.contains("<img src=x") && !page.contains("<b ") && !page.contains("<b>"),
            "{name}"
        );
        assert!(
            !page.contains(" onerror=\"") && !page.contains("' onmouseover='"),
            "{name}"
        );
        let turns =
            |letter: char| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let is_visible = |letter: char| {
            !turns(letter) && (!letter.is_control() || letter == '\n' || letter == '\t')
        };
        assert!(page.chars().all(is_visible), "{name}: control characters");
        hostile_scripts += page.matches("&lt;script&gt;window.stolen = 1").count();
        assert!(page.len() < 400_000, "{name}: {} bytes", page.len());
        let file = name.rsplit('/').next().unwrap();
        let is_safe = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        assert!(file.chars().all(is_safe) && file.len() < 120, "{name}");
    }
    assert!(
        hostile_scripts > 50,
        "the texts are there, escaped: {hostile_scripts}"
    );
}

#[test]
fn the_worst_prompt_comes_first_and_the_limit_holds() {
    let folder = Folder::quickstart();
    let results = TempDir::new().unwrap();
    folder.write_with(results.path(), |cell, records: &mut Vec<Record>| {
        for record in records {
            // sample 2 loses everything under compression, sample 1 half; 0 and 3 lose nothing, 3 scores less
            record.score = Some(match (record.index, &cell.budget) {
                (2, Some(_)) => 0.0,
                (1, Some(_)) => 0.5,
                (3, _) => 0.25,
                _ => 1.0,
            });
        }
    });
    let out = TempDir::new().unwrap();
    let options = ReportOptions {
        prompt_pages: 2,
        ..folder.options()
    };
    write_report(&[results.path().to_owned()], out.path(), &options).unwrap();
    let pages = pages(out.path());
    let list = &pages["smollm2-135m-instruct-q4-aware/prompts.html"];
    let order: Vec<&str> = values(list, "href")
        .into_iter()
        .filter_map(|link| link.split("/prompts/logbook_qa-").nth(1))
        .collect();
    assert_eq!(
        order,
        [
            "logbook_qa-2.html",
            "logbook_qa-1.html",
            "logbook_qa-0.html"
        ]
    );
    assert!(list.contains("The worst 2 of each task have a page, and its first, whose kept positions are stored by default; 6 others"));
    let cell = &pages["smollm2-135m-instruct-q4-aware/cells/logbook_qa-snapkv-10.html"];
    let place = |sample: &str| cell.find(&format!("<bdi>{sample}</bdi>")).unwrap();
    let places = [
        "logbook_qa-2",
        "logbook_qa-1",
        "logbook_qa-3",
        "logbook_qa-0",
    ]
    .map(place);
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn what_is_not_stored_or_not_the_records_own_is_said() {
    let folder = Folder::quickstart();
    let results = folder.written();
    let out = written(&folder, results.path());
    let page =
        &pages(out.path())["smollm2-135m-instruct-q4-aware/prompts/logbook_qa-logbook_qa-0.html"];
    assert!(page.contains("Not stored for this prompt") && page.contains("store_kept: all"));
    assert!(page.contains("The results hold no text of this prompt"));

    let out = TempDir::new().unwrap();
    let results = hostile::report(out.path());
    let kept = results
        .path()
        .join("kept/model-<b>bold</b>/logbook_qa/w0.jsonl");
    let text = fs::read_to_string(&kept).unwrap();
    let marked = |folder: &Path| {
        let pages = pages(folder);
        let mut with_data = pages
            .into_iter()
            .filter(|(name, page)| name.contains("logbook_qa") && page.contains("id=\"kept\""));
        with_data.next().unwrap().1
    };
    assert!(!marked(out.path()).contains("are not those of its record"));
    // another cell's positions under this cell's name
    let key = hostile::some_cell().0;
    let lines: Vec<&str> = text.lines().collect();
    let place = lines.iter().position(|line| line.contains(&key)).unwrap();
    assert_eq!(place, 0, "the line without a base");
    let (layers, heads, tokens) = hostile::SHAPE;
    let other = KeptBits::new(&vec![vec![vec![0]; heads]; layers], tokens).unwrap();
    let sample = serde_json::from_str::<KeptLine>(lines[0]).unwrap().sample;
    let forged = line(&kept_lines(&sample, [(&CellKey(key), &other)]).unwrap()[0]);
    fs::write(&kept, format!("{forged}{}", &text[lines[0].len() + 1..])).unwrap();
    let options = ReportOptions {
        prompt_pages: 4,
        ..ReportOptions::default()
    };
    write_report(&[results.path().to_owned()], out.path(), &options).unwrap();
    let page = pages(out.path())
        .into_iter()
        .find(|(_, page)| page.contains("are not those of its record"));
    assert!(
        page.is_some(),
        "a set that is not the record's is left out and named"
    );
}

#[test]
fn a_large_report_has_bounded_pages() {
    let mut folder = Folder::quickstart();
    folder.tasks.truncate(2);
    folder.budgets = vec!["10%", "20%"];
    folder.samples = 60;
    let results = TempDir::new().unwrap();
    folder.write_with(results.path(), |_, records: &mut Vec<Record>| {
        for record in records {
            record.output = "long words ".repeat(3_000);
        }
    });
    let out = written(&folder, results.path());
    let pages = pages(out.path());
    let prompts = pages
        .keys()
        .filter(|name| name.contains("/prompts/"))
        .count();
    // the worst 50 of two tasks, and the first one of each where it is not among them
    assert!((100..=102).contains(&prompts), "{prompts}");
    let heaviest = pages.values().map(String::len).max().unwrap();
    assert!(
        heaviest < 400_000,
        "{heaviest} bytes, of outputs of 33 kB in 60 samples"
    );
    let some = pages
        .iter()
        .find(|(name, _)| name.contains("/prompts/"))
        .unwrap()
        .1;
    assert!(some.contains("29000 more characters stand in the records"));
}

#[test]
fn nothing_scored_is_still_a_page() {
    let folder = Folder::quickstart();
    let results = TempDir::new().unwrap();
    folder.write_with(results.path(), |_, records| records.clear());
    fs::write(
        results
            .path()
            .join("records")
            .join("smollm2-135m-instruct-q4/logbook_qa/w0.jsonl"),
        line(&"no record"),
    )
    .unwrap();
    let out = written(&folder, results.path());
    assert_links_lead_somewhere(out.path());
    let index = &pages(out.path())["index.html"];
    assert!(index.contains("Before you read the numbers"));
}

//! The pages in a real headless Chromium (Debian's package `chromium`): they fit the screen, obey no text from outside, ask for
//! nothing, and their sorting, filtering and token marks work. Without a browser the test says that it is skipped; with
//! `CI=true` it fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::hostile::{self, SHAPE};

const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];

/// Runs in the page after its own script; what it finds stands in the document afterwards.
const DRIVE: &str = include_str!("drive.js");

/// Holds a page at a width and shows what its driving script tells.
const FRAME: &str = "<!DOCTYPE html><title>frame</title><pre id=\"found\"></pre>\
<iframe src=\"driven.html\" style=\"width: WIDTHpx; height: 1000px; border: 0\"></iframe>\
<script>addEventListener('message', (told) => { document.getElementById('found').textContent = told.data; })</script>";

fn browser() -> Option<&'static str> {
    let is_there = |name: &&&str| {
        let asked = Command::new(name).arg("--version").output();
        asked.is_ok_and(|output| output.status.success())
    };
    let found = BROWSERS.iter().find(is_there).copied();
    if found.is_none() {
        let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
        assert!(!in_ci, "no browser; `apt-get install -y chromium` has one");
        println!("skipped: no browser; `apt-get install -y chromium` has one");
    }
    found
}

/// A window of a size, light or dark.
#[derive(Clone, Copy)]
struct Window {
    width: u64,
    is_dark: bool,
}

struct Browser {
    name: &'static str,
    profile: TempDir,
}

impl Browser {
    /// Output and messages of one visit.
    fn visit(&self, page: &Path, window: Window, what: &str) -> (String, String) {
        let output = Command::new(self.name)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--host-resolver-rules=MAP * ~NOTFOUND",
            ])
            .args([
                "--enable-logging=stderr",
                "--v=0",
                "--virtual-time-budget=10000",
            ])
            .arg(format!("--user-data-dir={}", self.profile.path().display()))
            .arg(format!("--window-size={},1000", window.width))
            .arg(format!(
                "--blink-settings=preferredColorScheme={}",
                u8::from(!window.is_dark)
            ))
            .arg(what)
            .arg(format!("file://{}", page.display()))
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        assert!(output.status.success(), "{}", text(output.stderr));
        (text(output.stdout), text(output.stderr))
    }

    /// What the driving script found.
    fn drive(&self, page: &Path, window: Window) -> Value {
        let own = fs::read_to_string(page).unwrap();
        let beside = |name: &str| page.with_file_name(name);
        let driven = own.replace("</head>", "<script src=\"drive.js\" defer></script></head>");
        // a headless window has at least 500 pixels, a frame in it as few as it is told
        let frame = FRAME.replace("WIDTH", &window.width.to_string());
        let files = [
            ("drive.js", DRIVE),
            ("driven.html", &driven),
            ("frame.html", &frame),
        ];
        for (name, text) in files {
            fs::write(beside(name), text).unwrap();
        }
        let (document, messages) = self.visit(&beside("frame.html"), window, "--dump-dom");
        for (name, _) in files {
            fs::remove_file(beside(name)).unwrap();
        }
        let complaints: Vec<&str> = messages
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .collect();
        assert!(complaints.is_empty(), "{}: {complaints:?}", page.display());
        let found = document
            .split("<pre id=\"found\">")
            .nth(1)
            .and_then(|rest| rest.split("</pre>").next())
            .filter(|found| !found.is_empty())
            .unwrap_or_else(|| panic!("{}: the script did not end\n{messages}", page.display()));
        let found = found
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&");
        serde_json::from_str(&found).unwrap()
    }
}

/// What every page must be.
fn assert_is_sound(page: &Path, found: &Value, window: Window) {
    let name = page.display();
    assert_eq!(found["inner_width"], window.width, "{name}");
    let width = found["scroll_width"].as_u64().unwrap();
    assert!(
        width <= window.width,
        "{name}: {width} wide in {}",
        window.width
    );
    assert_eq!(found["stolen"], false, "{name}: a text from outside ran");
    assert_eq!(
        found["handlers"], 0,
        "{name}: an element has an event attribute"
    );
    assert_eq!(found["foreign_scripts"], 0, "{name}");
    assert_eq!(found["broken_images"], 0, "{name}");
    assert_eq!(found["first_focus"], "Skip to the content", "{name}");
    assert_eq!(found["unlabelled"], 0, "{name}: an input without a label");
    assert_eq!(found["tables_without_caption_or_scope"], 0, "{name}");
    for address in found["asked_for"].as_array().unwrap() {
        assert!(
            address.as_str().unwrap().starts_with("file://"),
            "{name}: {address}"
        );
    }
    let expected = if window.is_dark { "dark" } else { "light" };
    assert_eq!(found["scheme"], expected, "{name}");
    let contrast = found["contrast"].as_f64().unwrap();
    assert!(contrast >= 4.5, "{name}: contrast of text {contrast}");
}

fn first_page(folder: &Path, part: &str, holds: &str) -> PathBuf {
    let below = folder.join("model-b-bold-b-aware").join(part);
    let mut files: Vec<PathBuf> = fs::read_dir(below)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let has = |path: &&PathBuf| fs::read_to_string(path).unwrap().contains(holds);
    files.iter().find(has).unwrap().clone()
}

#[test]
fn hostile_pages_in_a_browser() {
    let Some(name) = browser() else { return };
    let browser = Browser {
        name,
        profile: TempDir::new().unwrap(),
    };
    let out = TempDir::new().unwrap();
    let _results = hostile::report(out.path());
    let index = out.path().join("index.html");
    let list = out.path().join("model-b-bold-b-aware/prompts.html");
    let cell = first_page(out.path(), "cells", "<td");
    let prompt = first_page(out.path(), "prompts", "id=\"kept\"");
    let windows = [(390, false), (1280, true)].map(|(width, is_dark)| Window { width, is_dark });
    for window in windows {
        for page in [&index, &list, &cell, &prompt] {
            let found = browser.drive(page, window);
            assert_is_sound(page, &found, window);
            // sorting up, then down; filtering down to one row and to none
            let table = &found["table"];
            assert_eq!(table["sorted_up"], true, "{}: {table}", page.display());
            assert_eq!(table["sorted_down"], true, "{}: {table}", page.display());
            assert_eq!(
                table["aria"],
                serde_json::json!(["ascending", "descending"])
            );
            assert!(table["rows"].as_u64().unwrap() > 1);
            assert_eq!(
                table["with_first_rows_text"], table["rows_holding_it"],
                "{table}"
            );
            assert_eq!(table["with_nonsense"], 0, "{table}");
            assert!(
                table["said"].as_str().unwrap().starts_with("0 of "),
                "{table}"
            );
        }
        let found = browser.drive(&prompt, window);
        let kept = &found["kept"];
        let (_, heads, tokens) = SHAPE;
        assert_eq!(kept["tokens"], tokens, "{kept}");
        // at a budget of 10% each head of a layer keeps every tenth token, neighbours by neighbouring heads
        assert_eq!(kept["marked_in_layer_0"], tokens / 10 * heads, "{kept}");
        let said = kept["said"].as_str().unwrap();
        assert!(
            said.contains("60 of 300 tokens") && said.contains("one of 2 heads"),
            "{said}"
        );
        assert!(kept["differs_by_layer"].as_bool().unwrap(), "{kept}");

        let picture = out.path().join("picture.png");
        browser.visit(
            &prompt,
            window,
            &format!("--screenshot={}", picture.display()),
        );
        let decoder = png::Decoder::new(fs::File::open(&picture).unwrap());
        let mut reader = decoder.read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((info.width, info.height), (window.width as u32, 1000));
        let size = info.line_size / info.width as usize;
        let first = pixels[..size].to_vec();
        let inked = pixels.chunks(size).filter(|pixel| **pixel != first).count();
        assert!(inked > 5_000, "{inked} pixels differ from the background");
    }
}

//! The benchmark's tables: ours, the peer's, how many times better, and how each grows.

use serde_json::{Value, json};

use super::document::{Document, Forward, Grid, PeerForward, Peers};
use super::measure::median;
use crate::tables::Rows;

/// One line of the main table.
struct Line {
    work: String,
    unit: &'static str,
    ours: f64,
    peer: Option<f64>,
    better: Better,
    /// What `ours` is to reach, in words.
    target: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
}

impl Line {
    /// How many times better ours is than the peer's.
    fn ratio(&self) -> Option<f64> {
        let peer = self.peer?;
        Some(match self.better {
            Better::More => self.ours / peer,
            Better::Less => peer / self.ours,
        })
    }
}

/// The lines as JSON, with both measurements' settings.
pub(super) fn json(document: &Document, peers: Option<&Peers>) -> Value {
    let lines: Vec<Value> = lines(document, peers)
        .iter()
        .map(|line| {
            json!({
                "work": line.work,
                "unit": line.unit,
                "ours": line.ours,
                "peer": line.peer,
                "times_better": line.ratio(),
                "target": line.target,
            })
        })
        .collect();
    json!({
        "schema": 1,
        "machine": document.machine,
        "threads": document.threads,
        "model": document.model,
        "peer_threads": peers.map(|peers| peers.threads),
        "peer_versions": peers.map(|peers| &peers.versions),
        "lines": lines,
    })
}

/// All tables as Markdown.
pub(super) fn markdown(document: &Document, peers: Option<&Peers>) -> String {
    let mut text = setting(document, peers);
    let main = Rows {
        columns: vec!["work", "unit", "ripplekv", "peer", "times better", "target"],
        rows: lines(document, peers).iter().map(cells).collect(),
    };
    text.push_str(&main.markdown());
    for rows in [
        growth_with_length(document, peers),
        growth_with_cells(document, peers),
    ] {
        if !rows.rows.is_empty() {
            text.push('\n');
            text.push_str(&rows.markdown());
        }
    }
    text
}

fn setting(document: &Document, peers: Option<&Peers>) -> String {
    let cpu = document
        .machine
        .cpu
        .as_deref()
        .unwrap_or("processor not known");
    let mut text = format!(
        "{}, {cpu}, {} cores, {}; f32, {} threads",
        document.model, document.machine.cores, document.machine.platform, document.threads
    );
    if let Some(peers) = peers {
        let versions: Vec<String> = peers
            .versions
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect();
        text.push_str(&format!(
            ". Peer: {}, {} threads",
            versions.join(", "),
            peers.threads
        ));
    }
    text + ".\n\n"
}

fn cells(line: &Line) -> Vec<String> {
    let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), number);
    vec![
        line.work.clone(),
        line.unit.to_owned(),
        number(line.ours),
        or_dash(line.peer),
        or_dash(line.ratio()),
        line.target.clone(),
    ]
}

/// Three significant digits.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        small if small >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

fn lines(document: &Document, peers: Option<&Peers>) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in &document.forward {
        lines.push(prefill(row, peer_forward(peers, row.tokens)));
    }
    for row in &document.forward {
        let peer = peer_forward(peers, row.tokens);
        lines.push(Line {
            work: format!("decode, one row after {} tokens", row.tokens),
            unit: "ms/token",
            ours: row.decode_milliseconds,
            peer: peer.map(|peer| peer.decode_milliseconds),
            better: Better::Less,
            target: "at least 2.2 times better".to_owned(),
        });
    }
    for row in &document.forward {
        let after = format!("after {} tokens", row.tokens);
        let share = |bytes: u64| {
            let rate = bytes as f64 / (row.decode_milliseconds / 1e3);
            100.0 * rate / row.memory_bytes_per_second
        };
        lines.push(alone(
            format!("memory reads, all threads, {after}"),
            "GB/s",
            row.memory_bytes_per_second / 1e9,
            "",
        ));
        lines.push(alone(
            format!("share of it that weights and cache in f32 come to, {after}"),
            "%",
            share(row.decode_step_bytes),
            "at least 85",
        ));
        lines.push(alone(
            format!("share of it that is read, {after}"),
            "%",
            share(row.decode_read_bytes),
            "",
        ));
    }
    for row in &document.attention {
        let peers = peers.map_or(&[][..], |peers| &peers.attention);
        let peer = peers.iter().find(|peer| peer.tokens == row.tokens);
        lines.push(Line {
            work: format!("attention of one layer, {} tokens", row.tokens),
            unit: "GFLOP/s",
            ours: row.gflop_per_second,
            peer: peer.map(|peer| peer.gflop_per_second),
            better: Better::More,
            target: "past torch".to_owned(),
        });
    }
    for grid in &document.grid {
        lines.extend(grid_lines(grid, peers));
    }
    for row in &document.profile {
        let (tokens, answer) = (row.tokens, row.answer_tokens);
        for run in &row.runs {
            let of = match run.samples {
                1 => "of one sample alone".to_owned(),
                samples => format!("of each of {samples} samples"),
            };
            let what = if run.signals {
                "profile with signals and control"
            } else {
                "profile of sensitivity"
            };
            let name = format!("{what} {of}, {tokens} tokens, answer of {answer}");
            let prefills = run.seconds / row.prefill_seconds;
            lines.push(alone(name.clone(), "own prefills", prefills, "under 2"));
            if let Some(peer) = peer_forward(peers, tokens) {
                let prefills = run.seconds / median(&mut peer.prefill_seconds.clone());
                lines.push(alone(name, "peer's prefills", prefills, "under 2"));
            }
        }
    }
    for row in &document.forward {
        let peer = peer_forward(peers, row.tokens);
        lines.push(memory(
            format!("peak memory, one row, {} tokens", row.tokens),
            row.peak_rss_bytes,
            peer.map(|peer| peer.peak_rss_bytes),
            row.accounted_bytes,
        ));
    }
    for grid in &document.grid {
        lines.push(memory(
            format!("peak memory, grid, {} tokens", grid.tokens),
            grid.peak_rss_bytes,
            peer_grid(peers, grid.tokens).map(|peer| peer.peak_rss_bytes),
            grid.accounted_bytes,
        ));
    }
    lines
}

fn prefill(row: &Forward, peer: Option<&PeerForward>) -> Line {
    let rate = |seconds: &[f64]| row.tokens as f64 / median(&mut seconds.to_vec());
    Line {
        work: format!("prefill, {} tokens", row.tokens),
        unit: "tokens/s",
        ours: rate(&row.prefill_seconds),
        peer: peer.map(|peer| rate(&peer.prefill_seconds)),
        better: Better::More,
        target: "at least as good".to_owned(),
    }
}

fn grid_lines(grid: &Grid, peers: Option<&Peers>) -> Vec<Line> {
    let peer = peer_grid(peers, grid.tokens).filter(|peer| peer.new_tokens == grid.new_tokens);
    let mut lines = Vec::new();
    if let Some(all) = grid.runs.last() {
        lines.push(Line {
            work: format!(
                "grid of {} cells, {} tokens, {} new",
                all.cells, grid.tokens, grid.new_tokens
            ),
            unit: "s",
            ours: all.seconds,
            peer: peer.and_then(|peer| peer.seconds_of(all.cells)),
            better: Better::Less,
            target: "at least 12 times better".to_owned(),
        });
        if let Some(seconds) = grid.cell_seconds() {
            lines.push(Line {
                work: format!("one more cell, {} tokens", grid.tokens),
                unit: "s",
                ours: seconds,
                peer: peer.map(|peer| peer.median_cell_seconds),
                better: Better::Less,
                target: String::new(),
            });
            lines.push(alone(
                format!("one more cell, {} tokens", grid.tokens),
                "% of the prefill",
                100.0 * seconds / all.prefill_seconds,
                "under 4",
            ));
        }
    }
    lines
}

/// A line without a peer.
fn alone(work: String, unit: &'static str, ours: f64, target: &str) -> Line {
    Line {
        work,
        unit,
        ours,
        peer: None,
        better: Better::Less,
        target: target.to_owned(),
    }
}

fn memory(work: String, ours: u64, peer: Option<u64>, accounted: u64) -> Line {
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    Line {
        work,
        unit: "MB",
        ours: megabytes(ours),
        peer: peer.map(megabytes),
        better: Better::Less,
        target: format!(
            "at most {} (weights, caches, 200)",
            number(megabytes(accounted))
        ),
    }
}

fn peer_forward(peers: Option<&Peers>, tokens: usize) -> Option<&PeerForward> {
    peers?.forward.iter().find(|row| row.tokens == tokens)
}

fn peer_grid(peers: Option<&Peers>, tokens: usize) -> Option<&super::document::PeerGrid> {
    peers?.grid.iter().find(|row| row.tokens == tokens)
}

/// Factor of time from each length to the next.
fn growth_with_length(document: &Document, peers: Option<&Peers>) -> Rows {
    let mut rows = Vec::new();
    for pair in document.forward.windows(2) {
        let [short, long] = pair else { continue };
        let peer = peer_forward(peers, short.tokens).zip(peer_forward(peers, long.tokens));
        let prefill = |seconds: &[f64]| median(&mut seconds.to_vec());
        let factors = [
            (
                "prefill",
                prefill(&long.prefill_seconds) / prefill(&short.prefill_seconds),
                peer.map(|(s, l)| prefill(&l.prefill_seconds) / prefill(&s.prefill_seconds)),
            ),
            (
                "decode step",
                long.decode_milliseconds / short.decode_milliseconds,
                peer.map(|(s, l)| l.decode_milliseconds / s.decode_milliseconds),
            ),
            (
                "peak memory",
                long.peak_rss_bytes as f64 / short.peak_rss_bytes as f64,
                peer.map(|(s, l)| l.peak_rss_bytes as f64 / s.peak_rss_bytes as f64),
            ),
        ];
        for (work, ours, theirs) in factors {
            rows.push(vec![
                format!("{} to {} tokens", short.tokens, long.tokens),
                work.to_owned(),
                number(ours),
                theirs.map_or_else(|| "-".to_owned(), number),
            ]);
        }
    }
    rows.sort_by_key(|row| {
        ["prefill", "decode step", "peak memory"]
            .iter()
            .position(|work| row[1] == *work)
    });
    Rows {
        columns: vec!["growth", "of", "ripplekv, times", "peer, times"],
        rows,
    }
}

/// Seconds by number of cells.
fn growth_with_cells(document: &Document, peers: Option<&Peers>) -> Rows {
    let mut rows = Vec::new();
    for grid in &document.grid {
        for run in &grid.runs {
            let peer = peer_grid(peers, grid.tokens).and_then(|peer| peer.seconds_of(run.cells));
            rows.push(vec![
                format!("{} of {} tokens", run.cells, grid.tokens),
                number(run.prefill_seconds),
                number(run.compress_seconds),
                number(run.decode_seconds),
                number(run.seconds),
                peer.map_or_else(|| "-".to_owned(), number),
            ]);
        }
    }
    Rows {
        columns: vec![
            "cells",
            "prefill, s",
            "compress, s",
            "decode, s",
            "ripplekv, s",
            "peer, s",
        ],
        rows,
    }
}

//! Time per prediction of every metric, on the fixture texts: `cargo bench -p ripplekv-metrics`.
//! The Chinese metrics run where `RIPPLEKV_JIEBA_DIR` names the Python package's folder.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use ripplekv_metrics::jieba::{SOURCE_FILES, Segmenter, Sources};
use ripplekv_metrics::{CodeSimilarity, Context, METRICS, score};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    metric: String,
    prediction: String,
    answers: Vec<String>,
    #[serde(default)]
    all_classes: Vec<String>,
}

fn cases() -> BTreeMap<String, Vec<Case>> {
    let text = include_str!("../tests/fixtures/metric-cases.jsonl");
    let mut cases: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    for line in text.lines() {
        let case: Case = serde_json::from_str(line).expect("a fixture line");
        cases.entry(case.metric.clone()).or_default().push(case);
    }
    cases
}

fn jieba_texts() -> Option<[String; 4]> {
    let folder = std::path::PathBuf::from(std::env::var_os("RIPPLEKV_JIEBA_DIR")?);
    Some(SOURCE_FILES.map(|name| {
        std::fs::read_to_string(folder.join(name)).expect("a file of the jieba package")
    }))
}

fn load(texts: &[String; 4]) -> Segmenter {
    let [dictionary, start, transition, emission] = texts;
    Segmenter::from_sources(&Sources {
        dictionary,
        start,
        transition,
        emission,
    })
    .expect("jieba 0.42.1")
}

fn metrics(criterion: &mut Criterion) {
    let cases = cases();
    let segmenter = jieba_texts().map(|texts| load(&texts));
    let mut group = criterion.benchmark_group("score");
    for metric in METRICS {
        if metric.needs_segmenter && segmenter.is_none() {
            continue;
        }
        let cases = &cases[metric.name];
        group.throughput(Throughput::Elements(cases.len() as u64));
        let flavours: &[_] = if metric.name == "code-similarity" {
            &[
                (CodeSimilarity::Difflib, "code-similarity/difflib"),
                (CodeSimilarity::Levenshtein, "code-similarity/levenshtein"),
            ]
        } else {
            &[(CodeSimilarity::Difflib, metric.name)]
        };
        for (code, name) in flavours {
            group.bench_function(*name, |bencher| {
                bencher.iter(|| {
                    for case in cases {
                        let context = Context {
                            all_classes: &case.all_classes,
                            segmenter: segmenter.as_ref(),
                            code: *code,
                        };
                        let _ = black_box(score(metric, &case.prediction, &case.answers, &context));
                    }
                });
            });
        }
    }
    group.finish();
}

fn jieba(criterion: &mut Criterion) {
    let Some(texts) = jieba_texts() else {
        return;
    };
    let mut group = criterion.benchmark_group("jieba");
    group.bench_function("load", |bencher| bencher.iter(|| load(black_box(&texts))));
    let segmenter = load(&texts);
    let text =
        "老船匠陶砚秋在2015-06修好了GPT-4号拖船的桅杆，港务局长说潮水比昨天高出12.5%。".repeat(100);
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("cut", |bencher| {
        bencher.iter(|| segmenter.cut(black_box(&text)).len());
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1));
    targets = metrics, jieba
}
criterion_main!(benches);

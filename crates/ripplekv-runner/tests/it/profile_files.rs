//! Stored profiles that do not fit: another model, another recipe, damaged numbers, other records.

use ripplekv_runner::RunnerError;
use ripplekv_runner::exit;
use ripplekv_runner::fake::FakeLoader;
use ripplekv_runner::plan::PlanOptions;
use ripplekv_runner::profile::profile_path;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::pack::run_spec;
use crate::profile::{RIPPLE, folder};

/// A folder with a profile, without any records.
fn profiled() -> TempDir {
    let folder = folder(4);
    run_spec(
        RIPPLE,
        folder.path(),
        &FakeLoader::default(),
        PlanOptions::default(),
    )
    .unwrap();
    let kept = std::fs::read(profile_path(&folder.path().join("out"), "tiny")).unwrap();
    std::fs::remove_dir_all(folder.path().join("out")).unwrap();
    std::fs::create_dir_all(folder.path().join("out/profiles")).unwrap();
    std::fs::write(profile_path(&folder.path().join("out"), "tiny"), kept).unwrap();
    folder
}

fn error_with(folder: &TempDir, spec: &str, loader: &FakeLoader) -> String {
    let error: RunnerError = run_spec(spec, folder.path(), loader, PlanOptions::default())
        .expect_err("the profile does not fit");
    assert_eq!(error.exit_code(), exit::SPEC_OR_DATA);
    assert_eq!(loader.calls(), [], "no cell runs");
    let path = profile_path(&folder.path().join("out"), "tiny");
    error
        .to_string()
        .replace(&path.display().to_string(), "FILE")
}

fn edited(edit: impl FnOnce(&mut Value)) -> String {
    let folder = profiled();
    let path = profile_path(&folder.path().join("out"), "tiny");
    let mut value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    edit(&mut value);
    std::fs::write(&path, value.to_string()).unwrap();
    error_with(&folder, RIPPLE, &FakeLoader::default())
}

#[test]
fn damaged_files_name_the_field() {
    for (error, beginning) in [
        (
            edited(|profile| profile["schema"] = json!(9)),
            "FILE: schema: this program reads 1, the file has 9\nhint: remove the file",
        ),
        (
            edited(|profile| profile["samples"][1]["kl"][2] = Value::Null),
            "FILE: samples[1].kl[2]: holds no number\nhint: ",
        ),
        (
            edited(|profile| profile["sensitivity"][3]["mean"] = Value::Null),
            "FILE: sensitivity[3].mean: holds no number",
        ),
        (
            edited(|profile| profile["sensitivity"][3]["mean"] = json!(0.5)),
            "FILE: content_hash: the file was changed after it was written",
        ),
        (
            edited(|profile| {
                profile.as_object_mut().unwrap().remove("samples");
            }),
            "FILE: damaged file: missing field `samples`",
        ),
    ] {
        assert!(error.starts_with(beginning), "{error}");
    }
    let folder = profiled();
    let path = profile_path(&folder.path().join("out"), "tiny");
    let text = std::fs::read_to_string(&path).unwrap();
    let field = "\"all_layers_kl\": ";
    let place = text.find(field).unwrap() + field.len();
    std::fs::write(&path, format!("{}NaN,{}", &text[..place], &text[place..])).unwrap();
    let error = error_with(&folder, RIPPLE, &FakeLoader::default());
    assert!(
        error.starts_with("FILE:") && error.contains("no valid JSON"),
        "{error}"
    );
}

/// A profile that is whole, but of something else.
fn rewritten(edit: impl FnOnce(&mut Value)) -> String {
    edited(|profile| {
        edit(profile);
        profile.as_object_mut().unwrap().remove("content_hash");
        // canonical JSON: sorted keys, no blanks, as serde_json writes a sorted map
        let sorted: Value = sort(profile);
        let hash = blake3_hex(sorted.to_string().as_bytes());
        profile["content_hash"] = json!(hash);
    })
}

fn sort(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|a, b| a.0.cmp(b.0));
            let entries = entries
                .into_iter()
                .map(|(key, value)| (key.clone(), sort(value)));
            Value::Object(entries.collect())
        }
        Value::Array(items) => items.iter().map(sort).collect(),
        scalar => scalar.clone(),
    }
}

fn blake3_hex(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[test]
fn profiles_of_another_model_are_refused() {
    let folder = profiled();
    let other = FakeLoader::default().with_weights("other");
    let error = error_with(&folder, RIPPLE, &other);
    assert!(
        error.starts_with("FILE: model.model_hash: the stored profile has \"")
            && error.contains("\nhint: restore what it was"),
        "{error}"
    );
    for (field, value) in [
        ("tokenizer_hash", json!("other words")),
        ("template_hash", json!("a template")),
        ("dtype", json!("f16")),
    ] {
        let error = rewritten(|profile| profile["model"][field] = value);
        assert!(
            error.starts_with(&format!("FILE: model.{field}: the stored profile has ")),
            "{error}"
        );
    }
    let error = rewritten(|profile| profile["model"]["layers"] = json!(5));
    assert!(
        error.starts_with("FILE: sensitivity: has 4 layers, model.layers says 5"),
        "{error}"
    );
    let error = rewritten(|profile| {
        profile["model"]["layers"] = json!(3);
        let shorten = |value: &mut Value| value.as_array_mut().map(|list| list.truncate(3));
        shorten(&mut profile["sensitivity"]);
        for sample in profile["samples"].as_array_mut().unwrap() {
            for field in ["kl", "local_response", "window_entropy", "hidden_change"] {
                shorten(&mut sample[field]);
            }
        }
    });
    assert!(
        error.starts_with("FILE: model.layers: the stored profile has 3, this run has 4"),
        "{error}"
    );
}

#[test]
fn profiles_of_another_recipe_are_refused() {
    let folder = profiled();
    let spec = RIPPLE.replace("samples: 6", "samples: 6, signals: false");
    let error = error_with(&folder, &spec, &FakeLoader::default());
    assert!(
        error.starts_with(
            "FILE: recipe.signals: the stored profile has true, this run has false\nhint: "
        ),
        "{error}"
    );
    for (field, beginning) in [
        (
            "window_entropy",
            "FILE: samples[0].window_entropy: has 0 layers, model.layers says 4",
        ),
        ("kl", "FILE: damaged file: missing field `kl`"),
        (
            "all_layers_kl",
            "FILE: samples[0].all_layers_kl: recipe.signals is true, but it is absent",
        ),
    ] {
        let error = rewritten(|profile| {
            profile["samples"][0].as_object_mut().unwrap().remove(field);
        });
        assert!(error.starts_with(beginning), "{error}");
    }
    let error = rewritten(|profile| profile["recipe"]["signals"] = json!(false));
    assert!(
        error.starts_with("FILE: samples[0].window_entropy: has 4 layers, recipe.signals is false"),
        "{error}"
    );
    let spec = RIPPLE.replace("samples: 6", "samples: 4");
    let error = error_with(&folder, &spec, &FakeLoader::default());
    assert!(
        error.starts_with("FILE: recipe.samples: the stored profile has 6, this run has 4\nhint: "),
        "{error}"
    );
}

#[test]
fn records_of_another_profile_are_not_continued() {
    let folder = folder(4);
    let loader = FakeLoader::default();
    let limit = |count| PlanOptions {
        limit: Some(ripplekv_runner::select::Limit::First(count)),
        ..PlanOptions::default()
    };
    run_spec(RIPPLE, folder.path(), &loader, limit(1)).unwrap();
    let path = profile_path(&folder.path().join("out"), "tiny");
    // the same recipe measured elsewhere, with other numbers
    let mut value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    value["sensitivity"][0]["mean"] = json!(0.123);
    value.as_object_mut().unwrap().remove("content_hash");
    value["content_hash"] = json!(blake3_hex(sort(&value).to_string().as_bytes()));
    std::fs::write(&path, value.to_string()).unwrap();
    let error = run_spec(RIPPLE, folder.path(), &loader, PlanOptions::default()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("task 'logbook_qa', method 'ripplekv': cell ")
            && text.contains(" was stored with profile ")
            && text.contains("hint: restore profiles/"),
        "{text}"
    );
    assert_eq!(error.exit_code(), exit::SPEC_OR_DATA);
}

//! Resolves `models`: known names, folder-safe short names, no name twice.

use crate::catalog::Catalog;
use crate::cell::{ModelSource, ResolvedModel};
use crate::error::SpecError;
use crate::nearest::hint_for;
use crate::spec::Spec;

pub(crate) fn resolve(spec: &Spec, catalog: &Catalog) -> Result<Vec<ResolvedModel>, SpecError> {
    let mut models: Vec<ResolvedModel> = Vec::with_capacity(spec.models.len());
    for (place, written) in spec.models.iter().enumerate() {
        let path = format!("models[{place}]");
        if let ModelSource::Named(name) = &written.source {
            let known: Vec<&str> = catalog.models.iter().map(|model| model.name).collect();
            if !known.contains(&name.as_str()) {
                let hint = format!(
                    "{}; a local model is written {{path: ./folder-or-file.gguf}}",
                    hint_for(name, &known)
                );
                let message = format!("unknown model '{name}'");
                return Err(spec.source.error(&path, message, Some(hint)));
            }
        }
        if models
            .iter()
            .any(|model| model.source == written.source && model.dtype == written.dtype)
        {
            return Err(spec.source.error(&path, "this model is listed twice", None));
        }
        let name = written
            .name
            .clone()
            .unwrap_or_else(|| short_name(&written.source));
        if models.iter().any(|model| model.name == name) {
            return Err(spec.source.error(
                &path,
                format!("two models are called '{name}'"),
                Some("give one of them another `name`".to_owned()),
            ));
        }
        models.push(ResolvedModel {
            name,
            source: written.source.clone(),
            dtype: written.dtype.clone(),
        });
    }
    Ok(models)
}

/// A short name from the last part of the reference, safe as a folder.
fn short_name(source: &ModelSource) -> String {
    let text = match source {
        ModelSource::Named(name) => name,
        ModelSource::Path(path) => path.trim_end_matches(['/', '\\']),
        ModelSource::Hub { repository, .. } => repository,
    };
    let last = text.rsplit(['/', '\\']).next().unwrap_or(text);
    let stem = last.strip_suffix(".gguf").unwrap_or(last);
    let name: String = stem
        .to_lowercase()
        .chars()
        .map(|letter| match letter {
            'a'..='z' | '0'..='9' | '.' | '-' | '_' => letter,
            _ => '-',
        })
        .collect();
    let name = name.trim_start_matches(['.', '-', '_']).to_owned();
    if name.is_empty() {
        "model".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::short_name;
    use crate::cell::ModelSource;

    #[test]
    fn short_names_are_folder_names() {
        for (source, name) in [
            (
                ModelSource::Path("./my model/Qwen2.5.gguf".into()),
                "qwen2.5",
            ),
            (
                ModelSource::Path("/models/Llama-3.1-8B/".into()),
                "llama-3.1-8b",
            ),
            (ModelSource::Path("..".into()), "model"),
            (
                ModelSource::Hub {
                    repository: "Qwen/Qwen2.5-7B-Instruct".into(),
                    revision: "main".into(),
                },
                "qwen2.5-7b-instruct",
            ),
        ] {
            assert_eq!(short_name(&source), name);
        }
    }
}

//! What a folder's manifest says: its models, the cells of the last spec, the selected samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ripplekv_runner::cell::CellKey;
use ripplekv_runner::store::MANIFEST_SCHEMA;
use serde_json::Value;

use super::Reader;

/// Ids by model and task, as a manifest lists them.
type Selected = BTreeMap<String, BTreeMap<String, Vec<String>>>;

impl Reader {
    pub(super) fn manifest(&mut self, path: &Path) -> Option<Value> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => {
                self.warn(format!("{}: not read: {error}", path.display()));
                return None;
            }
        };
        match serde_json::from_str::<Value>(&text) {
            Ok(value) => {
                let schema = value.get("schema").and_then(Value::as_u64);
                if let Some(newer) = schema.filter(|schema| *schema > u64::from(MANIFEST_SCHEMA)) {
                    self.warn(format!(
                        "{}: schema {newer} is newer than {MANIFEST_SCHEMA}, the newest this program knows: what it says may be misread; use the ripplekv that wrote it",
                        path.display()
                    ));
                }
                Some(value)
            }
            Err(error) => {
                self.warn(format!("{}: not read: {error}", path.display()));
                None
            }
        }
    }

    /// Models that an earlier folder knows under the same name but with other weights or another tokenizer:
    /// cell keys do not see that, so their records must not be joined.
    pub(super) fn foreign_models(
        &mut self,
        folder: &Path,
        manifest: &Option<Value>,
    ) -> BTreeSet<String> {
        let models = manifest
            .as_ref()
            .and_then(|manifest| manifest.get("models"))
            .and_then(Value::as_object);
        let mut foreign = BTreeSet::new();
        for name in models.into_iter().flatten().map(|(name, _)| name) {
            let hashes = manifest
                .as_ref()
                .and_then(|manifest| model_hashes(manifest, name))
                .unwrap_or_default();
            match self.models.get(name) {
                Some(known) if *known != hashes => {
                    self.warn(format!(
                        "{}: records of `{name}` left out: the model differs from the one of that name read before",
                        folder.display()
                    ));
                    foreign.insert(name.clone());
                }
                Some(_) => {}
                None => {
                    self.models.insert(name.clone(), hashes);
                }
            }
        }
        foreign
    }

    /// Adds what a folder selected to each of its cells.
    pub(super) fn note_selected(
        &mut self,
        manifest: &Option<Value>,
        keys: &[CellKey],
        refused: &BTreeSet<String>,
    ) {
        let selected = manifest
            .as_ref()
            .and_then(|manifest| manifest.get("selected"))
            .and_then(|selected| serde_json::from_value::<Selected>(selected.clone()).ok());
        for key in keys {
            let Some(cell) = self.cells.get(key) else {
                continue;
            };
            if refused.contains(&cell.model) {
                continue;
            }
            let ids = selected
                .as_ref()
                .and_then(|models| models.get(&cell.model)?.get(&cell.task));
            match ids {
                Some(ids) => {
                    let known = self.selected.entry(key.clone()).or_default();
                    known.extend(ids.iter().cloned());
                }
                None => {
                    self.unlimited.insert(key.clone());
                }
            }
        }
    }
}

/// What a model of a manifest is: its weights, tokenizer, chat template and number format.
pub(crate) fn model_hashes(manifest: &Value, name: &str) -> Option<String> {
    let identity = manifest.get("models")?.get(name)?;
    let hashes: Vec<String> = ["model_hash", "tokenizer_hash", "template_hash", "dtype"]
        .iter()
        .map(|key| identity.get(key).unwrap_or(&Value::Null).to_string())
        .collect();
    Some(hashes.join(" "))
}

/// Cells of a folder's last spec.
pub(super) fn listed_cells(manifest: &Option<Value>) -> Option<Vec<CellKey>> {
    let cells = manifest.as_ref()?.get("cells")?;
    serde_json::from_value(cells.clone()).ok()
}

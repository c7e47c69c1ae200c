//! Reads stored damage back, for reports.

use std::collections::BTreeMap;
use std::path::Path;

use crate::damage::document::{DamageHead, DamageSample, JointSample};
use crate::damage::files::{self, Line};
use crate::damage::visit::sample_id;
use crate::error::RunnerError;
use crate::store::lines;

/// The damage of one model.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredDamage {
    /// Settings, model, profile and selection.
    pub head: DamageHead,
    /// The selected samples that are measured, dropped ones included, in the order of [`DamageHead::selected`].
    pub samples: Vec<DamageSample>,
    /// Their joint damage, in the same order.
    pub joint: Vec<JointSample>,
    /// What a reader should know: cut lines, joint lines of another profile or selection.
    pub warnings: Vec<String>,
}

/// Models of a results folder whose damage was measured, sorted.
///
/// # Errors
/// When a folder cannot be read.
pub fn models_with_damage(results: &Path) -> Result<Vec<String>, RunnerError> {
    let mut models = lines::names(&results.join("damage"))?;
    models.retain(|model| files::head_path(&files::folder(results, model)).is_file());
    Ok(models)
}

/// Reads one model's damage; `None` where there is none. Equal lines of one sample count once, and samples outside
/// the last selection are left out.
///
/// # Errors
/// A damaged file, one of another schema, a line of another recipe, or two different lines of one sample.
pub fn read_damage(results: &Path, model: &str) -> Result<Option<StoredDamage>, RunnerError> {
    let folder = files::folder(results, model);
    let Some(head) = files::read_head(&folder)? else {
        return Ok(None);
    };
    let mut warnings = Vec::new();
    let path = files::samples_path(&folder);
    let samples: Vec<DamageSample> = files::read_lines(&path, &mut warnings)?;
    if let Some(foreign) = samples.iter().find(|line| line.recipe != head.recipe_hash) {
        return Err(RunnerError::Stored {
            path,
            line: None,
            message: format!(
                "sample '{}' was measured with another recipe than that of recipe.json",
                sample_id(&foreign.task, &foreign.sample)
            ),
            hint: "results of two experiments were mixed; start afresh with --out DIR".to_owned(),
        });
    }
    let samples = in_order(&head, &path, samples)?;
    let path = files::joint_path(&folder);
    let mut joint: Vec<JointSample> = files::read_lines(&path, &mut warnings)?;
    let usable = samples.iter().filter(|line| line.dropped.is_none());
    let recipe = files::joint_recipe(&head, usable)?;
    let before = joint.len();
    joint.retain(|line| line.recipe == recipe);
    if joint.len() < before {
        warnings.push(format!(
            "{}: {} lines belong to another profile or selection of samples and were left out; \
             `ripplekv damage` measures them again",
            path.display(),
            before - joint.len()
        ));
    }
    Ok(Some(StoredDamage {
        joint: in_order(&head, &path, joint)?,
        head,
        samples,
        warnings,
    }))
}

/// Lines of the selected samples in their order, each once.
fn in_order<T: Line + PartialEq>(
    head: &DamageHead,
    path: &Path,
    lines: Vec<T>,
) -> Result<Vec<T>, RunnerError> {
    let mut by_id: BTreeMap<String, T> = BTreeMap::new();
    for line in lines {
        let id = line.id();
        if by_id.get(&id).is_some_and(|known| *known != line) {
            return Err(RunnerError::Stored {
                path: path.to_owned(),
                line: None,
                message: format!("sample '{id}' is stored twice with different contents"),
                hint: "results of two builds or machines were mixed; keep one of the lines"
                    .to_owned(),
            });
        }
        by_id.insert(id, line);
    }
    Ok(head
        .selected
        .iter()
        .filter_map(|id| by_id.remove(id))
        .collect())
}

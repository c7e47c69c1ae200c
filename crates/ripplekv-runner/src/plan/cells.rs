//! Multiplies models, tasks, methods and budgets into cells and hashes each one.
//! What is hashed is what can change the output or the score, and nothing else.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::canonical::canonical_hash;
use crate::catalog::Catalog;
use crate::cell::{Cell, CellKey, ModelSource, PROFILE_KEY, Query, ResolvedModel};
use crate::plan::methods::PlannedMethod;
use crate::plan::{METRIC_VERSION, PlannedTask};
use crate::spec::{ProtocolSpec, Spec};

/// Hex digits of a cell key.
const KEY_DIGITS: usize = 16;

pub(crate) fn expand(
    spec: &Spec,
    catalog: &Catalog,
    models: &[ResolvedModel],
    tasks: &[PlannedTask],
    methods: &[PlannedMethod],
    recipe_hash: Option<&str>,
) -> Vec<Cell> {
    let shared = Shared {
        catalog,
        protocol: &spec.protocol,
        recipe_hash,
    };
    let mut seen = BTreeSet::new();
    let mut cells = Vec::new();
    for model in models {
        for task in tasks {
            for planned in methods {
                let budgets: Vec<Option<&String>> = if planned.budgets.is_empty() {
                    vec![None]
                } else {
                    planned.budgets.iter().map(Some).collect()
                };
                for budget in budgets {
                    for query in &spec.protocol.query {
                        let cell = cell(&shared, model, task, planned, budget, *query);
                        if seen.insert((cell.model.clone(), cell.key.clone())) {
                            cells.push(cell);
                        }
                    }
                }
            }
        }
    }
    cells
}

/// What all cells of a plan have in common.
struct Shared<'a> {
    catalog: &'a Catalog,
    protocol: &'a ProtocolSpec,
    /// Hash of the profile's recipe, where some method needs a profile.
    recipe_hash: Option<&'a str>,
}

fn cell(
    shared: &Shared<'_>,
    model: &ResolvedModel,
    task: &PlannedTask,
    planned: &PlannedMethod,
    budget: Option<&String>,
    query: Query,
) -> Cell {
    let mut identity = identity(shared, model, task, budget.is_some());
    // only here, so that the keys of all other cells do not depend on the profile
    if let (true, Some(recipe_hash)) = (planned.needs_profile, shared.recipe_hash) {
        identity[PROFILE_KEY] = json!(recipe_hash);
    }
    let hashed = json!({
        "identity": identity,
        "task": task.info.name,
        "method": planned.method.name,
        "params": planned.method.params,
        "budget": budget,
        "query": query,
    });
    let mut key = canonical_hash(&hashed);
    key.truncate(KEY_DIGITS);
    Cell {
        key: CellKey(key),
        model: model.name.clone(),
        task: task.info.name.to_owned(),
        method: planned.method.clone(),
        budget: budget.cloned(),
        query,
        protocol: identity,
    }
}

/// Everything besides task, method, budget and query that can change what a cell gives.
fn identity(
    shared: &Shared<'_>,
    model: &ResolvedModel,
    task: &PlannedTask,
    compressed: bool,
) -> Value {
    let protocol = shared.protocol;
    let is_code = task.info.metric == "code-similarity";
    let mut identity = json!({
        "model": model_identity(model),
        "dtype": model.dtype,
        "data": task.data_hash,
        "template": task.template_hash,
        "max_new_tokens": task.max_new_tokens,
        "chat_template": protocol.chat_template,
        "max_context": protocol.max_context.map_or(json!("auto"), |tokens| json!(tokens)),
        "bos": protocol.bos,
        "clean_up_spaces": protocol.clean_up_spaces,
        "min_new_tokens": protocol.min_new_tokens,
        "code_similarity": is_code.then_some(protocol.code_similarity),
        "short_prompts": compressed.then_some(protocol.short_prompts),
        "numerics": shared.catalog.numerics_version,
        "metrics": METRIC_VERSION,
    });
    // named only where it is measured, so that it changes no other key
    if protocol.answer_kl_tokens > 0 {
        identity["answer_kl_tokens"] = json!(protocol.answer_kl_tokens);
    }
    identity
}

/// A path has many spellings and moves between machines; the short name stands for it, and the store refuses other
/// weights under the same name.
fn model_identity(model: &ResolvedModel) -> Value {
    match &model.source {
        ModelSource::Path(_) => json!({ "local": model.name }),
        source => json!(source),
    }
}

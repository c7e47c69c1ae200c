//! Turns the YAML document into a [`Spec`], key by key, and holds the table of all keys.
//! The table also feeds the JSON Schema and the documentation.

use ripplekv_metrics::CodeSimilarity;
use ripplekv_tasks::{BosRule, ChatRule};
use serde_json::Value as Json;

use crate::cell::{ModelSource, Query};
use crate::engine::{PrefillMode, ShortPrompts};
use crate::error::SpecError;
use crate::nearest::hint_for;
use crate::select::Limit;
use crate::spec::node::{Fields, Node};
use crate::spec::{
    MethodSpec, ModelSpec, ProtocolSpec, SPEC_SCHEMA, Spec, SpecSource, StoreKept, TasksSpec,
    TimingMode, stages,
};

type Result<T> = std::result::Result<T, SpecError>;

/// One key of the spec, for the schema and the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyInfo {
    /// Path, such as `tasks.limit`; `[]` stands for a list entry.
    pub path: &'static str,
    /// What may stand there.
    pub values: &'static str,
    /// One line on what it does.
    pub help: &'static str,
}

const fn key(path: &'static str, values: &'static str, help: &'static str) -> KeyInfo {
    KeyInfo { path, values, help }
}

/// Every key of the spec.
#[rustfmt::skip]
pub const KEYS: &[KeyInfo] = &[
    key("schema", "1", "version of this format"),
    key("name", "text", "name of the experiment and of its folder in results/; default: the file's name"),
    key("models", "list", "model names, or mappings with `path` or `hub`"),
    key("models[].name", "text", "name in folders and tables"),
    key("models[].path", "text", "local GGUF file or Hugging Face folder"),
    key("models[].hub", "text", "repository `org/name` of the Hugging Face hub"),
    key("models[].revision", "text", "branch, tag or commit of the hub repository; default: main"),
    key("models[].dtype", "f32", "number format to which weights are rounded: f16, bf16, or f32, which rounds none; sums and cache are f32"),
    key("tasks", "mapping", "which records to run"),
    key("tasks.pack", "text", "name or folder of the pack"),
    key("tasks.include", "list", "task and group names; default: every task of the pack"),
    key("tasks.limit", "10 | 10-20 | 5%", "which of the fitting records of each task to take; default: all"),
    key("tasks.max_prompt_tokens", "number", "leave out records whose prompt is longer, in tokens"),
    key("tasks.samples", "list", "ids of the records to take; default: all"),
    key("protocol", "mapping", "how prompts are made and answers scored"),
    key("protocol.query", "aware", "whether the question is seen before the cache is compressed"),
    key("protocol.chat_template", "auto | on | off", "auto: the official rule for each task"),
    key("protocol.max_context", "auto | number", "tokens before the middle is cut; auto: the official number for the model's window"),
    key("protocol.bos", "auto | on | off", "beginning-of-sequence token; auto: as the tokenizer says"),
    key("protocol.clean_up_spaces", "true | false", "remove blanks before punctuation as transformers' decode did; default: false"),
    key("protocol.min_new_tokens", "number", "tokens before an answer may end, on every task; default: 0"),
    key("protocol.code_similarity", "difflib | levenshtein", "which of the two official code scores; default: difflib"),
    key("protocol.short_prompts", "shrink | full | error", "what to do where a budget is below the must-keep set; default: shrink"),
    key("protocol.answer_kl_tokens", "number", "measure each cell's KL to the full cache over so many tokens of the full cache's own answer, at least 3; default: 0, none"),
    key("timing", "shared | alone", "shared: one prefill for all cells of a prompt, which decode together; alone: every cell by itself, for measuring what it costs; default: shared"),
    key("budgets", "list", "shares `10%`, tokens a layer `512`, or memory `64MiB`"),
    key("methods", "list", "method names, or mappings; may be absent beside `damage`"),
    key("methods[].name", "text", "name of the method"),
    key("methods[].label", "text", "name in tables; default: the method's name"),
    key("methods[].scorer", "text", "another scorer than the method's own"),
    key("methods[].allocator", "text", "another allocator than the method's own"),
    key("methods[].params", "mapping", "parameters; a list of values is a sweep"),
    key("prefill", "stream | snapshot", "compress each layer for all cells as soon as it is computed (least memory), or all layers once the last is; the same results; default: stream"),
    key("store_kept", "none | shown | all", "store which positions each cell kept, with the prompt's text: of the first prompt of each task, or of all; none: not even pieces of prompts; default: shown"),
    key("profile", "mapping", "how a model is profiled, where a method or `damage` needs its sensitivity"),
    key("profile.calibration", "text", "name or folder of the calibration pack; default: the one that ships"),
    key("profile.samples", "number", "records to use, in turn from the pack's tasks; default: 16"),
    key("profile.answer_tokens", "number", "most tokens of the full model's answer; default: 32"),
    key("profile.sigma", "auto | decimal", "noise scale; auto: the largest at which the KL still grows quadratically"),
    key("profile.sigma_samples", "number", "samples on which that is looked at; 0 leaves the check of a given scale out; default: 4"),
    key("profile.draws", "number", "noise draws, in antithetic pairs; default: 2"),
    key("profile.seed", "number", "seed of noise and resampling; default: 0"),
    key("profile.norm", "token | head | layer", "over what the norm is taken that the noise is proportional to; default: token"),
    key("profile.positions", "all | evictable", "which prompt positions get noise; evictable: neither the first 4 nor the last 64; default: all"),
    key("profile.inject", "cache | prefill", "noise enters the finished cache, or during the prefill; default: cache"),
    key("profile.first_token", "skip | reread", "leave the first answer token out, or read the last prompt token again; default: skip"),
    key("profile.stop_at_reliability", "none | decimal", "split-half reliability, between 0 and 1, at which sampling stops; default: none"),
    key("profile.signals", "true | false", "also measure the window entropies and hidden changes that `damage` ranks, and a control with noise in all layers; not part of the sensitivity; default: true"),
    key("damage", "mapping", "measure what really compressing single layers does"),
    key("damage.budgets", "list", "budgets; default: those of the spec"),
    key("damage.scorer", "text", "method whose scorer compresses; default: snapkv"),
    key("damage.params", "mapping", "parameters of that method"),
    key("damage.answer_tokens", "number", "most tokens of the full model's answer; default: 32"),
    key("damage.leave_in", "true | false", "also compress all layers but one; default: true"),
    key("damage.reference_nll", "true | false", "also measure the reference answer's likelihood; default: true"),
    key("damage.task_score", "true | false", "also measure task scores; default: true"),
    key("damage.joint", "true | false", "also compress all layers by each signal's allocation; default: true"),
    key("damage.r", "decimal", "r of those allocations; default: 4"),
    key("damage.gamma", "decimal", "gamma of those allocations; default: 2"),
    key("damage.center", "none | mean | geometric", "what the weights are divided by before clipping; default: mean"),
    key("damage.seed", "number", "seed of halves and random signals; default: 0"),
    key("damage.first_token", "skip | reread", "leave the first answer token out, or read the last prompt token again; default: skip"),
];

/// Keys of a method that exchange one of its parts; they are parameters to the catalog.
pub(crate) const PARTS: [&str; 2] = ["scorer", "allocator"];

/// Names of the keys directly below `parent`.
pub(crate) fn keys_below(parent: &str) -> Vec<&'static str> {
    KEYS.iter()
        .filter_map(|info| {
            let rest = info.path.strip_prefix(parent)?;
            (!rest.is_empty() && !rest.contains(['.', '['])).then_some(rest)
        })
        .collect()
}

/// Reads the whole document.
pub(crate) fn spec(source: SpecSource) -> Result<Spec> {
    let root = Node::root(&source);
    if !root.is_mapping() {
        return Err(root.error_with_hint(
            "a spec is a mapping of keys",
            "see experiments/quickstart.yaml for an example",
        ));
    }
    let fields = root.mapping(&keys_below(""))?;
    let schema = fields.required("schema")?;
    let version = schema.whole_number(1)?;
    if version != SPEC_SCHEMA {
        return Err(schema.error(format!(
            "this program reads schema {SPEC_SCHEMA}, the file has {version}"
        )));
    }
    let profile = fields.get("profile").as_ref().map(stages::profile);
    let damage = fields.get("damage").as_ref().map(stages::damage);
    let damage = damage.transpose()?;
    let methods = match fields.get("methods") {
        None if damage.is_some() => Vec::new(),
        _ => collect(fields.required("methods")?.sequence()?, method)?,
    };
    let budgets = match fields.get("budgets") {
        Some(node) => collect(node.one_or_more()?, |node| {
            node.text_or_number("a budget such as 10%, 512 or 64MiB")
        })?,
        None => Vec::new(),
    };
    let name = name(&fields, &root, &source)?;
    let models = collect(fields.required("models")?.one_or_more()?, model)?;
    let tasks = fields.get("tasks").map(tasks).transpose()?;
    let protocol = fields.get("protocol").map(protocol).transpose()?;
    let protocol = protocol.unwrap_or_default();
    let timing = fields.get("timing").map(|node| timing(&node, &protocol));
    let prefill = fields.get("prefill");
    let prefill = prefill.map(|node| node.choice(PREFILL)).transpose()?;
    let store_kept = fields.get("store_kept");
    let store_kept = store_kept.map(|node| node.choice(STORE_KEPT)).transpose()?;
    Ok(Spec {
        name,
        models,
        tasks: tasks.unwrap_or_default(),
        protocol,
        timing: timing.transpose()?.unwrap_or_default(),
        budgets,
        methods,
        profile: profile.transpose()?.unwrap_or_default(),
        damage,
        store_kept: store_kept.unwrap_or_default(),
        prefill: prefill.unwrap_or_default(),
        source: source.clone(),
    })
}

pub(crate) fn collect<'a, T>(
    nodes: Vec<Node<'a>>,
    read: impl Fn(Node<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    nodes.into_iter().map(read).collect()
}

fn name(fields: &Fields<'_>, root: &Node<'_>, source: &SpecSource) -> Result<String> {
    let Some(node) = fields.get("name") else {
        return source
            .file()
            .and_then(|file| Some(file.file_stem()?.to_str()?.to_owned()))
            .ok_or_else(|| root.error("the key 'name' is missing"));
    };
    let name = node.text()?;
    if !is_folder_name(&name) {
        return Err(node.error_with_hint(
            format!("'{name}' cannot be the name of a folder"),
            "use letters, digits, '-', '_' and '.', starting with a letter or digit",
        ));
    }
    Ok(name)
}

/// Whether a name is safe as a folder on every system.
pub(crate) fn is_folder_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
}

fn model(node: Node<'_>) -> Result<ModelSpec> {
    if !node.is_mapping() {
        return Ok(ModelSpec {
            name: None,
            source: ModelSource::Named(node.text()?),
            dtype: "f32".to_owned(),
        });
    }
    let fields = node.mapping(&keys_below("models[]."))?;
    let source = match (fields.get("path"), fields.get("hub")) {
        (Some(path), None) => {
            if let Some(revision) = fields.get("revision") {
                return Err(revision.error("a revision belongs to 'hub', not to 'path'"));
            }
            ModelSource::Path(path.text()?)
        }
        (None, Some(hub)) => hub_source(&hub, fields.get("revision"))?,
        (None, None) => {
            return Err(node.error_with_hint(
                "a model mapping needs 'path' or 'hub'",
                "a known model is written as its bare name; see `ripplekv ls models`",
            ));
        }
        (Some(_), Some(_)) => return Err(node.error("give 'path' or 'hub', not both")),
    };
    let name = fields
        .get("name")
        .map(|name| name.text().map(|text| (name, text)));
    let name = match name.transpose()? {
        Some((node, text)) if !is_folder_name(&text) => {
            return Err(node.error_with_hint(
                format!("'{text}' cannot be the name of a folder"),
                "use letters, digits, '-', '_' and '.', starting with a letter or digit",
            ));
        }
        other => other.map(|(_, text)| text),
    };
    let dtype = match fields.get("dtype") {
        Some(node) => node.choice(&[("f32", "f32"), ("f16", "f16"), ("bf16", "bf16")])?,
        None => "f32",
    };
    Ok(ModelSpec {
        name,
        source,
        dtype: dtype.to_owned(),
    })
}

fn hub_source(hub: &Node<'_>, revision: Option<Node<'_>>) -> Result<ModelSource> {
    let repository = hub.text()?;
    let parts: Vec<&str> = repository.split('/').collect();
    if parts.len() != 2 || parts.iter().any(|part| !is_folder_name(part)) {
        return Err(hub.error_with_hint(
            format!("expected 'org/name', found '{repository}'"),
            "write for example {hub: Qwen/Qwen2.5-7B-Instruct}; a local model is {path: ./folder-or-file.gguf}",
        ));
    }
    let revision = revision.map(|node| node.text_or_number("a branch, tag or commit"));
    Ok(ModelSource::Hub {
        repository,
        revision: revision.transpose()?.unwrap_or_else(|| "main".to_owned()),
    })
}

fn tasks(node: Node<'_>) -> Result<TasksSpec> {
    let fields = node.mapping(&keys_below("tasks."))?;
    let texts = |key: &str| match fields.get(key) {
        Some(node) => collect(node.one_or_more()?, |node| node.text_or_number("text")),
        None => Ok(Vec::new()),
    };
    let limit = match fields.get("limit") {
        Some(node) => {
            let text =
                node.text_or_number("a number, a range such as 10-20, or a share such as 5%")?;
            Some(Limit::parse(&text).map_err(|message| node.error(message))?)
        }
        None => None,
    };
    let whole = |key: &str| fields.get(key).map(|node| node.whole_number(1)).transpose();
    Ok(TasksSpec {
        pack: fields.get("pack").map(|node| node.text()).transpose()?,
        include: texts("include")?,
        limit,
        max_prompt_tokens: whole("max_prompt_tokens")?.map(to_usize),
        samples: texts("samples")?,
    })
}

pub(crate) fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

const TIMINGS: &[(&str, TimingMode)] =
    &[("shared", TimingMode::Shared), ("alone", TimingMode::Alone)];
const QUERIES: &[(&str, Query)] = &[("aware", Query::Aware), ("agnostic", Query::Agnostic)];
const CHAT_RULES: &[(&str, ChatRule)] = &[
    ("auto", ChatRule::Auto),
    ("on", ChatRule::On),
    ("off", ChatRule::Off),
];
const BOS_RULES: &[(&str, BosRule)] = &[
    ("auto", BosRule::Auto),
    ("on", BosRule::On),
    ("off", BosRule::Off),
];
const CODE_SIMILARITIES: &[(&str, CodeSimilarity)] = &[
    ("difflib", CodeSimilarity::Difflib),
    ("levenshtein", CodeSimilarity::Levenshtein),
];
const SHORT_PROMPTS: &[(&str, ShortPrompts)] = &[
    ("shrink", ShortPrompts::Shrink),
    ("full", ShortPrompts::Full),
    ("error", ShortPrompts::Error),
];

const PREFILL: &[(&str, PrefillMode)] = &[
    ("stream", PrefillMode::Stream),
    ("snapshot", PrefillMode::Snapshot),
];

const STORE_KEPT: &[(&str, StoreKept)] = &[
    ("none", StoreKept::None),
    ("shown", StoreKept::Shown),
    ("all", StoreKept::All),
];

fn protocol(node: Node<'_>) -> Result<ProtocolSpec> {
    let fields = node.mapping(&keys_below("protocol."))?;
    let mut protocol = ProtocolSpec::default();
    if let Some(node) = fields.get("query") {
        protocol.query = collect(node.one_or_more()?, query)?;
    }
    if let Some(node) = fields.get("chat_template") {
        protocol.chat_template = node.choice(CHAT_RULES)?;
    }
    if let Some(node) = fields.get("max_context") {
        protocol.max_context = match node.value.as_str() {
            Some("auto") => None,
            Some(_) => return Err(node.error("expected auto or a number of tokens")),
            None => Some(to_usize(node.whole_number(2)?)),
        };
    }
    if let Some(node) = fields.get("bos") {
        protocol.bos = node.choice(BOS_RULES)?;
    }
    if let Some(node) = fields.get("clean_up_spaces") {
        protocol.clean_up_spaces = node.boolean()?;
    }
    if let Some(node) = fields.get("min_new_tokens") {
        protocol.min_new_tokens = to_usize(node.whole_number(0)?);
    }
    if let Some(node) = fields.get("code_similarity") {
        protocol.code_similarity = node.choice(CODE_SIMILARITIES)?;
    }
    if let Some(node) = fields.get("short_prompts") {
        protocol.short_prompts = node.choice(SHORT_PROMPTS)?;
    }
    if let Some(node) = fields.get("answer_kl_tokens") {
        protocol.answer_kl_tokens = to_usize(node.whole_number(0)?);
        if (1..3).contains(&protocol.answer_kl_tokens) {
            return Err(node.error_with_hint(
                "must be 0, or at least 3",
                "the first token never depends on the cache, and a mean takes two; 32 is usual",
            ));
        }
    }
    Ok(protocol)
}

fn timing(node: &Node<'_>, protocol: &ProtocolSpec) -> Result<TimingMode> {
    let timing = node.choice(TIMINGS)?;
    if timing == TimingMode::Alone && protocol.answer_kl_tokens > 0 {
        return Err(node.error_with_hint(
            "'alone' cannot stand beside protocol.answer_kl_tokens, for which the full cache decodes along",
            "leave answer_kl_tokens out, or measure times in an experiment of their own",
        ));
    }
    Ok(timing)
}

fn query(node: Node<'_>) -> Result<Query> {
    match node.choice(QUERIES)? {
        Query::Aware => Ok(Query::Aware),
        Query::Agnostic => Err(node.error_with_hint(
            "'agnostic' is not implemented in this version",
            "use 'aware', the official LongBench protocol",
        )),
    }
}

fn method(node: Node<'_>) -> Result<MethodSpec> {
    if !node.is_mapping() {
        return Ok(MethodSpec {
            name: node.text()?,
            label: None,
            params: Vec::new(),
        });
    }
    let known = keys_below("methods[].");
    for (key, field) in node.open_mapping()?.entries() {
        if !known.contains(&key.as_str()) {
            let hint = match key.as_str() {
                "budget" | "budgets" => {
                    "budgets stand once at the top, for every method".to_owned()
                }
                other => hint_for(other, &known),
            };
            return Err(field.error_with_hint("unknown key", hint));
        }
    }
    let fields = node.mapping(&known)?;
    let mut params = Vec::new();
    for part in PARTS {
        if let Some(node) = fields.get(part) {
            let names = collect(node.one_or_more()?, |node| Ok(Json::String(node.text()?)))?;
            params.push((part.to_owned(), names));
        }
    }
    if let Some(node) = fields.get("params") {
        for (key, node) in node.open_mapping()?.entries() {
            if params.iter().any(|(known, _)| *known == key) {
                return Err(node.error("stands beside 'params' already"));
            }
            let values = collect(node.one_or_more()?, |node| json(&node))?;
            params.push((key, values));
        }
    }
    Ok(MethodSpec {
        name: fields.required("name")?.text()?,
        label: fields.get("label").map(|node| node.text()).transpose()?,
        params,
    })
}

/// A parameter's value as JSON: a number, a word or a truth value.
pub(crate) fn json(node: &Node<'_>) -> Result<Json> {
    if node.is_mapping() || node.is_sequence() {
        return Err(node.error("expected a number, a word, true or false"));
    }
    serde_json::to_value(node.value).map_err(|error| node.error(error.to_string()))
}

//! The keys `profile` and `damage`: the settings of the two stages, read with their ranges checked.
//! design.md 5 says what each setting means; a range that needs the pack or the model is checked later.

use serde_json::{Map, Value as Json};

use crate::engine::{FirstToken, Injection, NoiseNorm, NoisePositions};
use crate::error::SpecError;
use crate::spec::node::{Fields, Node};
use crate::spec::read::{collect, json, keys_below, to_usize};

type Result<T> = std::result::Result<T, SpecError>;

/// The key `profile`.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileSpec {
    /// Name or folder of the calibration pack; `default` is the one that ships.
    pub calibration: String,
    /// Most samples, at least 2.
    pub samples: usize,
    /// m: most answer tokens, at least 2.
    pub answer_tokens: usize,
    /// Noise scale above zero; `None` picks it by the slope rule.
    pub sigma: Option<f64>,
    /// Samples that the slope rule looks at; 0 only beside a given scale.
    pub sigma_samples: usize,
    /// Noise draws: even, as they come in antithetic pairs.
    pub draws: usize,
    /// Seed of noise and resampling.
    pub seed: u64,
    /// What the noise is proportional to.
    pub norm: NoiseNorm,
    /// Which positions get noise.
    pub positions: NoisePositions,
    /// When the noise enters.
    pub inject: Injection,
    /// What is done about the first answer token.
    pub first_token: FirstToken,
    /// Corrected split-half reliability, between 0 and 1, at which sampling stops.
    pub stop_at_reliability: Option<f64>,
    /// Whether the signals that `damage` ranks beside the sensitivity are measured, and the control.
    pub signals: bool,
}

impl Default for ProfileSpec {
    fn default() -> Self {
        Self {
            calibration: DEFAULT_CALIBRATION.to_owned(),
            samples: 16,
            answer_tokens: 32,
            sigma: None,
            sigma_samples: 4,
            draws: 2,
            seed: 0,
            norm: NoiseNorm::Token,
            positions: NoisePositions::All,
            inject: Injection::Cache,
            first_token: FirstToken::Skip,
            stop_at_reliability: None,
            signals: true,
        }
    }
}

/// Stands for the pack that ships with the program.
pub const DEFAULT_CALIBRATION: &str = "default";

/// The key `damage`.
#[derive(Debug, Clone, PartialEq)]
pub struct DamageSpec {
    /// Budget texts; empty means the spec's own.
    pub budgets: Vec<String>,
    /// Name of a method with a scorer.
    pub scorer: String,
    /// Parameters of that method.
    pub params: Map<String, Json>,
    /// m: most answer tokens compared, at least 2.
    pub answer_tokens: usize,
    /// Whether each layer is also restored in a compressed whole.
    pub leave_in: bool,
    /// Whether the reference answer's likelihood is measured.
    pub reference_nll: bool,
    /// Whether task scores are measured.
    pub task_score: bool,
    /// Whether joint allocations are measured.
    pub joint: bool,
    /// r of the joint allocations, above zero.
    pub r: f64,
    /// gamma of the joint allocations, at least 1.
    pub gamma: f64,
    /// What the weights of the joint allocations are divided by before clipping.
    pub center: String,
    /// Seed of halves and random signals.
    pub seed: u64,
    /// What is done about the first answer token.
    pub first_token: FirstToken,
}

impl Default for DamageSpec {
    fn default() -> Self {
        Self {
            budgets: Vec::new(),
            scorer: "snapkv".to_owned(),
            params: Map::new(),
            answer_tokens: 32,
            leave_in: true,
            reference_nll: true,
            task_score: true,
            joint: true,
            r: 4.0,
            gamma: 2.0,
            center: "mean".to_owned(),
            seed: 0,
            first_token: FirstToken::Skip,
        }
    }
}

const NORMS: &[(&str, NoiseNorm)] = &[
    ("token", NoiseNorm::Token),
    ("head", NoiseNorm::Head),
    ("layer", NoiseNorm::Layer),
];
const POSITIONS: &[(&str, NoisePositions)] = &[
    ("all", NoisePositions::All),
    ("evictable", NoisePositions::Evictable),
];
const INJECTIONS: &[(&str, Injection)] =
    &[("cache", Injection::Cache), ("prefill", Injection::Prefill)];
const FIRST_TOKENS: &[(&str, FirstToken)] =
    &[("skip", FirstToken::Skip), ("reread", FirstToken::Reread)];
const CENTERS: &[(&str, &str)] = &[
    ("none", "none"),
    ("mean", "mean"),
    ("geometric", "geometric"),
];

/// Least answer tokens: the first one comes from the dense prefill.
const LEAST_ANSWER_TOKENS: u64 = 2;

pub(crate) fn profile(node: &Node<'_>) -> Result<ProfileSpec> {
    let fields = node.mapping(&keys_below("profile."))?;
    let mut profile = ProfileSpec::default();
    if let Some(node) = fields.get("calibration") {
        profile.calibration = node.text()?;
    }
    if let Some(node) = fields.get("samples") {
        profile.samples = match node.whole_number(1)? {
            1 => {
                return Err(node.error_with_hint(
                    "one sample cannot tell layers from chance",
                    "write at least 2; 16 is the default",
                ));
            }
            samples => to_usize(samples),
        };
    }
    whole(
        &fields,
        "answer_tokens",
        LEAST_ANSWER_TOKENS,
        &mut profile.answer_tokens,
    )?;
    if let Some(node) = fields.get("sigma")
        && node.value.as_str() != Some("auto")
    {
        let sigma = node.number("auto or a number above zero")?;
        if sigma <= 0.0 {
            return Err(node.error_with_hint(
                format!("a noise scale of {sigma} perturbs nothing"),
                "write auto, or a number above zero such as 0.1",
            ));
        }
        profile.sigma = Some(sigma);
    }
    whole(&fields, "sigma_samples", 0, &mut profile.sigma_samples)?;
    if profile.sigma_samples == 0 && profile.sigma.is_none() {
        let node = fields.get("sigma_samples").unwrap_or_else(|| node.clone());
        return Err(node.error_with_hint(
            "the noise scale is picked on at least one sample",
            "write a number above zero, or give `sigma`",
        ));
    }
    if let Some(node) = fields.get("draws") {
        let draws = node.whole_number(0)?;
        if draws == 0 || draws % 2 == 1 {
            return Err(node.error_with_hint(
                format!("{draws} draws do not make antithetic pairs"),
                "write an even number above zero; 2 is the default",
            ));
        }
        profile.draws = to_usize(draws);
    }
    if let Some(node) = fields.get("seed") {
        profile.seed = node.whole_number(0)?;
    }
    choose(&fields, "norm", NORMS, &mut profile.norm)?;
    choose(&fields, "positions", POSITIONS, &mut profile.positions)?;
    choose(&fields, "inject", INJECTIONS, &mut profile.inject)?;
    choose(
        &fields,
        "first_token",
        FIRST_TOKENS,
        &mut profile.first_token,
    )?;
    if let Some(node) = fields.get("answer_tokens")
        && profile.answer_tokens == 2
        && (profile.inject, profile.first_token) == (Injection::Cache, FirstToken::Skip)
    {
        return Err(node.error_with_hint(
            "2 tokens without the first leave one position to average, 2 are needed",
            "write at least 3, or first_token: reread",
        ));
    }
    if let Some(node) = fields.get("first_token")
        && (profile.inject, profile.first_token) == (Injection::Prefill, FirstToken::Reread)
    {
        return Err(node.error_with_hint(
            "with inject: prefill the first token comes from a perturbed prefill of its own and is never read again",
            "leave first_token out; every position counts",
        ));
    }
    if let Some(node) = fields.get("stop_at_reliability")
        && node.value.as_str() != Some("none")
    {
        let wanted = "none or a number between 0 and 1";
        let reliability = node.number(wanted)?;
        if reliability <= 0.0 || reliability >= 1.0 {
            return Err(node.error(format!("expected {wanted}, found {reliability}")));
        }
        profile.stop_at_reliability = Some(reliability);
    }
    flag(&fields, "signals", &mut profile.signals)?;
    Ok(profile)
}

pub(crate) fn damage(node: &Node<'_>) -> Result<DamageSpec> {
    let fields = node.mapping(&keys_below("damage."))?;
    let mut damage = DamageSpec::default();
    if let Some(node) = fields.get("budgets") {
        damage.budgets = collect(node.one_or_more()?, |node| {
            node.text_or_number("a budget such as 10%, 512 or 64MiB")
        })?;
    }
    if let Some(node) = fields.get("scorer") {
        damage.scorer = node.text()?;
    }
    if let Some(node) = fields.get("params") {
        for (key, node) in node.open_mapping()?.entries() {
            damage.params.insert(key, json(&node)?);
        }
    }
    whole(
        &fields,
        "answer_tokens",
        LEAST_ANSWER_TOKENS,
        &mut damage.answer_tokens,
    )?;
    flag(&fields, "leave_in", &mut damage.leave_in)?;
    flag(&fields, "reference_nll", &mut damage.reference_nll)?;
    flag(&fields, "task_score", &mut damage.task_score)?;
    flag(&fields, "joint", &mut damage.joint)?;
    if let Some(node) = fields.get("r") {
        damage.r = node.number("a number above zero")?;
        if damage.r <= 0.0 {
            return Err(node.error(format!("expected a number above zero, found {}", damage.r)));
        }
    }
    if let Some(node) = fields.get("gamma") {
        damage.gamma = node.number("a number of at least 1")?;
        if damage.gamma < 1.0 {
            return Err(node.error(format!(
                "expected a number of at least 1, found {}",
                damage.gamma
            )));
        }
    }
    let mut center = "mean";
    choose(&fields, "center", CENTERS, &mut center)?;
    damage.center = center.to_owned();
    if let Some(node) = fields.get("seed") {
        damage.seed = node.whole_number(0)?;
    }
    choose(
        &fields,
        "first_token",
        FIRST_TOKENS,
        &mut damage.first_token,
    )?;
    if let Some(node) = fields.get("answer_tokens")
        && damage.answer_tokens == 2
        && damage.first_token == FirstToken::Skip
    {
        return Err(node.error_with_hint(
            "2 tokens without the first leave one position to average, 2 are needed",
            "write at least 3, or first_token: reread",
        ));
    }
    Ok(damage)
}

fn whole(fields: &Fields<'_>, key: &str, least: u64, target: &mut usize) -> Result<()> {
    if let Some(node) = fields.get(key) {
        *target = to_usize(node.whole_number(least)?);
    }
    Ok(())
}

fn flag(fields: &Fields<'_>, key: &str, target: &mut bool) -> Result<()> {
    if let Some(node) = fields.get(key) {
        *target = node.boolean()?;
    }
    Ok(())
}

fn choose<T: Copy>(
    fields: &Fields<'_>,
    key: &str,
    choices: &[(&str, T)],
    target: &mut T,
) -> Result<()> {
    if let Some(node) = fields.get(key) {
        *target = node.choice(choices)?;
    }
    Ok(())
}

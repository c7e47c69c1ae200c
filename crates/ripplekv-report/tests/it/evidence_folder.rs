//! Writes made-up profiles and damage with the runner's own types and hashes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ripplekv_runner::damage::{
    DAMAGE_SCHEMA, DamageHead, DamageRecipe, DamageSample, JointSample, LayerDamage, joint_names,
};
use ripplekv_runner::engine::{FirstToken, Injection, NoiseNorm, NoisePositions};
use ripplekv_runner::profile::{
    LayerSensitivity, PROFILE_SCHEMA, ProfileDocument, ProfileModel, ProfileRecipe, ProfileSample,
    Reliability, SigmaChoice,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::results_folder::line;

/// What is in the made-up files.
pub(crate) struct Layers {
    pub(crate) model: &'static str,
    pub(crate) layers: usize,
    pub(crate) profile_samples: usize,
    pub(crate) damage_samples: usize,
    pub(crate) budgets: Vec<&'static str>,
    /// How far damage follows sensitivity: 1 wholly, 0 not at all.
    pub(crate) agreement: f64,
}

impl Layers {
    pub(crate) fn realistic() -> Layers {
        Layers {
            model: "smollm2-135m-instruct-q4",
            layers: 30,
            profile_samples: 16,
            damage_samples: 40,
            budgets: vec!["10%", "20%", "40%"],
            agreement: 0.8,
        }
    }

    /// A curve with a peak before the middle and spikes, over two decades.
    fn truth(&self, layer: usize) -> f64 {
        let depth = layer as f64 / (self.layers.max(2) - 1) as f64;
        let peak = (-((depth - 0.35) / 0.22).powi(2)).exp();
        0.0008 * (0.15 + peak) * (1.2 * noise("spike", layer, 0) + 0.3).exp()
    }

    fn other(&self, layer: usize) -> f64 {
        0.0008 * (0.3 + 1.5 * noise("other", layer, 0)).exp()
    }

    fn sensitivity(&self, layer: usize, sample: usize) -> f64 {
        self.truth(layer) * (0.8 * (noise("profile", layer, sample) - 0.5)).exp()
    }

    fn damage(&self, layer: usize, sample: usize, share: f64) -> f64 {
        let mixed = self.agreement * self.truth(layer).ln()
            + (1.0 - self.agreement) * self.other(layer).ln();
        let level = (0.1 / share).powf(1.2) * (noise("sample", 0, sample) * 2.0).exp();
        30.0 * level * (mixed + 1.4 * (noise("damage", layer, sample) - 0.5)).exp()
    }

    pub(crate) fn profile(&self) -> ProfileDocument {
        let samples: Vec<ProfileSample> = (0..self.profile_samples)
            .map(|sample| {
                let over = |value: &dyn Fn(usize) -> f64| (0..self.layers).map(value).collect();
                ProfileSample {
                    task: "prose".to_owned(),
                    sample: format!("s{sample}"),
                    prompt_tokens: 2000,
                    answer_tokens: 32,
                    positions: 31,
                    kl: over(&|layer| self.sensitivity(layer, sample)),
                    local_response: over(&|layer| {
                        0.1 + 0.05 * noise("local", layer, 0) + 0.01 * noise("local", layer, sample)
                    }),
                    window_entropy: over(&|layer| {
                        3.0 + noise("entropy", layer, 0) + 0.1 * noise("entropy", layer, sample)
                    }),
                    hidden_change: over(&|layer| {
                        0.3 - 0.005 * layer as f64 + 0.01 * noise("hidden", layer, sample)
                    }),
                    all_layers_kl: Some(0.9),
                }
            })
            .collect();
        let sensitivity = (0..self.layers)
            .map(|layer| {
                let mut values: Vec<f64> = samples.iter().map(|sample| sample.kl[layer]).collect();
                values.sort_by(f64::total_cmp);
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                LayerSensitivity {
                    mean,
                    median: values[values.len() / 2],
                    p90: values[values.len() * 9 / 10],
                    low: 0.9 * mean,
                    high: 1.1 * mean,
                }
            })
            .collect();
        let mut profile = ProfileDocument {
            schema: PROFILE_SCHEMA,
            recipe_hash: "recipe of the profile".to_owned(),
            content_hash: String::new(),
            recipe: ProfileRecipe {
                calibration: "calibration".to_owned(),
                data_hash: "d".to_owned(),
                samples: self.profile_samples,
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
                protocol: json!({}),
                numerics: 1,
            },
            model: ProfileModel {
                name: self.model.to_owned(),
                model_hash: "m".to_owned(),
                tokenizer_hash: "t".to_owned(),
                template_hash: None,
                layers: self.layers,
                dtype: "f32".to_owned(),
            },
            sigma: SigmaChoice {
                chosen: 0.1,
                given: false,
                ladder: Vec::new(),
            },
            sensitivity,
            reliability: (self.profile_samples > 3).then_some(Reliability {
                split_half: 0.93,
                spearman_brown: 0.964,
                splits: 100,
            }),
            stopped_early: false,
            samples,
            dropped: Vec::new(),
        };
        profile.content_hash = content_hash(&profile);
        profile
    }

    pub(crate) fn samples(&self) -> Vec<DamageSample> {
        (0..self.damage_samples)
            .map(|sample| {
                let budgets = self.budgets.iter().map(|budget| {
                    let share = percent(budget);
                    let over = |value: &dyn Fn(usize) -> f64| (0..self.layers).map(value).collect();
                    let layers = LayerDamage {
                        layer_tokens: vec![(2000.0 * share) as u32; self.layers],
                        kl: over(&|layer| self.damage(layer, sample, share)),
                        leave_in_kl: over(&|layer| {
                            1.0 / share - 20.0 * self.damage(layer, sample, share)
                        }),
                        reference_nll_change: over(&|layer| {
                            self.damage(layer, sample, share) - 0.01 * noise("nll", layer, sample)
                        }),
                        score_drop: vec![0.0; self.layers],
                    };
                    ((*budget).to_owned(), layers)
                });
                DamageSample {
                    schema: DAMAGE_SCHEMA,
                    recipe: RECIPE.to_owned(),
                    task: ["logbook_qa", "dossier_qa"][sample % 2].to_owned(),
                    sample: format!("d{sample:03}"),
                    prompt_tokens: 2000,
                    positions: 31,
                    full_score: Some(50.0),
                    budgets: budgets.collect(),
                    dropped: None,
                    warnings: Vec::new(),
                }
            })
            .collect()
    }

    fn joint(&self, recipe: &str, samples: &[DamageSample]) -> Vec<JointSample> {
        let one = |place: usize, sample: &DamageSample| {
            let budgets = sample.budgets.iter().map(|(budget, layers)| {
                let total: f64 = layers.kl.iter().sum();
                let allocations = joint_names().into_iter().enumerate().map(|(rank, name)| {
                    let factor = match name.as_str() {
                        "uniform" => 1.0,
                        "oracle" => 0.86,
                        "sensitivity" => 0.9,
                        _ => 0.97 + 0.02 * rank as f64,
                    };
                    let jitter = 1.0 + 0.05 * (noise(&name, rank, place) - 0.5);
                    (name, 1.3 * total * factor * jitter)
                });
                (budget.clone(), allocations.collect())
            });
            JointSample {
                schema: DAMAGE_SCHEMA,
                recipe: recipe.to_owned(),
                task: sample.task.clone(),
                sample: sample.sample.clone(),
                half: (place / 2 % 2) as u8,
                budgets: budgets.collect(),
                moved: BTreeMap::new(),
            }
        };
        samples
            .iter()
            .enumerate()
            .map(|(place, sample)| one(place, sample))
            .collect()
    }

    /// Writes the profile, and damage that was measured with it.
    pub(crate) fn write(&self, folder: &Path) {
        let profile = self.profile();
        self.write_profile(folder, &profile);
        let samples = self.samples();
        let head = DamageHead {
            schema: DAMAGE_SCHEMA,
            recipe_hash: RECIPE.to_owned(),
            recipe: DamageRecipe {
                method: "snapkv".to_owned(),
                params: json!({}),
                budgets: self.budgets.iter().map(|text| (*text).to_owned()).collect(),
                answer_tokens: 32,
                leave_in: true,
                reference_nll: true,
                task_score: true,
                joint: true,
                mapping: json!({"r": 4.0, "gamma": 4.0, "center": "none"}),
                seed: 0,
                first_token: FirstToken::Skip,
                protocol: json!({}),
            },
            model: self.model.to_owned(),
            model_hash: "m".to_owned(),
            tokenizer_hash: "t".to_owned(),
            layers: self.layers,
            profile_hash: profile.content_hash.clone(),
            selected: samples
                .iter()
                .map(|sample| format!("{}/{}", sample.task, sample.sample))
                .collect(),
        };
        let mut hasher = blake3::Hasher::new();
        for sample in &samples {
            hasher.update(canonical(&json!(sample)).as_bytes());
        }
        let joint_recipe = hash(&json!({
            "recipe": head.recipe_hash,
            "profile": head.profile_hash,
            "selected": head.selected,
            "samples": hasher.finalize().to_hex().as_str(),
        }));
        let damage = folder.join("damage").join(self.model);
        fs::create_dir_all(&damage).unwrap();
        fs::write(damage.join("recipe.json"), json!(head).to_string()).unwrap();
        write_lines(&damage.join("samples.jsonl"), &samples);
        write_lines(
            &damage.join("joint.jsonl"),
            &self.joint(&joint_recipe, &samples),
        );
    }

    pub(crate) fn write_profile(&self, folder: &Path, profile: &ProfileDocument) {
        let profiles = folder.join("profiles");
        fs::create_dir_all(&profiles).unwrap();
        let path = profiles.join(format!("{}.json", self.model));
        fs::write(path, json!(profile).to_string()).unwrap();
    }
}

const RECIPE: &str = "recipe of the damage";

/// As the runner computes it, of the document without this field.
pub(crate) fn content_hash(profile: &ProfileDocument) -> String {
    let mut value = json!(profile);
    value.as_object_mut().unwrap().remove("content_hash");
    hash(&value)
}

fn hash(value: &Value) -> String {
    blake3::hash(canonical(value).as_bytes())
        .to_hex()
        .to_string()
}

/// Keys sorted, no blanks.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            let pairs = sorted
                .into_iter()
                .map(|(key, value)| format!("{}:{}", Value::String(key.clone()), canonical(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        scalar => scalar.to_string(),
    }
}

fn write_lines(path: &Path, lines: &[impl Serialize]) {
    let text: String = lines.iter().map(line).collect();
    fs::write(path, text).unwrap();
}

fn percent(budget: &str) -> f64 {
    budget.trim_end_matches('%').parse::<f64>().unwrap() / 100.0
}

/// In [0, 1), from the arguments alone.
fn noise(kind: &str, layer: usize, sample: usize) -> f64 {
    let digest = blake3::hash(format!("{kind} {layer} {sample}").as_bytes());
    f64::from(u16::from_le_bytes([
        digest.as_bytes()[0],
        digest.as_bytes()[1],
    ])) / 65536.0
}

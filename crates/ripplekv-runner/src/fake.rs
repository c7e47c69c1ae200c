//! An engine without a model: deterministic, instant, counts its calls. For tests of everything above the seam.
//! Its answers are words of the prompt chosen by hash, so scores and texts mean nothing.

mod catalog;
mod damage;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ripplekv_tasks::Tokenise;
use ripplekv_tasks::testing::WordTokenizer;

use crate::canonical::canonical_json;
use crate::cell::{ModelSource, ResolvedModel};
use crate::engine::{
    Availability, CellRequest, CellResult, DamageOutput, DamageRequest, Engine, EngineError,
    Finish, KeptSets, Loader, ModelIdentity, ModelShape, PromptOutput, PromptRequest,
    SensitivityNews, SensitivityOutput, SensitivityRequest, ShortPrompts,
};
use crate::kept::kept_hash;

pub use catalog::catalog;
use catalog::{number, total_entries};

/// Layers of the fake model.
pub const LAYERS: usize = 4;

/// KV heads of one layer of the fake model.
pub const KV_HEADS: usize = 2;

/// What the engine was asked for: the prompt's length and the cells' keys.
pub type Call = (usize, Vec<String>);

/// What a sensitivity was asked for: the sample's name, the number of noise scales, and whether with signals.
pub type Measured = (String, usize, bool);

/// Opens fake models. Clones share their list of calls.
#[derive(Debug, Clone, Default)]
pub struct FakeLoader {
    delay: Duration,
    failing_word: Option<String>,
    weights: String,
    calls: Arc<Mutex<Vec<Call>>>,
    measured: Arc<Mutex<Vec<Measured>>>,
    loads: Arc<AtomicUsize>,
}

impl FakeLoader {
    /// Lets each prompt take so long.
    #[must_use]
    pub fn with_delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Lets every prompt fail that holds this word.
    #[must_use]
    pub fn with_failing_word(mut self, word: &str) -> Self {
        self.failing_word = Some(word.to_owned());
        self
    }

    /// Stands for other weights: another text is another model.
    #[must_use]
    pub fn with_weights(mut self, weights: &str) -> Self {
        self.weights = weights.to_owned();
        self
    }

    /// Everything the engines of this loader were asked for.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Calibration samples whose sensitivity was asked for.
    #[must_use]
    pub fn measured(&self) -> Vec<Measured> {
        self.measured
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// How often weights were loaded.
    #[must_use]
    pub fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }
}

fn shape() -> ModelShape {
    ModelShape {
        architecture: "fake".to_owned(),
        layers: LAYERS,
        heads: 4,
        kv_heads: KV_HEADS,
        head_dim: 8,
        hidden_size: 32,
        intermediate_size: 64,
        vocab_size: 1024,
        context_length: 4096,
        parameters: 1,
        weight_bytes: 4,
    }
}

fn tokenizer() -> WordTokenizer {
    WordTokenizer::new().with_chat("<user> ", " <answer>")
}

impl Loader for FakeLoader {
    fn availability(&self, model: &ResolvedModel) -> Availability {
        match &model.source {
            ModelSource::Named(name) if name == "absent" => {
                Availability::NotChecked("the weights are not here".to_owned())
            }
            ModelSource::Path(path) => {
                Availability::Broken(format!("{path}: no such file or folder"))
            }
            _ => Availability::Present,
        }
    }

    fn shape(&self, _model: &ResolvedModel) -> Result<ModelShape, EngineError> {
        Ok(shape())
    }

    fn tokenizer(&self, _model: &ResolvedModel) -> Result<Arc<dyn Tokenise>, EngineError> {
        Ok(Arc::new(tokenizer()))
    }

    fn load(&self, model: &ResolvedModel) -> Result<Box<dyn Engine>, EngineError> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        let words = tokenizer();
        let failing_id = match &self.failing_word {
            Some(word) => words
                .encode(&format!(" {word}"), false)
                .map_err(|error| EngineError::Model(error.to_string()))?
                .first()
                .copied(),
            None => None,
        };
        Ok(Box::new(FakeEngine {
            loader: self.clone(),
            identity: ModelIdentity {
                name: model.name.clone(),
                shape: shape(),
                model_hash: blake3::hash(self.weights.as_bytes()).to_hex().to_string(),
                tokenizer_hash: "fake words".to_owned(),
                template_hash: None,
                dtype: model.dtype.clone(),
                device: "cpu, faked".to_owned(),
            },
            tokenizer: Arc::new(words),
            failing_id,
        }))
    }
}

struct FakeEngine {
    loader: FakeLoader,
    identity: ModelIdentity,
    tokenizer: Arc<dyn Tokenise>,
    failing_id: Option<u32>,
}

impl Engine for FakeEngine {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn tokenizer(&self) -> Arc<dyn Tokenise> {
        Arc::clone(&self.tokenizer)
    }

    fn evaluate(&mut self, request: &PromptRequest<'_>) -> Result<PromptOutput, EngineError> {
        std::thread::sleep(self.loader.delay);
        let keys = request
            .cells
            .iter()
            .map(|cell| cell.key.0.clone())
            .collect();
        self.loader
            .calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((request.ids.len(), keys));
        if self.failing_id.is_some_and(|id| request.ids.contains(&id)) {
            return Err(EngineError::Prompt("the failing word is in it".to_owned()));
        }
        Ok(PromptOutput {
            prefill_ms: 1.0,
            cells: request
                .cells
                .iter()
                .map(|cell| answer(request, cell))
                .collect(),
        })
    }

    fn sensitivity(
        &mut self,
        requests: &[SensitivityRequest<'_>],
        tell: &mut dyn FnMut(usize, SensitivityNews) -> ControlFlow<()>,
    ) {
        for place in 0..requests.len() {
            if tell(place, SensitivityNews::Begins).is_break() {
                return;
            }
        }
        for (place, request) in requests.iter().enumerate() {
            std::thread::sleep(self.loader.delay);
            self.loader
                .measured
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((
                    request.sample.to_owned(),
                    request.sigmas.len(),
                    request.signals,
                ));
            let fails = self.failing_id.is_some_and(|id| request.ids.contains(&id));
            let result = if fails {
                Err(EngineError::Prompt("the failing word is in it".to_owned()))
            } else {
                for layer in 1..=LAYERS {
                    let _ = tell(place, SensitivityNews::Layers(layer));
                }
                Ok(made_up_sensitivity(request))
            };
            if tell(place, SensitivityNews::Done(result)).is_break() {
                return;
            }
        }
    }

    fn damage(
        &mut self,
        request: &DamageRequest<'_>,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<DamageOutput, EngineError> {
        std::thread::sleep(self.loader.delay);
        let asked = if request.single_layers {
            "damage"
        } else {
            "joint damage"
        };
        self.loader
            .calls
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push((request.ids.len(), vec![asked.to_owned()]));
        if self.failing_id.is_some_and(|id| request.ids.contains(&id)) {
            return Err(EngineError::Prompt("the failing word is in it".to_owned()));
        }
        Ok(damage::damage(request, on_layer))
    }
}

/// Grows with the square of the noise up to [`QUADRATIC_UP_TO`] and not beyond, differs by layer, and a little by sample.
fn made_up_sensitivity(request: &SensitivityRequest<'_>) -> SensitivityOutput {
    const LAYER_KL: [f64; LAYERS] = [1.0, 8.0, 2.0, 4.0];
    let chance = |layer: usize| {
        let name = format!("{} {} {layer}", request.seed, request.sample);
        f64::from(blake3::hash(name.as_bytes()).as_bytes()[0]) / 255.0
    };
    let kl = |sigma: f64, layer: usize| {
        let sigma = sigma.min(QUADRATIC_UP_TO);
        sigma * sigma * LAYER_KL[layer] * (0.8 + 0.4 * chance(layer))
    };
    let by_layer = |of: &dyn Fn(usize) -> f64| (0..LAYERS).map(of).collect::<Vec<f64>>();
    let rows: Vec<Vec<f64>> = request
        .sigmas
        .iter()
        .map(|sigma| by_layer(&|layer| kl(*sigma, layer)))
        .collect();
    let answer = request.answer_tokens.min(request.ids.len());
    let signal = |values: Vec<f64>| if request.signals { values } else { Vec::new() };
    SensitivityOutput {
        answer_ids: request.ids[..answer].to_vec(),
        positions: answer.saturating_sub(1),
        local_response: request
            .sigmas
            .iter()
            .map(|sigma| by_layer(&|layer| sigma / (1.0 + layer as f64)))
            .collect(),
        all_layers_kl: signal(
            rows.iter()
                .map(|row| 2.0 * row.iter().sum::<f64>())
                .collect(),
        ),
        kl: rows,
        window_entropy: signal(by_layer(&|layer| 1.0 + chance(layer))),
        hidden_change: signal(by_layer(&|layer| 0.1 * (1.0 + layer as f64))),
    }
}

/// Noise scale up to which the made-up KL is quadratic.
const QUADRATIC_UP_TO: f64 = 0.1;

/// Keeps an even share of the prompt in every layer and answers with words of the prompt.
fn answer(request: &PromptRequest<'_>, cell: &CellRequest<'_>) -> Result<CellResult, EngineError> {
    let n = request.ids.len();
    let everything = (n * LAYERS) as u64;
    let budget_entries = cell
        .budget
        .map(|budget| total_entries(budget, n, LAYERS, 0));
    let must_keep = number(&cell.method.params, "window").max(number(&cell.method.params, "sinks"));
    let mean = budget_entries.unwrap_or(everything) as usize / LAYERS;
    let short = must_keep > mean && mean < n;
    let shrinks = short && request.short_prompts == ShortPrompts::Shrink;
    if shrinks && mean < 2 {
        return Err(EngineError::Prompt(format!(
            "budget of {mean} entries a layer leaves no room for a window"
        )));
    }
    let window = if shrinks { mean / 2 } else { must_keep.min(n) };
    let kept = match budget_entries {
        Some(total) if !short || shrinks => total,
        _ => everything,
    };
    let kept_per_layer: Vec<u32> = (0..LAYERS as u64)
        .map(|layer| ((kept + LAYERS as u64 - 1 - layer) / LAYERS as u64) as u32)
        .collect();
    let signals = if cell.method.name == "ripplekv" {
        format!("{:?}", request.signals)
    } else {
        String::new()
    };
    let recipe = format!(
        "{} {} {kept}{signals}",
        cell.method.name,
        canonical_json(&cell.method.params)
    );
    let hash = blake3::hash(recipe.as_bytes());
    let mut output_ids: Vec<u32> = hash
        .as_bytes()
        .iter()
        .take(request.max_new_tokens.min(4))
        .map(|byte| request.ids[usize::from(*byte) % n])
        .collect();
    let sets = (kept < everything).then(|| made_up_sets(&kept_per_layer, n, hash.as_bytes()[0]));
    let finish = match request.stop.end_tokens.first() {
        Some(end) if output_ids.len() < request.max_new_tokens => {
            output_ids.push(*end);
            Finish::Stop
        }
        _ => Finish::Length,
    };
    Ok(CellResult {
        output_ids,
        finish,
        budget_entries,
        kept_per_layer,
        cache_bytes: kept * 2 * 2 * 8 * 4,
        kept_hash: kept_hash(sets.as_ref()),
        kept: sets.filter(|_| request.want_kept),
        must_keep_tokens: window as u32,
        short_prompt: short,
        answer_kl: (request.answer_kl_tokens > 0).then_some((everything - kept) as f64 / 1e3),
        warnings: vec!["made up by the fake engine".to_owned()],
        compress_ms: 0.1,
        decode_ms: 0.5,
    })
}

/// Positions of `n` spread evenly in every layer and KV head, begun at a place that method and head choose.
fn made_up_sets(kept_per_layer: &[u32], n: usize, place: u8) -> KeptSets {
    let head_set = |kept: usize, head: usize| {
        let begin = usize::from(place) + head;
        let mut set: Vec<u32> = (0..kept)
            .map(|entry| ((begin + entry * n / kept) % n) as u32)
            .collect();
        set.sort_unstable();
        set
    };
    kept_per_layer
        .iter()
        .map(|kept| {
            (0..KV_HEADS)
                .map(|head| head_set(*kept as usize, head))
                .collect()
        })
        .collect()
}

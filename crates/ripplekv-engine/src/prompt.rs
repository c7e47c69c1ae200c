//! One prompt for many cells: prefill once, compress per cell, decode cells with equal kept sets once.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use ripplekv_cache::{CompressedCache, CompressedLayer, KeptLayer, LayerState, Method, Needs};
use ripplekv_model::{Decoder, PrefillOptions};
use ripplekv_runner::engine::{
    CellRequest, CellResult, DamageOutput, DamageRequest, Engine, EngineError, ModelIdentity,
    PrefillMode, PromptOutput, PromptRequest, SensitivityNews, SensitivityRequest,
};
use ripplekv_tasks::Tokenise;

use crate::compress::{CellPlan, KeptCell, PromptShape, ScoreCache, everything, plan_cell};
use crate::damage::damage;
use crate::decode::{Continuation, Start, decode_rows};
use crate::forced::answer_kl;
use crate::sensitivity::sensitivity;
use crate::tokenise::ModelTokenizer;

/// A loaded model that answers prompts.
pub struct ModelEngine {
    decoder: Box<dyn Decoder>,
    tokenizer: Arc<ModelTokenizer>,
    identity: ModelIdentity,
}

/// A cell between compression and decoding.
struct Prepared {
    cell: KeptCell,
    row: usize,
    compress_ms: f64,
}

impl ModelEngine {
    /// From a loaded decoder.
    #[must_use]
    pub fn new(
        decoder: Box<dyn Decoder>,
        tokenizer: Arc<ModelTokenizer>,
        identity: ModelIdentity,
    ) -> Self {
        Self {
            decoder,
            tokenizer,
            identity,
        }
    }

    /// The decoder, for callers that need logits.
    #[must_use]
    pub fn decoder(&self) -> &dyn Decoder {
        self.decoder.as_ref()
    }
}

fn prompt_error(error: impl std::fmt::Display) -> EngineError {
    EngineError::Prompt(error.to_string())
}

fn build_methods(cells: &[CellRequest<'_>]) -> Result<Vec<Method>, EngineError> {
    cells
        .iter()
        .map(|cell| {
            Method::build(&cell.method.name, &cell.method.params)
                .map_err(|error| EngineError::Spec(format!("{}: {error}", cell.method.name)))
        })
        .collect()
}

fn union_of_needs(methods: &[Method]) -> Needs {
    methods
        .iter()
        .map(|method| match method {
            Method::Full => Needs::default(),
            Method::Compress { scorer, .. } => scorer.needs(),
        })
        .fold(Needs::default(), Needs::union)
}

/// A cell while layers come in.
struct Filling<'a> {
    plan: CellPlan<'a>,
    kept: Vec<KeptLayer>,
    cache: CompressedCache,
    compress_ms: f64,
}

impl<'a> Filling<'a> {
    fn new(plan: CellPlan<'a>, prompt_tokens: usize) -> Self {
        Self {
            plan,
            kept: Vec::new(),
            cache: CompressedCache {
                layers: Vec::new(),
                prompt_tokens,
            },
            compress_ms: 0.0,
        }
    }

    /// Takes one layer: chooses entries and gathers them. Cells with equal sets share the storage through `gathered`.
    fn take(
        &mut self,
        layer: usize,
        state: &LayerState,
        scores: &mut ScoreCache,
        gathered: &mut Vec<(KeptLayer, CompressedLayer)>,
    ) -> Result<(), EngineError> {
        let started = Instant::now();
        let compressed = match &self.plan {
            CellPlan::Everything(_) => CompressedLayer {
                keys: state.keys.clone(),
                values: state.values.clone(),
            },
            CellPlan::Select(selection) => {
                let kept = selection.keep_layer(layer, state, scores)?;
                let known = gathered.iter().find(|(sets, _)| *sets == kept);
                let compressed = match known {
                    Some((_, compressed)) => compressed.clone(),
                    None => {
                        let fresh = CompressedLayer::gather(state, &kept).map_err(prompt_error)?;
                        gathered.push((kept.clone(), fresh.clone()));
                        fresh
                    }
                };
                self.kept.push(kept);
                compressed
            }
        };
        self.cache.layers.push(compressed);
        self.compress_ms += started.elapsed().as_secs_f64() * 1e3;
        Ok(())
    }

    fn finish(self, rows: &mut Rows) -> Result<Prepared, EngineError> {
        let cell = match self.plan {
            CellPlan::Everything(cell) => cell,
            CellPlan::Select(selection) => selection.finish(self.kept),
        };
        // the promise of the accounting, checked on the tensors that are decoded from
        let kept = self.cache.kept_per_layer();
        let measured: u64 = kept.iter().map(|&entries| u64::from(entries)).sum();
        if let (Some(total), Some(_)) = (cell.budget_entries, &cell.kept)
            && measured != total
        {
            return Err(EngineError::Prompt(format!(
                "kept {measured} entries a kv head, the budget is {total}"
            )));
        }
        Ok(Prepared {
            row: rows.row_of(&cell, self.cache),
            cell,
            compress_ms: self.compress_ms,
        })
    }
}

/// All cells of a prompt while layers come in; a cell that fails leaves the others alone.
struct Grid<'a> {
    cells: Vec<Result<Filling<'a>, EngineError>>,
    /// The full cache that cells are compared with, where they are.
    full: Option<Filling<'a>>,
}

impl Grid<'_> {
    fn take(&mut self, layer: usize, state: &LayerState, scores: &mut ScoreCache) {
        let mut gathered = Vec::new();
        for cell in self.cells.iter_mut() {
            if let Ok(filling) = cell
                && let Err(error) = filling.take(layer, state, scores, &mut gathered)
            {
                *cell = Err(error);
            }
        }
        if let Some(full) = &mut self.full {
            // gathers nothing, so it cannot fail
            full.take(layer, state, scores, &mut gathered).ok();
        }
    }
}

/// Rows to decode: one cache per distinct kept set.
#[derive(Default)]
struct Rows {
    by_hash: BTreeMap<String, usize>,
    caches: Vec<Arc<CompressedCache>>,
}

impl Rows {
    fn row_of(&mut self, cell: &KeptCell, cache: CompressedCache) -> usize {
        *self
            .by_hash
            .entry(cell.kept_hash.clone())
            .or_insert_with(|| {
                self.caches.push(Arc::new(cache));
                self.caches.len() - 1
            })
    }
}

fn result(
    prepared: Prepared,
    rows: &Rows,
    continuation: &Continuation,
    answer_kl: Option<f64>,
    want_kept: bool,
) -> CellResult {
    let cache = &rows.caches[prepared.row];
    CellResult {
        output_ids: continuation.ids.clone(),
        finish: continuation.finish,
        budget_entries: prepared.cell.budget_entries,
        kept_per_layer: cache.kept_per_layer(),
        cache_bytes: cache.bytes(),
        kept_hash: prepared.cell.kept_hash,
        kept: prepared.cell.kept.filter(|_| want_kept),
        must_keep_tokens: prepared.cell.must_keep_tokens,
        short_prompt: prepared.cell.short_prompt,
        answer_kl,
        warnings: prepared.cell.warnings,
        compress_ms: prepared.compress_ms,
        decode_ms: continuation.decode_ms,
    }
}

impl Engine for ModelEngine {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn tokenizer(&self) -> Arc<dyn Tokenise> {
        Arc::clone(&self.tokenizer) as Arc<dyn Tokenise>
    }

    fn evaluate(&mut self, request: &PromptRequest<'_>) -> Result<PromptOutput, EngineError> {
        let methods = build_methods(request.cells)?;
        let config = self.decoder.config();
        let shape = PromptShape {
            prompt_tokens: request.ids.len(),
            layers: config.layers,
            entry_bytes: 2 * config.kv_heads * config.head_dim * size_of::<f32>(),
        };
        let plan = |method, cell: &CellRequest<'_>| {
            let (rule, signals) = (request.short_prompts, request.signals);
            plan_cell(method, cell.budget, shape, rule, signals)
        };
        let filling = |plan| Filling::new(plan, shape.prompt_tokens);
        let mut grid = Grid {
            cells: methods
                .iter()
                .zip(request.cells)
                .map(|(method, cell)| plan(method, cell).map(filling))
                .collect(),
            // its answer, which the cells are compared over, may be no cell's own
            full: (request.answer_kl_tokens > 0)
                .then(|| filling(CellPlan::Everything(everything(None, 0)))),
        };
        let is_streaming = request.prefill == PrefillMode::Stream;
        let mut scores = ScoreCache::default();
        let options = PrefillOptions {
            needs: union_of_needs(&methods),
            discard_layers: is_streaming,
            ..PrefillOptions::default()
        };
        let mut streaming_ms = 0.0;
        let started = Instant::now();
        let prefill = self
            .decoder
            .prefill_with(request.ids, options, &mut |layer, state| {
                if is_streaming {
                    let started = Instant::now();
                    grid.take(layer, state, &mut scores);
                    scores.clear();
                    streaming_ms += started.elapsed().as_secs_f64() * 1e3;
                }
            })
            .map_err(prompt_error)?;
        let prefill_ms = started.elapsed().as_secs_f64() * 1e3 - streaming_ms;
        for (layer, state) in prefill.snapshot.layers.iter().enumerate() {
            grid.take(layer, state, &mut scores);
        }
        let mut rows = Rows::default();
        let cells = grid.cells.into_iter();
        let prepared: Vec<Result<Prepared, EngineError>> = cells
            .map(|cell| cell.and_then(|filling| filling.finish(&mut rows)))
            .collect();
        let full = grid.full.map(|full| full.finish(&mut rows)).transpose()?;
        let full = full.map(|full| full.row);
        let starts = rows.caches.iter().map(|cache| Start {
            cache: Arc::clone(cache),
            first_logits: &prefill.logits,
            stop: request.stop,
            max_new_tokens: request.max_new_tokens,
            // the time of a step is a result here
            look_ahead_in: &[],
        });
        let starts: Vec<Start<'_>> = starts.collect();
        let continuations: Vec<Result<Continuation, EngineError>> =
            decode_rows(self.decoder.as_ref(), &starts)
                .map_err(prompt_error)?
                .into_iter()
                .map(|row| row.map_err(prompt_error))
                .collect();
        let answer_kl = match full {
            None => rows.caches.iter().map(|_| Ok(None)).collect(),
            Some(full) => {
                let answer = &continuations[full].as_ref().map_err(prompt_error)?.ids;
                let compared = answer.len().min(request.answer_kl_tokens);
                answer_kl(
                    self.decoder.as_ref(),
                    &rows.caches[full],
                    &rows.caches,
                    &answer[..compared],
                )?
            }
        };
        let cells = prepared
            .into_iter()
            .map(|outcome| {
                let prepared = outcome?;
                let row = prepared.row;
                let continuation = continuations[row].as_ref().map_err(prompt_error)?;
                let answer_kl = *answer_kl[row].as_ref().map_err(prompt_error)?;
                Ok(result(
                    prepared,
                    &rows,
                    continuation,
                    answer_kl,
                    request.want_kept,
                ))
            })
            .collect();
        Ok(PromptOutput { prefill_ms, cells })
    }

    fn sensitivity(
        &mut self,
        requests: &[SensitivityRequest<'_>],
        tell: &mut dyn FnMut(usize, SensitivityNews) -> ControlFlow<()>,
    ) {
        sensitivity(self.decoder.as_ref(), requests, tell);
    }

    fn damage(
        &mut self,
        request: &DamageRequest<'_>,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<DamageOutput, EngineError> {
        damage(self.decoder.as_ref(), request, on_layer)
    }
}

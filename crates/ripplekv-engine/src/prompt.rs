//! One prompt for many cells: prefill once, compress per cell, decode cells with equal kept sets once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ripplekv_cache::{CompressedCache, Method, Needs, Snapshot};
use ripplekv_model::Decoder;
use ripplekv_runner::engine::{
    CellRequest, CellResult, DamageOutput, DamageRequest, Engine, EngineError, ModelIdentity,
    PromptOutput, PromptRequest, SensitivityOutput, SensitivityRequest,
};
use ripplekv_tasks::Tokenise;

use crate::compress::{KeptCell, ScoreCache, everything, kept_cell_with};
use crate::damage::damage;
use crate::decode::{Continuation, decode_greedy};
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

/// Rows to decode: one cache per distinct kept set.
#[derive(Default)]
struct Rows {
    by_hash: BTreeMap<String, usize>,
    caches: Vec<Arc<CompressedCache>>,
}

impl Rows {
    fn row_of(&mut self, cell: &KeptCell, snapshot: &Snapshot) -> Result<usize, EngineError> {
        if let Some(&row) = self.by_hash.get(&cell.kept_hash) {
            return Ok(row);
        }
        let cache = match &cell.kept {
            None => CompressedCache::full(snapshot),
            Some(kept) => CompressedCache::gather(snapshot, kept).map_err(prompt_error)?,
        };
        self.caches.push(Arc::new(cache));
        self.by_hash
            .insert(cell.kept_hash.clone(), self.caches.len() - 1);
        Ok(self.caches.len() - 1)
    }
}

fn prepare(
    method: &Method,
    request: &PromptRequest<'_>,
    budget: Option<&str>,
    snapshot: &Snapshot,
    scores: &mut ScoreCache,
    rows: &mut Rows,
) -> Result<Prepared, EngineError> {
    let started = Instant::now();
    let cell = kept_cell_with(
        method,
        budget,
        snapshot,
        request.short_prompts,
        request.signals,
        scores,
    )?;
    let row = rows.row_of(&cell, snapshot)?;
    let kept = rows.caches[row].kept_per_layer();
    // the promise of the accounting, checked on the tensors that are decoded from
    if let (Some(total), Some(_)) = (cell.budget_entries, &cell.kept) {
        let measured: u64 = kept.iter().map(|&entries| u64::from(entries)).sum();
        if measured != total {
            return Err(EngineError::Prompt(format!(
                "kept {measured} entries a kv head, the budget is {total}"
            )));
        }
    }
    Ok(Prepared {
        cell,
        row,
        compress_ms: started.elapsed().as_secs_f64() * 1e3,
    })
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
        let started = Instant::now();
        let prefill = self
            .decoder
            .prefill(request.ids, union_of_needs(&methods), &mut |_, _| ())
            .map_err(prompt_error)?;
        let prefill_ms = started.elapsed().as_secs_f64() * 1e3;
        let mut scores = ScoreCache::default();
        let mut rows = Rows::default();
        let prepared: Vec<Result<Prepared, EngineError>> = methods
            .iter()
            .zip(request.cells)
            .map(|(method, cell)| {
                let snapshot = &prefill.snapshot;
                prepare(
                    method,
                    request,
                    cell.budget,
                    snapshot,
                    &mut scores,
                    &mut rows,
                )
            })
            .collect();
        // the full cache's answer, which the cells are compared over, may be no cell's own
        let full = match request.answer_kl_tokens {
            0 => None,
            _ => Some(rows.row_of(&everything(None, 0), &prefill.snapshot)?),
        };
        let continuations = decode_greedy(
            self.decoder.as_ref(),
            &rows.caches,
            &prefill.logits,
            request.stop,
            request.max_new_tokens,
        )
        .map_err(prompt_error)?;
        let answer_kl = match full {
            None => vec![None; rows.caches.len()],
            Some(full) => {
                let answer = &continuations[full].ids;
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
                outcome.map(|prepared| {
                    let row = prepared.row;
                    let continuation = &continuations[row];
                    result(
                        prepared,
                        &rows,
                        continuation,
                        answer_kl[row],
                        request.want_kept,
                    )
                })
            })
            .collect();
        Ok(PromptOutput { prefill_ms, cells })
    }

    fn sensitivity(
        &mut self,
        request: &SensitivityRequest<'_>,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<SensitivityOutput, EngineError> {
        sensitivity(self.decoder.as_ref(), request, on_layer)
    }

    fn damage(
        &mut self,
        request: &DamageRequest<'_>,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<DamageOutput, EngineError> {
        damage(self.decoder.as_ref(), request, on_layer)
    }
}

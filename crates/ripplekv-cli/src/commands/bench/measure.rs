//! One measurement in this process, through the engine that experiments use.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Instant;

use rayon::prelude::*;
use ripplekv_model::{AttentionShape, causal_attention};
use ripplekv_runner::RunnerError;
use ripplekv_runner::cell::{CellKey, ResolvedMethod};
use ripplekv_runner::engine::{
    CellRequest, CellResult, Engine, EngineError, FirstToken, Injection, ModelIdentity, NoiseNorm,
    NoisePositions, PromptRequest, SensitivityNews, SensitivityRequest, ShortPrompts, Signals,
};
use ripplekv_runner::store::peak_rss_bytes;
use ripplekv_tasks::StopRule;
use serde_json::Value;

use super::document::{Attention, Forward, Grid, GridRun, Profile, ProfileRun};
use crate::arguments::{BenchArguments, BenchPart};
use crate::commands::memory::{layer_numbers, widened_layer};
use crate::failure::Failure;
use crate::wiring;

/// The common grid: what kvpress can run on a CPU too.
const METHODS: [&str; 5] = ["streaming-llm", "snapkv", "knorm", "tova", "keydiff"];
const BUDGETS: [&str; 3] = ["10%", "20%", "30%"];

/// Sizes of the grid that are run; the last is the whole of it.
const GRID_CELLS: [usize; 3] = [1, 4, 16];

/// Samples that are profiled together: as many of 2,048 tokens as a run takes at a time.
const PROFILED_TOGETHER: usize = 4;

/// Runs of attention alone, as tools/peers/bench_peers.py has at least.
const LEAST_ATTENTION_REPEATS: usize = 5;

/// The profile's answer (m) and noise.
const ANSWER_TOKENS: usize = 32;
const SIGMA: f64 = 0.1;

/// A first run on so many tokens wakes threads and allocator.
const WARM_UP_TOKENS: usize = 256;

/// A long prompt is not repeated beyond this; its runs differ by little. As tools/peers/bench_peers.py.
const REPEAT_UNTIL_SECONDS: f64 = 20.0;

/// What memory may hold beside weights and caches.
const ALLOWANCE_BYTES: u64 = 200_000_000;

/// Buffer that is read to measure bandwidth; far beyond any cache.
const BANDWIDTH_BYTES: usize = 1 << 30;

/// Sweeps over it after the steps of each repeat.
const SWEEPS: usize = 15;

/// One measurement as one line of JSON.
///
/// # Errors
/// When the model cannot be loaded or run.
pub(super) fn measure(
    part: BenchPart,
    ids: &[u32],
    arguments: &BenchArguments,
) -> Result<String, Failure> {
    let text = match part {
        BenchPart::Forward => serde_json::to_string(&forward(&mut Bench::new(ids, arguments)?)?),
        BenchPart::Attention => serde_json::to_string(&attention(&mut Bench::new(ids, arguments)?)),
        BenchPart::Grid => serde_json::to_string(&grid(&mut Bench::new(ids, arguments)?)?),
        BenchPart::Profile => serde_json::to_string(&profile(&mut Bench::new(ids, arguments)?)?),
    };
    text.map_err(|error| Failure::Data(format!("bench: {error}")))
}

struct Bench<'a> {
    engine: Box<dyn Engine>,
    ids: &'a [u32],
    repeats: usize,
    new_tokens: usize,
    /// No token ends an answer: every run makes as many as it is asked for.
    stop: StopRule,
    model: String,
}

/// One cell of the grid.
struct Cell {
    key: CellKey,
    method: ResolvedMethod,
    budget: Option<&'static str>,
}

/// What one evaluation took.
struct Evaluated {
    seconds: f64,
    prefill_seconds: f64,
    cells: Vec<CellResult>,
}

impl<'a> Bench<'a> {
    fn new(ids: &'a [u32], arguments: &BenchArguments) -> Result<Self, Failure> {
        let model = wiring::named_model(&arguments.model)?;
        let loader = wiring::loader(&arguments.machine.device)?;
        let engine = loader.load(&model).map_err(|source| RunnerError::Model {
            model: model.name.clone(),
            source,
        })?;
        let mut bench = Self {
            engine,
            ids,
            repeats: arguments.repeats,
            new_tokens: arguments.new_tokens,
            stop: StopRule {
                end_tokens: Vec::new(),
                newline: None,
                min_new_tokens: 0,
            },
            model: model.name,
        };
        let warm_up = &ids[..ids.len().min(WARM_UP_TOKENS)];
        bench.evaluate(warm_up, &full()?, 2)?;
        Ok(bench)
    }

    fn failed(&self, source: EngineError) -> Failure {
        Failure::Runner(RunnerError::Model {
            model: self.model.clone(),
            source,
        })
    }

    fn evaluate(
        &mut self,
        ids: &[u32],
        cells: &[Cell],
        max_new_tokens: usize,
    ) -> Result<Evaluated, Failure> {
        let requests: Vec<CellRequest<'_>> = cells
            .iter()
            .map(|cell| CellRequest {
                key: &cell.key,
                method: &cell.method,
                budget: cell.budget,
            })
            .collect();
        let request = PromptRequest {
            ids,
            cells: &requests,
            max_new_tokens,
            stop: &self.stop,
            short_prompts: ShortPrompts::default(),
            answer_kl_tokens: 0,
            prefill: Default::default(),
            want_kept: false,
            signals: &Signals::new(),
        };
        let started = Instant::now();
        let done = self.engine.evaluate(&request);
        let seconds = started.elapsed().as_secs_f64();
        let done = done.map_err(|source| self.failed(source))?;
        let cells: Result<Vec<CellResult>, EngineError> = done.cells.into_iter().collect();
        Ok(Evaluated {
            seconds,
            prefill_seconds: done.prefill_ms / 1e3,
            cells: cells.map_err(|source| self.failed(source))?,
        })
    }

    /// Seconds of one prefill alone.
    fn prefill(&mut self) -> Result<f64, Failure> {
        Ok(self.evaluate(self.ids, &full()?, 1)?.prefill_seconds)
    }

    /// Seconds of profiling each of `samples` samples, all of the same prompt but with noise of their own; with the other
    /// signals and the control or without.
    fn sensitivity(&mut self, samples: usize, signals: bool) -> Result<f64, Failure> {
        let names: Vec<String> = (0..samples).map(|place| format!("bench/{place}")).collect();
        let stop = self.stop.clone();
        let requests: Vec<SensitivityRequest<'_>> = names
            .iter()
            .map(|sample| SensitivityRequest {
                ids: self.ids,
                sample,
                seed: 0,
                answer_tokens: ANSWER_TOKENS,
                stop: &stop,
                sigmas: &[SIGMA],
                draws: 2,
                norm: NoiseNorm::default(),
                positions: NoisePositions::default(),
                inject: Injection::default(),
                first_token: FirstToken::default(),
                signals,
            })
            .collect();
        let mut done = Ok(());
        let started = Instant::now();
        self.engine.sensitivity(&requests, &mut |_, news| {
            if let SensitivityNews::Done(Err(source)) = news {
                done = Err(source);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        let seconds = started.elapsed().as_secs_f64();
        done.map_err(|source| self.failed(source))?;
        Ok(seconds / samples as f64)
    }
}

fn forward(bench: &mut Bench<'_>) -> Result<Forward, Failure> {
    let (ids, steps, full) = (bench.ids, bench.new_tokens, full()?);
    let mut prefill_seconds = Vec::new();
    let mut memory = Memory::default();
    let (mut decode_seconds, mut peak) = (0.0, 0);
    while prefill_seconds.is_empty()
        || prefill_seconds.len() < bench.repeats
            && prefill_seconds.iter().sum::<f64>() <= REPEAT_UNTIL_SECONDS
    {
        // the first new token comes from the prefill
        let done = bench.evaluate(ids, &full, steps + 1)?;
        prefill_seconds.push(done.prefill_seconds);
        decode_seconds += done.cells[0].decode_ms / 1e3;
        if peak == 0 {
            // before the buffer that memory is read from
            peak = peak_rss_bytes();
        }
        memory.read();
    }
    let identity = bench.engine.identity();
    let (tokens, decode_steps) = (ids.len(), prefill_seconds.len() * steps);
    let cache = cache_bytes(identity, tokens + steps / 2);
    Ok(Forward {
        tokens,
        decode_milliseconds: 1e3 * decode_seconds / decode_steps as f64,
        prefill_seconds,
        decode_steps,
        decode_step_bytes: step_numbers(identity) * size_of::<f32>() as u64 + cache,
        decode_read_bytes: kept_bytes(identity) + cache,
        memory_bytes_per_second: memory.bytes_per_second(),
        peak_rss_bytes: peak,
        accounted_bytes: held_bytes(identity) + cache_bytes(identity, tokens) + ALLOWANCE_BYTES,
    })
}

fn attention(bench: &mut Bench<'_>) -> Attention {
    let model = &bench.engine.identity().shape;
    let shape = AttentionShape {
        positions: bench.ids.len(),
        heads: model.heads,
        kv_heads: model.kv_heads,
        head_dim: model.head_dim,
    };
    // any numbers of the size of normed states
    let numbers = |rows: usize| -> Vec<f32> {
        (0..rows * shape.positions * shape.head_dim)
            .map(|place| (place * 7919 % 2003) as f32 / 1001.5 - 1.0)
            .collect()
    };
    let queries = numbers(shape.heads);
    let [keys, values] = [numbers(shape.kv_heads), numbers(shape.kv_heads)];
    let mut seconds: Vec<f64> = (0..bench.repeats.max(LEAST_ATTENTION_REPEATS))
        .map(|_| {
            let started = Instant::now();
            std::hint::black_box(causal_attention(shape, &queries, &keys, &values));
            started.elapsed().as_secs_f64()
        })
        .collect();
    // two products of two operations over the causal half
    let pairs = shape.positions * (shape.positions + 1) / 2;
    let operations = 4 * shape.heads * shape.head_dim * pairs;
    Attention {
        tokens: shape.positions,
        gflop_per_second: operations as f64 / median(&mut seconds) / 1e9,
    }
}

fn grid(bench: &mut Bench<'_>) -> Result<Grid, Failure> {
    let (ids, new_tokens) = (bench.ids, bench.new_tokens);
    let cells = cells()?;
    let mut runs = Vec::new();
    let mut compressed = BTreeMap::new();
    for count in GRID_CELLS {
        let done = bench.evaluate(ids, &cells[..count], new_tokens)?;
        let milliseconds =
            |of: fn(&CellResult) -> f64| done.cells.iter().map(of).sum::<f64>() / 1e3;
        runs.push(GridRun {
            cells: count,
            seconds: done.seconds,
            prefill_seconds: done.prefill_seconds,
            compress_seconds: milliseconds(|cell| cell.compress_ms),
            decode_seconds: milliseconds(|cell| cell.decode_ms),
        });
        for cell in done
            .cells
            .iter()
            .filter(|cell| cell.budget_entries.is_some())
        {
            compressed.insert(cell.kept_hash.clone(), cell.cache_bytes);
        }
    }
    let identity = bench.engine.identity();
    Ok(Grid {
        tokens: ids.len(),
        new_tokens,
        runs,
        peak_rss_bytes: peak_rss_bytes(),
        accounted_bytes: held_bytes(identity)
            + cache_bytes(identity, ids.len())
            + compressed.values().sum::<u64>()
            + ALLOWANCE_BYTES,
    })
}

fn profile(bench: &mut Bench<'_>) -> Result<Profile, Failure> {
    let kinds = [1, PROFILED_TOGETHER].map(|samples| [false, true].map(|all| (samples, all)));
    let kinds = kinds.as_flattened();
    let mut prefills = Vec::new();
    let mut seconds = vec![Vec::new(); kinds.len()];
    for _ in 0..bench.repeats {
        for ((samples, signals), seconds) in kinds.iter().zip(&mut seconds) {
            prefills.push(bench.prefill()?);
            seconds.push(bench.sensitivity(*samples, *signals)?);
        }
    }
    let runs = kinds.iter().zip(&mut seconds);
    Ok(Profile {
        tokens: bench.ids.len(),
        answer_tokens: ANSWER_TOKENS,
        runs: runs
            .map(|((samples, signals), seconds)| ProfileRun {
                samples: *samples,
                signals: *signals,
                seconds: median(seconds),
            })
            .collect(),
        prefill_seconds: median(&mut prefills),
        peak_rss_bytes: peak_rss_bytes(),
    })
}

/// Sweeps over a large buffer by all threads, in turn with the steps that they are compared with: what else the machine
/// does slows both.
#[derive(Default)]
struct Memory {
    buffer: Vec<u64>,
    sweeps: usize,
    seconds: f64,
}

impl Memory {
    fn read(&mut self) {
        self.buffer.resize(BANDWIDTH_BYTES / size_of::<u64>(), 1);
        let chunk = self.buffer.len().div_ceil(rayon::current_num_threads());
        for _ in 0..SWEEPS {
            let started = Instant::now();
            let sum: u64 = self
                .buffer
                .par_chunks(chunk)
                .map(|part| part.iter().copied().fold(0u64, u64::wrapping_add))
                .sum();
            std::hint::black_box(sum);
            self.seconds += started.elapsed().as_secs_f64();
        }
        self.sweeps += SWEEPS;
    }

    /// Of all sweeps, as a step's time is that of all steps.
    fn bytes_per_second(&self) -> f64 {
        (self.sweeps * BANDWIDTH_BYTES) as f64 / self.seconds
    }
}

fn method(name: &str) -> Result<ResolvedMethod, Failure> {
    let catalog = wiring::catalog();
    let entry = catalog.methods.iter().find(|method| method.name == name);
    let entry = entry.ok_or_else(|| Failure::Data(format!("bench: no method {name}")))?;
    let params = (entry.parse)(&Value::Object(serde_json::Map::new()));
    Ok(ResolvedMethod {
        name: name.to_owned(),
        label: name.to_owned(),
        params: params.map_err(|problem| Failure::Data(format!("{name}: {}", problem.message)))?,
    })
}

fn cell(name: &str, budget: Option<&'static str>) -> Result<Cell, Failure> {
    Ok(Cell {
        key: CellKey(format!("{name} {}", budget.unwrap_or_default())),
        method: method(name)?,
        budget,
    })
}

fn full() -> Result<Vec<Cell>, Failure> {
    Ok(vec![cell("full", None)?])
}

fn cells() -> Result<Vec<Cell>, Failure> {
    let mut cells = full()?;
    for name in METHODS {
        for budget in BUDGETS {
            cells.push(cell(name, Some(budget))?);
        }
    }
    Ok(cells)
}

pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values {
        [] => 0.0,
        _ if values.len() % 2 == 1 => values[middle],
        _ => 0.5 * (values[middle - 1] + values[middle]),
    }
}

/// Numbers of the matrices that a decoding step multiplies with: every layer's and the head's.
fn step_numbers(identity: &ModelIdentity) -> u64 {
    let shape = &identity.shape;
    let head = shape.vocab_size * shape.hidden_size;
    (shape.layers * layer_numbers(shape) + head) as u64
}

/// Weights as they are kept, and the layer of them that a prefill has in f32.
fn held_bytes(identity: &ModelIdentity) -> u64 {
    identity.shape.weight_bytes + widened_layer(&identity.shape)
}

/// Bytes of the same matrices as they are kept; of a model whose embedding is not its head, their share of all.
fn kept_bytes(identity: &ModelIdentity) -> u64 {
    let share = step_numbers(identity) as f64 / identity.shape.parameters as f64;
    (identity.shape.weight_bytes as f64 * share) as u64
}

/// Keys and values of so many entries in every layer and KV head; they are f32 whatever the weights are.
fn cache_bytes(identity: &ModelIdentity, entries: usize) -> u64 {
    let shape = &identity.shape;
    let numbers = 2 * shape.layers * shape.kv_heads * shape.head_dim * entries;
    (numbers * size_of::<f32>()) as u64
}

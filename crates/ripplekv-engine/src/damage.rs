//! What really compressing one prompt does to the full model's own answer: one layer at a time, all but one, or all
//! layers under given allocations (design.md 5, "Damage").

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::Tensor;
use ripplekv_cache::{
    AllocationContext, Allocator, CacheError, CompressedCache, CompressedLayer, Method, Scorer,
};
use ripplekv_model::{Branch, Decoder, Prefill, Variants};
use ripplekv_runner::engine::{
    Allocation, BudgetDamage, DamageOutput, DamageRequest, EngineError, FirstToken, Signals,
};

use crate::compress::{KeptCell, Part, ScoreCache, kept_by};
use crate::decode::decode_greedy;
use crate::forced::{ForcedAnswer, LEAST_POSITIONS, Reference, mean, prompt_error, with_layer};

pub(crate) fn damage(
    decoder: &dyn Decoder,
    request: &DamageRequest<'_>,
    on_layer: &mut dyn FnMut(usize),
) -> Result<DamageOutput, EngineError> {
    let method = Method::build(&request.method.name, &request.method.params)
        .map_err(|error| EngineError::Spec(format!("{}: {error}", request.method.name)))?;
    let Method::Compress {
        scorer_key, scorer, ..
    } = &method
    else {
        return Err(EngineError::Spec(format!(
            "damage: '{}' compresses nothing; name a method with a scorer",
            request.method.name
        )));
    };
    let prefill = decoder
        .prefill(request.ids, scorer.needs(), &mut |_, _| ())
        .map_err(prompt_error)?;
    let full = Arc::new(CompressedCache::full(&prefill.snapshot));
    let tokens = if request.outputs {
        request.max_new_tokens.max(request.answer_tokens)
    } else {
        request.answer_tokens
    };
    let generated = decode_greedy(
        decoder,
        &[Arc::clone(&full)],
        &prefill.logits,
        request.stop,
        tokens,
    )
    .map_err(prompt_error)?
    .remove(0)
    .ids;
    let mut output_ids = generated.clone();
    output_ids.truncate(request.max_new_tokens);
    let compared = generated.len().min(request.answer_tokens);
    let mut run = Run {
        decoder,
        request,
        prefill: &prefill,
        full,
        scorer_key,
        scorer: scorer.as_ref(),
        generated: &generated,
        compared,
        scores: ScoreCache::default(),
        warnings: Vec::new(),
    };
    let positions = run.answer(&generated[..compared]).targets().len();
    let mut output = DamageOutput {
        output_ids,
        positions,
        reference_nll: None,
        budgets: Vec::new(),
        warnings: Vec::new(),
    };
    if positions < LEAST_POSITIONS {
        return Ok(output);
    }
    for budget in request.budgets {
        let (budget, reference_nll) = run.budget(budget, on_layer)?;
        output.budgets.push(budget);
        output.reference_nll = output.reference_nll.or(reference_nll);
    }
    output.warnings = run.warnings;
    Ok(output)
}

/// Fixed weights, one a layer.
struct Weights<'a>(&'a [f64]);

impl Allocator for Weights<'_> {
    fn weights(&self, context: &AllocationContext<'_>) -> Result<Vec<f64>, CacheError> {
        if self.0.len() == context.layers {
            return Ok(self.0.to_vec());
        }
        Err(CacheError::Param {
            key: "weights".to_owned(),
            reason: format!(
                "{} numbers for a model of {} layers",
                self.0.len(),
                context.layers
            ),
        })
    }
}

/// What a branch stands for.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Reference,
    Single,
    LeaveIn,
    Joint,
}

struct Run<'a> {
    decoder: &'a dyn Decoder,
    request: &'a DamageRequest<'a>,
    prefill: &'a Prefill,
    full: Arc<CompressedCache>,
    scorer_key: &'a str,
    scorer: &'a dyn Scorer,
    /// The full model's greedy answer; its first `compared` tokens carry the KL.
    generated: &'a [u32],
    compared: usize,
    scores: ScoreCache,
    warnings: Vec<String>,
}

impl Run<'_> {
    fn layers(&self) -> usize {
        self.prefill.snapshot.layers.len()
    }

    fn answer<'b>(&self, answer: &'b [u32]) -> ForcedAnswer<'b> {
        ForcedAnswer {
            last_prompt_token: self.request.ids.last().copied().unwrap_or_default(),
            answer,
            first_token: self.request.first_token,
        }
    }

    /// The cache compressed to a budget with the given layer weights.
    fn compressed(
        &mut self,
        budget: &str,
        weights: &[f64],
    ) -> Result<(CompressedCache, KeptCell), EngineError> {
        let snapshot = &self.prefill.snapshot;
        let cell = kept_by(
            &Part {
                scorer_key: self.scorer_key,
                scorer: self.scorer,
                allocator: &Weights(weights),
            },
            Some(budget),
            snapshot,
            self.request.short_prompts,
            &Signals::new(),
            &mut self.scores,
        )?;
        let cache = match &cell.kept {
            None => self.full.as_ref().clone(),
            Some(kept) => CompressedCache::gather(snapshot, kept).map_err(prompt_error)?,
        };
        for warning in &cell.warnings {
            let warning = format!("budget {budget}: {warning}");
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        Ok((cache, cell))
    }

    fn budget(
        &mut self,
        budget: &str,
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<(BudgetDamage, Option<f64>), EngineError> {
        let (uniform, _) = self.compressed(budget, &vec![1.0; self.layers()])?;
        let mut damage = BudgetDamage {
            layer_tokens: uniform.kept_per_layer(),
            ..BudgetDamage::default()
        };
        let reference = Branch {
            cache: Arc::clone(&self.full),
            from_layer: 0,
        };
        let mut branches = vec![(Role::Reference, reference)];
        if self.request.single_layers {
            branches.extend(self.single_branches(&uniform));
        }
        if self.request.leave_in {
            branches.extend(self.leave_in_branches(&uniform));
        }
        let joint_places = self.joint_branches(budget, &mut branches, &mut damage)?;
        let (kl, agrees) = self.kl(&branches, on_layer)?;
        let of_role = |role: Role| {
            let places = branches.iter().enumerate();
            places
                .filter(move |(_, (own, _))| *own == role)
                .map(|(place, _)| place)
        };
        damage.kl = of_role(Role::Single).map(|place| kl[place]).collect();
        damage.leave_in_kl = of_role(Role::LeaveIn).map(|place| kl[place]).collect();
        damage.joint_kl = joint_places.iter().map(|&place| kl[place]).collect();
        let singles: Vec<usize> = of_role(Role::Single).collect();
        if self.request.outputs && self.request.single_layers {
            damage.outputs = self.outputs(&branches, &singles, &agrees)?;
        }
        let mut reference_nll = None;
        if self.request.single_layers {
            (damage.reference_nll_change, reference_nll) =
                self.reference_change(&branches, &singles)?;
        }
        Ok((damage, reference_nll))
    }

    /// One layer compressed, all others full.
    fn single_branches(&self, uniform: &CompressedCache) -> Vec<(Role, Branch)> {
        uniform
            .layers
            .iter()
            .enumerate()
            .map(|(layer, compressed)| {
                let cache = with_layer(&self.full, layer, compressed.clone());
                let from_layer = layer;
                (Role::Single, Branch { cache, from_layer })
            })
            .collect()
    }

    /// All layers compressed but one.
    fn leave_in_branches(&self, uniform: &CompressedCache) -> Vec<(Role, Branch)> {
        self.full
            .layers
            .iter()
            .enumerate()
            .map(|(layer, restored): (usize, &CompressedLayer)| {
                let cache = with_layer(uniform, layer, restored.clone());
                (
                    Role::LeaveIn,
                    Branch {
                        cache,
                        from_layer: 0,
                    },
                )
            })
            .collect()
    }

    /// One branch for each distinct kept set of the allocations; gives each allocation's branch.
    fn joint_branches(
        &mut self,
        budget: &str,
        branches: &mut Vec<(Role, Branch)>,
        damage: &mut BudgetDamage,
    ) -> Result<Vec<usize>, EngineError> {
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        let mut places = Vec::with_capacity(self.request.allocations.len());
        for Allocation { weights, .. } in self.request.allocations {
            let (cache, cell) = self.compressed(budget, weights)?;
            damage.joint_layer_tokens.push(cache.kept_per_layer());
            let place = *known.entry(cell.kept_hash).or_insert_with(|| {
                let cache = Arc::new(cache);
                branches.push((
                    Role::Joint,
                    Branch {
                        cache,
                        from_layer: 0,
                    },
                ));
                branches.len() - 1
            });
            places.push(place);
        }
        Ok(places)
    }

    /// KL of every branch, and whether a singly compressed layer would decode the same text.
    fn kl(
        &self,
        branches: &[(Role, Branch)],
        on_layer: &mut dyn FnMut(usize),
    ) -> Result<(Vec<f64>, Vec<bool>), EngineError> {
        let compared = self.answer(&self.generated[..self.compared]);
        let plain: Vec<Branch> = branches.iter().map(|(_, branch)| branch.clone()).collect();
        let results = compared.run(self.decoder, Variants::caches(&plain), on_layer, |row| {
            let same = row.most_likely() == compared.targets()[row.position];
            Ok((row.kl()?, same))
        })?;
        let (kl, mut agrees): (Vec<f64>, Vec<bool>) = results
            .into_iter()
            .map(|branch| {
                let (kl, same): (Vec<f64>, Vec<bool>) = branch.rows.into_iter().unzip();
                (mean(&kl), same.iter().all(|same| *same))
            })
            .unzip();
        if self.request.outputs && self.generated.len() > self.compared {
            // the whole answer of the full cache, to see where another text would leave it
            let answer = self.answer(self.generated);
            let places: Vec<usize> = (0..branches.len())
                .filter(|place| matches!(branches[*place].0, Role::Reference | Role::Single))
                .collect();
            let chosen: Vec<Branch> = places.iter().map(|place| plain[*place].clone()).collect();
            let same = answer.run(
                self.decoder,
                Variants::caches(&chosen),
                &mut |_| (),
                |row| Ok(row.most_likely() == answer.targets()[row.position]),
            )?;
            for (place, same) in places.into_iter().zip(same) {
                agrees[place] = same.rows.iter().all(|same| *same);
            }
        }
        Ok((kl, agrees))
    }

    /// Generates the answers of the branches whose forced answer does not agree with the full model's.
    fn outputs(
        &self,
        branches: &[(Role, Branch)],
        singles: &[usize],
        agrees: &[bool],
    ) -> Result<Vec<Option<Vec<u32>>>, EngineError> {
        let differing: Vec<usize> = singles
            .iter()
            .copied()
            .filter(|&place| !agrees[place])
            .collect();
        let caches: Vec<Arc<CompressedCache>> = differing
            .iter()
            .map(|&place| Arc::clone(&branches[place].1.cache))
            .collect();
        let first: &Tensor = &self.prefill.logits;
        let generated = decode_greedy(
            self.decoder,
            &caches,
            first,
            self.request.stop,
            self.request.max_new_tokens,
        )
        .map_err(prompt_error)?;
        let mut found: BTreeMap<usize, Vec<u32>> = differing
            .into_iter()
            .zip(generated.into_iter().map(|row| row.ids))
            .collect();
        Ok(singles.iter().map(|place| found.remove(place)).collect())
    }

    /// Change of the reference answer's mean negative log-likelihood for each singly compressed layer, and its value
    /// under the full cache; empty where no token of it depends on the cache.
    fn reference_change(
        &self,
        branches: &[(Role, Branch)],
        singles: &[usize],
    ) -> Result<(Vec<f64>, Option<f64>), EngineError> {
        let answer = self.answer(self.request.reference_ids);
        let targets = answer.targets();
        if targets.is_empty() {
            return Ok((Vec::new(), None));
        }
        let mut chosen = vec![branches[0].1.clone()];
        chosen.extend(singles.iter().map(|&place| branches[place].1.clone()));
        let sums: Vec<f64> = answer
            .run(
                self.decoder,
                Variants::caches(&chosen),
                &mut |_| (),
                |row| Ok(row.negative_log_probability(targets[row.position])),
            )?
            .into_iter()
            .map(|branch| branch.rows.iter().sum())
            .collect();
        let tokens = self.request.reference_ids.len() as f64;
        let first = match self.request.first_token {
            FirstToken::Skip => Reference::of_logits(&self.prefill.logits)?
                .first_negative_log_probability(self.request.reference_ids[0]),
            FirstToken::Reread => 0.0,
        };
        let changes = sums[1..].iter().map(|sum| (sum - sums[0]) / tokens);
        Ok((changes.collect(), Some((sums[0] + first) / tokens)))
    }
}

//! Made-up damage: every layer has a loss that follows from prompt and layer, and keeping a share of its entries saves
//! that share of it. So a joint allocation is the better, the more its weights are like the losses.

use crate::engine::{Allocation, BudgetDamage, DamageOutput, DamageRequest, FirstToken};
use crate::fake::{LAYERS, total_entries};

/// Tokens of the full model's answer, the ending one included.
const ANSWER_TOKENS: usize = 5;

pub(super) fn damage(request: &DamageRequest<'_>, on_layer: &mut dyn FnMut(usize)) -> DamageOutput {
    let longest = request.max_new_tokens.max(request.answer_tokens);
    let output_ids = words(request, "full", longest);
    let compared = output_ids.len().min(request.answer_tokens);
    let positions = match request.first_token {
        FirstToken::Skip => compared.saturating_sub(1),
        FirstToken::Reread => compared,
    };
    let mut output = DamageOutput {
        output_ids: output_ids[..output_ids.len().min(request.max_new_tokens)].to_vec(),
        positions,
        reference_nll: None,
        budgets: Vec::new(),
        warnings: Vec::new(),
    };
    if positions < 2 {
        return output;
    }
    output.reference_nll = (!request.reference_ids.is_empty()).then_some(1.5);
    output.budgets = request
        .budgets
        .iter()
        .map(|budget| of_budget(request, budget))
        .collect();
    if request.single_layers {
        (1..=LAYERS).for_each(on_layer);
    }
    output
}

fn of_budget(request: &DamageRequest<'_>, budget: &str) -> BudgetDamage {
    let n = request.ids.len();
    let total = total_entries(budget, n, LAYERS, 0);
    let share = total as f64 / (n * LAYERS) as f64;
    let losses = losses(request, budget);
    let kl: Vec<f64> = losses.iter().map(|loss| loss * (1.0 - share)).collect();
    let mut damage = BudgetDamage {
        layer_tokens: (0..LAYERS as u64)
            .map(|layer| ((total + LAYERS as u64 - 1 - layer) / LAYERS as u64) as u32)
            .collect(),
        ..BudgetDamage::default()
    };
    for Allocation { weights, .. } in request.allocations {
        let sum: f64 = weights.iter().sum();
        let shares = weights
            .iter()
            .map(|weight| (share * LAYERS as f64 * weight / sum).min(1.0));
        let lost = losses
            .iter()
            .zip(shares.clone())
            .map(|(loss, share)| loss * (1.0 - share));
        damage.joint_kl.push(lost.sum());
        let tokens = shares.map(|share| (share * n as f64) as u32);
        damage.joint_layer_tokens.push(tokens.collect());
    }
    if !request.single_layers {
        return damage;
    }
    if request.leave_in {
        let sum: f64 = kl.iter().sum();
        damage.leave_in_kl = kl.iter().map(|kl| sum - kl).collect();
    }
    if !request.reference_ids.is_empty() {
        damage.reference_nll_change = kl.iter().map(|kl| kl / 2.0 - 0.01).collect();
    }
    if request.outputs {
        damage.outputs = (0..LAYERS)
            .map(|layer| {
                let changes = layer % 2 == 1 && share < 1.0;
                let what = format!("{budget} {layer}");
                changes.then(|| words(request, &what, request.max_new_tokens))
            })
            .collect();
    }
    damage.kl = kl;
    damage
}

/// What each layer loses when nothing of it is kept.
fn losses(request: &DamageRequest<'_>, budget: &str) -> Vec<f64> {
    let hash = hash(request, budget);
    let bytes = hash.as_bytes().iter().take(LAYERS);
    bytes.map(|byte| f64::from(*byte) / 1024.0 + 0.01).collect()
}

/// An answer of words of the prompt.
fn words(request: &DamageRequest<'_>, what: &str, longest: usize) -> Vec<u32> {
    let hash = hash(request, what);
    let bytes = hash.as_bytes().iter().take(ANSWER_TOKENS - 1);
    let words = bytes.map(|byte| request.ids[usize::from(*byte) % request.ids.len()]);
    let end = request.stop.end_tokens.first().copied();
    words.chain(end).take(longest).collect()
}

fn hash(request: &DamageRequest<'_>, what: &str) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for id in request.ids {
        hasher.update(&id.to_le_bytes());
    }
    hasher.update(what.as_bytes());
    hasher.finalize()
}

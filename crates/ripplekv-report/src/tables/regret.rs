//! Joint damage of every allocation, its difference from uniform, and its regret.

use crate::evidence::{AllocationBlock, Evidence, Regret, decimals, prediction_sentence};
use crate::tables::{Block, Column, Table, Value};

pub(super) fn build(evidence: &Evidence) -> Option<Table> {
    if evidence.allocations.is_empty() {
        return None;
    }
    let columns = vec![
        Column::label("budget"),
        Column::label("allocation"),
        Column::number("moved %"),
        Column::number("joint KL"),
        Column::interval("95% interval"),
        Column::number("minus uniform"),
        Column::interval("its 95% interval"),
        Column::number("regret"),
        Column::interval("95% interval of regret"),
        Column::number("n"),
        Column::label("in words").spare(),
    ];
    let mut notes = vec![
        "Joint KL in nats, all layers compressed at once; intervals by bootstrap over samples, paired.".to_owned(),
        "Regret: (D - D_oracle) / (D_uniform - D_oracle); 0 is the oracle (weights from damage of the other half of the samples), 1 is uniform.".to_owned(),
    ];
    notes.push("moved: share of the kept entries that lie in other layers than under uniform. An allocation that moves less differs less, whatever its order; `permuted` moves as much as sensitivity in another order. Intervals are over samples, given this profile and the oracle of these halves.".to_owned());
    notes.extend(evidence.predictions.iter().map(prediction_sentence));
    Some(Table {
        title: format!("Joint damage by allocation: {}", evidence.model),
        columns,
        blocks: evidence
            .allocations
            .iter()
            .map(|block| Block {
                name: block.budget.clone(),
                rows: rows(block),
            })
            .collect(),
        notes,
    })
}

fn rows(block: &AllocationBlock) -> Vec<Vec<Value>> {
    let means: Vec<f64> = block.rows.iter().map(|row| row.joint.value).collect();
    let digits = decimals(&means);
    block
        .rows
        .iter()
        .map(|row| {
            let mut values = vec![
                Value::text(block.budget.clone()),
                Value::text(row.name.clone()),
                Value::number(row.moved.map(|share| 100.0 * share), 1),
            ];
            values.extend(Value::estimate(Some(row.joint), digits, false));
            values.extend(Value::estimate(row.from_uniform, digits, true));
            let words = match &row.regret {
                Regret::Known(regret) => {
                    values.extend(Value::estimate(Some(*regret), 2, false));
                    match row.from_uniform {
                        Some(change) if change.is_below_zero() => {
                            "less damage than uniform: established"
                        }
                        Some(change) if change.is_above_zero() => {
                            "more damage than uniform: established"
                        }
                        Some(_) => "not established: the interval of the difference holds 0",
                        None => "",
                    }
                }
                Regret::Unknown(reason) => {
                    values.extend([Value::Empty, Value::Empty]);
                    reason
                }
            };
            values.push(Value::count(block.samples));
            values.push(Value::text(words));
            values
        })
        .collect()
}

//! Which quickstart candidates are kept: by the full cache's score and the answer's place alone.
//! What any compressed method makes of a record is never looked at.

use std::collections::BTreeMap;

use super::Candidate;

/// Why no choice could be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// A candidate without a score.
    #[error(
        "no full-cache score for candidate `{id}` of `{task}`\nhint: score all candidates with the method `full`, one score from 0 to 1 per id"
    )]
    NoScore {
        /// The task.
        task: &'static str,
        /// The record.
        id: String,
    },
    /// A part of the context in which no candidate has its answer.
    #[error(
        "task `{task}` has no candidate whose answer lies in part {part} of {parts}\nhint: generate more candidates or keep fewer"
    )]
    EmptyPart {
        /// The task.
        task: &'static str,
        /// The part, from 1.
        part: usize,
        /// How many parts.
        parts: usize,
    },
}

/// Keeps `per_task` candidates of every task. The rule: the wanted places from 0 to 1 are cut
/// into `per_task` equal parts; of each part the candidate with the highest full-cache score is
/// kept, of equal scores the one with the lower id. So the places stay spread whatever the scores.
/// Kept candidates come in the order of `candidates`.
pub fn select_quickstart(
    candidates: &[Candidate],
    full_scores: &BTreeMap<String, f64>,
    per_task: usize,
) -> Result<Vec<Candidate>, SelectError> {
    let mut kept = Vec::new();
    let mut rest = candidates;
    while let Some(first) = rest.first() {
        let end = rest
            .iter()
            .position(|candidate| candidate.task != first.task)
            .unwrap_or(rest.len());
        let (of_task, after) = rest.split_at(end);
        kept.extend(best_of_parts(of_task, full_scores, per_task)?);
        rest = after;
    }
    Ok(kept)
}

fn best_of_parts(
    candidates: &[Candidate],
    full_scores: &BTreeMap<String, f64>,
    parts: usize,
) -> Result<Vec<Candidate>, SelectError> {
    let task = candidates[0].task.name;
    let mut best: Vec<Option<(f64, usize)>> = vec![None; parts];
    for (index, candidate) in candidates.iter().enumerate() {
        let id = &candidate.record.id;
        let score = *full_scores.get(id).ok_or_else(|| SelectError::NoScore {
            task,
            id: id.clone(),
        })?;
        let part = ((candidate.position.wanted * parts as f64) as usize).min(parts - 1);
        let beats = best[part].is_none_or(|(highest, holder)| {
            score > highest || (score == highest && *id < candidates[holder].record.id)
        });
        if beats {
            best[part] = Some((score, index));
        }
    }
    let mut kept = Vec::with_capacity(parts);
    for (part, best) in best.into_iter().enumerate() {
        let (_, index) = best.ok_or(SelectError::EmptyPart {
            task,
            part: part + 1,
            parts,
        })?;
        kept.push(index);
    }
    kept.sort_unstable();
    Ok(kept
        .into_iter()
        .map(|index| candidates[index].clone())
        .collect())
}

//! Lays text units out so that the evidence lies where it should in the whole text.
//! Lengths count in words, places as shares of the text from 0 to 1.

use super::draw::Draw;

/// A unit that must lie at a certain place.
pub(super) struct Evidence {
    /// Wanted place of the unit's middle, 0 for the beginning and 1 for the end.
    pub(super) place: f64,
    /// The text.
    pub(super) unit: String,
}

/// Words as Python's `str.split` counts them in ASCII text.
pub(super) fn words(text: &str) -> usize {
    text.split_ascii_whitespace().count()
}

/// Fills up with filler to about `target_words` and puts each evidence near its place.
/// Evidence must come with rising places.
pub(super) fn lay_out(
    draw: &mut Draw,
    target_words: usize,
    evidence: Vec<Evidence>,
    mut filler: impl FnMut(&mut Draw) -> String,
) -> Vec<String> {
    let mut total: usize = evidence.iter().map(|unit| words(&unit.unit)).sum();
    let mut fillers = Vec::new();
    while total < target_words {
        let unit = filler(draw);
        total += words(&unit);
        fillers.push(unit);
    }
    let mut units = Vec::with_capacity(fillers.len() + evidence.len());
    let mut before = 0.0;
    let mut waiting = fillers.into_iter().peekable();
    for Evidence { place, unit } in evidence {
        let half = words(&unit) as f64 / 2.0;
        let wanted = place * total as f64 - half;
        while let Some(next) = waiting.peek() {
            let after = before + words(next) as f64;
            if (after - wanted).abs() > (before - wanted).abs() {
                break;
            }
            before = after;
            units.extend(waiting.next());
        }
        before += 2.0 * half;
        units.push(unit);
    }
    units.extend(waiting);
    units
}

/// Where the middle of `evidence` lies in `context`, as a share of its bytes.
/// `None` unless it occurs exactly once.
pub(super) fn share(context: &str, evidence: &str) -> Option<f64> {
    let mut places = context.match_indices(evidence);
    let (start, _) = places.next()?;
    if places.next().is_some() {
        return None;
    }
    Some((start as f64 + evidence.len() as f64 / 2.0) / context.len() as f64)
}

//! `module_line`: a source file of small helpers; the next line calls one defined before.
//! Code completion; names and arguments are drawn per record, so only the definition tells. All
//! other helpers are followed by a step that calls them, the asked one is not.

use std::collections::BTreeSet;

use super::draw::{Deck, Draw, unseen};
use super::made::{Made, fill};
use super::place::{Evidence, lay_out};

const VERBS: &[&str] = &[
    "tally", "sift", "gauge", "trace", "fold", "scan", "rank", "blend", "trim", "probe", "stack",
    "align",
];

const NOUNS: &[&str] = &[
    "crates", "parcels", "tickets", "barrels", "sensors", "routes", "invoices", "orchards",
    "engines", "shelves", "wagons", "letters", "samples", "windows", "coupons", "kettles",
    "benches", "candles", "ladders", "bottles", "baskets", "bicycles", "stamps", "lockers",
    "mirrors", "napkins", "pencils", "ropes", "saddles", "tyres", "vouchers", "whistles",
];

const PARAMETERS: &[&str] = &[
    "limit", "offset", "rate", "season", "margin", "scale", "depth", "cutoff", "weight", "delay",
];

/// What a helper is for, and how it does it.
const PURPOSES: &[(&str, &str)] = &[
    (
        "Give the number of {noun} that were returned",
        "    returned = [item for item in {noun} if item.returns > {parameter}]\n    return len(returned)",
    ),
    (
        "Find the oldest of the {noun}",
        "    by_age = sorted({noun}, key=lambda item: item.age)\n    return by_age[-1 - {parameter}]",
    ),
    (
        "Add up the prices of all {noun}",
        "    total = 0\n    for item in {noun}:\n        total += item.price * {parameter}\n    return total",
    ),
    (
        "Leave out the {noun} that are damaged",
        "    return [item for item in {noun} if item.damage <= {parameter}]",
    ),
    (
        "Say whether any of the {noun} are missing",
        "    for item in {noun}:\n        if item.last_seen + {parameter} < item.today:\n            return True\n    return False",
    ),
    (
        "Sort the {noun} by their age",
        "    ordered = list({noun})\n    ordered.sort(key=lambda item: item.age // {parameter})\n    return ordered",
    ),
    (
        "Group the {noun} by town",
        "    groups = {}\n    for item in {noun}:\n        groups.setdefault(item.town, []).append(item)\n    return {town: group[:{parameter}] for town, group in groups.items()}",
    ),
    (
        "Estimate how many {noun} will be needed",
        "    if not {noun}:\n        return 0\n    used = sum(item.used for item in {noun})\n    return used // len({noun}) + {parameter}",
    ),
];

struct Helper {
    signature: String,
    purpose: String,
    text: String,
}

/// Stands for the name of a step until the steps are counted.
const STEP: &str = "{step}";

/// The beginning of a function that calls the helper, up to the line of the call.
fn step(helper: &Helper) -> String {
    let arguments = helper
        .signature
        .split_once('(')
        .map_or("", |(_, arguments)| arguments);
    format!("def {STEP}({arguments}:\n    # {}.\n", helper.purpose)
}

pub(super) fn make(draw: &mut Draw, target_words: usize, place: f64) -> Made {
    let (mut purposes, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut parameters = Deck::new(PARAMETERS);
    let mut helper = |draw: &mut Draw| {
        let parameter = parameters.next(draw);
        let (mut noun, mut body) = ("", "");
        let purpose = unseen(&mut purposes, draw, |draw| {
            noun = draw.pick(NOUNS);
            let (purpose, how) = PURPOSES[draw.below(PURPOSES.len())];
            body = how;
            fill(purpose, &[("{noun}", noun)])
        });
        let name = unseen(&mut names, draw, |draw| {
            format!("{}_{noun}", draw.pick(VERBS))
        });
        let signature = format!("{name}({noun}, {parameter})");
        let body = fill(body, &[("{noun}", noun), ("{parameter}", parameter)]);
        Helper {
            text: format!("# {purpose}.\ndef {signature}:\n{body}"),
            signature,
            purpose,
        }
    };
    let asked = helper(draw);
    let evidence = vec![Evidence {
        place,
        unit: asked.text.clone(),
    }];
    let units = lay_out(draw, target_words, evidence, |draw| {
        let other = helper(draw);
        format!(
            "{}\n\n\n{}    return {}",
            other.text,
            step(&other),
            other.signature
        )
    });
    let mut context = String::new();
    for (index, unit) in units.iter().enumerate() {
        context += &unit.replace(STEP, &format!("step_{}", index + 1));
        context += "\n\n\n";
    }
    context += &step(&asked).replace(STEP, &format!("step_{}", units.len() + 1));
    let definition = format!("# {}.\ndef {}:", asked.purpose, asked.signature);
    Made {
        input: String::new(),
        context,
        answers: vec![format!("    return {}", asked.signature)],
        all_classes: None,
        language: "python",
        evidence: vec![definition],
    }
}

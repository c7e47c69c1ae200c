//! `paragraph_find`: paragraphs that each name their number once; which number goes with a thing?
//! Synthetic retrieval, in the form of answer that LongBench's retrieval metric reads.

use super::draw::{Deck, Draw};
use super::made::{Made, fill};
use super::place::words;
use super::words::{COLOURS, GOODS, ROOMS, TIMES, TOWNS, WEATHER};

const ORDINARY: &[&str] = &[
    "It was found in the {room} and cleaned with a soft cloth.",
    "For many years it stood in a house in {town}.",
    "Nobody could say how old it was.",
    "It was carried to the market {time}, in spite of {weather}.",
    "A small scratch on the left side can still be seen.",
    "The first owner kept it for {count} years.",
    "It was lent to the museum of {town} and came back unharmed.",
    "Children liked to hide a coin in it.",
    "A label on the back gives the number {count}.",
    "It had to be repaired twice, both times {time}.",
    "There is a drawing of it in the {room}.",
    "A buyer from {town} offered a good price, but it was not for sale.",
    "It is mentioned in a letter that was sent to {town}.",
    "The handle was replaced after {count} years of use.",
    "Visitors to the {room} often ask about it.",
    "It once fell from a cart and was hardly damaged.",
    "There was {weather} on the day it was sold.",
    "A copy of it can be seen in {town}.",
    "Its price was {count} crowns, which was a great deal at the time.",
    "It was hidden in the {room} during the war.",
];

/// What is said of a thing and its paragraph; no two neighbours say the same.
const VERBS: &[&str] = &[
    "is praised in",
    "was lost in",
    "was painted in",
    "is sold in",
    "was broken in",
    "is repaired in",
    "was stolen in",
    "is weighed in",
    "was washed in",
    "is hidden in",
    "is drawn in",
    "was bought in",
];

/// Words of a paragraph: a seventh of the text, within these bounds.
const SHORTEST: usize = 100;
const LONGEST: usize = 300;
/// A paragraph ends where one more sentence would lead further off; the label counts too.
const HALF_A_SENTENCE: usize = 13;

fn sentence(draw: &mut Draw, ordinary: &mut Deck<&str>) -> String {
    let count = draw.within(11, 89).to_string();
    let slots = [
        ("{room}", draw.pick(ROOMS)),
        ("{town}", draw.pick(TOWNS)),
        ("{time}", draw.pick(TIMES)),
        ("{weather}", draw.pick(WEATHER)),
        ("{count}", count.as_str()),
    ];
    fill(ordinary.next(draw), &slots)
}

pub(super) fn make(draw: &mut Draw, target_words: usize, place: f64) -> Made {
    let count = target_words / (target_words / 7).clamp(SHORTEST, LONGEST);
    let length = target_words / count.max(1);
    let things: Vec<String> = COLOURS
        .iter()
        .flat_map(|colour| GOODS.iter().map(move |good| format!("{colour} {good}")))
        .collect();
    let things = draw.some(&things, count);
    let asked = (place * count as f64) as usize;
    let mut ordinary = Deck::new(ORDINARY);
    let mut verbs = Deck::new(VERBS);
    let (mut input, mut evidence) = (String::new(), String::new());
    let mut paragraphs = Vec::with_capacity(count);
    for (index, thing) in things.iter().enumerate() {
        let mut sentences = Vec::new();
        let mut so_far = 0;
        while so_far + HALF_A_SENTENCE < length {
            let next = sentence(draw, &mut ordinary);
            so_far += words(&next);
            sentences.push(next);
        }
        let said = format!("The {thing} {}", verbs.next(draw));
        let label = format!("{said} Paragraph {}.", index + 1);
        let inside = if index == asked {
            evidence.clone_from(&label);
            input = format!("{said} which paragraph?");
            (place * count as f64).fract()
        } else {
            draw.unit()
        };
        let at = (inside * (sentences.len() + 1) as f64) as usize;
        sentences.insert(at, label);
        paragraphs.push(sentences.join(" "));
    }
    Made {
        input,
        context: paragraphs.join("\n\n"),
        answers: vec![format!("Paragraph {}", asked + 1)],
        all_classes: None,
        language: "en",
        evidence: vec![evidence],
    }
}

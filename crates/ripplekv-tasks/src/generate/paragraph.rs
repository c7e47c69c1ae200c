//! `paragraph_find`: numbered paragraphs on one thing each; in which one is the thing asked for?
//! Synthetic retrieval, in the form of answer that LongBench's retrieval metric reads.

use std::collections::BTreeSet;

use super::draw::{Deck, Draw, unseen};
use super::made::{Made, fill};
use super::place::{Evidence, lay_out};
use super::words::{COLOURS, FIRST_NAMES, GOODS, LAST_NAMES, ROOMS, TIMES, TOWNS, WEATHER};

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
];

pub(super) fn make(draw: &mut Draw, target_words: usize, place: f64) -> Made {
    let mut ordinary = Deck::new(ORDINARY);
    let mut things = BTreeSet::new();
    let mut thing = |draw: &mut Draw| {
        unseen(&mut things, draw, |draw| {
            let (colour, good) = (draw.pick(COLOURS), draw.pick(GOODS));
            format!(
                "The {colour} {good} of {} {}",
                draw.pick(FIRST_NAMES),
                draw.pick(LAST_NAMES)
            )
        })
    };
    let mut tell = |draw: &mut Draw, thing: &str| {
        let sentences: Vec<String> = (0..draw.within(3, 5))
            .map(|_| {
                let count = draw.within(11, 89).to_string();
                let slots = [
                    ("{room}", draw.pick(ROOMS)),
                    ("{town}", draw.pick(TOWNS)),
                    ("{time}", draw.pick(TIMES)),
                    ("{weather}", draw.pick(WEATHER)),
                    ("{count}", count.as_str()),
                ];
                fill(ordinary.next(draw), &slots)
            })
            .collect();
        format!("{thing}\n{}", sentences.join(" "))
    };
    let asked = thing(draw);
    let evidence = vec![Evidence {
        place,
        unit: tell(draw, &asked),
    }];
    let units = lay_out(draw, target_words, evidence, |draw| {
        let other = thing(draw);
        tell(draw, &other)
    });
    let mut heading = String::new();
    let mut answer = String::new();
    let mut paragraphs = Vec::with_capacity(units.len());
    for (index, unit) in units.iter().enumerate() {
        let (thing, text) = unit.split_once('\n').unwrap_or((unit, ""));
        let label = format!("Paragraph {}", index + 1);
        if thing == asked {
            heading = format!("{thing}: {label}.");
            answer.clone_from(&label);
        }
        paragraphs.push(format!("{thing}: {label}. {text}"));
    }
    Made {
        input: asked.clone(),
        context: paragraphs.join("\n\n"),
        answers: vec![answer],
        all_classes: None,
        language: "en",
        evidence: vec![heading],
    }
}

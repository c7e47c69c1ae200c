//! `dossier_qa`: notes on several people; the two halves of an answer stand in two passages.
//! Multi-document QA; every other passage tells one thing of somebody else.

use std::collections::BTreeSet;

use super::draw::{Deck, Draw, unseen};
use super::made::{Made, fill};
use super::place::{Evidence, lay_out};
use super::words::{
    COLLECTIONS, DISHES, FIRST_NAMES, INSTRUMENTS, LAST_NAMES, ROOMS, TIMES, TOWNS, TRADES, WEATHER,
};

const ORDINARY: &[&str] = &[
    "The meeting in the {room} began {time} and went on for two hours.",
    "There was {weather}, so fewer guests came than last year.",
    "A plate of {dish} stood on every table.",
    "The chairs had to be carried over from the {room}.",
    "Somebody had forgotten an umbrella, and nobody came back for it.",
    "The speeches were short, and the applause was warm.",
    "{time}, the lights went out for a minute and then came back.",
    "A new sign will be put up next to the {room}.",
    "The children drew pictures while the adults talked.",
    "The raffle brought in enough money to repaint the fence.",
    "It was agreed to meet again in a month.",
    "The old photographs were passed from hand to hand.",
    "There was {weather} {time}, yet the market stayed open.",
    "Visitors liked the {dish} best of all.",
    "The bus was late, which gave everyone time to talk.",
    "A dog slept by the stove and would not move.",
    "The musicians were late, so the guests sang without them.",
    "A long table was set up in the {room} for those who came {time}.",
    "The paint on the door of the {room} was still wet.",
    "Two old friends met by chance and talked until closing time.",
    "The recipe for the {dish} was asked for many times.",
    "{time}, the mayor thanked the helpers and shook many hands.",
    "The lost gloves can be collected from the {room}.",
    "A photograph of the whole group was taken in spite of {weather}.",
    "The story of the flood was told once more, with new details.",
    "There was no room left on the benches near the stove.",
    "The bakery sent three trays of {dish} at no charge.",
    "The path behind the {room} will be closed until the spring.",
    "Some people came on foot, others by bicycle, and one on a tractor.",
    "The new books were put on the shelf {time}.",
    "Nobody could agree on a date for the next walk.",
    "The windows of the {room} had been cleaned for the occasion.",
];

/// One thing that may be told of a person: sentence, question, how an answer says it, values.
struct Trait {
    sentence: &'static str,
    question: &'static str,
    told: &'static str,
    values: &'static [&'static str],
}

const TRAITS: &[Trait] = &[
    Trait {
        sentence: "{who} lives in the town of {what}.",
        question: "in which town does {who} live",
        told: "lives in {what}",
        values: TOWNS,
    },
    Trait {
        sentence: "{who} plays the {what}.",
        question: "which instrument does {who} play",
        told: "plays the {what}",
        values: INSTRUMENTS,
    },
    Trait {
        sentence: "{who} works as a {what}.",
        question: "what does {who} work as",
        told: "works as a {what}",
        values: TRADES,
    },
    Trait {
        sentence: "{who} collects {what}.",
        question: "what does {who} collect",
        told: "collects {what}",
        values: COLLECTIONS,
    },
];

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

pub(super) fn make(draw: &mut Draw, target_words: usize, place: f64) -> Made {
    let mut people = BTreeSet::new();
    let mut person = |draw: &mut Draw| {
        unseen(&mut people, draw, |draw| {
            format!("{} {}", draw.pick(FIRST_NAMES), draw.pick(LAST_NAMES))
        })
    };
    let mut ordinary = Deck::new(ORDINARY);
    let asked_kinds = draw.some(&[0, 1, 2, 3], 2);
    let values: Vec<&str> = asked_kinds
        .iter()
        .map(|kind| draw.pick(TRAITS[*kind].values))
        .collect();
    let who = person(draw);
    let mut passage = |draw: &mut Draw, fact: &str| {
        let mut sentences: Vec<String> = (0..draw.within(4, 5))
            .map(|_| {
                let slots = [
                    ("{weather}", draw.pick(WEATHER)),
                    ("{time}", draw.pick(TIMES)),
                    ("{dish}", draw.pick(DISHES)),
                    ("{room}", draw.pick(ROOMS)),
                ];
                capitalised(&fill(ordinary.next(draw), &slots))
            })
            .collect();
        sentences.insert(sentences.len() / 2, fact.to_owned());
        sentences.join(" ")
    };
    let told: Vec<String> = asked_kinds
        .iter()
        .zip(&values)
        .map(|(kind, value)| {
            fill(
                TRAITS[*kind].sentence,
                &[("{who}", &who), ("{what}", value)],
            )
        })
        .collect();
    // The second half lies at least a fifth of the text away, and is as uniform as the first.
    let far = (place + 0.2 + 0.6 * draw.unit()).fract();
    let mut evidence = vec![
        Evidence {
            place,
            unit: passage(draw, &told[0]),
        },
        Evidence {
            place: far,
            unit: passage(draw, &told[1]),
        },
    ];
    evidence.sort_by(|one, other| one.place.total_cmp(&other.place));
    let units = lay_out(draw, target_words, evidence, |draw| {
        let other = person(draw);
        let kind = &TRAITS[draw.below(TRAITS.len())];
        let free: Vec<&str> = kind
            .values
            .iter()
            .copied()
            .filter(|value| !values.contains(value))
            .collect();
        let fact = fill(
            kind.sentence,
            &[("{who}", &other), ("{what}", draw.pick(&free))],
        );
        passage(draw, &fact)
    });
    let numbered: Vec<String> = units
        .iter()
        .enumerate()
        .map(|(index, unit)| format!("Passage {}\n{unit}", index + 1))
        .collect();
    let question = |index: usize| fill(TRAITS[asked_kinds[index]].question, &[("{who}", &who)]);
    let says = |index: usize| {
        fill(
            TRAITS[asked_kinds[index]].told,
            &[("{what}", values[index])],
        )
    };
    Made {
        input: format!("{}, and {}?", capitalised(&question(0)), question(1)),
        context: numbered.join("\n\n"),
        answers: vec![
            format!("{}, {}", values[0], values[1]),
            format!("{who} {} and {}.", says(0), says(1)),
            format!("{who} {}, and {who} {}.", says(0), says(1)),
        ],
        all_classes: None,
        language: "en",
        evidence: told,
    }
}

//! `minutes_sum`: the minutes of a meeting; the summary names its three decisions.
//! Summarization; each decision is said once, one in each third of the talk.

use super::draw::{Deck, Draw};
use super::made::{Made, fill};
use super::place::{Evidence, lay_out};
use super::words::{DISHES, FIRST_NAMES, GOODS, ROOMS, TIMES, TOWNS, WEATHER};

const TALK: &[&str] = &[
    "I walked past the {room} {time}, and the door was standing open again.",
    "Last time we had {weather}, and half of the benches were wet.",
    "Has anybody heard from the people in {town} since the letter?",
    "I still think the tea was too weak at the last meeting.",
    "We should thank everybody who helped to clear the {room}.",
    "My neighbour asks me every week when the {room} will be painted.",
    "There is no hurry, but I would like to see some figures first.",
    "I can bring {dish} if somebody else brings plates.",
    "The noise {time} was not our fault, whatever the paper says.",
    "Could we talk about the parking places another day?",
    "I agree with most of that, but not with all of it.",
    "The list on the notice board is out of date.",
    "It rained into the {room} during the concert, and nobody minded.",
    "We had more visitors from {town} than from here.",
    "Somebody has to write to the insurance company before long.",
    "The {good} in the corner belongs to nobody, as far as I know.",
    "I have the receipts in my bag, all of them, in order.",
    "That was discussed two years ago, and nothing came of it.",
    "Let us be honest, the posters were hung up far too late.",
    "The young people would rather meet {time}.",
    "We could ask the school, they have space and heating.",
    "I lost my notes, so please correct me where I am wrong.",
    "The key of the {room} has been copied so often that nobody knows who has one.",
    "I met a woman from {town} who would like to join us.",
    "We always begin late, and then we wonder why we finish late.",
    "The {dish} sold out within an hour last year.",
    "If there is {weather} again, we need somewhere to go inside.",
    "The {good} was a present, so we can hardly complain about it.",
    "May I remind everybody that the lights in the {room} stay on all night?",
    "I would rather hear what the others think before I say more.",
    "There were two complaints, and one of them was about the parking.",
    "The heating in the {room} is either off or far too hot.",
    "It is a pity that so few people read our letters.",
    "My cousin in {town} has a trailer that we could borrow.",
    "I was there {time}, and I saw nobody at all.",
    "We should not forget to water the plants in the {room}.",
    "I have asked three times, and three times I got no answer.",
    "The programme looks fine to me, apart from the spelling.",
    "Somebody ate the {dish} that was meant for the speakers.",
    "The chairs from {town} were never sent back, as far as I remember.",
];

const ACTIONS: &[&str] = &[
    "buy a new {good} for the {room}",
    "paint the {room} {colour}",
    "rent the {room} to the choir",
    "sell the old {good}",
    "invite the brass band from {town}",
    "close the {room} for repairs",
    "serve {dish} at the summer fair",
    "build a ramp in front of the {room}",
    "move the book sale to the {room}",
    "plant twelve apple trees behind the {room}",
];

const DEADLINES: &[&str] = &[
    "before the end of March",
    "in the first week of May",
    "on the last Sunday in June",
    "before the autumn fair",
    "at the beginning of October",
    "on the second of November",
    "before the first snow",
    "in the week after Easter",
];

const PAINTS: &[&str] = &["white", "yellow", "green", "blue", "red"];

const DECISIONS: usize = 3;

pub(super) fn make(draw: &mut Draw, target_words: usize, place: f64) -> Made {
    let people = draw.some(FIRST_NAMES, 4);
    let rooms = draw.some(ROOMS, DECISIONS);
    let goods = draw.some(GOODS, DECISIONS);
    let towns = draw.some(TOWNS, DECISIONS);
    let dishes = draw.some(DISHES, DECISIONS);
    let actions = draw.some(ACTIONS, DECISIONS);
    let deadlines = draw.some(DEADLINES, DECISIONS);
    let decided: Vec<String> = (0..DECISIONS)
        .map(|index| {
            let slots = [
                ("{good}", goods[index]),
                ("{room}", rooms[index]),
                ("{town}", towns[index]),
                ("{dish}", dishes[index]),
                ("{colour}", draw.pick(PAINTS)),
            ];
            format!("{} {}", fill(actions[index], &slots), deadlines[index])
        })
        .collect();
    let said: Vec<String> = decided
        .iter()
        .map(|decision| format!("DECISION: We will {decision}."))
        .collect();
    let evidence = said
        .iter()
        .enumerate()
        .map(|(index, unit)| Evidence {
            place: (index as f64 + place) / DECISIONS as f64,
            unit: unit.clone(),
        })
        .collect();
    let mut talk = Deck::new(TALK);
    let units = lay_out(draw, target_words, evidence, |draw| {
        let speaker = draw.pick(&people);
        let sentences: Vec<String> = (0..draw.within(1, 3))
            .map(|_| {
                let slots = [
                    ("{good}", draw.pick(GOODS)),
                    ("{room}", draw.pick(ROOMS)),
                    ("{town}", draw.pick(TOWNS)),
                    ("{dish}", draw.pick(DISHES)),
                    ("{weather}", draw.pick(WEATHER)),
                    ("{time}", draw.pick(TIMES)),
                ];
                fill(talk.next(draw), &slots)
            })
            .collect();
        format!("{speaker}: {}", sentences.join(" "))
    });
    let points: Vec<String> = decided
        .iter()
        .map(|decision| format!("We will {decision}."))
        .collect();
    Made {
        input: String::new(),
        context: units.join("\n"),
        answers: vec![points.join(" ")],
        all_classes: None,
        language: "en",
        evidence: said,
    }
}

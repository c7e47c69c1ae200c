//! `ticket_class`: repair tickets with the team that took them; which team takes the last one?
//! Few-shot classification; the asked team took no ticket but those of the evidence.

use super::draw::{Deck, Draw};
use super::made::{Made, fill};
use super::place::{Evidence, lay_out};
use super::words::ROOMS;

/// A team and what it repairs. No name is part of another or of a ticket.
const TEAMS: &[(&str, &[&str])] = &[
    (
        "Kitchen",
        &["coffee machine", "dishwasher", "toaster", "freezer"],
    ),
    (
        "Office",
        &["printer", "typewriter", "telephone", "copying machine"],
    ),
    (
        "Garden",
        &["lawn mower", "hedge trimmer", "garden hose", "wheelbarrow"],
    ),
    (
        "Music",
        &["loudspeaker", "microphone", "piano", "record player"],
    ),
    (
        "Heating",
        &["radiator", "boiler", "oven fan", "hot water tank"],
    ),
    (
        "Lighting",
        &["ceiling lamp", "street lamp", "spotlight", "reading lamp"],
    ),
    (
        "Transport",
        &["elevator", "delivery van", "bicycle", "forklift"],
    ),
    ("Security", &["door lock", "fire alarm", "camera", "safe"]),
];

const PROBLEMS: &[&str] = &[
    "Since {time} it makes a strange noise in the {room}.",
    "It does not start any more, said the people from the {room}.",
    "It stops after a minute and has to be moved out of the {room}.",
    "There is a smell of smoke in the {room}.",
    "A red light goes on and off, and nobody in the {room} knows why.",
    "It is far too loud for the {room}.",
    "The cover was lost somewhere in the {room}.",
    "It gets hot when it is used, and the {room} gets hot as well.",
    "Somebody spilled tea over it in the {room}.",
    "Since {time} it has to be pushed twice before it works, says the {room}.",
    "A screw was found on the floor of the {room}.",
    "The people in the {room} would like to have it checked.",
];

const SINCE: &[&str] = &[
    "Monday",
    "Tuesday",
    "yesterday",
    "last week",
    "this morning",
    "the weekend",
];

/// Tickets about the asked device among the examples; they follow one another.
const MATCHING: usize = 3;

fn ticket(draw: &mut Draw, problem: &str, device: &str) -> String {
    let slots = [("{time}", draw.pick(SINCE)), ("{room}", draw.pick(ROOMS))];
    format!("Ticket: {}\nDevice: {device}\nTeam:", fill(problem, &slots))
}

pub(super) fn make(draw: &mut Draw, target_words: usize, place: f64) -> Made {
    let mut teams = draw.shuffled(TEAMS);
    let Some((team, devices)) = teams.pop() else {
        unreachable!("there are teams")
    };
    let device = draw.pick(devices);
    let mut problems = Deck::new(PROBLEMS);
    let mut example = |draw: &mut Draw, team: &str, device: &str| {
        let problem = problems.next(draw);
        format!("{} {team}", ticket(draw, problem, device))
    };
    let unit = (0..MATCHING)
        .map(|_| example(draw, team, device))
        .collect::<Vec<_>>()
        .join("\n");
    let mut others = Deck::new(&teams);
    let evidence = vec![Evidence {
        place,
        unit: unit.clone(),
    }];
    let units = lay_out(draw, target_words, evidence, |draw| {
        let (team, devices) = others.next(draw);
        let device = draw.pick(devices);
        example(draw, team, device)
    });
    let problem = draw.pick(PROBLEMS);
    let input = ticket(draw, problem, device);
    Made {
        input,
        context: units.join("\n"),
        answers: vec![team.to_owned()],
        all_classes: Some(TEAMS.iter().map(|(team, _)| (*team).to_owned()).collect()),
        language: "en",
        evidence: vec![unit],
    }
}

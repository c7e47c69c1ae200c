//! `ticket_class`: repair tickets with the team that took them; which team takes the last one?
//! Few-shot classification; teams are made up per record, so only the examples tell.

use super::draw::{Deck, Draw};
use super::made::{Made, fill};
use super::place::{Evidence, lay_out};
use super::words::ROOMS;

const DEVICES: &[&str] = &[
    "coffee machine",
    "printer",
    "elevator",
    "dishwasher",
    "projector",
    "alarm clock",
    "lawn mower",
    "water pump",
    "microwave",
    "vending machine",
    "ceiling fan",
    "doorbell",
    "freezer",
    "radiator",
    "loudspeaker",
    "ticket gate",
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
];

const SINCE: &[&str] = &[
    "Monday",
    "Tuesday",
    "yesterday",
    "last week",
    "this morning",
    "the weekend",
];

/// None is part of another, none is part of a ticket.
const TEAMS: &[&str] = &[
    "Falcon", "Walnut", "Harbor", "Lantern", "Comet", "Meadow", "Anchor", "Tulip",
];

/// Tickets about the asked device among the examples; they follow one another.
const MATCHING: usize = 2;

fn ticket(draw: &mut Draw, problem: &str, device: &str) -> String {
    let slots = [("{time}", draw.pick(SINCE)), ("{room}", draw.pick(ROOMS))];
    format!("Ticket: {}\nDevice: {device}\nTeam:", fill(problem, &slots))
}

pub(super) fn make(draw: &mut Draw, target_words: usize, place: f64) -> Made {
    let devices = draw.shuffled(DEVICES);
    let teams = draw.shuffled(TEAMS);
    let team_of = |device: usize| teams[device % teams.len()];
    let problems = draw.some(PROBLEMS, MATCHING + 1);
    let examples: Vec<String> = problems[..MATCHING]
        .iter()
        .map(|problem| format!("{} {}", ticket(draw, problem, devices[0]), team_of(0)))
        .collect();
    let input = ticket(draw, problems[MATCHING], devices[0]);
    let unit = examples.join("\n");
    let mut problems = Deck::new(PROBLEMS);
    let mut others = Deck::new(&(1..devices.len()).collect::<Vec<_>>());
    let evidence = vec![Evidence {
        place,
        unit: unit.clone(),
    }];
    let units = lay_out(draw, target_words, evidence, |draw| {
        let device = others.next(draw);
        let problem = problems.next(draw);
        format!(
            "{} {}",
            ticket(draw, problem, devices[device]),
            team_of(device)
        )
    });
    Made {
        input,
        context: units.join("\n"),
        answers: vec![team_of(0).to_owned()],
        all_classes: Some(TEAMS.iter().map(|team| (*team).to_owned()).collect()),
        language: "en",
        evidence: vec![unit],
    }
}

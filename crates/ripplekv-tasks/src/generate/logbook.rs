//! `logbook_qa`: the logbook of a small house and one question about one fact in it.
//! Single-document QA; a few other facts of the same kind stand elsewhere in the log.

use super::draw::{Deck, Draw};
use super::made::{Made, fill};
use super::place::{Evidence, lay_out};
use super::words::{
    ANIMALS, COLOURS, DISHES, FIRST_NAMES, GOODS, HIDING_PLACES, LAST_NAMES, PET_NAMES, ROOMS,
    TIMES, TOWNS, TRADES, WEATHER,
};

struct Fact {
    sentence: String,
    question: String,
    answers: Vec<String>,
}

const ORDINARY: &[&str] = &[
    "There was {weather} {time}, and the barometer hardly moved.",
    "We swept the stairs and aired the blankets {time}.",
    "{name} wrote letters by the window {time}.",
    "Supper was {dish}, and nothing was left over.",
    "The roof above the porch leaks again, so a bucket stands there for now.",
    "Two hikers asked for water and walked on after a short rest.",
    "{name} mended a torn curtain and sang the whole time.",
    "The post came late because of {weather} on the pass.",
    "We counted the candles and found enough for the winter.",
    "{name} and {other} played cards until the lamp went out.",
    "A branch fell across the path, and it took an hour to saw it up.",
    "The pump needs a new washer, which we do not have.",
    "{name} baked {dish} for everybody in the house.",
    "There was {weather} all day long, and nobody went out.",
    "The chimney was cleaned {time} without much mess.",
    "{name} read aloud from an old travel book {time}.",
    "The children from the farm brought eggs and stayed to talk.",
    "We stacked firewood along the wall until our hands were sore.",
    "{name} tried to repair the radio, but it only hums.",
    "After {weather} the road was too muddy for the cart.",
    "{other} asked {name} for the recipe of the {dish}.",
    "The water in the well stands a little lower than last week.",
    "Nothing else worth writing down happened {time}.",
    "{name} oiled the hinges of every door {time}.",
    "We could hear the bells from the valley {time}.",
    "The windows on the west side were washed by {name} and {other}.",
    "The clock in the hall stopped {time}, so {name} wound it up again.",
    "{name} found a nest above the back door and put up a warning.",
    "We ran out of matches and had to keep the stove burning all night.",
    "{other} slept badly because of {weather} and the rattling shutters.",
    "A pedlar came by {time}, but nobody needed ribbons or needles.",
    "{name} says the {dish} tasted better last year.",
    "The path to the spring was cleared of stones {time}.",
    "{name} and {other} argued about the best way to dry herbs.",
    "One of the lamps smokes, and the glass has turned dark.",
    "We moved the long table nearer to the stove because of {weather}.",
    "{name} wrote a list of everything that is broken, and it is a long list.",
    "The dog from the next house barked {time} and could not be calmed.",
    "{other} peeled a whole sack of potatoes without saying a word.",
    "A letter for a former guest arrived and was sent back.",
    "We hung the washing under the roof on account of {weather}.",
    "{name} polished the spoons {time}, which had not been done for months.",
    "The smell of {dish} drew everybody to the kitchen.",
    "{name} measured the snow poles and wrote the figures on the wall.",
    "The ferry could be seen far out, but it did not stop.",
    "{other} taught {name} a new knot {time}.",
    "Somebody left the gate open, and two sheep walked in.",
    "There was {weather} {time}, then a quiet hour, then {weather} once more.",
];

/// Draws facts of one kind with new subjects every time.
struct Facts {
    kind: usize,
    rooms: Deck<&'static str>,
    hiding: Deck<&'static str>,
    animals: Deck<&'static str>,
    pets: Deck<&'static str>,
    goods: Deck<&'static str>,
    towns: Deck<&'static str>,
    trades: Deck<&'static str>,
    first: Deck<&'static str>,
    last: Deck<&'static str>,
    colours: Deck<&'static str>,
}

const KINDS: usize = 5;

impl Facts {
    fn new(kind: usize) -> Self {
        Self {
            kind,
            rooms: Deck::new(ROOMS),
            hiding: Deck::new(HIDING_PLACES),
            animals: Deck::new(ANIMALS),
            pets: Deck::new(PET_NAMES),
            goods: Deck::new(GOODS),
            towns: Deck::new(TOWNS),
            trades: Deck::new(TRADES),
            first: Deck::new(FIRST_NAMES),
            last: Deck::new(LAST_NAMES),
            colours: Deck::new(COLOURS),
        }
    }

    fn next(&mut self, draw: &mut Draw) -> Fact {
        match self.kind {
            0 => {
                let room = self.rooms.next(draw);
                let place = self.hiding.next(draw);
                Fact {
                    sentence: format!("The spare key to the {room} is kept {place}."),
                    question: format!("Where is the spare key to the {room} kept?"),
                    answers: vec![place.to_owned()],
                }
            }
            1 => {
                let animal = self.animals.next(draw);
                let pet = self.pets.next(draw);
                Fact {
                    sentence: format!("The name of the new {animal} is {pet}."),
                    question: format!("What is the name of the new {animal}?"),
                    answers: vec![pet.to_owned()],
                }
            }
            2 => {
                let name = format!("{} {}", self.first.next(draw), self.last.next(draw));
                let good = self.goods.next(draw);
                let price = draw.within(12, 98);
                Fact {
                    sentence: format!("{name} paid {price} crowns for the {good}."),
                    question: format!("How many crowns did {name} pay for the {good}?"),
                    answers: vec![price.to_string(), format!("{price} crowns")],
                }
            }
            3 => {
                let room = self.rooms.next(draw);
                let word = format!("{} {}", self.colours.next(draw), self.animals.next(draw));
                Fact {
                    sentence: format!("The password for the {room} is {word}."),
                    question: format!("What is the password for the {room}?"),
                    answers: vec![word],
                }
            }
            _ => {
                let name = format!("{} {}", self.first.next(draw), self.last.next(draw));
                let town = self.towns.next(draw);
                let trade = self.trades.next(draw);
                Fact {
                    sentence: format!("The {trade} {name} came to us from the town of {town}."),
                    question: format!("Which town did the {trade} {name} come from?"),
                    answers: vec![town.to_owned(), format!("the town of {town}")],
                }
            }
        }
    }
}

/// How many more facts of the asked kind stand in the log.
const DISTRACTORS: usize = 1;

pub(super) fn make(draw: &mut Draw, target_words: usize, place: f64) -> Made {
    let mut facts = Facts::new(draw.below(KINDS));
    let asked = facts.next(draw);
    let mut others: Vec<Fact> = (0..DISTRACTORS).map(|_| facts.next(draw)).collect();
    let mut ordinary = Deck::new(ORDINARY);
    let people = draw.some(FIRST_NAMES, 6);
    let mut entry = |draw: &mut Draw, fact: Option<&str>| {
        let mut sentences: Vec<String> = (0..draw.within(3, 4))
            .map(|_| {
                let pair = draw.some(&people, 2);
                let slots = [
                    ("{weather}", draw.pick(WEATHER)),
                    ("{time}", draw.pick(TIMES)),
                    ("{dish}", draw.pick(DISHES)),
                    ("{name}", pair[0]),
                    ("{other}", pair[1]),
                ];
                fill(ordinary.next(draw), &slots)
            })
            .collect();
        if let Some(fact) = fact {
            sentences.insert(sentences.len() / 2, fact.to_owned());
        }
        sentences.join(" ")
    };
    let evidence = vec![Evidence {
        place,
        unit: entry(draw, Some(&asked.sentence)),
    }];
    let about_words_an_entry = 40;
    let between = target_words / about_words_an_entry / (DISTRACTORS + 1);
    let mut since = draw.below(between.max(1));
    let units = lay_out(draw, target_words, evidence, |draw| {
        since += 1;
        if since > between
            && let Some(other) = others.pop()
        {
            since = 0;
            return entry(draw, Some(&other.sentence));
        }
        entry(draw, None)
    });
    let dated: Vec<String> = units
        .iter()
        .enumerate()
        .map(|(day, unit)| format!("Day {}. {unit}", day + 1))
        .collect();
    Made {
        input: asked.question,
        context: dated.join("\n"),
        answers: asked.answers,
        all_classes: None,
        language: "en",
        evidence: vec![asked.sentence],
    }
}

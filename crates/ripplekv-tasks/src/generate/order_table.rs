//! `order_table`: the order book of a village shop as a table, and one question about one row.
//! Single-document QA; every row looks alike, so the answer must be found by its row and column.

use std::collections::BTreeSet;

use super::draw::{Deck, Draw, unseen};
use super::made::Made;
use super::place::{Evidence, lay_out};
use super::words::{COLOURS, FIRST_NAMES, GOODS, HIDING_PLACES, LAST_NAMES, TOWNS};

const HEAD: &str =
    "| Order | Customer | Town | Goods | Leave it |\n| --- | --- | --- | --- | --- |";

/// What a row says besides its number.
struct Order {
    customer: String,
    town: &'static str,
    goods: String,
    place: &'static str,
}

impl Order {
    fn cells(&self) -> String {
        let Order {
            customer,
            town,
            goods,
            place,
        } = self;
        format!("| {customer} | {town} | {goods} | {place} |")
    }
}

pub(super) fn make(draw: &mut Draw, target_words: usize, place: f64) -> Made {
    let (mut customers, mut baskets) = (BTreeSet::new(), BTreeSet::new());
    let mut hiding = Deck::new(HIDING_PLACES);
    let mut order = |draw: &mut Draw| Order {
        customer: unseen(&mut customers, draw, |draw| {
            format!("{} {}", draw.pick(FIRST_NAMES), draw.pick(LAST_NAMES))
        }),
        town: draw.pick(TOWNS),
        goods: unseen(&mut baskets, draw, |draw| {
            let goods = draw.some(GOODS, 2);
            let colours = draw.some(COLOURS, 2);
            let [one, other] = [0, 1].map(|index| format!("{} {}", colours[index], goods[index]));
            format!("{one} and {other}")
        }),
        place: hiding.next(draw),
    };
    let asked = order(draw);
    let first_number = draw.within(1_000, 8_000);
    let evidence = Evidence {
        place,
        unit: asked.cells(),
    };
    let rows = lay_out(draw, target_words, vec![evidence], |draw| {
        order(draw).cells()
    });
    let mut number = first_number;
    let mut told = String::new();
    let lines: Vec<String> = rows
        .iter()
        .enumerate()
        .map(|(index, row)| {
            let line = format!("| {} {row}", first_number + index);
            if *row == asked.cells() {
                number = first_number + index;
                told.clone_from(&line);
            }
            line
        })
        .collect();
    let (input, answer) = match draw.below(3) {
        0 => (format!("What did {} order?", asked.customer), asked.goods),
        1 => (format!("Who placed order number {number}?"), asked.customer),
        _ => (
            format!("Where should order number {number} be left?"),
            asked.place.to_owned(),
        ),
    };
    Made {
        input,
        context: format!("{HEAD}\n{}", lines.join("\n")),
        answers: vec![answer],
        all_classes: None,
        language: "en",
        evidence: vec![told],
    }
}

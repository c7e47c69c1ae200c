//! Seeded draws whose values never change with a library's version.
//! ChaCha8 for the bits, our own multiply-and-shift for the range (after Lemire, 2019).

use std::collections::BTreeSet;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// A stream of draws, one per record: records do not depend on one another.
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    /// The stream with this name under this seed.
    pub(super) fn new(seed: u64, name: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        hasher.update(name.as_bytes());
        Self(ChaCha8Rng::from_seed(*hasher.finalize().as_bytes()))
    }

    /// A whole number below `end`, which is at least 1.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.0.next_u64()) * end as u128;
        (wide >> 64) as usize
    }

    /// A whole number from `first` to `last`, both included.
    pub(super) fn within(&mut self, first: usize, last: usize) -> usize {
        first + self.below(last - first + 1)
    }

    /// A number from 0 to below 1.
    pub(super) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// One of the list.
    pub(super) fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }

    /// The list in random order.
    pub(super) fn shuffled<T: Clone>(&mut self, list: &[T]) -> Vec<T> {
        let mut mixed = list.to_vec();
        for end in (1..mixed.len()).rev() {
            mixed.swap(end, self.below(end + 1));
        }
        mixed
    }

    /// `count` different ones of the list, in random order.
    pub(super) fn some<T: Clone>(&mut self, list: &[T], count: usize) -> Vec<T> {
        let mut mixed = self.shuffled(list);
        mixed.truncate(count);
        mixed
    }
}

/// An endless walk through a list that repeats nothing before all were seen.
pub(super) struct Deck<T> {
    all: Vec<T>,
    left: Vec<T>,
}

impl<T: Clone> Deck<T> {
    pub(super) fn new(all: &[T]) -> Self {
        Self {
            all: all.to_vec(),
            left: Vec::new(),
        }
    }

    pub(super) fn next(&mut self, draw: &mut Draw) -> T {
        loop {
            if let Some(card) = self.left.pop() {
                return card;
            }
            self.left = draw.shuffled(&self.all);
        }
    }
}

/// Draws again until it is something not seen before.
pub(super) fn unseen(
    seen: &mut BTreeSet<String>,
    draw: &mut Draw,
    mut make: impl FnMut(&mut Draw) -> String,
) -> String {
    loop {
        let made = make(draw);
        if seen.insert(made.clone()) {
            return made;
        }
    }
}

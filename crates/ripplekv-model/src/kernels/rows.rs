//! Rows of numbers in the order in which products read them.

use super::micro::{Chunk, LANES, ROWS};

/// Rows in groups of [`ROWS`], `[group, chunk, row of the group]`; a row is filled up with zeros to whole chunks.
#[derive(Default)]
pub(crate) struct Rows {
    rows: usize,
    /// Chunks of one row.
    chunks: usize,
    values: Vec<Chunk>,
}

impl Rows {
    /// Makes room for `rows` rows of `width` numbers, all of them to be set.
    pub(crate) fn reset(&mut self, rows: usize, width: usize) {
        self.rows = rows;
        self.chunks = width.div_ceil(LANES).max(1);
        self.values.resize(rows * self.chunks, [0.0; LANES]);
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// Sets one row, zeros behind its end.
    pub(crate) fn set_row(&mut self, row: usize, values: &[f32]) {
        let group = row / ROWS;
        let size = ROWS.min(self.rows - group * ROWS);
        let first = group * ROWS * self.chunks + row % ROWS;
        let mut targets = self.values[first..].iter_mut().step_by(size);
        let (whole, rest) = values.as_chunks::<LANES>();
        for value in whole {
            if let Some(target) = targets.next() {
                *target = *value;
            }
        }
        if let (false, Some(target)) = (rest.is_empty(), targets.next()) {
            *target = [0.0; LANES];
            target[..rest.len()].copy_from_slice(rest);
        }
    }

    /// All rows of `states`, `[rows, width]`.
    pub(crate) fn set(&mut self, states: &[f32], width: usize) {
        self.reset(states.len() / width, width);
        for (row, values) in states.chunks_exact(width).enumerate() {
            self.set_row(row, values);
        }
    }

    /// Every group, `[chunks, rows of the group]`.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[Chunk]> {
        self.values.chunks(ROWS * self.chunks)
    }
}

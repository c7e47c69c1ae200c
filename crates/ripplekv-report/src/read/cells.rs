//! `cells.json`: what the keys of the records stand for.

use std::fs;
use std::path::Path;

use ripplekv_runner::cell::{Cell, CellKey};
use serde_json::{Map, Value};

use super::{LeftOut, Reader};

impl Reader {
    /// Keys of the sound cells in the file.
    pub(super) fn cells_file(&mut self, path: &Path) -> Vec<CellKey> {
        let read = fs::read_to_string(path).map_err(|error| error.to_string());
        let map = read.and_then(|text| {
            serde_json::from_str::<Map<String, Value>>(&text).map_err(|error| error.to_string())
        });
        let map = match map {
            Ok(map) => map,
            Err(error) => {
                self.warn(format!("{}: not read: {error}", path.display()));
                return Vec::new();
            }
        };
        let mut keys = Vec::with_capacity(map.len());
        let mut left_out = LeftOut::default();
        for (key, value) in map {
            match serde_json::from_value::<Cell>(value) {
                Ok(cell) if cell.key.0 == key => {
                    keys.push(cell.key.clone());
                    self.add_cell(path, cell);
                }
                Ok(cell) => left_out.add(format!(
                    "{}: cell `{key}` left out: it calls itself `{}`",
                    path.display(),
                    cell.key
                )),
                Err(error) => left_out.add(format!(
                    "{}: cell `{key}` left out: {error}",
                    path.display()
                )),
            }
        }
        left_out.tell(path, &mut self.warnings);
        keys
    }

    pub(super) fn add_cell(&mut self, path: &Path, cell: Cell) {
        match self.cells.get(&cell.key) {
            Some(known) if *known != cell => self.warn(format!(
                "{}: cell `{}` differs from the one read before; the first is used",
                path.display(),
                cell.key
            )),
            Some(_) => {}
            None => {
                self.cells.insert(cell.key.clone(), cell);
            }
        }
    }
}

/// Model, method and budget of a cell, as warnings name it.
pub(super) fn row_name(cell: &Cell) -> String {
    let budget = cell.budget.as_deref().map(|budget| format!(" at {budget}"));
    format!(
        "{}: {}{}",
        cell.model,
        cell.method.label,
        budget.unwrap_or_default()
    )
}

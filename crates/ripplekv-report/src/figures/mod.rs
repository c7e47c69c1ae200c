//! Figures: each builds a scene of shapes and the data behind it; drawing and files are the same for all.
//! To add a figure: one file with a `build` function, one line in [`FIGURES`].

mod axes;
mod draw;
mod frame;
mod scene;
mod score_by_budget;
mod style;
mod task_dumbbell;
#[cfg(test)]
mod tests;

pub(crate) use draw::{png, svg};
pub(crate) use scene::Scene;

use crate::group::Group;
use crate::options::ReportOptions;

/// One kind of figure.
pub struct FigureInfo {
    /// File name without its end, unique and stable.
    pub name: &'static str,
    /// One line on what it shows.
    pub about: &'static str,
    /// Makes the figures of one group: none, one, or one for each part.
    pub(crate) build: fn(&Group, &ReportOptions) -> Vec<Figure>,
}

/// Every figure, in the order of the report.
pub const FIGURES: &[FigureInfo] = &[
    FigureInfo {
        name: "score-by-budget",
        about: "average score of every method against its budget, with 95% bootstrap bands",
        build: score_by_budget::build,
    },
    FigureInfo {
        name: "task-dumbbell",
        about: "score of every method on every task beside the baseline's, one figure a budget",
        build: task_dumbbell::build,
    },
];

/// One drawn figure.
pub(crate) struct Figure {
    /// Added to the file name where one kind makes several figures; else empty.
    pub(crate) part: String,
    /// What a reader who cannot see it should know.
    pub(crate) description: String,
    pub(crate) scene: Scene,
    pub(crate) data: Data,
}

/// The numbers of a figure.
pub(crate) struct Data {
    pub(crate) header: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A number of a data file; empty where there is none.
pub(crate) fn data_number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.4}"))
}

//! Figures: each builds a scene of shapes and the data behind it; drawing and files are the same for all.
//! To add a figure: one file with a `build` function, one line in [`FIGURES`].

mod ablation_heatmap;
mod axes;
mod cell_grid;
mod compact;
mod draw;
mod efficiency_cache;
mod efficiency_latency;
mod efficiency_lines;
mod efficiency_peak_memory;
mod efficiency_throughput;
mod frame;
mod kept_positions;
mod layer_budgets;
mod models_layers;
mod scene;
mod score_by_budget;
mod sensitivity_and_damage;
mod sensitivity_scatter;
mod signal_grid;
mod style;
mod task_dumbbell;
#[cfg(test)]
mod tests;

pub(crate) use draw::{png, svg};
pub(crate) use scene::Scene;

use crate::evidence::Evidence;
use crate::group::Group;
use crate::metric::Metric;
use crate::options::ReportOptions;
use crate::shown::KeptPrompt;

/// One kind of figure.
pub struct FigureInfo {
    /// File name without its end, unique and stable.
    pub name: &'static str,
    /// One line on what it shows.
    pub about: &'static str,
    /// Makes the figures: none, one, or one for each part.
    pub(crate) build: Build,
}

/// What a figure is about.
pub(crate) enum Build {
    /// The scores of one group of cells.
    Group(fn(&Group, &ReportOptions) -> Vec<Figure>),
    /// The layers of one model.
    Layers(fn(&Evidence) -> Vec<Figure>),
    /// The layers of all models together.
    Models(fn(&[Evidence]) -> Vec<Figure>),
    /// What methods kept of one prompt of a group of cells.
    Kept(fn(&KeptPrompt) -> Vec<Figure>),
}

/// Every figure, in the order of the report.
pub const FIGURES: &[FigureInfo] = &[
    FigureInfo {
        name: "score-by-budget",
        about: "average score of every method against its budget, with 95% bootstrap bands",
        build: Build::Group(score_by_budget::build),
    },
    FigureInfo {
        name: "task-dumbbell",
        about: "score of every method on every task beside the baseline's, one figure a budget",
        build: Build::Group(task_dumbbell::build),
    },
    FigureInfo {
        name: "layer-budgets",
        about: "kept tokens of every layer, one panel a method, one figure a budget",
        build: Build::Group(layer_budgets::build),
    },
    FigureInfo {
        name: "efficiency-latency",
        about: "seconds of an answer against prompt length, one panel a budget (timing: alone)",
        build: Build::Group(efficiency_latency::build),
    },
    FigureInfo {
        name: "efficiency-throughput",
        about: "decoded tokens a second against prompt length, one panel a budget (timing: alone)",
        build: Build::Group(efficiency_throughput::build),
    },
    FigureInfo {
        name: "efficiency-peak-memory",
        about: "peak memory of the process against prompt length, one panel a budget (timing: alone)",
        build: Build::Group(efficiency_peak_memory::build),
    },
    FigureInfo {
        name: "efficiency-cache",
        about: "bytes of the kept prompt cache against prompt length, one panel a budget (timing: alone)",
        build: Build::Group(efficiency_cache::build),
    },
    FigureInfo {
        name: "kept-positions",
        about: "which positions of one prompt every layer keeps, one panel a method, at the smallest budget",
        build: Build::Kept(kept_positions::build),
    },
    FigureInfo {
        name: "ablation-heatmap",
        about: "average score of a swept method, r by gamma, with intervals, one figure a budget",
        build: Build::Group(|group, _| ablation_heatmap::build(group, Metric::Score)),
    },
    FigureInfo {
        name: "ablation-heatmap-kl",
        about: "mean KL of a swept method, r by gamma, with intervals, one figure a budget",
        build: Build::Group(|group, _| ablation_heatmap::build(group, Metric::AnswerKl)),
    },
    FigureInfo {
        name: "signal-grid",
        about: "average score of methods that differ in the allocator alone, with intervals, by budget",
        build: Build::Group(|group, _| signal_grid::build(group, Metric::Score)),
    },
    FigureInfo {
        name: "signal-grid-kl",
        about: "mean KL of methods that differ in the allocator alone, with intervals, by budget",
        build: Build::Group(|group, _| signal_grid::build(group, Metric::AnswerKl)),
    },
    FigureInfo {
        name: "sensitivity-and-damage",
        about: "sensitivity and measured damage of every layer, with 95% bootstrap bands",
        build: Build::Layers(sensitivity_and_damage::build),
    },
    FigureInfo {
        name: "models-layers",
        about: "sensitivity and measured damage of every layer of several models, one panel a model",
        build: Build::Models(models_layers::build),
    },
    FigureInfo {
        name: "sensitivity-scatter",
        about: "sensitivity against measured damage with the rank correlation, one figure a budget",
        build: Build::Layers(sensitivity_scatter::build),
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

/// A number of a data file, with as many digits as it takes.
pub(crate) fn data_exact(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:e}"))
}

/// A number of a data file; empty where there is none.
pub(crate) fn data_number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| format!("{value:.4}"))
}

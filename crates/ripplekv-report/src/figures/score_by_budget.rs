//! Average score against budget, one line a method with its 95% bootstrap band; methods without a budget are dashed lines.
//! Budgets of different kinds (percent, tokens, memory) never share an axis: one figure each.

use crate::averages::RowAverage;
use crate::budget::{Budget, BudgetKind};
use crate::figures::axes::{Axes, round_ticks};
use crate::figures::frame::{Heading, Legend, Swatch};
use crate::figures::scene::Scene;
use crate::figures::style::{Marker, Rgb, STYLE, series_look};
use crate::figures::{Data, Figure, data_number};
use crate::group::Group;
use crate::metric::Metric;
use crate::options::ReportOptions;
use crate::stats::Interval;

const PLOT_WIDTH: f64 = 540.0;
const PLOT_HEIGHT: f64 = 340.0;
/// Sizes that spread further than this are placed by their logarithm.
const LINEAR_UP_TO: f64 = 6.0;

/// Bands that show at full strength together.
const BANDS: f64 = 5.0;

struct Series<'a> {
    label: &'a str,
    color: Rgb,
    marker: Marker,
    /// Place on the axis, average.
    points: Vec<(f64, &'a RowAverage)>,
}

pub(super) fn build(group: &Group, _options: &ReportOptions) -> Vec<Figure> {
    let mut kinds: Vec<BudgetKind> = group.budgets.iter().map(|budget| budget.kind).collect();
    kinds.dedup();
    let several = kinds.len() > 1;
    kinds
        .into_iter()
        .filter_map(|kind| {
            let budgets: Vec<&Budget> = group
                .budgets
                .iter()
                .filter(|budget| budget.kind == kind)
                .collect();
            let mut figure = draw(group, kind, &budgets)?;
            if several {
                figure.part = match kind {
                    BudgetKind::Percent => "percent",
                    BudgetKind::Tokens => "tokens",
                    BudgetKind::Memory => "memory",
                    BudgetKind::Unknown => "other",
                }
                .to_owned();
            }
            Some(figure)
        })
        .collect()
}

fn draw(group: &Group, kind: BudgetKind, budgets: &[&Budget]) -> Option<Figure> {
    let place = placing(kind, budgets);
    let series = series(group, budgets, &place);
    let flat: Vec<(&str, &RowAverage)> = group
        .methods_at(None)
        .into_iter()
        .filter_map(|label| Some((label, group.average(Metric::Score, label, None)?)))
        .collect();
    if series.is_empty() {
        return None;
    }
    let legend = Legend::new(
        flat.iter()
            .map(|(label, _)| (Swatch::Dashed(STYLE.ink), (*label).to_owned()))
            .chain(
                series
                    .iter()
                    .map(|one| (Swatch::Series(one.color, one.marker), one.label.to_owned())),
            )
            .collect(),
    );
    let left = STYLE.margin + 58.0;
    let width = left + PLOT_WIDTH + 26.0 + legend.width() + STYLE.margin;
    let heading = Heading::new("Score against KV cache budget", &subtitle(group), width);
    let top = heading.height();
    let plot_height = PLOT_HEIGHT.max(legend.height());
    let axes = Axes {
        left,
        top,
        right: left + PLOT_WIDTH,
        bottom: top + plot_height,
        x_range: x_range(budgets, &place),
        y_range: (0.0, 1.0),
    };
    let values = flat.iter().map(|(_, average)| *average).chain(
        series
            .iter()
            .flat_map(|one| one.points.iter().map(|point| point.1)),
    );
    let (axes, y_ticks) = with_y_range(axes, values);
    let mut scene = Scene::new(width, axes.bottom + 40.0 + STYLE.margin);
    heading.draw(&mut scene);
    axes.draw_y(&mut scene, &y_ticks);
    let x_ticks: Vec<(f64, String)> = budgets
        .iter()
        .map(|budget| (place(budget), tick(kind, budget)))
        .collect();
    draw_series(&mut scene, &axes, &series);
    for (_, average) in &flat {
        let y = axes.y(average.value);
        scene.dashed((axes.left, y), (axes.right, y), STYLE.ink, STYLE.line_width);
    }
    axes.draw_x(&mut scene, &x_ticks);
    axes.x_title(&mut scene, kind.axis_title());
    axes.y_title(&mut scene, &y_title(group), STYLE.margin + 10.0);
    legend.draw(&mut scene, axes.right + 26.0, axes.top);
    Some(Figure {
        part: String::new(),
        description: format!(
            "{} against budget for {} methods",
            group.average_title(Metric::Score),
            series.len()
        ),
        scene,
        data: data(group, budgets),
    })
}

fn series<'a>(
    group: &'a Group,
    budgets: &[&Budget],
    place: &impl Fn(&Budget) -> f64,
) -> Vec<Series<'a>> {
    // Colours go by the method's place in the group, so that it looks the same in every figure.
    let with_budget = group.budgeted_methods();
    with_budget
        .into_iter()
        .enumerate()
        .map(|(index, label)| {
            let (color, marker) = series_look(index);
            let points = budgets
                .iter()
                .filter_map(|budget| {
                    let average = group.average(Metric::Score, label, Some(&budget.text))?;
                    Some((place(budget), average))
                })
                .collect();
            Series {
                label,
                color,
                marker,
                points,
            }
        })
        .filter(|series| !series.points.is_empty())
        .collect()
}

fn draw_series(scene: &mut Scene, axes: &Axes, series: &[Series<'_>]) {
    for one in series.iter().filter(|one| one.points.len() > 1) {
        let ends: Vec<(f64, Interval)> = one
            .points
            .iter()
            .filter_map(|(x, average)| Some((*x, average.interval?)))
            .collect();
        let upper = ends.iter().map(|(x, ends)| (axes.x(*x), axes.y(ends.high)));
        let lower = ends
            .iter()
            .rev()
            .map(|(x, ends)| (axes.x(*x), axes.y(ends.low)));
        let outline: Vec<(f64, f64)> = upper.chain(lower).collect();
        if ends.len() > 1 {
            // Many bands on top of each other would add up to one dark field.
            let opacity = STYLE.band_opacity * (BANDS / series.len() as f64).min(1.0);
            scene.area(&outline, one.color, opacity);
        }
    }
    let single = series.iter().all(|one| one.points.len() == 1);
    let room = (axes.right - axes.left) / (series.len() as f64 + 1.0);
    for (index, one) in series.iter().enumerate() {
        // With one budget there is no band: the methods stand side by side with their intervals.
        let shift = if single {
            (index as f64 - (series.len() as f64 - 1.0) / 2.0) * room.min(24.0)
        } else {
            0.0
        };
        let points: Vec<(f64, f64)> = one
            .points
            .iter()
            .map(|(x, average)| (axes.x(*x) + shift, axes.y(average.value)))
            .collect();
        scene.line(&points, one.color, STYLE.line_width);
        for ((x, y), (_, average)) in points.iter().zip(&one.points) {
            if let (true, Some(ends)) = (one.points.len() == 1, average.interval) {
                let (low, high) = (axes.y(ends.low), axes.y(ends.high));
                scene.line(&[(*x, low), (*x, high)], one.color, STYLE.line_width);
                for end in [low, high] {
                    scene.line(
                        &[(x - 4.0, end), (x + 4.0, end)],
                        one.color,
                        STYLE.line_width,
                    );
                }
            }
            scene.marker(*x, *y, one.marker, one.color, STYLE.marker_radius);
        }
    }
}

fn placing(kind: BudgetKind, budgets: &[&Budget]) -> impl Fn(&Budget) -> f64 {
    let values = || budgets.iter().map(|budget| budget.value);
    let low = values().fold(f64::INFINITY, f64::min);
    let high = values().fold(f64::NEG_INFINITY, f64::max);
    let logarithmic = low > 0.0 && high / low > LINEAR_UP_TO;
    let texts: Vec<String> = budgets.iter().map(|budget| budget.text.clone()).collect();
    move |budget| match kind {
        BudgetKind::Unknown => texts
            .iter()
            .position(|text| *text == budget.text)
            .unwrap_or(0) as f64,
        _ if logarithmic => budget.value.log2(),
        _ => budget.value,
    }
}

fn x_range(budgets: &[&Budget], place: &impl Fn(&Budget) -> f64) -> (f64, f64) {
    let places = || budgets.iter().map(|budget| place(budget));
    let low = places().fold(f64::INFINITY, f64::min);
    let high = places().fold(f64::NEG_INFINITY, f64::max);
    let room = if high > low { 0.06 * (high - low) } else { 1.0 };
    (low - room, high + room)
}

fn with_y_range<'a>(axes: Axes, values: impl Iterator<Item = &'a RowAverage>) -> (Axes, Vec<f64>) {
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for average in values {
        let interval = average.interval;
        low = low.min(interval.map_or(average.value, |ends| ends.low.min(average.value)));
        high = high.max(interval.map_or(average.value, |ends| ends.high.max(average.value)));
    }
    let ticks = round_ticks(low, high, 6);
    let range = (ticks[0], ticks[ticks.len() - 1]);
    (
        Axes {
            y_range: range,
            ..axes
        },
        ticks,
    )
}

fn tick(kind: BudgetKind, budget: &Budget) -> String {
    match kind {
        BudgetKind::Memory => budget.value.to_string(),
        _ => budget.text.clone(),
    }
}

fn y_title(group: &Group) -> String {
    let title = group.average_title(Metric::Score);
    format!("Score, {title} (0 to 100)")
}

fn subtitle(group: &Group) -> String {
    let samples = group.expected_in_average(Metric::Score);
    format!(
        "{}. {samples} samples; bands or bars: 95% bootstrap interval over samples; dashed: no compression.",
        group.title()
    )
}

/// Scored samples behind the average of a row.
fn samples(group: &Group, label: &str, budget: Option<&str>) -> usize {
    let tasks = group.averaged_tasks().into_iter();
    let cells = tasks.filter_map(|task| group.cell(label, budget, &task.name));
    cells.map(|cell| cell.scored).sum()
}

fn data(group: &Group, budgets: &[&Budget]) -> Data {
    let mut rows = Vec::new();
    let all = std::iter::once(None).chain(budgets.iter().map(|budget| Some(budget.text.as_str())));
    for budget in all {
        for label in group.methods_at(budget) {
            let Some(average) = group.average(Metric::Score, label, budget) else {
                continue;
            };
            rows.push(vec![
                label.to_owned(),
                budget.unwrap_or_default().to_owned(),
                format!("{:.2}", average.value),
                data_number(average.interval.map(|ends| ends.low)),
                data_number(average.interval.map(|ends| ends.high)),
                average.complete.to_string(),
                samples(group, label, budget).to_string(),
            ]);
        }
    }
    Data {
        header: vec![
            "method", "budget", "score", "ci_low", "ci_high", "complete", "n",
        ],
        rows,
    }
}

//! Seconds from the prompt to the end of the answer, against prompt length.

use crate::figures::Figure;
use crate::figures::efficiency_lines::{self, Measure};
use crate::group::Group;
use crate::options::ReportOptions;

const MEASURE: Measure = Measure {
    title: "Latency of an answer",
    axis: "prefill + compress + decode, s",
    note: "From the prompt to the last token of the answer.",
    column: "latency_seconds",
    of: |cost| Some(cost.latency_ms() / 1e3),
};

pub(super) fn build(group: &Group, _options: &ReportOptions) -> Vec<Figure> {
    efficiency_lines::build(group, &MEASURE)
}

//! Similarity of the first line of code to the right next line.
//! Follows LongBench `metrics.py`, `code_sim_score`, with either program behind fuzzywuzzy.

use crate::fuzz::ratio_percent;
use crate::metric::{Context, MetricError, MetricInfo, best_of};

pub(crate) const INFO: MetricInfo = MetricInfo {
    name: "code-similarity",
    summary: "fuzz.ratio of the first line without a fence or comment, difflib or Levenshtein",
    source: "LongBench metrics.py code_sim_score, fuzzywuzzy 0.18.0",
    range: (0.0, 1.0),
    correct_from: Some(1.0),
    needs_segmenter: false,
    needs_classes: false,
    score,
};

fn score(prediction: &str, answers: &[String], context: &Context<'_>) -> Result<f64, MetricError> {
    let line = first_code_line(prediction);
    Ok(best_of(answers, |answer| {
        ratio_percent(line, answer, context.code) / 100.0
    }))
}

/// The first line with none of "`", "#" and "//", after leading newlines; a blank line counts.
/// Empty if there is none.
fn first_code_line(prediction: &str) -> &str {
    prediction
        .trim_start_matches('\n')
        .split('\n')
        .find(|line| !line.contains(['`', '#']) && !line.contains("//"))
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_fences_are_passed_over() {
        assert_eq!(first_code_line("\n\n```py\n# note\n  x = 1\ny"), "  x = 1");
        assert_eq!(first_code_line("// a\n \nb"), " ");
        assert_eq!(first_code_line("url = 'http://x'"), "");
        assert_eq!(first_code_line("\r\nx"), "\r");
    }
}

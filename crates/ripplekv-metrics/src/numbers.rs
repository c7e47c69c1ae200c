//! Share of the numbers in a prediction that equal the right one.
//! Follows LongBench `metrics.py`, `count_score` and the retrieval scores.

use crate::metric::MetricError;
use crate::python::{digit_runs, number_after};

/// The best share over answers of the form "<label><number>".
///
/// An answer without it is an error; the official code raises an index error there.
pub(crate) fn best_share_of_labelled(
    metric: &'static str,
    label: &'static str,
    prediction: &str,
    answers: &[String],
) -> Result<f64, MetricError> {
    answers.iter().try_fold(0.0, |best, answer| {
        let right =
            number_after(answer, label).ok_or_else(|| MetricError::AnswerWithoutNumber {
                metric,
                label,
                answer: answer.clone(),
            })?;
        Ok(f64::max(best, share_of_numbers(prediction, right)))
    })
}

/// Equal as strings, so "017" is not "17"; 0 without any number.
pub(crate) fn share_of_numbers(prediction: &str, right: &str) -> f64 {
    let (mut numbers, mut hits) = (0_usize, 0_usize);
    for number in digit_runs(prediction) {
        numbers += 1;
        hits += usize::from(number == right);
    }
    if numbers == 0 {
        return 0.0;
    }
    hits as f64 / numbers as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_text() {
        assert_eq!(share_of_numbers("17.0", "17"), 0.5);
        assert_eq!(share_of_numbers("017", "17"), 0.0);
        assert_eq!(share_of_numbers("１７ or 17", "17"), 0.5);
        assert_eq!(share_of_numbers("seventeen", "17"), 0.0);
    }

    #[test]
    fn an_answer_without_its_number_is_an_error() {
        let answers = ["Paragraph 3".to_string(), "Paragraph three".to_string()];
        let error = best_share_of_labelled("retrieval", "Paragraph ", "3", &answers).unwrap_err();
        assert!(error.to_string().contains("Paragraph three"));
        let right = best_share_of_labelled("retrieval", "Paragraph ", "3 or 4", &answers[..1]);
        assert_eq!(right, Ok(0.5));
    }
}

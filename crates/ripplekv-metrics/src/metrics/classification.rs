//! One over the number of classes the prediction names, if the right one is among them.
//! Follows LongBench `metrics.py`, `classification_score`.

use crate::metric::{Context, MetricError, MetricInfo, best_of};

pub(crate) const INFO: MetricInfo = MetricInfo {
    name: "classification",
    summary: "1 / number of classes found in the prediction, 0 without the right one",
    source: "LongBench metrics.py classification_score",
    range: (0.0, 1.0),
    correct_from: Some(1.0),
    needs_segmenter: false,
    needs_classes: true,
    score,
};

fn score(prediction: &str, answers: &[String], context: &Context<'_>) -> Result<f64, MetricError> {
    if context.all_classes.is_empty() {
        return Err(MetricError::MissingClasses { metric: INFO.name });
    }
    Ok(best_of(answers, |answer| {
        one(prediction, answer, context.all_classes)
    }))
}

fn one(prediction: &str, answer: &str, all_classes: &[String]) -> f64 {
    let mut found: Vec<&str> = all_classes
        .iter()
        .map(String::as_str)
        .filter(|class| prediction.contains(class))
        .collect();
    // The official loop removes from the list it iterates over: the entry after a removed one
    // is never looked at, and a duplicate removes its first occurrence.
    let mut index = 0;
    while index < found.len() {
        let class = found[index];
        if answer.contains(class) && class != answer {
            let first = found.iter().position(|other| *other == class);
            found.remove(first.expect("the class itself is in the list"));
        }
        index += 1;
    }
    if found.contains(&answer) {
        1.0 / found.len() as f64
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(prediction: &str, answer: &str, classes: &[&str]) -> f64 {
        let classes: Vec<String> = classes.iter().map(ToString::to_string).collect();
        one(prediction, answer, &classes)
    }

    #[test]
    fn the_entry_after_a_removed_one_is_skipped() {
        // "red" goes, "wine" behind it is skipped and stays.
        assert_eq!(
            of("red wine", "red wine", &["red", "wine", "red wine"]),
            0.5
        );
        // With the whole term between them both parts go.
        assert_eq!(
            of("red wine", "red wine", &["red", "red wine", "wine"]),
            1.0
        );
    }

    #[test]
    fn a_duplicate_removes_its_first_occurrence() {
        assert_eq!(of("ab", "ab", &["ab", "a", "a", "a"]), 0.5);
    }

    #[test]
    fn the_right_class_must_be_named_in_its_own_case() {
        assert_eq!(of("state", "State", &["State", "City"]), 0.0);
        assert_eq!(of("State or City", "State", &["State", "City"]), 0.5);
    }
}

//! Nearest valid name for a misspelt one, for error messages.
//! Distance is optimal string alignment, so a swapped pair of letters counts as one slip.

/// The closest of `names` to `word`, where one is close enough to be meant.
#[must_use]
pub fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = fold(word);
    let names: Vec<&str> = names.into_iter().collect();
    let by_letters = names
        .iter()
        .map(|name| (strsim::osa_distance(&folded, &fold(name)), *name))
        .filter(|(distance, name)| *distance * 5 <= name.chars().count().max(5) * 2)
        .min()
        .map(|(_, name)| name);
    // A name cut short is far away by letters.
    let by_beginning = || {
        names
            .iter()
            .filter(|name| folded.len() >= SHORTEST_BEGINNING && fold(name).starts_with(&folded))
            .min_by_key(|name| name.len())
            .copied()
    };
    by_letters.or_else(by_beginning)
}

/// Letters that make a beginning worth completing.
const SHORTEST_BEGINNING: usize = 4;

/// A hint that names the nearest valid name and lists all of them.
#[must_use]
pub fn hint_for(word: &str, names: &[&str]) -> String {
    let list = names.join(", ");
    match nearest(word, names.iter().copied()) {
        Some(name) => format!("did you mean '{name}'? valid: {list}"),
        None => format!("valid: {list}"),
    }
}

fn fold(text: &str) -> String {
    text.to_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::{hint_for, nearest};

    #[test]
    fn finds_slips_and_refuses_strangers() {
        let names = ["full", "streaming-llm", "snapkv", "pyramidkv"];
        assert_eq!(nearest("snpakv", names), Some("snapkv"));
        assert_eq!(nearest("streaming_llm", names), Some("streaming-llm"));
        assert_eq!(nearest("SnapKV", names), Some("snapkv"));
        assert_eq!(nearest("quest", names), None);
        let models = ["smollm2-135m-instruct-q4", "qwen2.5-7b-instruct"];
        assert_eq!(nearest("SmolLM2-135M", models), Some(models[0]));
        assert_eq!(nearest("smo", models), None);
        assert_eq!(hint_for("quest", &names[..2]), "valid: full, streaming-llm");
    }
}

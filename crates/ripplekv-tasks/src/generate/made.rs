//! What a generator hands back for one record, before it becomes one.

/// The parts of a record and the sentences its answer rests on.
pub(super) struct Made {
    pub(super) input: String,
    pub(super) context: String,
    pub(super) answers: Vec<String>,
    pub(super) all_classes: Option<Vec<String>>,
    pub(super) language: &'static str,
    /// Each occurs exactly once in the context.
    pub(super) evidence: Vec<String>,
}

/// Fills `{name}`-like slots of a sentence from a list of pairs.
pub(super) fn fill(sentence: &str, slots: &[(&str, &str)]) -> String {
    slots
        .iter()
        .fold(sentence.to_owned(), |text, (slot, value)| {
            text.replace(slot, value)
        })
}

//! Which published values may stand beside a group: the same model, query mode, template, cut and tasks; then row by row
//! the same method and budget.

use ripplekv_runner::cell::Query;

use super::REFERENCES;
use super::document::{ChatTemplate, MaxContext, Reference, ReferenceQuery, ReferenceRow};
use crate::group::Group;

/// Published values of a group's model.
pub(crate) struct Published {
    /// Of the same protocol.
    pub(crate) beside: Vec<Reference>,
    /// Of another protocol, or of one that is not stated: named, not shown.
    pub(crate) elsewhere: Vec<Reference>,
}

impl Published {
    /// Rows of a method at a budget, with their sources.
    pub(crate) fn rows(
        &self,
        method: &str,
        budget: Option<&str>,
    ) -> impl Iterator<Item = (&Reference, &ReferenceRow)> {
        self.beside.iter().flat_map(move |reference| {
            let rows = reference.rows.iter();
            rows.filter(move |row| row.method == method && row.budget.as_deref() == budget)
                .map(move |row| (reference, row))
        })
    }
}

/// What is known of a group's model.
pub(crate) fn published(group: &Group) -> Published {
    let files = REFERENCES.iter();
    // A test reads every file; one that cannot be read has nothing to show.
    let known = files.filter_map(|(name, text)| Reference::parse(name, text).ok());
    let (beside, elsewhere) = known
        .filter(|reference| reference.model == group.model)
        .partition(|reference| fits(reference, group));
    Published { beside, elsewhere }
}

fn fits(reference: &Reference, group: &Group) -> bool {
    let protocol = &reference.protocol;
    let query = matches!(
        (protocol.query, group.query),
        (ReferenceQuery::Aware, Query::Aware) | (ReferenceQuery::Agnostic, Query::Agnostic)
    );
    let template = match protocol.chat_template {
        ChatTemplate::Auto => Some("auto"),
        ChatTemplate::On => Some("on"),
        ChatTemplate::Off => Some("off"),
        ChatTemplate::Unknown => None,
    };
    let cut = match protocol.max_context {
        MaxContext::Tokens(tokens) => group.prompts.max_context == Some(tokens),
        MaxContext::Untruncated => !group.prompts.is_cut,
        MaxContext::Unknown => false,
    };
    let mut tasks: Vec<&str> = reference.tasks.iter().map(String::as_str).collect();
    let averaged = group.averaged_tasks().into_iter();
    let mut own: Vec<&str> = averaged.map(|task| task.name.as_str()).collect();
    tasks.sort_unstable();
    own.sort_unstable();
    query
        && template.is_some()
        && template == group.prompts.chat_template.as_deref()
        && cut
        && tasks == own
}

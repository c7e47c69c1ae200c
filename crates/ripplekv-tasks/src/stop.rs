//! When an answer ends.
//! Follows LongBench's `pred.py`: samsum also stops at a newline and may not start with an end token.

use crate::task::TaskInfo;
use crate::tokenise::{Tokenise, TokeniseError};

/// The end of an answer, apart from its most new tokens.
///
/// On samsum (and tasks like it) the newline token is one of the end tokens, and as the
/// reference passes `min_length = prompt + 1`, no end token, the newline included, may be the
/// first. On all other tasks the first token may be an end token: the answer is then empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopRule {
    /// Ids that always end the answer.
    pub end_tokens: Vec<u32>,
    /// The newline id where it ends the answer too.
    pub newline: Option<u32>,
    /// No end token before this many tokens.
    pub min_new_tokens: usize,
}

impl StopRule {
    /// The rule of a task with this tokenizer.
    pub fn new(task: &TaskInfo, tokenizer: &dyn Tokenise) -> Result<StopRule, TokeniseError> {
        Ok(StopRule {
            end_tokens: tokenizer.end_tokens(),
            newline: task
                .newline_stop
                .then(|| tokenizer.newline_token())
                .transpose()?,
            min_new_tokens: usize::from(task.newline_stop),
        })
    }

    /// The same rule with at least `tokens` new tokens, as SnapKV's and KVCache-Factory's code
    /// has on all tasks. Never less than the task's own rule.
    #[must_use]
    pub fn with_min_new_tokens(mut self, tokens: usize) -> StopRule {
        self.min_new_tokens = self.min_new_tokens.max(tokens);
        self
    }

    /// Every id that ends the answer.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.end_tokens.iter().copied().chain(self.newline)
    }

    /// Whether this id ends the answer.
    pub fn is_end(&self, id: u32) -> bool {
        self.ids().any(|end| end == id)
    }

    /// Whether end tokens are forbidden as the next token after `generated` tokens: their
    /// logits are then set to minus infinity before the largest is taken.
    pub fn forbids_end(&self, generated: usize) -> bool {
        generated < self.min_new_tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::find_task;
    use crate::testing::{END, WordTokenizer};

    #[test]
    fn samsum_stops_at_a_newline_but_never_at_once() {
        let tokenizer = WordTokenizer::new();
        let newline = tokenizer.encode("\n", false).unwrap()[0];
        let end = tokenizer.encode(END, false).unwrap()[0];
        let rule = StopRule::new(find_task("samsum").unwrap(), &tokenizer).unwrap();
        assert_eq!(rule.ids().collect::<Vec<_>>(), [end, newline]);
        assert!(rule.is_end(newline) && rule.is_end(end) && !rule.is_end(newline + 1));
        assert!(rule.forbids_end(0) && !rule.forbids_end(1));
    }

    #[test]
    fn other_tasks_may_end_at_once_and_go_on_after_a_newline() {
        let tokenizer = WordTokenizer::new();
        for name in ["trec", "triviaqa", "qasper", "lcc"] {
            let rule = StopRule::new(find_task(name).unwrap(), &tokenizer).unwrap();
            assert!(!rule.is_end(tokenizer.newline_token().unwrap()), "{name}");
            assert!(!rule.forbids_end(0), "{name}");
            assert!(rule.with_min_new_tokens(1).forbids_end(0), "{name}");
        }
    }

    #[test]
    fn a_smaller_minimum_does_not_lift_the_tasks_own() {
        let tokenizer = WordTokenizer::new();
        let rule = StopRule::new(find_task("samsum").unwrap(), &tokenizer).unwrap();
        assert!(rule.with_min_new_tokens(0).forbids_end(0));
    }
}

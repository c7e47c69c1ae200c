//! The pre-tokenizers that GGUF metadata name (`tokenizer.ggml.pre`), with their published patterns.
//! Follows llama.cpp `llama-vocab.cpp` for the names and each model's `tokenizer.json` for the steps.

use tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

/// How a pre-tokenizer cuts a text before the merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// GPT-2's own pattern.
    Gpt2,
    /// Every digit by itself, then GPT-2's pattern.
    DigitsThenGpt2,
    /// A pattern of its own.
    Pattern(&'static str),
}

/// One pre-tokenizer by the name that GGUF files use.
#[derive(Clone, Copy, Debug)]
pub struct PreTokenizerEntry {
    /// The value of `tokenizer.ggml.pre`.
    pub name: &'static str,
    /// A model family that uses it.
    pub used_by: &'static str,
    pub(crate) cut: Cut,
    /// Whether the text is brought into Unicode's composed form first.
    pub(crate) composes: bool,
    /// Whether a piece that is a token itself is taken whole, whatever the merges say.
    pub(crate) ignores_merges: bool,
    /// Whether a BOS is put before a text when the metadata have no `add_bos_token`.
    pub(crate) adds_bos_by_default: bool,
}

const LLAMA_3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);
const QWEN_2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// All pre-tokenizers that GGUF files may name.
pub const PRE_TOKENIZERS: &[PreTokenizerEntry] = &[
    PreTokenizerEntry {
        name: "smollm",
        used_by: "SmolLM, SmolLM2",
        cut: Cut::DigitsThenGpt2,
        composes: false,
        ignores_merges: false,
        adds_bos_by_default: false,
    },
    PreTokenizerEntry {
        name: "llama-bpe",
        used_by: "Llama 3",
        cut: Cut::Pattern(LLAMA_3),
        composes: false,
        ignores_merges: true,
        adds_bos_by_default: true,
    },
    PreTokenizerEntry {
        name: "qwen2",
        used_by: "Qwen2, Qwen2.5",
        cut: Cut::Pattern(QWEN_2),
        composes: true,
        ignores_merges: false,
        adds_bos_by_default: false,
    },
    PreTokenizerEntry {
        name: "gpt-2",
        used_by: "GPT-2",
        cut: Cut::Gpt2,
        composes: false,
        ignores_merges: false,
        adds_bos_by_default: false,
    },
];

/// The entry of that name.
pub(crate) fn find(name: &str) -> Option<&'static PreTokenizerEntry> {
    PRE_TOKENIZERS.iter().find(|entry| entry.name == name)
}

/// The names of all entries, for messages.
pub(crate) fn known() -> String {
    let names: Vec<&str> = PRE_TOKENIZERS.iter().map(|entry| entry.name).collect();
    names.join(", ")
}

impl PreTokenizerEntry {
    pub(crate) fn build(&self) -> tokenizers::Result<PreTokenizerWrapper> {
        Ok(match self.cut {
            Cut::Gpt2 => ByteLevel::new(false, true, true).into(),
            Cut::DigitsThenGpt2 => Sequence::new(vec![
                Digits::new(true).into(),
                ByteLevel::new(false, true, true).into(),
            ])
            .into(),
            Cut::Pattern(pattern) => Sequence::new(vec![
                Split::new(
                    SplitPattern::Regex(pattern.to_owned()),
                    SplitDelimiterBehavior::Isolated,
                    false,
                )?
                .into(),
                ByteLevel::new(false, true, false).into(),
            ])
            .into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_all_build() {
        for (index, entry) in PRE_TOKENIZERS.iter().enumerate() {
            assert!(
                PRE_TOKENIZERS[..index]
                    .iter()
                    .all(|other| other.name != entry.name)
            );
            assert!(!entry.used_by.is_empty());
            entry.build().unwrap();
        }
    }
}

//! Chinese word segmentation equal to Python's jieba, from that package's own data files.
//! Follows jieba 0.42.1 `__init__.py` (exact mode, HMM on) and `finalseg/__init__.py`.
//!
//! The data (`dict.txt`, `finalseg/prob_{start,trans,emit}.py`, MIT) is fetched at run time by
//! another crate and passed in as text. The Rust crate jieba-rs is no substitute: it splits
//! strings such as `GPT-4`, `2015-06` and `400-820` differently.

mod dictionary;
mod finalseg;
mod python_literal;
mod segmenter;

use thiserror::Error;

pub use segmenter::{Segmenter, Sources};

/// Names of the files, relative to the Python package's folder, in the order of [`Sources`].
pub const SOURCE_FILES: [&str; 4] = [
    "dict.txt",
    "finalseg/prob_start.py",
    "finalseg/prob_trans.py",
    "finalseg/prob_emit.py",
];

/// Why the data files were refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JiebaError {
    /// A line that cannot be read.
    #[error("jieba `{file}` line {line}: {reason}")]
    Malformed {
        /// One of [`SOURCE_FILES`].
        file: &'static str,
        /// Counted from 1.
        line: usize,
        /// What was expected or found.
        reason: String,
    },
    /// A file that can be read but lacks what the segmenter needs.
    #[error("jieba `{file}`: {reason}\nhint: the files must be those of jieba 0.42.1")]
    Incomplete {
        /// One of [`SOURCE_FILES`].
        file: &'static str,
        /// What is missing.
        reason: String,
    },
}

/// Whether the character is in `[\u4E00-\u9FD5]`, jieba's idea of Han.
pub(crate) fn is_han(character: char) -> bool {
    matches!(character, '\u{4e00}'..='\u{9fd5}')
}

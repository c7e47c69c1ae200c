//! Published values that stand in grey beside ours, from `experiments/reference/`: figures only, each with its source.
//! To add a source: one file there, one line in [`REFERENCES`].

mod document;
mod matching;

pub use document::{
    ChatTemplate, MaxContext, Reference, ReferenceProtocol, ReferenceQuery, ReferenceRow,
};
pub(crate) use matching::{Published, published};

macro_rules! reference {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../../experiments/reference/", $name)),
        )
    };
}

/// File name and text of every source.
pub const REFERENCES: &[(&str, &str)] = &[
    reference!("circuitkv-llama-3.1-8b-instruct.yaml"),
    reference!("compresskv-llama-3.1-8b-instruct.yaml"),
    reference!("compresskv-mistral-7b-instruct-v0.3.yaml"),
    reference!("pyramidkv-llama-3-8b-instruct.yaml"),
    reference!("pyramidkv-mistral-7b-instruct-v0.2.yaml"),
    reference!("ripplekv-llama-3.1-8b-instruct.yaml"),
];

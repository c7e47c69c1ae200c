//! Integration tests of the model crate, one module a topic.

mod chat_template;
mod logits;
mod support;
mod tokenizer;

//! One file per metric; each holds its table entry and its function.
//! The table itself is [`crate::METRICS`].

mod classification;
mod code_similarity;
mod count;
mod qa_f1;
mod qa_f1_zh;
mod retrieval;
mod retrieval_zh;
mod rouge_1;
mod rouge_2;
mod rouge_l;
mod rouge_l_zh;

pub(crate) use classification::INFO as CLASSIFICATION;
pub(crate) use code_similarity::INFO as CODE_SIMILARITY;
pub(crate) use count::INFO as COUNT;
pub(crate) use qa_f1::INFO as QA_F1;
pub(crate) use qa_f1_zh::INFO as QA_F1_ZH;
pub(crate) use retrieval::INFO as RETRIEVAL;
pub(crate) use retrieval_zh::INFO as RETRIEVAL_ZH;
pub(crate) use rouge_1::INFO as ROUGE_1;
pub(crate) use rouge_2::INFO as ROUGE_2;
pub(crate) use rouge_l::INFO as ROUGE_L;
pub(crate) use rouge_l_zh::INFO as ROUGE_L_ZH;

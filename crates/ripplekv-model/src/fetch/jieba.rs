//! The dictionary and probability tables of Python's jieba 0.42.1, for Chinese word segmentation.
//! MIT-licensed data of that package; fetched, never committed.

use std::path::PathBuf;

use super::{FetchError, Fetcher, PinnedMember, PipBundle};
use crate::home::Home;

/// The files of jieba that segmentation reads.
pub const JIEBA: PipBundle<'static> = PipBundle {
    package: "jieba",
    version: "0.42.1",
    archive_sha256: "055ca12f62674fafed09427f176506079bc135638a14e23e25be909131928db2",
    folder: "jieba-0.42.1",
    members: &[
        PinnedMember {
            member: "jieba-0.42.1/jieba/dict.txt",
            file: "dict.txt",
            bytes: 5_071_852,
            sha256: "7197c3211ddd98962b036cdf40324d1ea2bfaa12bd028e68faa70111a88e12a8",
        },
        PinnedMember {
            member: "jieba-0.42.1/jieba/finalseg/prob_start.py",
            file: "finalseg/prob_start.py",
            bytes: 93,
            sha256: "14c5706ced5cd3b42eb4873d4b88f7f52a7bdf80fbd767bc4423d361e20c5330",
        },
        PinnedMember {
            member: "jieba-0.42.1/jieba/finalseg/prob_trans.py",
            file: "finalseg/prob_trans.py",
            bytes: 241,
            sha256: "54dfbc252ed71480d4f0cdfdf516ecfbe44efd0f6c3c64b158e7039f2906c91b",
        },
        PinnedMember {
            member: "jieba-0.42.1/jieba/finalseg/prob_emit.py",
            file: "finalseg/prob_emit.py",
            bytes: 1_321_732,
            sha256: "27d46b1c9efe4dd148fde8be042a21be40e3562d0c7f1273f9de7abae12ebb8d",
        },
    ],
};

/// The folder that holds jieba's `dict.txt` and `finalseg/prob_{start,trans,emit}.py`.
pub fn jieba(home: &Home) -> Result<PathBuf, FetchError> {
    Fetcher::new(home.clone()).fetch(&JIEBA)
}

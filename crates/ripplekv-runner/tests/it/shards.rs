//! Shards take every unit once.

use proptest::prelude::{ProptestConfig, proptest};
use proptest::{prop_assert, prop_assert_eq};
use ripplekv_runner::engine::Loader;
use ripplekv_runner::fake::{self, FakeLoader};
use ripplekv_runner::plan::{BLOCK_PROMPTS, PlanOptions, prepare_model, units};
use ripplekv_runner::select::Shard;
use ripplekv_runner::store::read_run;
use tempfile::TempDir;

use crate::pack::{self, SPEC, run_spec};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn shards_partition_the_units(count in 1_usize..40, total in 0_usize..500) {
        let mut next = 0;
        for index in 1..=count {
            let places = Shard { index, count }.places(total);
            prop_assert_eq!(places.start, next);
            prop_assert!(places.len() <= total.div_ceil(count));
            next = places.end;
        }
        prop_assert_eq!(next, total);
    }
}

#[test]
fn units_are_blocks_of_neighbours() {
    let folder = TempDir::new().unwrap();
    pack::write(&folder.path().join("pack"), 19);
    let plan = pack::plan(SPEC, folder.path(), PlanOptions::default()).unwrap();
    let loader = FakeLoader::default();
    let tokenizer = loader.tokenizer(&plan.models[0]).unwrap();
    let shape = loader.shape(&plan.models[0]).unwrap();
    let prepared = prepare_model(&plan, &fake::catalog(), 0, tokenizer.as_ref(), &shape).unwrap();
    let units = units(&[prepared]);
    let sizes: Vec<usize> = units.iter().map(|unit| unit.prompts.len()).collect();
    assert_eq!(sizes, [8, 8, 3, 8, 8, 3]);
    assert!(units.iter().all(|unit| {
        unit.prompts
            .iter()
            .all(|prompt| prompt.index / BLOCK_PROMPTS == unit.block)
    }));
}

#[test]
fn shards_together_make_the_whole_run() {
    let folder = TempDir::new().unwrap();
    pack::write(&folder.path().join("pack"), 20);
    let loader = FakeLoader::default();
    for index in 1..=4 {
        let options = PlanOptions {
            shard: Shard { index, count: 4 },
            ..PlanOptions::default()
        };
        run_spec(SPEC, folder.path(), &loader, options).unwrap();
    }
    assert_eq!(loader.calls().len(), 40, "each prompt once");
    let stored = read_run(&folder.path().join("out")).unwrap();
    assert_eq!(stored.records.len(), 40 * 5);
    let summary = run_spec(SPEC, folder.path(), &loader, PlanOptions::default()).unwrap();
    assert_eq!((summary.computed, summary.stored_before), (0, 200));
}

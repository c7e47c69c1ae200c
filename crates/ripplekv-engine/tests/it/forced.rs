//! Teacher forcing over branches equals stepping each branch by itself, and an unchanged branch equals the reference.

use std::sync::Arc;

use candle_core::Tensor;
use ripplekv_cache::{CompressedCache, CompressedLayer, LayerState, Needs, Snapshot};
use ripplekv_model::{
    Branch, DecodeRow, Decoder, EditValues, ForcedBranch, Move, PrefillOptions, Variants,
};

use crate::tiny;

const MODELS: [&str; 2] = ["tiny-plain-f32", "tiny-wide-head-f16"];
const TOLERANCE: f32 = 1e-4;

fn snapshot(decoder: &dyn Decoder, ids: &[u32]) -> Snapshot {
    decoder
        .prefill(ids, Needs::default(), &mut |_, _| ())
        .unwrap()
        .snapshot
}

/// The first entries and the last one, another number in each layer.
fn evicted(layer: usize, state: &LayerState, n: usize) -> CompressedLayer {
    let mut head: Vec<u32> = (0..(5 + 7 * layer as u32)).collect();
    head.push(n as u32 - 1);
    let kv_heads = state.keys.dims()[0];
    CompressedLayer::gather(state, &vec![head; kv_heads]).unwrap()
}

fn changed(full: &CompressedCache, snapshot: &Snapshot, layers: &[usize]) -> Branch {
    let mut cache = full.clone();
    for &layer in layers {
        cache.layers[layer] = evicted(layer, &snapshot.layers[layer], snapshot.prompt_tokens);
    }
    Branch {
        from_layer: layers.iter().copied().min().unwrap_or(0),
        cache: Arc::new(cache),
    }
}

fn stepped(decoder: &dyn Decoder, cache: &Arc<CompressedCache>, tokens: &[u32]) -> Vec<Tensor> {
    let mut row = DecodeRow::new(Arc::clone(cache));
    tokens
        .iter()
        .map(|token| decoder.step(&mut [&mut row], &[*token]).unwrap().remove(0))
        .collect()
}

fn logits_of(decoder: &dyn Decoder, forced: &ForcedBranch) -> Tensor {
    let logits = decoder.logits(&forced.states);
    let vocabulary = decoder.config().vocab_size;
    Tensor::from_vec(logits, ((), vocabulary), decoder.device()).unwrap()
}

fn worst(a: &Tensor, b: &Tensor) -> f32 {
    let difference = (a - b).unwrap().abs().unwrap();
    difference.max_all().unwrap().to_scalar::<f32>().unwrap()
}

#[test]
fn branches_equal_stepping_each_by_itself() {
    for name in MODELS {
        let decoder = tiny::decoder(name);
        let n = 150;
        let ids = tiny::ids(3, n + 9, decoder.config().vocab_size);
        let snapshot = snapshot(decoder.as_ref(), &ids[..n]);
        let full = CompressedCache::full(&snapshot);
        let layers = decoder.config().layers;
        let mut branches = vec![changed(&full, &snapshot, &[])];
        branches.extend((0..layers).map(|layer| changed(&full, &snapshot, &[layer])));
        let all: Vec<usize> = (0..layers).collect();
        branches.push(changed(&full, &snapshot, &all));
        let mut done = Vec::new();
        let forced = decoder
            .force(
                Variants::caches(&branches),
                &ids[n..],
                false,
                &mut |layer| done.push(layer),
            )
            .unwrap();
        assert_eq!(done, (1..=layers).collect::<Vec<_>>());
        let mut differs = 0;
        let reference = logits_of(decoder.as_ref(), &forced.branches[0]);
        for (branch, forced) in branches.iter().zip(&forced.branches) {
            let logits = logits_of(decoder.as_ref(), forced);
            differs += usize::from(worst(&logits, &reference) > 10.0 * TOLERANCE);
            for (place, expected) in stepped(decoder.as_ref(), &branch.cache, &ids[n..])
                .iter()
                .enumerate()
            {
                let difference = worst(&logits.get(place).unwrap(), expected);
                assert!(difference < TOLERANCE, "{name}, {place}: {difference}");
            }
        }
        // the evictions are felt, so equality above means something
        assert_eq!(differs, layers + 1, "{name}");
        assert!(forced.branches[0].local_error.is_none());
        assert!(
            forced.branches[1..]
                .iter()
                .all(|branch| branch.local_error.is_some_and(|error| error > 0.0))
        );
    }
}

#[test]
fn an_unchanged_branch_gives_the_reference_bits_from_any_layer() {
    let decoder = tiny::decoder(MODELS[0]);
    let ids = tiny::ids(5, 77, decoder.config().vocab_size);
    let snapshot = snapshot(decoder.as_ref(), &ids[..70]);
    let full = CompressedCache::full(&snapshot);
    let mut branches = vec![
        changed(&full, &snapshot, &[]),
        changed(&full, &snapshot, &[0]),
    ];
    for from_layer in 0..decoder.config().layers {
        // equal values in storage of their own
        let mut cache = full.clone();
        let layer = &mut cache.layers[from_layer];
        layer.values = (&layer.values + 0.0).unwrap();
        branches.push(Branch {
            cache: Arc::new(cache),
            from_layer,
        });
    }
    let forced = decoder
        .force(Variants::caches(&branches), &ids[70..], false, &mut |_| ())
        .unwrap();
    let bits = |place: usize| &forced.branches[place].states;
    assert!(bits(1) != bits(0));
    for place in 2..branches.len() {
        assert!(bits(place) == bits(0), "branch {place}");
        assert_eq!(forced.branches[place].local_error, Some(0.0));
    }
}

/// Moves along two directions are what caches with moved values are, and a move of no length is the reference.
#[test]
fn moves_equal_caches_with_moved_values() {
    for name in MODELS {
        let decoder = tiny::decoder(name);
        let ids = tiny::ids(5, 77, decoder.config().vocab_size);
        let snapshot = snapshot(decoder.as_ref(), &ids[..70]);
        let full = CompressedCache::full(&snapshot);
        let layers = decoder.config().layers;
        let directions = |layer: usize| {
            let values = &snapshot.layers[layer].values;
            // of the size of the values, and different in every layer
            let turned = values.roll(1 + layer as i32, 1)?;
            Ok(vec![turned.contiguous()?, (values * -0.5)?])
        };
        let each = (0..layers).map(Some).chain([None]);
        let moves: Vec<Move> = each
            .flat_map(|layer| [(0, 0.2), (1, 0.3), (0, -0.2), (1, 0.0)].map(|at| (layer, at)))
            .map(|(layer, (direction, factor))| Move {
                layer,
                direction,
                factor,
            })
            .collect();
        let forced = |variants: Variants<'_>| {
            let mut done = Vec::new();
            let on_layer = &mut |layer| done.push(layer);
            let forced = decoder
                .force(variants, &ids[70..], false, on_layer)
                .unwrap();
            assert_eq!(done, (1..=layers).collect::<Vec<_>>());
            forced.branches
        };
        let reference = changed(&full, &snapshot, &[]);
        let moved = forced(Variants {
            branches: std::slice::from_ref(&reference),
            moves: &moves,
            directions: &directions,
        });
        let mut branches = vec![reference];
        branches.extend(moves.iter().map(|each| {
            let mut cache = full.clone();
            for layer in each.layer.map_or(0..layers, |layer| layer..layer + 1) {
                let direction: Vec<Tensor> = directions(layer).unwrap();
                let change = (&direction[each.direction] * f64::from(each.factor)).unwrap();
                let values = &mut cache.layers[layer].values;
                *values = (&*values + change).unwrap();
            }
            Branch {
                cache: Arc::new(cache),
                from_layer: each.layer.unwrap_or(0),
            }
        }));
        let cached = forced(Variants::caches(&branches));
        assert!(moved[0].states == cached[0].states);
        let reference_states = &cached[0].states;
        for ((moved, cached), each) in moved[1..].iter().zip(&cached[1..]).zip(&moves) {
            let errors = [moved, cached].map(|forced| forced.local_error.unwrap());
            let difference = worst(
                &logits_of(decoder.as_ref(), moved),
                &logits_of(decoder.as_ref(), cached),
            );
            if each.factor == 0.0 {
                assert_eq!(errors, [0.0, 0.0]);
                assert!(difference == 0.0);
            } else {
                assert!(errors[0] > 0.0 && (errors[0] / errors[1] - 1.0).abs() < 1e-3);
                assert!(difference < TOLERANCE, "{name}, {each:?}: {difference}");
                // the move is felt, so equality means something
                assert!(moved.states != *reference_states);
            }
        }
        let missing = [Move {
            layer: Some(0),
            direction: 2,
            factor: 0.1,
        }];
        for moves in [
            missing,
            missing.map(|each| Move {
                layer: None,
                ..each
            }),
        ] {
            let variants = Variants {
                branches: &branches[..1],
                moves: &moves,
                directions: &directions,
            };
            let error = decoder.force(variants, &ids[70..], false, &mut |_| ());
            let error = error.unwrap_err().to_string();
            assert!(error.contains("no direction 2"), "{error}");
        }
        let variants = Variants {
            branches: &branches[..1],
            moves: &moves,
            directions: &|layer| {
                let narrow = |direction: &Tensor| direction.narrow(1, 0, 69)?.contiguous();
                directions(layer)?.iter().map(narrow).collect()
            },
        };
        let error = decoder.force(variants, &ids[70..], false, &mut |_| ());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("a direction is [2, 69, "), "{error}");
    }
}

#[test]
fn a_token_read_again_gives_the_prefill_distribution_on_the_full_cache() {
    for name in MODELS {
        let decoder = tiny::decoder(name);
        let ids = tiny::ids(9, 64, decoder.config().vocab_size);
        let n = 60;
        let prefill = decoder
            .prefill(&ids[..n], Needs::default(), &mut |_, _| ())
            .unwrap();
        let cache = Arc::new(CompressedCache::full(&prefill.snapshot));
        let reference = Branch {
            cache: Arc::clone(&cache),
            from_layer: 0,
        };
        let forced = decoder
            .force(
                Variants::caches(&[reference]),
                &ids[n - 1..],
                true,
                &mut |_| (),
            )
            .unwrap();
        let logits = logits_of(decoder.as_ref(), &forced.branches[0]);
        assert!(worst(&logits.get(0).unwrap(), &prefill.logits) < TOLERANCE);
        for (place, expected) in stepped(decoder.as_ref(), &cache, &ids[n..])
            .iter()
            .enumerate()
        {
            let difference = worst(&logits.get(place + 1).unwrap(), expected);
            assert!(difference < TOLERANCE, "{name}, {place}: {difference}");
        }
    }
}

#[test]
fn edited_values_reach_later_layers_and_an_empty_edit_changes_nothing() {
    let decoder = tiny::decoder(MODELS[0]);
    let ids = tiny::ids(2, 40, decoder.config().vocab_size);
    let prefill = |edit: Option<EditValues<'_>>| {
        let options = PrefillOptions {
            hidden_change: true,
            edit_values: edit,
            ..PrefillOptions::default()
        };
        decoder.prefill_with(&ids, options, &mut |_, _| ()).unwrap()
    };
    let keys = |prefill: &ripplekv_model::Prefill, layer: usize| {
        prefill.snapshot.layers[layer]
            .keys
            .to_vec3::<f32>()
            .unwrap()
    };
    let plain = prefill(None);
    let same = prefill(Some(&|_, values| &values + 0.0));
    let edited = prefill(Some(&|layer, values| {
        if layer == 0 { values * 2.0 } else { Ok(values) }
    }));
    let last = decoder.config().layers - 1;
    assert!(keys(&plain, last) == keys(&same, last));
    assert!(keys(&plain, 0) == keys(&edited, 0));
    assert!(keys(&plain, last) != keys(&edited, last));
    assert_eq!(plain.hidden_change.len(), last + 1);
    assert!(
        plain
            .hidden_change
            .iter()
            .all(|change| (0.0..=2.0).contains(change))
    );
}

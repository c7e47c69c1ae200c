//! Numbers and names of the signals.

use ripplekv_runner::damage::{SIGNALS, SignalSource, joint_names, random_signal, signal_values};
use ripplekv_runner::fake::FakeLoader;

use crate::damage_setup::profile;

#[test]
fn profile_signals_are_column_means_and_place_signals_formulas() {
    let profile = profile(&FakeLoader::default());
    let values = |name| signal_values(name, &profile).unwrap();
    assert_eq!(values("sensitivity"), [2.0, 3.0, 4.0, 5.0]);
    // two samples with l / 2 and 3 l / 2 around these means: means of squares, a power as the KL is
    assert_eq!(values("local-response"), [1.25, 2.8125, 5.0, 7.8125]);
    assert_eq!(values("window-entropy"), [32.0, 48.0, 64.0, 80.0]);
    assert_eq!(values("hidden-change"), [0.5, 0.75, 1.0, 1.25]);
    assert_eq!(values("layer-index"), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(values("reversed-index"), [3.0, 2.0, 1.0, 0.0]);
    assert_eq!(values("middle-peaked"), [-1.5, -0.5, -0.5, -1.5]);
}

#[test]
fn every_signal_has_numbers_or_is_drawn_or_measured() {
    let profile = profile(&FakeLoader::default());
    for signal in SIGNALS {
        let has_numbers = signal_values(signal.name, &profile).is_ok();
        let expected = matches!(signal.source, SignalSource::Profile | SignalSource::Place);
        assert_eq!(has_numbers, expected, "{}", signal.name);
    }
    let expected = "uniform sensitivity local-response window-entropy hidden-change layer-index reversed-index \
                    middle-peaked random-0 random-1 random-2 random-3 random-4 \
                    permuted-0 permuted-1 permuted-2 permuted-3 permuted-4 oracle";
    assert_eq!(joint_names().join(" "), expected);
}

#[test]
fn draws_differ_and_never_change() {
    assert_eq!(random_signal(7, 3, 30)[..12], random_signal(7, 3, 12));
    assert_ne!(random_signal(7, 3, 30), random_signal(7, 4, 30));
    assert_ne!(random_signal(7, 3, 30), random_signal(8, 3, 30));
    // Stored joint results and the report's draws must mean the same numbers in every version.
    assert_eq!(
        random_signal(0, 0, 2),
        [0.7090754154265618, 0.46592172228961015]
    );
    assert_eq!(
        random_signal(0, 1, 2),
        [0.755531016687046, 0.7381167640990809]
    );
}

#[test]
fn a_damaged_matrix_is_named() {
    let mut profile = profile(&FakeLoader::default());
    let message = |profile: &_, name| signal_values(name, profile).unwrap_err().to_string();
    profile.samples[1].kl[2] = f64::NAN;
    let text = message(&profile, "sensitivity");
    assert!(
        text.contains("model 'tiny', signal 'sensitivity': sample 'prose/two'"),
        "{text}"
    );
    profile.samples.clear();
    let text = message(&profile, "hidden-change");
    assert!(text.contains("it has no samples\nhint: "), "{text}");
}

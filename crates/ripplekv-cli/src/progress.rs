//! Progress of a run: a bar on a terminal, one line every 30 seconds elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use ripplekv_runner::damage::DamageProgress;
use ripplekv_runner::run::{Event, Observer};

use crate::output::Output;

const LINE_EVERY: Duration = Duration::from_secs(30);

/// Shows events of a run.
pub(crate) struct Progress {
    output: Output,
    bar: Option<ProgressBar>,
    state: State,
    stage: Stage,
    last_line: Instant,
}

/// The pass of the damage stage in hand.
#[derive(Clone, Copy)]
struct Stage {
    what: &'static str,
    done: usize,
    to_do: usize,
    started: Instant,
}

struct State {
    started: Instant,
    prompts: usize,
    prompts_done: usize,
    tokens: usize,
    tokens_done: usize,
    failed: usize,
}

impl Progress {
    pub(crate) fn new(output: Output) -> Self {
        let on_terminal = std::io::stderr().is_terminal() && !output.is_quiet();
        Self {
            output,
            bar: on_terminal.then(bar),
            state: State {
                started: Instant::now(),
                prompts: 0,
                prompts_done: 0,
                tokens: 0,
                tokens_done: 0,
                failed: 0,
            },
            stage: Stage {
                what: "",
                done: 0,
                to_do: 0,
                started: Instant::now(),
            },
            last_line: Instant::now(),
        }
    }

    /// Says notes from another thread.
    pub(crate) fn notes(&self) -> impl Fn(&str) + Send + 'static {
        let (output, bar) = (self.output, self.bar.clone());
        move |text| match &bar {
            Some(bar) => bar.suspend(|| output.note(text)),
            None => output.note(text),
        }
    }

    /// Says something without tearing the bar.
    fn say(&self, say: impl FnOnce(Output)) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(self.output)),
            None => say(self.output),
        }
    }

    fn profile_started(&mut self, model: &str, samples: usize, done: usize, layers: usize) {
        self.last_line = Instant::now();
        if let Some(bar) = &self.bar {
            bar.reset();
            bar.set_style(style("{msg}"));
        }
        let resumed = match done {
            0 => String::new(),
            done => format!(", {done} measured before"),
        };
        self.say(|output| {
            output.note(&format!(
                "profile of {model}: {samples} calibration samples, {layers} layers{resumed}"
            ));
        });
    }

    /// A line in the bar's place, or one every 30 seconds where there is no terminal.
    fn profile_line(&mut self, text: String, is_last: bool) {
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None if is_last || self.last_line.elapsed() >= LINE_EVERY => {
                self.last_line = Instant::now();
                self.output.note(&text);
            }
            None => {}
        }
    }

    fn damage(&mut self, model: &str, progress: &DamageProgress) {
        match progress {
            DamageProgress::Started { samples, to_do } => {
                self.stage_started("layers", model, *samples, *to_do);
            }
            DamageProgress::JointStarted { samples, to_do } => {
                self.stage_started("all layers", model, *samples, *to_do);
            }
            DamageProgress::Layer { done, of } => {
                let text = format!("{}, layer {done} of {of}", self.stage_text(model));
                self.profile_line(text, false);
            }
            DamageProgress::SampleDone {
                task,
                sample,
                dropped,
                ..
            } => {
                if let Some(reason) = dropped {
                    self.say(|output| {
                        output.warning(&format!(
                            "damage of {model}: sample {task}/{sample} is left out: {reason}"
                        ));
                    });
                }
                self.stage_sample_done(model);
            }
            DamageProgress::JointDone { .. } => self.stage_sample_done(model),
            DamageProgress::Warning { text } => self.say(|output| output.warning(text)),
        }
    }

    fn stage_started(&mut self, what: &'static str, model: &str, samples: usize, to_do: usize) {
        self.stage = Stage {
            what,
            done: 0,
            to_do,
            started: Instant::now(),
        };
        self.last_line = Instant::now();
        if let Some(bar) = &self.bar {
            bar.reset();
            bar.set_style(style("{msg}"));
        }
        self.say(|output| {
            output.note(&format!(
                "damage of {model}, {what}: {samples} samples, {to_do} to do"
            ));
        });
    }

    fn stage_text(&self, model: &str) -> String {
        let Stage {
            what, done, to_do, ..
        } = self.stage;
        format!("damage of {model}, {what}: {done} of {to_do} samples")
    }

    fn stage_sample_done(&mut self, model: &str) {
        self.stage.done += 1;
        let Stage {
            done,
            to_do,
            started,
            ..
        } = self.stage;
        let left = started.elapsed().as_secs_f64() / done as f64 * (to_do - done.min(to_do)) as f64;
        let text = format!(
            "{}, {} left",
            self.stage_text(model),
            duration(Duration::from_secs_f64(left))
        );
        self.profile_line(text, done == to_do);
    }

    /// Takes the bar away until something moves it again.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn prompt_done(&mut self, tokens: usize) {
        self.state.prompts_done += 1;
        self.state.tokens_done += tokens;
        let message = self.state.message();
        match &self.bar {
            Some(bar) => {
                if bar.is_finished() {
                    bar.reset();
                    bar.set_style(style(PROMPTS));
                }
                bar.set_position(self.state.prompts_done as u64);
                bar.set_message(message);
            }
            None if self.last_line.elapsed() >= LINE_EVERY
                || self.state.prompts_done == self.state.prompts =>
            {
                self.last_line = Instant::now();
                self.output.note(&format!(
                    "{}/{} prompts, {message}",
                    self.state.prompts_done, self.state.prompts
                ));
            }
            None => {}
        }
    }
}

impl State {
    /// Speed and time left, from the tokens done so far.
    fn message(&self) -> String {
        let seconds = self.started.elapsed().as_secs_f64();
        let speed = self.tokens_done as f64 / seconds.max(1e-9);
        let left = self.tokens.saturating_sub(self.tokens_done) as f64 / speed.max(1e-9);
        let failed = match self.failed {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        format!(
            "{speed:.0} prompt tokens/s, {} left{failed}",
            duration(Duration::from_secs_f64(left))
        )
    }
}

/// A duration in the two largest units.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match (
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    ) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, _, _) => format!("{days} d {hours} h"),
    }
}

/// What the bar shows while prompts run.
const PROMPTS: &str = "{bar:30} {pos}/{len} prompts, {msg}";

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    bar.set_style(style(PROMPTS));
    bar
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Observer for Progress {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Fetching { model } => self.say(|output| {
                output.note(&format!("{model} is not on this machine yet: fetching it, once"));
            }),
            Event::Preparing { model } => self.say(|output| {
                output.detail(&format!("making the prompts of {model}"));
            }),
            Event::Prepared {
                model,
                max_context,
                prompts,
                too_long,
                short_prompts,
            } => self.say(|output| {
                output.note(&format!(
                    "{model}: {prompts} prompts, cut at {max_context} tokens, {too_long} longer ones left out, {short_prompts} below a must-keep set"
                ));
            }),
            Event::Started {
                cells,
                prompts,
                prompts_to_do,
                tokens_to_do,
                cells_to_do,
            } => {
                self.state.started = Instant::now();
                self.last_line = Instant::now();
                self.state.prompts = *prompts_to_do;
                self.state.tokens = *tokens_to_do;
                if let Some(bar) = &self.bar {
                    bar.set_length(*prompts_to_do as u64);
                }
                self.say(|output| {
                    output.note(&format!(
                        "{cells} cells, {prompts} prompts; to do: {cells_to_do} cells of {prompts_to_do} prompts with {tokens_to_do} tokens"
                    ));
                });
            }
            Event::Loading { model } => self.say(|output| {
                output.note(&format!("loading {model}"));
            }),
            Event::Loaded { model, milliseconds } => {
                self.state.started = Instant::now();
                self.say(|output| {
                    output.detail(&format!("loaded {model} in {:.1} s", milliseconds / 1e3));
                });
            }
            Event::ProfileStarted {
                model,
                samples,
                done,
                layers,
            } => self.profile_started(model, *samples, *done, *layers),
            Event::ProfileLayer {
                model,
                sample,
                samples,
                layers_done,
                layers,
            } => {
                let text = format!(
                    "profile of {model}: sample {sample} of {samples}, layer {layers_done} of {layers}"
                );
                self.profile_line(text, false);
            }
            Event::ProfileSampleDone {
                model,
                task,
                sample,
                done,
                samples,
                dropped,
                ..
            } => {
                if let Some(reason) = dropped {
                    self.say(|output| {
                        output.warning(&format!(
                            "profile of {model}: sample {task}/{sample} is left out: {reason}"
                        ));
                    });
                }
                let text = format!("profile of {model}: {done} of {samples} samples");
                self.profile_line(text, done == samples);
            }
            Event::ProfileFound { model, from } => self.say(|output| {
                output.note(&format!("profile of {model}: found at {from}"));
            }),
            Event::ProfileBusy { model } => self.say(|output| {
                output.note(&format!(
                    "profile of {model}: another process measures it, waiting"
                ));
            }),
            Event::ProfileFinished {
                model,
                path,
                sigma,
                samples,
                dropped,
                reliability,
                milliseconds,
                ..
            } => {
                let reliability = reliability
                    .map(|found| format!(", reliability {found:.3}"))
                    .unwrap_or_default();
                let time = duration(Duration::from_secs_f64(milliseconds / 1e3));
                self.clear();
                self.say(|output| {
                    output.note(&format!(
                        "profile of {model}: {samples} samples, {dropped} left out, sigma {sigma}{reliability}, in {time}: {path}"
                    ));
                });
            }
            Event::PredictedRatio {
                model,
                exponent,
                ratio,
            } => {
                let ratio = ratio
                    .map_or_else(|| "undefined".to_owned(), |ratio| format!("{ratio:.3}"));
                self.say(|output| {
                    output.note(&format!(
                        "{model}: best total damage against uniform, predicted: {ratio} at exponent {exponent}"
                    ));
                });
            }
            Event::Calibrated {
                model,
                method,
                r,
                gamma,
                relative_kl,
            } => self.say(|output| {
                output.note(&format!(
                    "{model}, {method}: calibrated to r = {r}, gamma = {gamma}, with {relative_kl:.3} of the KL of a uniform allocation"
                ));
            }),
            Event::Damage { model, progress } => self.damage(model, progress),
            Event::UnitBusy { model, task, block } => self.say(|output| {
                output.note(&format!(
                    "{model}, {task}, block {block}: another process works on it"
                ));
            }),
            Event::PromptDone { prompt_tokens, .. } => self.prompt_done(*prompt_tokens),
            Event::SampleFailed {
                model,
                task,
                sample,
                cell,
                error,
            } => {
                self.state.failed += 1;
                self.say(|output| {
                    output.warning(&format!("{model}, {task}, sample {sample}, {cell}: {error}"));
                });
            }
            Event::Warning { text } => self.say(|output| output.warning(text)),
            Event::Finished { .. } => self.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::duration;
    use std::time::Duration;

    #[test]
    fn durations_show_two_units() {
        for (seconds, text) in [
            (5, "5 s"),
            (65, "1 min 5 s"),
            (7260, "2 h 1 min"),
            (90_000, "1 d 1 h"),
        ] {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }
}
